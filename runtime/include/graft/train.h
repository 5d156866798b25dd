/* graft's C ABI, training: losses, optimizers, schedules, steps. Part of graft.h, whose rules hold.
 */
#ifndef GRAFT_TRAIN_H
#define GRAFT_TRAIN_H

#include "graft/graft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Losses, each a mean over rows or elements. */
typedef enum graft_loss GRAFT_ENUM_OF_INT {
  GRAFT_LOSS_CROSS_ENTROPY = 0,
  GRAFT_LOSS_MSE = 1,
  GRAFT_LOSS_L1 = 2,
  GRAFT_LOSS_BCE = 3 /* of logits */
} graft_loss;

/* Optimizers, with PyTorch's meaning of their numbers. */
typedef enum graft_optimizer GRAFT_ENUM_OF_INT {
  GRAFT_ADAMW = 0,
  GRAFT_ADAM = 1,
  GRAFT_SGD = 2,
  GRAFT_ADAMW_8BIT = 3 /* AdamW with its state in 8 bits */
} graft_optimizer;

/* How the learning rate moves in the course of a run. */
typedef enum graft_schedule GRAFT_ENUM_OF_INT {
  GRAFT_CONSTANT = 0,
  GRAFT_LINEAR = 1, /* to zero, or final_lr_factor, at total_steps */
  GRAFT_COSINE = 2, /* as well */
  GRAFT_STEP = 3    /* times gamma after each step_size steps */
} graft_schedule;

/* What a training run is made with. */
typedef struct graft_trainer_options {
  size_t struct_size;
  graft_loss loss;
  graft_optimizer optimizer;
  double learning_rate; /* 0: 1e-3 */
  double momentum;      /* SGD */
  int nesterov;         /* SGD */
  double weight_decay;
  double clip_norm;       /* of all gradients together; 0: none */
  double label_smoothing; /* cross entropy */
  graft_schedule schedule;
  uint64_t warmup_steps;
  uint64_t total_steps;
  uint32_t batch;       /* samples of one optimizer step; 0: 32 */
  uint32_t micro_batch; /* samples on the device at once; 0: the whole batch, or as many as fit the budget */
  uint32_t seed;
  const char* freeze;            /* patterns of parameter names ('*', '?') separated by commas; NULL: none */
  const graft_binding* bindings; /* named dimensions other than the batch */
  size_t binding_count;
  /* 1, for language models: packed sequences. A sample holds several texts, none of which sees another, and has one
     more input after the model's: int32 for each token, the index in the sample of its text's first; -1: padding. */
  int packed_sequences;
  uint64_t budget;   /* largest device memory in bytes, 0 for no limit; out_of_memory where the plan needs more */
  int checkpoints;   /* 1: graft_checkpoint_open will be called; takes memory for a copy of the state */
  const char* fetch; /* names of values of the forward pass, separated by commas: see graft_trainer_fetch; NULL: none */
  graft_precision precision;
  double loss_scale; /* initial, and dynamic from there; 0: 65536 for GRAFT_PRECISION_F16, else none; below 0: none */
  const struct graft_parameter_group* groups; /* see graft/parameters.h */
  size_t group_count;
  const struct graft_data_set*
      data;          /* whose samples it takes (graft/data.h), for graft_train_next; NULL: the model's */
  double beta1;      /* of the Adams; 0: 0.9 */
  double beta2;      /* of the Adams; 0: 0.999 */
  double epsilon;    /* of the Adams; 0: 1e-8 */
  double clip_value; /* largest absolute value of an element of a gradient, before clip_norm; 0: none */
  int own_ignore_index;
  int32_t ignore_index;     /* cross entropy: rows with this label count for nothing; -100 without own_ignore_index */
  double final_lr_factor;   /* share of the rate at the end of GRAFT_LINEAR and GRAFT_COSINE */
  uint64_t step_size;       /* of GRAFT_STEP; 0: 1000 */
  double gamma;             /* of GRAFT_STEP; 0: 0.1 */
  uint64_t growth_interval; /* steps without overflow that double the loss scale; 0: 2000 */
  int frozen_statistics;    /* 1: batch norm uses its running statistics and does not move them */
  /* 1: a parameter takes its step as soon as its gradient is complete, so that memory never holds all gradients. A
     gradient that is not finite then holds back its own parameter alone: the step is an error, but others may have
     moved. Not with clip_norm or a loss scale; of no effect with micro-batches. */
  int optimizer_in_backward;
  /* 1: the trainer outlives its device (a driver that was reset or updated, a GPU that was taken out). What training
     changes is copied to host memory after each step, twice in all; a call on which the device is lost opens it anew
     and begins the step again, to the same bits. Sessions and generators of the context have to be made anew. 0: such a
     call is GRAFT_DEVICE_LOST, and a new context can go on from a checkpoint. */
  int recover_device;
  /* Steps are taken together with other workers (graft/distribute.h); outlives the trainer. NULL: alone. Not with fetch
     or recover_device. */
  const struct graft_group* group;
  uint64_t group_timeout_ms; /* longest wait for the others within a step; between two ten times as long, for which
                                worker 0 may do other things; 0: none */
} graft_trainer_options;

