/* Embeddings of texts. Part of graft.h, whose rules hold. */
#include "graft/data.h"
#include "graft/graft.h"

#ifndef GRAFT_EMBED_H
#define GRAFT_EMBED_H

#ifdef __cplusplus
extern "C" {
#endif

/* Turns texts into vectors with a language model or an encoder. The model must outlive it. */
typedef struct graft_embedder graft_embedder;

/* What an embedder is planned for. */
typedef struct graft_embedder_options {
  size_t struct_size;
  graft_pooling pooling;
  int normalize; /* 1: vectors are brought to length 1; 0: only where the pooling is the model's and its file says so */
  int cut;       /* 1: texts beyond `length` are cut at their end; 0: they are refused */
  uint32_t length; /* most tokens of a text; 0: the model's own context, at most 512 */
  uint32_t batch;  /* texts on the device at once; 0: 8 */
  /* Name of the value that is pooled, [batch, seq, width]; NULL: what the model's head reads, an output
     "last_hidden_state", or the only output. */
  const char* of;
  graft_precision precision;
  uint64_t budget;    /* largest device memory in bytes, 0 for no limit */
  int recover_device; /* 1: goes on where the device was lost, as graft_session_options.recover_device has it */
} graft_embedder_options;

/* options may be NULL. unsupported: a model that takes something else than tokens [batch, seq], and with them masks,
   segments and positions, or has no hidden state that is found. */
GRAFT_API graft_status graft_embedder_create(graft_model* model, const graft_embedder_options* options,
                                             graft_embedder** embedder);
GRAFT_API void graft_embedder_destroy(graft_embedder* embedder);
/* Numbers of a vector. */
GRAFT_API size_t graft_embedder_width(const graft_embedder* embedder);
/* The most tokens of a text. */
GRAFT_API size_t graft_embedder_length(const graft_embedder* embedder);
/* Bytes that it holds on device and host, by class. */
GRAFT_API graft_status graft_embedder_memory(const graft_embedder* embedder, graft_memory* memory);
/* A vector for each of `count` texts (UTF-8), one after the other in their order, until the next call. A text's vector
   depends on no other text. token_counts: of each text before it is cut; may be NULL. invalid_argument names the text
   by its index: one without tokens, one that is too long, one whose vector is not finite. */
GRAFT_API graft_status graft_embed(graft_embedder* embedder, const char* const* texts, size_t count,
                                   const float** vectors, const uint32_t** token_counts);
/* The same of tokens, counts[i] of text i, as graft_tokenizer_encode() gives them. */
GRAFT_API graft_status graft_embed_tokens(graft_embedder* embedder, const int32_t* const* ids, const size_t* counts,
                                          size_t count, const float** vectors);

#ifdef __cplusplus
}
#endif

#endif
