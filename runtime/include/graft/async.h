/* graft's C ABI, beside the app's own work: runs and steps that do not block, cancelling, pace and progress of calls.
 * Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_ASYNC_H
#define GRAFT_ASYNC_H

#include "graft/data.h"
#include "graft/generate.h"
#include "graft/train.h"

GRAFT_BEGIN_C

/* Told once that what was asked for is over: GRAFT_OK and "", or a failure and its sentence, which is valid during the
   call. It comes on a thread of the context, outside of any call: it may call graft, and what is asked for meanwhile
   waits until it returns. */
typedef void (*graft_done)(void* user, graft_status status, const char* message);

/* graft_session_run, which begins when what was asked for on this context before is done, and is told to `done`. Where
   the call itself fails, `done` is not told. Until then other calls on the context wait as they do for any call; the
   session may be destroyed, and goes when the run is over. graft_task_cancel ends it, begun or not. */
GRAFT_API graft_status graft_session_run_async(graft_session* session, graft_done done, void* user);
/* graft_train_step in the same way. The samples and `metrics`, which may be NULL, must stay where they are until `done`
   is told; the array `inputs` need not. */
GRAFT_API graft_status graft_train_step_async(graft_trainer* trainer, const void* const* inputs, size_t input_count,
                                              const void* target, uint32_t samples, graft_metrics* metrics,
                                              graft_done done, void* user);

/* graft_train_next in the same way; `more` and `metrics`, which may be NULL, must stay where they are. */
GRAFT_API graft_status graft_train_next_async(graft_trainer* trainer, graft_loader* loader, int* more,
                                              graft_metrics* metrics, graft_done done, void* user);
/* graft_generate in the same way: callbacks of the options come on a thread of the context, what they refer to must
   stay, the prompt, the options and their stop strings need not. graft_generator_last has what was generated. */
GRAFT_API graft_status graft_generate_async(graft_generator* generator, const char* prompt,
                                            const graft_generate_options* options, graft_done done, void* user);

/* ---- Tasks: to wait for what was asked for, and to cancel that alone ------------------------------------------- */

/* One thing at a time that was asked for: give graft_task_done for `done` and the task for `user` to any function
   above. Its functions take no lock of the context, so that they do not wait for calls. */
typedef struct graft_task graft_task;

/* It serves for one thing after another. */
GRAFT_API graft_status graft_task_create(graft_context* context, graft_task** task);
/* What was asked for goes on. */
GRAFT_API void graft_task_destroy(graft_task* task);
/* A graft_done; not to be called. */
GRAFT_API void graft_task_done(void* task, graft_status status, const char* message);
/* Waits until what the task was given to is over, and writes how it ended to `outcome`. GRAFT_TIMEOUT: it is not over
   after so many milliseconds; 0 only looks, below 0 waits without end. GRAFT_INVALID_ARGUMENT: it was given to nothing,
   or what it waits for could not be over before this callback returns. */
GRAFT_API graft_status graft_task_wait(graft_task* task, double timeout_ms, graft_status* outcome);
/* The sentence of the failure, once it is over; else "". Valid until the task is given to something else. */
GRAFT_API const char* graft_task_message(graft_task* task);
/* A call that waits does not begin; one that has begun ends at its next look, as by graft_cancel. Both end as
   GRAFT_CANCELLED. No other call on the context does: a cancel that comes too late for this call is dropped. This is
   the way to cancel one step, run or text. From any thread. */
GRAFT_API void graft_task_cancel(graft_task* task);

/* ---- Cancelling and pace of all calls on a context --------------------------------------------------------------- */

/* Cancels the call in progress on the context; without one, or if it no longer looks, the next call that looks. Exactly
   one call returns GRAFT_CANCELLED for it, and no cancel is lost. May be called from any thread, from callbacks and
   from signal handlers. Several cancels before that call returns count as one. A call looks before each submission to
   the device: training, evaluation, running, generating and gradients. Planning looks between the orders that it tries,
   and the making of sessions and generators after every few kernels. (For conversions see graft_convert_options.) A
   submission that has begun is done first, so that a step that is a single submission ends with GRAFT_OK, and the next
   call returns GRAFT_CANCELLED at once; graft_set_pace makes submissions shorter. All other calls (reading, saving,
   setting inputs) neither look nor take the cancel away. Nothing has changed after GRAFT_CANCELLED, but that the
   outputs of a session's last run are gone. A training step is left between two micro-batches, at the latest when the
   one that has begun to change accumulators or parameters is done: ask again with the same samples, and it goes on to
   the same bits. To cancel one call and never another, run it with a task: graft_task_cancel (graft/async.h). */
GRAFT_API void graft_cancel(graft_context* context);
/* Withdraws a graft_cancel that no call has returned GRAFT_CANCELLED for; 1 if there was one, else 0. From any thread.
   For an app that cancelled a loop and has left it: its next call is then another one. */
GRAFT_API int graft_uncancel(graft_context* context);
/* How much of the device calls on this context take, from any thread, also while one is in progress. It changes no bit.
   slice_ms: how long the device shall work at most before others get a turn, 0.5 to 60000; 0 for about 100. What was
   longer twice is submitted in pieces from then on, large dispatches by their workgroups; the first runs, copies of
   state, and kernels that a driver compiles at their first use may take longer.
   duty: the share of time in which the device works, 0.01 to 1; 0 is 1. Calls rest in between, until graft_cancel.
   With a slice the context logs its submissions. GRAFT_INVALID_ARGUMENT for numbers outside. */
GRAFT_API graft_status graft_set_pace(graft_context* context, double slice_ms, double duty);

/* ---- Progress --------------------------------------------------------------------------------------------------- */

/* What a call is at, and what is counted there. */
typedef enum graft_stage GRAFT_ENUM_OF_INT {
  GRAFT_STAGE_KERNELS = 0, /* kernels that are compiled, where a session, generator or trainer is made */
  GRAFT_STAGE_SAMPLES = 1, /* samples of a training step or an evaluation */
  GRAFT_STAGE_PROMPT = 2,  /* tokens of a prompt that the caches take in */
  GRAFT_STAGE_ANSWER = 3,  /* tokens that were generated, of at most so many */
  GRAFT_STAGE_PLAN = 4     /* passes over graphs and orders that planning went through; nobody knows how many follow */
} graft_stage;

/* Told how far a call is, on that call's thread: `done` of `total`, or total 0 where it is not known. It must not call
   graft, but for graft_cancel. */
typedef void (*graft_progress)(void* user, graft_stage stage, uint64_t done, uint64_t total);

/* From now on `progress` is told; NULL: nobody. Waits for a call in progress. */
GRAFT_API graft_status graft_set_progress(graft_context* context, graft_progress progress, void* user);

GRAFT_END_C
#endif