/* What a step or an evaluation gives back. */
typedef struct graft_metrics {
  size_t struct_size;
  uint64_t step;   /* optimizer steps done */
  double loss;     /* mean over the samples */
  double accuracy; /* 0 to 1; NaN where it has no meaning */
  double learning_rate;
  double loss_scale;      /* of the next step; 1 where there is none */
  uint64_t skipped_steps; /* of the whole run: their loss (then not finite here) or gradients overflowed, and
                             they changed nothing but the scale; 50 in a row are an error */
} graft_metrics;

/* The model's own parameters change only by graft_trainer_store. options may be NULL. */
GRAFT_API graft_status graft_trainer_create(graft_model* model, const graft_trainer_options* options,
                                            graft_trainer** trainer);
GRAFT_API void graft_trainer_destroy(graft_trainer* trainer);
/* Bytes that the run holds on device and host, by class. */
GRAFT_API graft_status graft_trainer_memory(const graft_trainer* trainer, graft_memory* memory);
/* One optimizer step on `samples` samples, at most the batch; fewer are weighted correctly. After an error, ask
   again with the same samples: the step goes on where it stopped, and nothing is done twice. Where the loss or a
   gradient is not finite, the step is GRAFT_INVALID_ARGUMENT and nothing changes: its micro-batches are thrown away,
   and the step may be asked for with any samples. (With a loss scale it is left out: skipped_steps.) `inputs`: the
   model's inputs in order, each `samples` times its size per sample. `target`: int32 labels for cross entropy, else
   float32 values. metrics may be NULL. */
GRAFT_API graft_status graft_train_step(graft_trainer* trainer, const void* const* inputs, size_t input_count,
                                        const void* target, uint32_t samples, graft_metrics* metrics);
/* The same step in pieces, for an app that may be suspended: one micro-batch, and with the last one the update, which
   sets *done to 1 and fills metrics. Give the same samples until then. In between, graft_checkpoint_save may be called;
   whoever resumes gives the same samples again and goes on with the next micro-batch. */
GRAFT_API graft_status graft_train_micro_step(graft_trainer* trainer, const void* const* inputs, size_t input_count,
                                              const void* target, uint32_t samples, int* done, graft_metrics* metrics);
/* Loss and accuracy without training: dropout off, running statistics used. */
GRAFT_API graft_status graft_evaluate(graft_trainer* trainer, const void* const* inputs, size_t input_count,
                                      const void* target, uint32_t samples, graft_metrics* metrics);
/* Copies the trained parameters into the model, for graft_model_save and for new sessions. On failure the model is as
   it was. */
GRAFT_API graft_status graft_trainer_store(graft_trainer* trainer);

#ifdef __cplusplus
}
#endif
#endif
