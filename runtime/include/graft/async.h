/* graft's C ABI, beside the app's own work: runs and steps that do not block, and progress of calls. Part of graft.h,
 * whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_ASYNC_H
#define GRAFT_ASYNC_H

#include "graft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Told once that what was asked for is over: GRAFT_OK and "", or a failure and its sentence, which is valid during the
   call. It comes on a thread of the context, outside of any call: it may call graft, and what is asked for meanwhile
   waits until it returns. */
typedef void (*graft_done)(void* user, graft_status status, const char* message);

/* graft_session_run, which begins when what was asked for on this context before is done, and is told to `done`. Where
   the call itself fails, `done` is not told. Until then other calls on the context wait as they do for any call; the
   session may be destroyed, and goes when the run is over. graft_cancel ends a run that has begun. */
GRAFT_API graft_status graft_session_run_async(graft_session* session, graft_done done, void* user);
/* graft_train_step in the same way. The samples and `metrics`, which may be NULL, must stay where they are until `done`
   is told; the array `inputs` need not. */
GRAFT_API graft_status graft_train_step_async(graft_trainer* trainer, const void* const* inputs, size_t input_count,
                                              const void* target, uint32_t samples, graft_metrics* metrics,
                                              graft_done done, void* user);

/* What a call is at, and what is counted there. */
typedef enum graft_stage GRAFT_ENUM_OF_INT {
  GRAFT_STAGE_KERNELS = 0, /* kernels that are compiled, where a session, generator or trainer is made */
  GRAFT_STAGE_SAMPLES = 1, /* samples of a training step or an evaluation */
  GRAFT_STAGE_PROMPT = 2   /* tokens of a prompt that the caches take in */
} graft_stage;

/* Told how far a call is, on that call's thread: `done` of `total`, or total 0 where it is not known. It must not call
   graft, but for graft_cancel. */
typedef void (*graft_progress)(void* user, graft_stage stage, uint64_t done, uint64_t total);

/* From now on `progress` is told; NULL: nobody. Waits for a call in progress. */
GRAFT_API graft_status graft_set_progress(graft_context* context, graft_progress progress, void* user);

#ifdef __cplusplus
}
#endif
#endif
