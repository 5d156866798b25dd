/* The options of a training run: losses, optimizers, schedules. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_TRAINER_OPTIONS_H
#define GRAFT_TRAINER_OPTIONS_H

GRAFT_BEGIN_C

/* Losses, each a mean over rows or elements. Name: the word on the command line, if it is another one. */
typedef enum graft_loss GRAFT_ENUM_OF_INT {
  GRAFT_LOSS_CROSS_ENTROPY = 0, /* Of logits. Name: ce. */
  GRAFT_LOSS_MSE = 1,
  GRAFT_LOSS_L1 = 2,
  GRAFT_LOSS_BCE = 3,   /* Of logits. */
  GRAFT_LOSS_FOCAL = 4, /* Of logits. */
  GRAFT_LOSS_DICE = 5,
  GRAFT_LOSS_HUBER = 6,
  GRAFT_LOSS_SMOOTH_L1 = 7,
  GRAFT_LOSS_KL = 8,        /* Of logits, from probabilities; a mean over samples. */
  GRAFT_LOSS_COSINE = 9,    /* Of the model's first two outputs; targets are 1 and -1. */
  GRAFT_LOSS_TRIPLET = 10,  /* Of the first three outputs: anchor, positive, negative. No target. */
  GRAFT_LOSS_INFO_NCE = 11, /* Of the first two outputs, each row against all others of the batch. No target. Texts:
                               samples as GRAFT_PREFERENCE_GROUPS makes them. */
  GRAFT_LOSS_CTC = 12,      /* Of logits [batch, time, classes]. Labels end at the first below 0. */
  GRAFT_LOSS_OUTPUT = 13,   /* An output of the graph is the loss. No target. */
  /* Of language models, from preferences: samples as graft_data_options.preference makes them. */
  GRAFT_LOSS_DPO = 14,
  GRAFT_LOSS_IPO = 15,
  GRAFT_LOSS_ORPO = 16,   /* Needs no reference model. */
  GRAFT_LOSS_KTO = 17,    /* Of single texts that are wanted or not; whole batches only. */
  GRAFT_LOSS_DISTILL = 18 /* Only in `losses`: of an output, from another output that holds a teacher's logits. */
} graft_loss;

/* Optimizers, with PyTorch's meaning of their numbers. */
typedef enum graft_optimizer GRAFT_ENUM_OF_INT {
  GRAFT_ADAMW = 0,
  GRAFT_ADAM = 1,
  GRAFT_SGD = 2,
  GRAFT_ADAMW_8BIT = 3, /* AdamW with its state in 8 bits. Name: adamw8bit. */
  GRAFT_LION = 4,
  GRAFT_RMSPROP = 5,
  GRAFT_ADAGRAD = 6,
  GRAFT_ADAFACTOR = 7,
  GRAFT_LAMB = 8,
  GRAFT_MUON = 9 /* Updates matrices; AdamW updates all else. */
} graft_optimizer;

/* How the learning rate changes during a run. */
typedef enum graft_schedule GRAFT_ENUM_OF_INT {
  GRAFT_CONSTANT = 0,
  GRAFT_LINEAR = 1,     /* To final_lr_factor at total_steps. */
  GRAFT_COSINE = 2,     /* To final_lr_factor at total_steps. */
  GRAFT_STEP = 3,       /* Times gamma after each step_size steps. */
  GRAFT_ONE_CYCLE = 4,  /* Up and down over total_steps. Name: one-cycle. */
  GRAFT_POLYNOMIAL = 5, /* To final_lr_factor at total_steps, as a power of what is left. */
  GRAFT_PLATEAU = 6     /* Falls if a metric stops improving: graft_trainer_observe. */
} graft_schedule;

/* graft_trainer_options.class_axis: the axis that the labels lack, else 1. */
#define GRAFT_AXIS_OF_LABELS INT32_MIN

