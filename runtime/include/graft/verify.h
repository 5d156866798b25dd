/* Whether a model's file is whole, and whether a device computes its ops as double precision does: `graft verify`. Part
 * of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_VERIFY_H
#define GRAFT_VERIFY_H

GRAFT_BEGIN_C

/* Bytes of a weight that are not what the file's checksums say. */
typedef struct graft_damage {
  const char* weight;
  uint64_t first_byte; /* in the file */
  uint64_t last_byte;
} graft_damage;

/* Reads all weights of the file. damage: all that is found, valid until the model's next call of this; *count 0: it is
   whole. Needs no device, and a model that was opened without a check at once. */
GRAFT_API graft_status graft_model_find_damage(graft_model* model, const graft_damage** damage, size_t* count);

/* Of the model's weights in its file, which graft_model_find_damage() reads; 0 for NULL. */
GRAFT_API uint64_t graft_model_weight_bytes(const graft_model* model);

/* How ops are compared. graft_verify_options_init() fills in the defaults. */
typedef struct graft_verify_options {
  size_t struct_size;
  /* Sizes of named dimensions; others have the model's own size, or 1. Default: none. */
  const graft_binding* bindings;
  size_t binding_count;
  /* Seed of the random inputs. Default: 1. */
  uint64_t seed;
  /* Largest error, over the root mean square of the values. Default: 1e-4. Range: [0, inf). */
  double tolerance;
} graft_verify_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_verify_options_init(graft_verify_options* options);

/* What became of one node; texts are valid during the call. */
typedef struct graft_node_verdict {
  size_t struct_size;
  const char* node;
  const char* op;
  double forward;      /* largest difference over the outputs' root mean square */
  double gradient;     /* the same of gradients; -1: the op has none */
  const char* failure; /* why it could not be compared; "" where it was */
  int passed;
  uint64_t done;  /* nodes that were looked at, */
  uint64_t total; /* of so many */
} graft_node_verdict;

/* Runs the model once in double precision on random inputs, and each node that differs from those before it on the
   device, with the values that reached it, forward and backward; also as the device fuses them. `report` is told of
   each on the calling thread (not 0 ends it: cancelled), and must not call graft; it may be NULL. device_error: some
   differ; *nodes and *failed, which may be NULL, are set then, too. */
GRAFT_API graft_status graft_model_verify(graft_model* model, const graft_verify_options* options,
                                          int (*report)(void* user, const graft_node_verdict* verdict), void* user,
                                          size_t* nodes, size_t* failed);

GRAFT_END_C
#endif
