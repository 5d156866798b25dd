/* graft's C ABI, training: steps and evaluations. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_TRAIN_H
#define GRAFT_TRAIN_H

#include "graft/trainer_options.h"

GRAFT_BEGIN_C

/* What each term of such `losses` is, the first `most` of them; *count, how many there are. invalid_argument: they are
   no losses. */
GRAFT_API graft_status graft_loss_kinds(const char* losses, graft_loss* kinds, size_t most, size_t* count);
/* The names of losses that there are, for sentences. */
GRAFT_API const char* graft_loss_names(void);

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
  double reward_margin;   /* of DPO, IPO, ORPO and KTO, a mean over samples; NaN of other losses */
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
   model's inputs in order, each `samples` times its size per sample; where the loss has several targets, all but the
   last follow, in the order of graft_trainer_sample. `target`: int32 labels for cross entropy, else float32 values;
   NULL where the loss has none. metrics may be NULL. */
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
/* The same with the running means of the parameters (the option ema), which evaluations are of. */
GRAFT_API graft_status graft_trainer_store_ema(graft_trainer* trainer);

GRAFT_END_C
#endif
