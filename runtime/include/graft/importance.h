/* How much the columns of a language model's matrices matter to a text: what llama.cpp calls an importance matrix. Part
 * of graft.h, whose rules hold. graft_write_imatrix() of graft/convert.h writes what was found out as a file, by which
 * graft_export() and llama.cpp quantize. */
#include "graft/graft.h"

#ifndef GRAFT_IMPORTANCE_H
#define GRAFT_IMPORTANCE_H

GRAFT_BEGIN_C

/* Adds up, over texts, the squares of what each column of each matrix is multiplied with. The model must outlive it. */
typedef struct graft_importance graft_importance;

/* What is planned for. */
typedef struct graft_importance_options {
  size_t struct_size;
  /* Tokens of a chunk; 0: the model's own context, at most 512. Default: 0. */
  uint32_t context;
  /* Most chunks of all texts together, the rest is left out; 0: no limit. Default: 0. */
  uint64_t chunks;
  /* Measures the head's matrix too, which may be the embedding's; llama.cpp leaves it out. Default: 0. */
  int head;
  /* Special tokens that are spelled out in texts become these tokens. Default: 0. */
  int parse_special;
  /* Largest device memory in bytes; 0: no limit. Default: 0. */
  uint64_t budget;
  /* Continues if the device is lost, as graft_session_options.recover_device. Default: 0. */
  int recover_device;
} graft_importance_options;

/* Plans one chunk and allocates all of it. options may be NULL. unsupported: no causal language model that takes tokens
   [batch, seq] alone; invalid_argument: a context beyond the model's own. */
GRAFT_API graft_status graft_importance_create(graft_model* model, const graft_importance_options* options,
                                               graft_importance** importance);
GRAFT_API void graft_importance_destroy(graft_importance* importance);
/* Cuts `bytes` bytes of UTF-8 into chunks, which wait; tokens behind the last whole one are dropped. Each chunk begins
   with the tokens that the model puts before a text, in place of its own first ones, as with llama.cpp. waiting may be
   NULL: how many chunks wait now. invalid_argument: a text shorter than a chunk. */
GRAFT_API graft_status graft_importance_add(graft_importance* importance, const char* text, size_t bytes,
                                            uint64_t* waiting);
/* The same of tokens, as graft_tokenizer_encode() gives them. */
GRAFT_API graft_status graft_importance_add_tokens(graft_importance* importance, const int32_t* ids, size_t count,
                                                   uint64_t* waiting);
/* Computes one chunk and says how many still wait: call it until that is 0. After a failure, or graft_cancel(), the
   chunk still waits and nothing was added. invalid_argument names a matrix whose numbers are not finite. */
GRAFT_API graft_status graft_importance_step(graft_importance* importance, uint64_t* waiting);

/* How far it is. */
typedef struct graft_importance_info {
  size_t struct_size;
  uint32_t context; /* tokens of a chunk */
  uint64_t chunks;  /* that were computed */
  uint64_t waiting; /* that were not */
  uint64_t dropped; /* tokens of texts that are in no chunk */
} graft_importance_info;

/* Fills info. */
GRAFT_API graft_status graft_importance_describe(const graft_importance* importance, graft_importance_info* info);

/* One matrix. Pointers are valid as long as the graft_importance that gave them. */
typedef struct graft_importance_matrix {
  const char* name;   /* of the weight, as graft has it */
  const double* sums; /* for each column of the matrix's rows, what it was multiplied with, squared */
  size_t columns;
  uint64_t tokens; /* over which they were added up */
} graft_importance_matrix;

/* How many matrices there are, in the model's order; 0 for NULL. */
GRAFT_API size_t graft_importance_count(const graft_importance* importance);
/* One of them, with the sums so far. not_found where index >= count. */
GRAFT_API graft_status graft_importance_at(const graft_importance* importance, size_t index,
                                           graft_importance_matrix* matrix);
/* Bytes that it holds on device and host, by class; they are known before the first chunk. */
GRAFT_API graft_status graft_importance_memory(const graft_importance* importance, graft_memory* memory);

GRAFT_END_C
#endif
