/* What a model does and takes, before anything runs: layers, the plan of a run or of a training step, memory against
 * work. `graft info` and `graft plan`. Part of graft.h, whose rules hold. It needs no device: see
 * graft_context_options.
 */
#include "graft/graft.h"

#ifndef GRAFT_PLAN_H
#define GRAFT_PLAN_H

#include "graft/memory.h"
#include "graft/train.h"

GRAFT_BEGIN_C

/* ---- Layers --------------------------------------------------------------------------------------------------- */

/* A node of the model's graph. */
typedef struct graft_layer {
  const char* name;
  const char* op;
  const char* shape;   /* of its first output, with names of dimensions, as in "[batch, 10]" */
  uint64_t parameters; /* elements that are trained; a weight that several use belongs to the first */
  uint64_t bytes;      /* of weights, trained or not */
  uint64_t flops;      /* forward, with the bindings */
} graft_layer;

/* In the order of the graph; valid until the model's next call of this. Dimensions without a binding have the model's
   own size, else 1. */
GRAFT_API graft_status graft_model_layers(graft_model* model, const graft_binding* bindings, size_t binding_count,
                                          const graft_layer** layers, size_t* count);

/* ---- Plans ---------------------------------------------------------------------------------------------------- */

/* What a session or a trainer would do on the context's device, or on one that is not here. */
typedef struct graft_plan graft_plan;

/* What is planned. graft_plan_options_init() fills in the defaults. */
typedef struct graft_plan_options {
  size_t struct_size;
  /* A training step; without it, inference is planned. Default: none. */
  const graft_trainer_options* training;
  /* Inference: bindings, the precision, the budget. Default: none. */
  const graft_session_options* session;
  /* Another device: a name of graft_known_device_at(), as in "adreno-7xx", or the output of `graft devices --json` for
     it, as the name of a file that ends in .json, or as text that begins with '{' or '['. By default the context's.
     Default: none. */
  const char* caps;
  /* Of training, memory against work: graft_plan_curve. Default: 0. */
  int curve;
  /* Output of `graft bench device --json` for that device, as the name of a file or as text, or the name of a known
     device with figures, or "" for those of the device that is planned for: the time is estimated from it.
     invalid_argument: nothing is known of it. Not of several workers. Default: none. */
  const char* figures;
  /* The report says what each pass over the graph did. Default: 0. */
  int passes;
  /* Of inference, every op and every tensor has its own dispatch. Default: 0. */
  int no_fusion;
  /* Of training: the plan is for each of this many workers of one run (graft/distribute.h).
     Default: 1. Range: [1, inf). */
  uint32_t workers;
  /* What worker 0 of these needs if they share the optimizer's state. Default: 0. */
  int shard_optimizer;
  /* Instead of the context's; GRAFT_MATMUL_HIGHEST: the context's. Default: highest. */
  graft_matmul_precision matmul_precision;
  /* Largest device memory in bytes besides the weights, instead of the session's budget; graft_trainer_options has its
     own for training. Costs one more planning. 0: none. Default: 0. */
  uint64_t budget_beside_weights;
} graft_plan_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_plan_options_init(graft_plan_options* options);

/* A device that graft knows without having it. */
typedef struct graft_known_device {
  size_t struct_size;
  const char* name; /* for graft_plan_options */
  const char* summary;
  int has_figures; /* 1: also how fast it is, by what its maker publishes */
} graft_known_device;

/* Those without figures first. GRAFT_NOT_FOUND, without a message, where index is beyond the last. */
GRAFT_API graft_status graft_known_device_at(size_t index, graft_known_device* device);

/* options may be NULL. out_of_memory where nothing fits the budget. */
GRAFT_API graft_status graft_plan_create(graft_model* model, const graft_plan_options* options, graft_plan** plan);
GRAFT_API void graft_plan_destroy(graft_plan* plan);
/* As graft_forecast_training; the explanation is valid as long as the plan. */
GRAFT_API graft_status graft_plan_forecast(const graft_plan* plan, graft_forecast* forecast);

