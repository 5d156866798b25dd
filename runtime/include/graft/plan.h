/* What a model does and takes, before anything runs: layers, the plan of a run or of a training step, memory against
 * work. `graft info` and `graft plan`. Part of graft.h, whose rules hold. It needs no device: see
 * graft_context_options.
 */
#include "graft/graft.h"

#ifndef GRAFT_PLAN_H
#define GRAFT_PLAN_H

#include "graft/memory.h"
#include "graft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* What a session or a trainer would do on the context's device, or for one of another kind. */
typedef struct graft_plan graft_plan;

/* What is planned. */
typedef struct graft_plan_options {
  size_t struct_size;
  const graft_trainer_options* training; /* a training step; NULL: inference */
  const graft_session_options* session;  /* of inference: bindings, the precision, the budget; NULL: the usual ones */
  const char* caps;                      /* another device by its name in `graft plan --caps`, as in "adreno-7xx" */
  int curve;                             /* 1: of training, memory against work: graft_plan_curve */
} graft_plan_options;

/* options may be NULL. out_of_memory where nothing fits the budget. */
GRAFT_API graft_status graft_plan_create(graft_model* model, const graft_plan_options* options, graft_plan** plan);
GRAFT_API void graft_plan_destroy(graft_plan* plan);
/* As graft_forecast_training; the explanation is valid as long as the plan. */
GRAFT_API graft_status graft_plan_forecast(const graft_plan* plan, graft_forecast* forecast);

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
} graft_plan_value;

/* How many values have memory; 0 for NULL. */
GRAFT_API size_t graft_plan_value_count(const graft_plan* plan);
/* not_found where index >= count. */
GRAFT_API graft_status graft_plan_value_at(const graft_plan* plan, size_t index, graft_plan_value* value);

#ifdef __cplusplus
}
#endif
#endif
