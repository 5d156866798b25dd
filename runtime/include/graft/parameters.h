/* A model's numbers and words by name, and what an app may change in the course of a run. Part of graft.h, whose rules
 * hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_PARAMETERS_H
#define GRAFT_PARAMETERS_H

#include "graft/train.h"

GRAFT_BEGIN_C

/* Options of the parameters whose name matches: graft_trainer_options.groups. graft_parameter_group_init() fills in the
   defaults. */
typedef struct graft_parameter_group {
  /* Pattern of names: '*': any characters, '?': one. The first group that matches decides; at most 15. Default: none.
   */
  const char* pattern;
  /* Multiplies the learning rate. To leave parameters alone, freeze them. Default: 1. Range: [0, 1e30]. */
  double learning_rate_scale;
  /* Weight decay; -1: the trainer's. Default: -1. Range: [-1, inf). */
  double weight_decay;
} graft_parameter_group;

/* Fills in every default; each value then counts as it is, zero too. */
GRAFT_API graft_status graft_parameter_group_init(graft_parameter_group* group);

/* Copies a parameter, a frozen weight or a running statistic out, row-major in the source model's order of axes.
   not_found: there is none of that name; unsupported: it is kept in 16 bits or in quantized blocks; invalid_argument:
   `bytes` is not its size. data may be NULL, for the info alone; so may info. */
GRAFT_API graft_status graft_model_read(const graft_model* model, const char* name, void* data, size_t bytes,
                                        graft_tensor_info* info);
/* Puts other numbers in its place. The model must have no sessions, generators or trainers then. invalid_argument: NaN
   or infinity, or not its size; the model is as it was. */
GRAFT_API graft_status graft_model_write(graft_model* model, const char* name, const void* data, size_t bytes);

/* The same of a trainer: as training has made it so far. */
GRAFT_API graft_status graft_trainer_read(graft_trainer* trainer, const char* name, void* data, size_t bytes,
                                          graft_tensor_info* info);
/* Between two steps; frozen weights cannot be changed. The optimizer's state stays. Where a checkpoint is open, a
   snapshot is taken at once, so that a resume goes on from here; if that fails, the parameter is as it was. */
GRAFT_API graft_status graft_trainer_write(graft_trainer* trainer, const char* name, const void* data, size_t bytes);

/* The learning rate from the next step on, in place of that of graft_trainer_options: schedule and groups multiply it
   as before. Between two steps. Where a checkpoint is open, a snapshot is taken at once; if that fails, the rate is as
   it was. A resume is made with the options that the run began with and finds the rate in the snapshot, where it counts
   as state like the parameters; a resume that is told to go on with another rate (with_changes) takes that one instead.
 */
GRAFT_API graft_status graft_trainer_set_learning_rate(graft_trainer* trainer, double learning_rate);
/* As it is now, before schedule and groups. */
GRAFT_API graft_status graft_trainer_learning_rate(const graft_trainer* trainer, double* learning_rate);

/* ---- Metadata: texts by key, in the model's file --------------------------------------------------------------- */

/* How many keys the metadata has; 0 for NULL. */
GRAFT_API size_t graft_model_metadata_count(const graft_model* model);
/* In the order of keys; key and value are valid until the metadata changes. not_found where index >= count. */
GRAFT_API graft_status graft_model_metadata_at(const graft_model* model, size_t index, const char** key,
                                               const char** value);
/* not_found where there is no such key. */
GRAFT_API graft_status graft_model_metadata(const graft_model* model, const char* key, const char** value);
/* NULL as the value takes the key away. invalid_argument: a key that is empty, longer than 1024 bytes or no text. */
GRAFT_API graft_status graft_model_set_metadata(graft_model* model, const char* key, const char* value);

GRAFT_END_C
#endif