/* Options of a training run. graft_trainer_options_init() fills in every default; each value then counts as it is, zero
   too. An int is a switch, 0 or 1. tools/interface reads the tags at the end of a comment and writes the options of
   each language and of the command line from them:
     Default  the value that init gives, for an optimizer of its own where one is named
     Range    what is accepted
     Unit     of the number; a time in s may also be written 90s, 15m, 1.5h or 2d on the command line
     For      the losses, optimizers or schedules that read the field
     Flag     its name on the command line */
typedef struct graft_trainer_options {
  size_t struct_size;

  /* ---- Loss ---- */

  /* What is minimized, of the model's first output. Default: cross_entropy. */
  graft_loss loss;
  /* Several terms, as in "ce:label+0.5*mse:box": kinds, and outputs of the model or targets by name. Replaces `loss`.
     Default: none. */
  const char* losses;
  /* Share of a label that is spread over all classes; of dpo, the share of pairs whose order is wrong, to 0.5.
     Default: 0. Range: [0, 1]. For: cross_entropy, dpo, distill. Flag: --label-smoothing. */
  double label_smoothing;
  /* Rows with this label do not count. Default: -100. For: cross_entropy, focal, dice, distill.
     Flag: --ignore-index. */
  int32_t ignore_index;
  /* Axis of the classes; by default the axis that the labels lack, else 1 (GRAFT_AXIS_OF_LABELS).
     Default: GRAFT_AXIS_OF_LABELS. Range: [-8, 7]. For: cross_entropy, focal, dice, kl, ctc, distill. Flag:
     --class-axis. */
  int32_t class_axis;
  /* A weight for each class, as in 1,2.5,1. Default: none. For: cross_entropy, focal. Flag: --class-weights. */
  const double* class_weights;
  size_t class_weight_count;
  /* Weight of targets that are 1: one for all, or one for each element of the last axis. Default: none. For: bce.
     Flag: --pos-weight. */
  const double* pos_weight;
  size_t pos_weight_count;
  /* Name of the target that holds a weight for each sample. Default: none. Flag: --sample-weights. */
  const char* sample_weights;
  /* Exponent by which easy samples count less. Default: 2. Range: [0, 100]. For: focal. Flag: --focal-gamma. */
  double focal_gamma;
  /* Weight of targets that are 1 against 0; below 0: no weights. Default: -1. Range: [-1, 1]. For: focal.
     Flag: --focal-alpha. */
  double focal_alpha;
  /* Error at which the loss becomes linear. Default: 1. Range: [1e-12, 1e30]. For: huber. Flag: --huber-delta. */
  double huber_delta;
  /* Error at which the loss becomes linear. Default: 1. Range: [0, 1e30]. For: smooth_l1. Flag: --smooth-l1-beta. */
  double smooth_l1_beta;
  /* Similarity below which pairs that differ cost nothing. Default: 0. Range: [-1, 1]. For: cosine.
     Flag: --cosine-margin. */
  double cosine_margin;
  /* Least distance between positive and negative. Default: 1. Range: [0, 1e30]. For: triplet.
     Flag: --triplet-margin. */
  double triplet_margin;
  /* What similarities are divided by. Default: 0.07. Range: [1e-6, 1e6]. For: info_nce. Flag: --temperature. */
  double temperature;
  /* What the logits of model and teacher are divided by. Default: 2. Range: [1e-6, 1e6]. For: distill, teacher.
     Flag: --distill-temperature. */
  double distill_temperature;
  /* Share of the divergence from the teacher; the labels have the rest. Default: 0.5. Range: [0, 1].
     For: distill, teacher. Flag: --distill-weight. */
  double distill_weight;
  /* A language model of the same vocabulary and context, from whose logits the model learns as well, with
     cross_entropy. It runs in the same plan and is not changed. It may be released after graft_trainer_create. The loss
     is distill_weight * distill_temperature^2 * KL(teacher, model) + (1 - distill_weight) * cross entropy.
     Default: none. */
  struct graft_model* teacher;
  /* How much a step away from the reference costs. Default: 0.1. Range: [1e-6, 1e6]. For: dpo, ipo, orpo, kto.
     Flag: --beta. */
  double preference_beta;
  /* Weight of texts that are wanted. Default: 1. Range: [0, 1e6]. For: kto. Flag: --desirable-weight. */
  double desirable_weight;
  /* Weight of texts that are not wanted. Default: 1. Range: [0, 1e6]. For: kto. Flag: --undesirable-weight. */
  double undesirable_weight;
  /* Class of the blank. Default: 0. Range: [0, 16777216]. For: ctc. Flag: --blank. */
  int32_t blank;
  /* The loss is 0 where the labels do not fit the time. Default: 0. For: ctc. Flag: --zero-infinity. */
  int zero_infinity;
  /* Labels of a sample; 0: half the time. A trainer with `data` knows it. Default: 0. For: ctc. */
  uint32_t target_length;

  /* ---- Optimizer, in PyTorch's words ---- */

  /* Rule that updates the parameters. Default: adamw. Flag: --optimizer. */
  graft_optimizer optimizer;
  /* Learning rate. Default: 1e-3; adafactor 1e-2. Range: [0, 1e30]. Flag: --lr. */
  double learning_rate;
  /* Weight decay. Default: 0; adamw 0.01, adamw_8bit 0.01, lamb 0.01, muon 0.1. Range: [0, 1e30].
     Flag: --weight-decay. */
  double weight_decay;
  /* Momentum. Default: 0; muon 0.95. Range: [0, 1). For: sgd, rmsprop, muon. Flag: --momentum. */
  double momentum;
  /* Nesterov's form of momentum. Default: 0; muon 1. For: sgd, muon. Flag: --nesterov. */
  int nesterov;
  /* Decay of the mean of gradients. Default: 0.9. Range: [0, 1). For: adamw, adam, adamw_8bit, lion, lamb, muon.
     Flag: --beta1. */
  double beta1;
  /* Decay of the mean of squares. Default: 0.999; lion 0.99. Range: [0, 1).
     For: adamw, adam, adamw_8bit, lion, lamb, muon. Flag: --beta2. */
  double beta2;
  /* Added to the root of the mean of squares. Default: 1e-8; adagrad 1e-10, lamb 1e-6. Range: [0, 1e30].
     For: adamw, adam, adamw_8bit, rmsprop, adagrad, lamb, muon. Flag: --eps. */
  double epsilon;
  /* Decay of the mean of squares. Default: 0.99. Range: [0, 1). For: rmsprop. Flag: --alpha. */
  double alpha;
  /* Squares are taken about the mean. Default: 0. For: rmsprop. Flag: --centered. */
  int centered;
  /* Decay of the learning rate with each step. Default: 0. Range: [0, 1e30]. For: adagrad. Flag: --lr-decay. */
  double lr_decay;
  /* What the sum of squares begins with. Default: 0. Range: [0, 1e30]. For: adagrad.
     Flag: --initial-accumulator-value. */
  double initial_accumulator_value;
  /* Exponent of the step in the decay of the mean of squares. Default: -0.8. Range: [-10, 0]. For: adafactor.
     Flag: --beta2-decay. */
  double beta2_decay;
  /* Least size of a parameter, for the size of its step. Default: 1e-3. Range: [0, 1e30]. For: adafactor.
     Flag: --eps2. */
  double epsilon2;
  /* Largest root mean square of an update. Default: 1. Range: [1e-12, 1e30]. For: adafactor. Flag: --clip-threshold. */
  double clip_threshold;
  /* Steps of Newton and Schulz's iteration. Default: 5. Range: [1, 100]. For: muon. Flag: --ns-steps. */
  uint32_t ns_steps;
  /* Steps have the size of AdamW's. Default: 0. For: muon. Flag: --match-rms-adamw. */
  int match_rms_adamw;
  /* Patterns of matrices that AdamW updates, such as embeddings and the last layer, separated by commas. Default: none.
     For: muon. Flag: --adamw-for. */
  const char* adamw_for;
  /* Options by parameter name: graft/parameters.h. Default: none. */
  const struct graft_parameter_group* groups;
  size_t group_count;
  /* Patterns of parameters that are not trained ('*', '?'), separated by commas. Default: none. Flag: --freeze. */
  const char* freeze;
  /* Learning rate of a layer, divided by the rate of the layer after it. Default: 1. Range: [1e-6, 1].
     Flag: --layer-decay. */
  double layer_decay;
  /* Largest absolute value of an element of a gradient, before clip_norm; 0: no limit. Default: 0. Range: [0, 1e30].
     Flag: --clip-value. */
  double clip_value;
  /* Largest norm of all gradients together; 0: no limit. Default: 0. Range: [0, 1e30]. Flag: --clip-norm. */
  double clip_norm;
  /* Weight of the past in a running mean of the parameters, as in 0.999; 0: no mean. Evaluations use the mean.
     graft_trainer_store_ema() stores it. Default: 0. Range: [0, 1). Flag: --ema. */
  double ema;
  /* mu of a term mu/2 |w - w0|^2 that pulls to the weights at the start of the run (FedProx); 0: no term. Not with a
     loss scale. Default: 0. Range: [0, 1e30]. Flag: --proximal. */
  double proximal;
  /* Noise on the embeddings of tokens in training, NEFTune's alpha, as in 5; 0: no noise. It is uniform in
     +-alpha / sqrt(tokens of a sample * width). Default: 0. Range: [0, 1e6]. Flag: --neftune. */
  double neftune_alpha;

  /* ---- Schedule of the learning rate ---- */

  /* How the learning rate changes during the run. Default: constant. Flag: --schedule. */
  graft_schedule schedule;
  /* Steps over which the rate rises from 0. Default: 0. Flag: --warmup. */
  uint64_t warmup_steps;
  /* Steps of the whole run. Default: 0. For: linear, cosine, one_cycle, polynomial. */
  uint64_t total_steps;
  /* Rate at the end, as a share of learning_rate. Default: 0. Range: [0, 1e6]. For: linear, cosine, polynomial.
     Flag: --final-lr. */
  double final_lr_factor;
  /* Steps between two drops. Default: 1000. Range: [1, inf). For: step. Flag: --step-size. */
  uint64_t step_size;
  /* Factor of each drop. Default: 0.1. Range: [0, 1e6]. For: step, plateau. Flag: --gamma. */
  double gamma;
  /* Share of the steps in which the rate rises. Default: 0.3. Range: (0, 1). For: one_cycle. Flag: --rise. */
  double rise;
  /* learning_rate divided by the first rate. Default: 25. Range: [1, 1e12]. For: one_cycle. Flag: --div-factor. */
  double div_factor;
  /* First rate divided by the last. Default: 1e4. Range: [1, 1e12]. For: one_cycle. Flag: --final-div-factor. */
  double final_div_factor;
  /* Exponent of what is left of the run. Default: 1. Range: (0, 100]. For: polynomial. Flag: --power. */
  double power;

  /* ---- Steps and data ---- */

  /* Samples of one optimizer step. Default: 32. Range: [1, 1073741824]. */
  uint32_t batch;
  /* Samples on the device at once; 0: the whole batch, or as many as fit the budget. Default: 0. */
  uint32_t micro_batch;
  /* Seed of dropout, noise and shuffling. Default: 0. Flag: --seed. */
  uint32_t seed;
  /* Time after which a run ends, from its first step in this process; 0: no limit. The step that reaches it is
     completed, and graft_train_next() then takes none. Of several workers, worker 0's limit counts. Default: 0.
     Range: [0, inf). Unit: s. Flag: --max-time. */
  double max_time;
  /* Set whose samples graft_train_next takes (graft/data.h). Default: none. */
  const struct graft_data_set* data;
  /* Set that graft_evaluate_trainer will evaluate; the plan then knows its number of samples. Default: none. */
  const struct graft_data_set* held_out;
  /* The loader leaves out a last batch that is not full. Default: 0. */
  int drop_last;
  /* Sizes of named dimensions other than the batch. Default: none. */
  const graft_binding* bindings;
  size_t binding_count;
  /* Inputs that samples give as bytes or halves, which the device converts: graft/inputs.h. With `data`, its fields of
     these names have that element type. Such inputs cannot be fetched. Default: none. */
  const struct graft_input_format* inputs;
  size_t input_count;
  /* For language models: a sample holds several texts, none of which sees another. It then has one more input after the
     model's: int32 for each token, the index of its text's first token; -1: padding. Default: 0. */
  int packed_sequences;
  /* Batch norm uses its running statistics and does not move them. Default: 0. Flag: --frozen-statistics. */
  int frozen_statistics;
  /* Values of the forward pass that graft_trainer_fetch gives, separated by commas. Default: none. */
  const char* fetch;
  /* graft_evaluate_trainer gives metrics of predictions as well. Default: 0. */
  int predictions;
  /* Nothing will be evaluated: the plan has no memory for it. Default: 0. */
  int no_evaluation;

  /* ---- Memory and device ---- */

  /* Largest device memory in bytes; 0: no limit. GRAFT_OUT_OF_MEMORY if the plan needs more. Default: 0. */
  uint64_t budget;
  /* Largest device memory in bytes besides the weights that are not trained, instead of `budget`; 0: no limit. Costs
     one more planning. Default: 0. */
  uint64_t budget_beside_weights;
  /* A budget, or the device's largest buffer, may make micro_batch smaller. Default: 0. */
  int shrinkable;
  /* graft_checkpoint_open will be called: the plan has memory for a copy of the state. Default: 0. */
  int checkpoints;
  /* A parameter is updated as soon as its gradient is complete, so that memory never holds all gradients. If a gradient
     is not finite, the step is an error and other parameters may have moved. Not with clip_norm or a loss scale; no
     effect with micro-batches. Default: 0. Flag: --optimizer-in-backward. */
  int optimizer_in_backward;
  /* If the device is lost, the trainer reopens it and repeats the step, to the same bits. Each step copies what it
     changes to host memory. 0: such a call returns GRAFT_DEVICE_LOST. Default: 0. */
  int recover_device;
  /* Every op and every tensor has its own dispatch: the same bits, slower. Default: 0. */
  int no_fusion;
  /* Measures the steps, which then take longer. Default: none. */
  struct graft_profile* profile;

  /* ---- Precision ---- */

  /* Storage of intermediate results and of weights that are not trained. Default: f32. */
  graft_precision precision;
  /* Initial scale of the loss, dynamic from there; 0: no scale; -1: 65536 for f16, no scale for others.
     Default: -1. Range: [-1, 1.2676506002282294e30]. Flag: --loss-scale. */
  double loss_scale;
  /* Steps without overflow that double the scale. Default: 2000. Range: [1, 16777216]. Flag: --growth-interval. */
  uint64_t growth_interval;

  /* ---- Workers: graft/distribute.h ---- */

  /* The other workers, with whom steps are taken; outlives the trainer. Not with fetch or recover_device.
     Default: none. */
  const struct graft_group* group;
  /* Longest wait for other workers within a step, in milliseconds; 0: no limit. Default: 0. */
  uint64_t group_timeout_ms;
  /* Longest wait between two steps, in milliseconds, as worker 0 may evaluate; 0: ten times group_timeout_ms.
     Default: 0. */
  uint64_t group_pause_ms;
} graft_trainer_options;

/* Fills in every default, those of the optimizer among them. `options` has its struct_size; of an older program's
   struct, the fields that it has are filled in. invalid_argument: no such optimizer, or no struct_size; nothing
   changed. */
GRAFT_API graft_status graft_trainer_options_init(graft_trainer_options* options, graft_optimizer optimizer);

GRAFT_END_C
#endif
