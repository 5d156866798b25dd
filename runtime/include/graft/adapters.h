/* Low-rank adapters (LoRA): a model's small trainable parts. Included by graft.h; see there for what holds for all. */
#ifndef GRAFT_ADAPTERS_H
#define GRAFT_ADAPTERS_H

#include "graft/graft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* While any are on, all but them is frozen, and graft_trainer_store stores them. The model
   must have no sessions, generators or trainers when they change. */
/* Puts fresh ones on, instead of those that are on: "r=8,alpha=16,dropout=0,targets=q_proj|v_proj", any part left out;
   NULL for the defaults. */
GRAFT_API graft_status graft_model_add_adapters(graft_model* model, const char* options, uint32_t seed);
/* Puts those of a file on, instead of those that are on; NULL: none. */
GRAFT_API graft_status graft_model_load_adapters(graft_model* model, const char* path);
/* Writes the adapters alone, atomically. */
GRAFT_API graft_status graft_model_save_adapters(graft_model* model, const char* path);

/* Other adapters in place of those that a running session or generator was made with: nothing is planned, recorded or
   allocated anew. The file's layers must have adapters there already, of the same or a larger rank; its own, if fewer,
   leave the others as without. NULL: all are as without. On failure those that were on stay. */
GRAFT_API graft_status graft_session_swap_adapters(graft_session* session, const char* path);
GRAFT_API graft_status graft_generator_swap_adapters(graft_generator* generator, const char* path);

#ifdef __cplusplus
}
#endif

#endif
