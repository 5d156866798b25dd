/* graft's C ABI, several workers of one run. Part of graft.h, whose rules hold.
 *
 * Each worker makes a trainer of the same model and options, with a graft_group of its own, and takes the same steps. The
 * micro-batches of a step are shared among the workers; their gradients are added up in their order whoever computed
 * them, so that all workers have the bits that one alone would have, on devices and drivers that give the same bits.
 */
#ifndef GRAFT_DISTRIBUTE_H
#define GRAFT_DISTRIBUTE_H

#include "graft/graft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One worker's end of a group, made by the app over MPI, NCCL, gRPC, ..., or by graft/gloo.h. All workers make the same
 * calls in the same order. Calls come one at a time, leave() from the same thread. */
typedef struct graft_group {
  size_t struct_size;
  uint32_t rank; /* 0 to size - 1 */
  uint32_t size;
  void* user; /* for the functions */
  /* Gives out_bytes[r] bytes of out[r] to worker r and takes in_bytes[r] bytes to in[r] from it, for every r, this worker
   * included. Returns when `out` may change. Fails, with a sentence in `message`, where a worker is gone or does not come
   * within deadline_ms (UINT64_MAX: no deadline); then every later call fails as well. */
  graft_status (*exchange)(void* user, const void* const* out, const size_t* out_bytes, void* const* in,
                           const size_t* in_bytes, uint64_t deadline_ms, char* message, size_t message_bytes);
  /* This worker makes no further call: what the others wait for fails, and says why. GRAFT_OK: its work is done. */
  void (*leave)(void* user, graft_status why, const char* message);
} graft_group;

#ifdef __cplusplus
}
#endif
#endif
