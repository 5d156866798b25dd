/* Models and adapters that are no files of their own: in memory, a part of an open file (an asset inside an APK or a
 * zip archive, stored uncompressed), or behind a function that reads. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_SOURCE_H
#define GRAFT_SOURCE_H

GRAFT_BEGIN_C

/* Where the bytes are. */
typedef enum graft_source_kind GRAFT_ENUM_OF_INT {
  GRAFT_SOURCE_MEMORY = 0,
  GRAFT_SOURCE_DESCRIPTOR = 1,
  GRAFT_SOURCE_READER = 2
} graft_source_kind;

/* Where the bytes of one .graft file are. */
typedef struct graft_source {
  size_t struct_size;
  graft_source_kind kind;
  const char* name; /* stands for the file in messages; NULL: "memory", "descriptor 7", "reader" */
  uint64_t bytes;   /* of the file. 0 for a descriptor: all from offset to its end */

  /* Memory. It is borrowed: it starts at a multiple of 8 bytes and stays, unchanged, until the model is destroyed (for
     swapped adapters: until the call returns). With copy = 1 neither is asked, and the model has bytes of its own. */
  const void* data;
  int copy;

  /* An open file that can be mapped and read at any place. It may be closed when the call returns; its position is
     neither used nor moved. Where offset is a multiple of 8, as zipalign makes it, the bytes are mapped and not copied:
     do not change the file while the model lives. At other offsets they are read into memory (graft_context_options'
     allocator). */
  int descriptor;
  uint64_t offset; /* of the .graft file's first byte in it */

  /* Fills out with the bytes [offset, offset + bytes) of the .graft file; nonzero: failed. Called in order, on the
     calling thread and only until the call returns, for at most 4 MiB at a time. All is read into memory. */
  int (*read)(void* user, uint64_t offset, size_t bytes, void* out);
  void* user;
} graft_source;

/* As graft_model_open. options may be NULL. invalid_argument: a source that is none; io_error: it could not be read;
   corrupt: it ends too soon, or is no model. *model is NULL then. */
GRAFT_API graft_status graft_model_open_source(graft_context* context, const graft_source* source,
                                               const graft_model_options* options, graft_model** model);

/* As graft_model_load_adapters, graft_session_swap_adapters and graft_generator_swap_adapters; source is not NULL. */
GRAFT_API graft_status graft_model_load_adapters_source(graft_model* model, const graft_source* source);
/* As graft_model_load_adapters_together, of `count` sources, none of them NULL; weights NULL: 1 each. A single one of
   the weight 1 is as graft_model_load_adapters_source has it. */
GRAFT_API graft_status graft_model_load_adapters_sources(graft_model* model, const graft_source* const* sources,
                                                         const double* weights, size_t count);
/* As graft_session_swap_adapters(), from a source. */
GRAFT_API graft_status graft_session_swap_adapters_source(graft_session* session, const graft_source* source);
/* As graft_generator_swap_adapters(), from a source. */
GRAFT_API graft_status graft_generator_swap_adapters_source(graft_generator* generator, const graft_source* source);

GRAFT_END_C
#endif
