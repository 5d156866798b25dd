/* graft's C ABI, training: losses, optimizers, schedules, steps. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_TRAIN_H
#define GRAFT_TRAIN_H

#ifdef __cplusplus
extern "C" {
#endif

/* Losses, each a mean over rows or elements. */
typedef enum graft_loss GRAFT_ENUM_OF_INT {
  GRAFT_LOSS_CROSS_ENTROPY = 0,
  GRAFT_LOSS_MSE = 1,
  GRAFT_LOSS_L1 = 2,
  GRAFT_LOSS_BCE = 3, /* of logits */
  GRAFT_LOSS_FOCAL = 4,
  GRAFT_LOSS_DICE = 5,
  GRAFT_LOSS_HUBER = 6,
  GRAFT_LOSS_SMOOTH_L1 = 7,
  GRAFT_LOSS_KL = 8,        /* of logits, from probabilities; a mean over samples */
  GRAFT_LOSS_COSINE = 9,    /* of the model's first two outputs; targets 1 and -1 */
  GRAFT_LOSS_TRIPLET = 10,  /* of its first three: anchor, positive, negative; no target */
  GRAFT_LOSS_INFO_NCE = 11, /* of its first two, each row against all others of the batch; no target. Of texts: samples
                               as GRAFT_PREFERENCE_GROUPS makes them */
  GRAFT_LOSS_CTC = 12,      /* of logits [batch, time, classes]; labels end at the first below 0 */
  GRAFT_LOSS_OUTPUT = 13,   /* an output of the graph that is the loss; no target */
  /* Of language models, from preferences: samples as graft_data_options.preference makes them. */
  GRAFT_LOSS_DPO = 14,
  GRAFT_LOSS_IPO = 15,
  GRAFT_LOSS_ORPO = 16,   /* needs no reference */
  GRAFT_LOSS_KTO = 17,    /* of single texts that are wanted or not; whole batches only */
  GRAFT_LOSS_DISTILL = 18 /* in `losses` alone: of an output, from logits that are another */
} graft_loss;

/* Optimizers, with PyTorch's meaning of their numbers. */
typedef enum graft_optimizer GRAFT_ENUM_OF_INT {
  GRAFT_ADAMW = 0,
  GRAFT_ADAM = 1,
  GRAFT_SGD = 2,
  GRAFT_ADAMW_8BIT = 3, /* AdamW with its state in 8 bits */
  GRAFT_LION = 4,
  GRAFT_RMSPROP = 5,
  GRAFT_ADAGRAD = 6,
  GRAFT_ADAFACTOR = 7,
  GRAFT_LAMB = 8,
  GRAFT_MUON = 9 /* matrices; all else by AdamW */
} graft_optimizer;

