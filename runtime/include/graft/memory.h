/* graft's C ABI, memory: what training would take, a budget that changes while it runs, values of the forward pass, and
 * gradients of any number of samples within a budget. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_MEMORY_H
#define GRAFT_MEMORY_H

#include "graft/train.h"

GRAFT_BEGIN_C

/* What a trainer would take and do, known without making it. */
typedef struct graft_forecast {
  size_t struct_size;
  uint64_t weights, parameters, gradients, optimizer, activations, workspace, staging, step_state;
  uint64_t total;          /* device and staging memory in bytes: what graft_trainer_create allocates */
  uint64_t flops;          /* of one micro-batch, forward and backward, those below included */
  uint64_t extra_flops;    /* of results that are computed again to keep to the budget */
  uint32_t micro_batch;    /* samples on the device at once */
  uint32_t recomputed;     /* results that are computed again */
  const char* explanation; /* what was chosen to keep to the budget and why, a sentence a line; "" without a budget;
                              valid until the next forecast of this model */
} graft_forecast;

/* Takes milliseconds, allocates nothing on a device and needs none (see graft_context_options). out_of_memory where
   nothing fits the budget; the message then names the smallest that works. options may be NULL. */
GRAFT_API graft_status graft_forecast_training(graft_model* model, const graft_trainer_options* options,
                                               graft_forecast* forecast);

/* ---- While a trainer runs ------------------------------------------------------------------------------------- */

/* Between two steps: plans anew for another budget (0: none), and the run goes on where it is; with the same bits as
   long as the micro-batch stays the same. invalid_argument within a step. out_of_memory where no plan keeps to the
   budget: nothing has changed then, and the message names the smallest that works. Where the device itself refuses the
   memory, a smaller plan is tried; where it refuses all, steps fail with out_of_memory until this is called again, and
   the state is kept meanwhile. Pointers from graft_trainer_fetch end. */
GRAFT_API graft_status graft_trainer_set_budget(graft_trainer* trainer, uint64_t budget);
/* The same for a budget that gives at least so many bytes of device memory back: for low-memory warnings. */
GRAFT_API graft_status graft_trainer_trim(graft_trainer* trainer, uint64_t bytes);
/* Gives all device memory of the trainer back, for an app that goes to the background; what training changes waits in
   host memory. Between any two calls, in the middle of a step too. The next call that needs the device, or
   graft_trainer_resume, builds everything again, and the run goes on to the same bits. On failure nothing changed;
   GRAFT_INVALID_ARGUMENT where a step that failed on the way has to be asked for again first. */
GRAFT_API graft_status graft_trainer_pause(graft_trainer* trainer);
/* Nothing to do where the trainer is not paused. GRAFT_OUT_OF_MEMORY where the device does not have the memory now: ask
   again. */
GRAFT_API graft_status graft_trainer_resume(graft_trainer* trainer);
/* How often the device ran out of memory in the course of a step (or of an evaluation, a checkpoint), or its driver
   allowed no more memory than was held (VK_EXT_memory_budget) before a step, and the trainer went on by itself with
   another plan, to the same bits where the micro-batch is the same. Each is logged as a warning, and so is that no plan
   is smaller. Nothing is taken back by itself: graft_trainer_set_budget does that, when there is more. */
GRAFT_API graft_status graft_trainer_shortages(const graft_trainer* trainer, uint64_t* count);
/* A value of graft_trainer_options.fetch as the last step computed it, for all its samples; valid until the next step.
   data, bytes and info may be NULL. */
GRAFT_API graft_status graft_trainer_fetch(graft_trainer* trainer, const char* name, const void** data, size_t* bytes,
                                           graft_tensor_info* info);

/* ---- Gradients in pieces -------------------------------------------------------------------------------------- */

/* Gradients that were computed. */
typedef struct graft_gradients graft_gradients;

/* Which gradients, and within what memory. */
typedef struct graft_gradient_options {
  size_t struct_size;
  /* An output or any value, which is differentiated. Default: none. */
  const char* of;
  /* Inputs, parameters or any values, with respect to which. Default: none. */
  const char* const* wrt;
  size_t wrt_count;
  /* Every named dimension; that of the batch is the number of samples in all. Default: none. */
  const graft_binding* bindings;
  size_t binding_count;
  /* Largest device memory in bytes; 0: no limit. Default: 0. */
  uint64_t budget;
  /* Samples on the device at once; 0: as many as fit. Default: 0. */
  uint32_t micro_batch;
  /* Gradients of parameters for each sample, along a new first axis, instead of their sum. Default: 0. */
  int per_sample;
  /* As a training step computes it, with dropout. Default: 0. */
  int train_mode;
  /* Storage of intermediate results. Default: f32. */
  graft_precision precision;
  /* f32 inputs may hold NaN and infinity, which are an error otherwise. Default: 0. */
  int allow_non_finite;
} graft_gradient_options;

/* Samples of one input: name, contents, bytes. */
typedef struct graft_data {
  const char* name; /* an input of the model, or "cotangent", which is needed where `of` has more than one element */
  const void* data; /* of all samples */
  size_t bytes;
} graft_data;

/* Runs the samples in micro-batches that keep to the budget. */
GRAFT_API graft_status graft_gradients_compute(graft_model* model, const graft_gradient_options* options,
                                               const graft_data* inputs, size_t input_count,
                                               graft_gradients** gradients);
GRAFT_API void graft_gradients_destroy(graft_gradients* gradients);
/* How they were computed. */
typedef struct graft_gradients_info {
  size_t struct_size;
  uint32_t micro_batch;  /* samples on the device at once */
  uint64_t device_bytes; /* of the most memory that was held */
} graft_gradients_info;

/* Fills info. */
GRAFT_API graft_status graft_gradients_describe(const graft_gradients* gradients, graft_gradients_info* info);
/* The gradient with respect to one of wrt; valid as long as the handle. data, bytes and info may be NULL. */
GRAFT_API graft_status graft_gradients_get(const graft_gradients* gradients, const char* wrt, const void** data,
                                           size_t* bytes, graft_tensor_info* info);

GRAFT_END_C
#endif
