/* graft's C ABI, shapes: the names of dimensions that are not bound, and what a trainer's samples consist of, for
 * callers that check arrays before they hand pointers over. Part of graft.h, whose rules hold. */
#ifndef GRAFT_SHAPES_H
#define GRAFT_SHAPES_H

#include "graft/graft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of a dimension that graft_model_tensor gives as -1, as in "batch" or "2*seq"; "" for one that is a number.
   Valid until the next call on this model. not_found where there is no such tensor or axis. */
GRAFT_API graft_status graft_model_dimension(graft_model* model, graft_tensor_kind kind, size_t index, uint32_t axis,
                                             const char** name);

/* What one sample of graft_train_step and graft_evaluate consists of: the model's inputs in order, for packed sequences
   where their texts begin, and last the target. `dims` are those of one sample, without the batch; the name is valid as
   long as the trainer. not_found where index is beyond the target. */
GRAFT_API graft_status graft_trainer_sample(const graft_trainer* trainer, size_t index, graft_tensor_info* info);

#ifdef __cplusplus
}
#endif

#endif