/* How the learning rate moves in the course of a run. */
typedef enum graft_schedule GRAFT_ENUM_OF_INT {
  GRAFT_CONSTANT = 0,
  GRAFT_LINEAR = 1,     /* to zero, or final_lr_factor, at total_steps */
  GRAFT_COSINE = 2,     /* as well */
  GRAFT_STEP = 3,       /* times gamma after each step_size steps */
  GRAFT_ONE_CYCLE = 4,  /* up and down over total_steps */
  GRAFT_POLYNOMIAL = 5, /* to final_lr_factor at total_steps, as a power of what is left */
  GRAFT_PLATEAU = 6     /* as graft_trainer_observe lets it fall */
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
     and begins the step again, to the same bits. Sessions and generators have an option of their own. 0: such a call is
     GRAFT_DEVICE_LOST, and a new context can go on from a checkpoint. */
  int recover_device;
  /* Steps are taken together with other workers (graft/distribute.h); outlives the trainer. NULL: alone. Not with fetch
     or recover_device. */
  const struct graft_group* group;
  uint64_t group_timeout_ms; /* longest wait for the others within a step; between two ten times as long, for which
                                worker 0 may do other things; 0: none */
  /* Terms of a loss as `graft train --loss` takes them, "ce:label+0.5*mse:box": kinds, and outputs of the model or
     targets by name. It then stands instead of `loss`. NULL: `loss`, of the first output. */
  const char* losses;
  int own_class_axis;
  int64_t class_axis;          /* of labels; without own_class_axis the one that the labels lack, else 1 */
  const double* class_weights; /* cross entropy, focal: one for each class; NULL: 1 */
  size_t class_weight_count;
  const double* pos_weight; /* binary cross entropy: of ones, for all or for each of the last axis; NULL: 1 */
  size_t pos_weight_count;
  const char* sample_weights; /* name of the target that holds a weight for each sample; NULL: none */
  int own_focal_gamma;
  double focal_gamma; /* 2 without own_focal_gamma */
  double focal_alpha; /* focal loss of targets: weight of ones against zeros; 0: none */
  double huber_delta; /* 0: 1 */
  int own_smooth_l1_beta;
  double smooth_l1_beta; /* 1 without own_smooth_l1_beta */
  int own_margin;
  double margin;      /* without own_margin 0 of the cosine embedding, 1 of triplets */
  double temperature; /* of InfoNCE; 0: 0.07. Of distillation; 0: 2 */
  int32_t blank;      /* class of CTC's blank */
  int zero_infinity;  /* CTC: 0 where labels do not fit the time */
  /* Labels of a sample of CTC; 0: half the time. A trainer with `data` knows it. */
  uint32_t target_length;
  double alpha; /* RMSprop; 0: 0.99 */
  int centered; /* RMSprop */
  double lr_decay;
  double initial_accumulator_value; /* Adagrad, both */
  double beta2_decay;               /* Adafactor; 0: -0.8 */
  double epsilon2;                  /* Adafactor; 0: 1e-3 */
  double clip_threshold;            /* Adafactor; 0: 1 */
  uint32_t ns_steps;                /* Muon; 0: 5 */
  int match_rms_adamw;              /* Muon: steps of the size of AdamW's */
  const char* adamw_for;            /* Muon: patterns of matrices that AdamW takes; NULL: none */
  double ema;         /* weight of the past in a running mean of the parameters (graft_trainer_store_ema); 0: none */
  double layer_decay; /* learning rate of a layer over that of the layer behind it; 0: 1 */
  double rise;        /* of GRAFT_ONE_CYCLE; 0: 0.3 */
  double div_factor;  /* of GRAFT_ONE_CYCLE; 0: 25 */
  double final_div_factor; /* of GRAFT_ONE_CYCLE; 0: 1e4 */
  double power;            /* of GRAFT_POLYNOMIAL; 0: 1 */
  /* mu of a term mu/2 |w - w0|^2 that pulls to the weights that the run began with (FedProx); 0: none */
  double proximal;
  int predictions; /* 1: graft_evaluate_trainer gives metrics of predictions, too */
  int no_fusion;   /* 1: every op and every tensor has dispatches of its own: the same bits, slower */
  /* Inputs of samples that are given as bytes or halves, which the device turns into what the model takes: see
     graft/inputs.h. With `data`, its fields of these names have that element type. Not with fetch of these. */
  const struct graft_input_format* inputs;
  size_t input_count;
  double preference_beta; /* of DPO, IPO, ORPO and KTO; 0: 0.1. label_smoothing of DPO: the share of wrong pairs */
  int own_kto_weights;
  double desirable_weight; /* KTO: of texts that are wanted; 1 without own_kto_weights */
  double undesirable_weight;
  /* NEFTune, for language models: in training the embeddings of tokens get noise, uniform in
     +-neftune_alpha / sqrt(tokens of a sample * width); 0: none. */
  double neftune_alpha;
  /* Distillation: another model of the context, a language model of the same vocabulary, from whose logits the model
     learns too, with GRAFT_LOSS_CROSS_ENTROPY. It runs beside it, within the same plan, and is not changed; it may be
     released once the trainer is there. The loss is distill_weight temperature^2 KL(teacher, model), both softened by
     temperature, plus (1 - distill_weight) times cross entropy. NULL: none. */
  struct graft_model* teacher;
  int own_distill_weight;
  double distill_weight; /* 0 to 1; 0.5 without own_distill_weight. Of the loss "distill" in `losses` as well */
  /* 1: the numbers of the optimizer and of the schedule, momentum, nesterov, layer_decay, gamma, step_size and their
     like, count as they are, zeros too: graft_trainer_defaults() fills them. 0: where they are zero the usual ones */
  int own_numbers;
  /* A set that graft_evaluate_trainer will be asked of: planned for with its number of samples. NULL: nobody knows */
  const struct graft_data_set* held_out;
  int no_evaluation; /* 1: nothing will be evaluated, and no memory is taken for it */
  int drop_last;     /* 1: the loader leaves out a last batch that is not full, which is not planned for */
  int shrinkable;    /* 1: micro_batch is the most, and a budget or the device's largest buffer may make it smaller */
  /* Of device memory in bytes beside the weights that are not trained, in place of `budget`; 0: none. It costs one
     more planning. */
  uint64_t budget_beside_weights;
  struct graft_profile* profile; /* measures the steps, which take longer so; NULL: nobody does */
  uint64_t group_pause_ms;       /* longest wait for the others between two steps; 0: ten times group_timeout_ms */
} graft_trainer_options;

/* Fills in the optimizer's own numbers, the weight decay among them, and the usual ones of schedules, and sets
   own_numbers: change what shall differ. `options` has its struct_size. invalid_argument: no such optimizer, or a
   struct without own_numbers; nothing changed. */
GRAFT_API graft_status graft_trainer_defaults(graft_optimizer optimizer, graft_trainer_options* options);
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

#ifdef __cplusplus
}
#endif
#endif