/* What a plan says beside its forecast. */
typedef struct graft_plan_info {
  size_t struct_size;
  const char* device;     /* that it is for, valid as long as the plan */
  uint64_t largest_heap;  /* of that device, in bytes: what plans live in; 0: not known */
  uint64_t budget;        /* that was kept to; 0: none */
  uint64_t unconstrained; /* bytes that training would take without it; 0: not known */
  uint32_t micro_batches; /* of a step; 1 of inference */
  int accumulates;        /* 1: an update of its own takes the optimizer's step after the micro-batches */
  uint64_t arena;         /* bytes for values that come and go */
  uint64_t lower_bound;   /* in use at the fullest moment: no arena needs less in this order */
  size_t peak_node;       /* where that is; the number of nodes where nothing comes and goes */
  uint64_t bytes_moved;   /* read and written by a run of the nodes */
  uint32_t dispatches, kernels, barriers;
  uint32_t submissions; /* at most */
  /* Of several workers: micro-batches of a step, the most of these of one, bytes of the host's memory for gradients,
     and bytes that one sends in a step and receives; 0 of one. */
  uint64_t worker_slots, worker_most, worker_host_bytes, worker_sent_bytes;
  /* With graft_plan_options.figures: of a step or a forward pass; 0 without. They are for comparing models, batches and
     devices: see "error" of the report. */
  double seconds, arithmetic_seconds, memory_seconds, dispatching_seconds;
} graft_plan_info;

/* Fills info. */
GRAFT_API graft_status graft_plan_describe(const graft_plan* plan, graft_plan_info* info);
/* All of it as a JSON object, which docs/reference/formats.md describes: memory by class, saved and recomputed values,
   layers, nodes and which kernels they take for which reason, values and where they lie, what is kept in 16 bits, and
   what was asked for beside. Valid until the plan's next call of this. */
GRAFT_API graft_status graft_plan_report(graft_plan* plan, const char** json);
/* What a build of graft (GRAFT_OPS of its CMakeLists.txt) must hold for the model, as the text of a file: the ops and
   kernels of inference, of text where it is a language model, and with options->training of training. Both `training`
   and `session` may be given. for_one: 1: for the device of `caps`, or without for the context's; 0: for all that graft
   knows. Takes as long as some dozens of plans. Valid until the model's next call of this. */
GRAFT_API graft_status graft_model_parts(graft_model* model, const graft_plan_options* options, int for_one,
                                         const char** text);

/* One choice between memory and work: some results are computed again in the backward pass. */
typedef struct graft_plan_point {
  uint64_t bytes; /* of the whole run, at least */
  uint64_t extra_flops;
  uint64_t extra_bytes; /* read and written */
  uint32_t recomputed;  /* results that are computed again */
} graft_plan_point;

/* By falling memory; the first computes nothing again. Valid as long as the plan. not_found: it was not asked for. */
GRAFT_API graft_status graft_plan_curve(const graft_plan* plan, const graft_plan_point** points, size_t* count);

/* What runs, in order; fused nodes as one. */
typedef struct graft_plan_node {
  size_t struct_size;
  const char* name;
  const char* op;
  int backward;   /* 1: it serves a forward node */
  int recomputed; /* 1: it repeats one */
  uint64_t flops;
  uint64_t bytes;         /* read and written */
  uint64_t scratch_bytes; /* workspace */
  uint64_t live_bytes;    /* of results that are in memory while it runs */
  uint32_t dispatches;
  uint32_t parts; /* nodes of the network that it is: more than 1 where it was fused */
} graft_plan_node;

/* How many nodes the plan has; 0 for NULL. */
GRAFT_API size_t graft_plan_node_count(const graft_plan* plan);
/* not_found where index >= count. Texts are valid as long as the plan. */
GRAFT_API graft_status graft_plan_node_at(const graft_plan* plan, size_t index, graft_plan_node* node);

/* A value, and where in memory it lies while which nodes run. */
typedef struct graft_plan_value {
  size_t struct_size;
  const char* name;
  const char* memory_class; /* "weights", "activations", ... as the members of graft_memory */
  uint64_t offset;          /* in memory of its kind */
  uint64_t bytes;
  uint32_t first; /* the node that needs it first */
  uint32_t last;  /* and last; the number of nodes where it is kept to the end */
  int saved;      /* 1: it outlives the forward pass for the backward pass */
  /* Of the arena: values of the same number share memory, views and results that overwrite operands; else -1. */
  int64_t storage;
} graft_plan_value;

/* How many values have memory; 0 for NULL. */
GRAFT_API size_t graft_plan_value_count(const graft_plan* plan);
/* not_found where index >= count. */
GRAFT_API graft_status graft_plan_value_at(const graft_plan* plan, size_t index, graft_plan_value* value);

GRAFT_END_C
#endif
