/* Low-rank adapters (LoRA): a model's small trainable parts. Included by graft.h; see there for what holds for all. */
#include "graft/graft.h"

#ifndef GRAFT_ADAPTERS_H
#define GRAFT_ADAPTERS_H

GRAFT_BEGIN_C

/* While a model has adapters, everything else is frozen, and graft_trainer_store stores the adapters. The model
   must have no sessions, generators or trainers when they change or are merged. */
/* Adds fresh adapters, which replace those that the model has. Tokens of graft_model_add_tokens stay, and their rows
   keep their bits; those that graft_model_load_adapters loaded go with their file's adapters. `options`:
   "r=8,alpha=16,dropout=0,targets=q_proj|v_proj,dora=no,rslora=no,init=default", any part of which may be left out;
   NULL for the defaults. */
GRAFT_API graft_status graft_model_add_adapters(graft_model* model, const char* options, uint32_t seed);
/* Adds tokens to the vocabulary, after those that it has. `tokens`: a JSON array of texts, or of
   {"content": TEXT, "special": true}, which are found only if special tokens are asked for. Texts are tokenized with
   them from then on. Their rows of embedding and head begin as the mean of the rows of the model's own tokens. Only
   these rows and adapters are trained; all other rows keep their bits. Tokens and adapters of earlier calls stay, and
   keep their bits. Saving, loading and merging adapters includes the tokens. */
GRAFT_API graft_status graft_model_add_tokens(graft_model* model, const char* tokens);
/* Gives it the adapters of a file in place of any that it has; NULL: none. */
GRAFT_API graft_status graft_model_load_adapters(graft_model* model, const char* path);
/* Several files' adapters at once, each with the weight that its product is multiplied by; weights NULL: 1 each. They
   become one adapter, whose rank is the sum of theirs. Not of DoRA. */
GRAFT_API graft_status graft_model_load_adapters_together(graft_model* model, const char* const* paths,
                                                          const double* weights, size_t count);
/* Writes the adapters alone, atomically. */
GRAFT_API graft_status graft_model_save_adapters(graft_model* model, const char* path);

/* Adds the product of the model's adapters to its weights: from then on it has none, and graft_model_save writes an
   ordinary model. quantize: merged matrices become blocks of this format ("q8_0", ...), frozen; NULL: f32. */
GRAFT_API graft_status graft_model_merge_adapters(graft_model* model, const char* quantize);

/* Swaps the adapters of a running session or generator: nothing is planned, recorded or allocated anew. Every layer of
   the file must have an adapter there already, of the same or a larger rank; layers that the file lacks run as without
   one. NULL: all layers do. On failure the adapters stay as they were. */
GRAFT_API graft_status graft_session_swap_adapters(graft_session* session, const char* path);
/* As graft_session_swap_adapters(), for a generator. */
GRAFT_API graft_status graft_generator_swap_adapters(graft_generator* generator, const char* path);

GRAFT_END_C
#endif
