/* Embeddings of texts. Part of graft.h, whose rules hold. */
#include "graft/data.h"
#include "graft/graft.h"

#ifndef GRAFT_EMBED_H
#define GRAFT_EMBED_H

GRAFT_BEGIN_C

/* Turns texts into vectors with a language model or an encoder. The model must outlive it. */
typedef struct graft_embedder graft_embedder;

/* What an embedder is planned for. graft_embedder_options_init() fills in the defaults. */
typedef struct graft_embedder_options {
  size_t struct_size;
  /* Which tokens' vectors stand for a text. Default: default. */
  graft_pooling pooling;
  /* Vectors are scaled to length 1; without it only if the pooling is the model's and its file says so. Default: 0. */
  int normalize;
  /* Longer texts are cut at their end; without it they are refused. Default: 0. */
  int cut;
  /* Most tokens of a text; 0: the model's own context, at most 512. Default: 0. */
  uint32_t length;
  /* Texts on the device at once. Default: 8. Range: [1, 65536]. */
  uint32_t batch;
  /* Value that is pooled, [batch, seq, width]; by default what the model's head reads, an output "last_hidden_state",
     or the only output. Default: none. */
  const char* of;
  /* Storage of intermediate results. Default: f32. */
  graft_precision precision;
  /* Largest device memory in bytes; 0: no limit. Default: 0. */
  uint64_t budget;
  /* Continues if the device is lost, as graft_session_options.recover_device. Default: 0. */
  int recover_device;
  /* First numbers of each vector that remain, for models trained so (Matryoshka); 0: all. The cut comes before the
     scaling to length 1. Default: 0. */
  uint32_t dimensions;
} graft_embedder_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_embedder_options_init(graft_embedder_options* options);

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

GRAFT_END_C
#endif
