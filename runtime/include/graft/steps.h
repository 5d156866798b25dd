/* graft's C ABI, a training run as its app shows it: what it is planned as, what each step gave, where it stands, and a
 * model of its weights beside it. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_STEPS_H
#define GRAFT_STEPS_H

#include "graft/evaluate.h"
#include "graft/snapshots.h"

GRAFT_BEGIN_C

/* How a run is planned now: memory that runs short changes it. */
typedef struct graft_run_info {
  size_t struct_size;
  uint64_t tensors; /* parameters that are trained */
  uint64_t device_bytes;
  uint32_t batch;          /* samples of a step */
  uint32_t micro_batch;    /* and on the device at once */
  const char* note;        /* what the loss chose that was not said, as an axis of classes; else "" */
  const char* explanation; /* what was done to keep to a budget: a sentence a line; "" where nothing was */
  uint64_t shortages;      /* how often the device was short of memory, and the run went on with another plan */
  int heap_overdrawn;      /* 1: the driver allows no more memory than is held, and no plan is smaller */
} graft_run_info;

/* Fills info; texts are valid until the trainer's next call of this. */
GRAFT_API graft_status graft_trainer_describe(graft_trainer* trainer, graft_run_info* info);

/* What is trained, in a fixed order: to read with graft_trainer_read. not_found where index is beyond the last. */
GRAFT_API graft_status graft_trainer_parameter(const graft_trainer* trainer, size_t index, graft_tensor_info* info);

/* What a step was, beside the means of its samples. */
typedef struct graft_step_info {
  size_t struct_size;
  uint64_t step;        /* done with it */
  uint64_t epoch;       /* from 0, of graft_train_next */
  int ends_epoch;       /* 1: the next batch is of another epoch */
  double learning_rate; /* of parameters without a group */
  double gradient_norm; /* with clip_norm: before it clips; else NaN */
  double loss_scale;    /* of the next step; NaN where there is none */
  int skipped;          /* 1: it overflowed and changed nothing but the scale; its loss may be no number */
  uint64_t skipped_steps;
  uint32_t submissions; /* to the device */
} graft_step_info;

/* Of the step that was done last. not_found: none was yet. totals may be NULL. */
GRAFT_API graft_status graft_trainer_last_step(const graft_trainer* trainer, graft_step_info* info,
                                               graft_totals* totals);
/* Of the steps of the epoch so far, or of all of it where its last step was just done. */
GRAFT_API graft_status graft_trainer_epoch(const graft_trainer* trainer, graft_totals* totals);
/* What one of several workers said of itself in that step. not_found where worker is beyond the last, as of a run of
   one. */
GRAFT_API graft_status graft_trainer_worker(const graft_trainer* trainer, size_t worker, graft_worker_report* report);

/* Where a run stands, which checkpoints keep. */
typedef struct graft_run_place {
  size_t struct_size;
  uint64_t step;         /* done */
  uint64_t samples_done; /* of the step in progress */
  uint64_t epoch;        /* from 0, of the last step */
  int between_epochs;    /* 1: an epoch of graft_train_next has ended with it, or none has begun */
  uint64_t evaluated_at; /* the step that graft_trainer_observe saw last */
  uint64_t best_seen;    /* how many evaluations it looked at for the best one; 0: what follows is nothing */
  uint64_t best_step;
  double best;
  uint64_t skipped_steps; /* of the whole run, as graft_metrics */
} graft_run_place;

/* Fills place. */
GRAFT_API graft_status graft_trainer_place(const graft_trainer* trainer, graft_run_place* place);

/* A model with the weights as they are now (ema = 1: with their running means), and the trainer's adapters: to generate
   with, to evaluate, to save, while the run goes on and its own model stays as it was. It borrows what is not trained.
 */
GRAFT_API graft_status graft_trainer_copy(graft_trainer* trainer, int ema, graft_model** model);

/* Begins the run anew, as of a trainer that was just made for `model`: with its weights and running statistics, an
   optimizer that knows nothing, no step done. The plan and what is compiled stay. `model`: the trainer's own, or one
   of the same graph, as graft_trainer_copy gives them; NULL: its own. For rounds of federated training, and runs that
   differ in their seed of the data alone. invalid_argument: the model lacks a parameter or has it in another shape, a
   weight is not finite, the trainer keeps a checkpoint or is one of several workers; nothing changed. Where the device
   fails, ask again before the next step. */
GRAFT_API graft_status graft_trainer_restart(graft_trainer* trainer, graft_model* model);

/* graft_train_next in pieces: one micro-batch of the step, and with the last one the update, which sets *done to 1 and
   which graft_trainer_last_step tells of. In between graft_checkpoint_save may be called, and whoever resumes goes on
   with the next micro-batch. Several workers take whole steps. */
GRAFT_API graft_status graft_train_next_part(graft_trainer* trainer, graft_loader* loader, int* more, int* done);

GRAFT_END_C
#endif
