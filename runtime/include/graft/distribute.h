/* graft's C ABI, several workers of one run. Part of graft.h, whose rules hold.
 *
 * Each worker makes a trainer of the same model and options, with a graft_group of its own, and takes the same steps.
 * The micro-batches of a step are shared among the workers; their gradients are added up in their order whoever
 * computed them, so that all workers have the bits that one alone would have, on devices and drivers that give the same
 * bits.
 *
 * Before each step all compare what changes it, and a difference is an error of all that names it. Worker 0's learning
 * rate counts: set it there alone, or to the same value on all. graft_trainer_observe() is called by worker 0; what it
 * lowers the others follow, and where it says stop, the next graft_train_next() of all says that there is no more.
 */
#ifndef GRAFT_DISTRIBUTE_H
#define GRAFT_DISTRIBUTE_H

#include "graft/graft.h"

GRAFT_BEGIN_C

/* One worker's end of a group, made by the app over MPI, NCCL, gRPC, ..., or by graft/gloo.h. All workers make the same
 * calls in the same order. Calls come one at a time, leave() from the same thread. */
typedef struct graft_group {
  size_t struct_size;
  uint32_t rank; /* 0 to size - 1 */
  uint32_t size;
  void* user; /* for the functions */
  /* Gives as many `parts` to every worker, this one included, and takes as many from each: out_bytes[i] bytes of out[i]
   * go to worker r and in_bytes[i] bytes come to in[i] from it, where i is part * size + r, for every part and r. The
   * number of parts is the same for all. Parts may be empty. Returns when `out` may change. Fails, with a sentence in
   * `message`, where a worker is gone or does not come within deadline_ms (UINT64_MAX: no deadline); then every later
   * call fails as well. */
  graft_status (*exchange)(void* user, size_t parts, const void* const* out, const size_t* out_bytes, void* const* in,
                           const size_t* in_bytes, uint64_t deadline_ms, char* message, size_t message_bytes);
  /* This worker makes no further call: what the others wait for fails, and says why. GRAFT_OK: its work is done. */
  void (*leave)(void* user, graft_status why, const char* message);
  /* After exchange() has failed because a worker is gone: those that are left meet again, with new ranks in the order
   * of the old ones, and whoever waited to take part behind them. The run goes on with them, from the step that worker
   * 0 is at, who may be another than before. NULL: the group ends with its first failure. */
  graft_status (*reform)(void* user, uint32_t* rank, uint32_t* size, char* message, size_t message_bytes);
  /* Asked of worker 0 before each step: whether somebody waits to take part. Not 0: the step fails as if a worker were
   * gone, and reform() lets it in. Does not wait. NULL: nobody comes later. */
  int (*waiting)(void* user);

  /* How they share a step, the same for all workers. 0: as they always do. */
  /* Not 0: each keeps the optimizer's state of some parameters alone (ZeRO-1), to the same bits. Worker 0's checkpoint
   * asks the others for theirs by itself; before graft_checkpoint_save() all call graft_trainer_gather(). Where a
   * worker is lost, its part is: make new trainers and resume from the checkpoint. */
  int shard_optimizer;
  /* Not 0: whoever is slower gets fewer micro-batches from step to step, which changes no bit. Loaders follow by
   * themselves; whoever gives samples asks graft_trainer_share() before each step. */
  int moves_shares;
  /* Not 0: gradients are rounded to bf16 on their way, half the bytes. Not the bits of one worker, though the same for
   * any number of several. */
  int bf16_wire;
  /* Not 0: gradients of a micro-batch are sent while the next is computed, by a thread that calls exchange() instead of
   * the trainer's. */
  int overlap;
} graft_group;

/* The ends of a group of threads of one process, `size` of them by rank: each for a trainer of a context of its own.
 * Its workers cannot vanish, so that it has no reform(). GRAFT_INVALID_ARGUMENT: a size of 0 or above 1024. */
GRAFT_API graft_status graft_group_in_process(uint32_t size, graft_group* ends);
/* Gives what one of them holds back, after its trainer has gone; it has left then. */
GRAFT_API void graft_group_release(graft_group* end);

/* Of a trainer with graft_trainer_options.group, before its first step and by all workers: sees that all trainers were
 * made alike (GRAFT_INVALID_ARGUMENT names what differs), and gives worker 0's state to all. Worker 0 opens its
 * checkpoint before that; the others need none. Steps are then taken together, by graft_train_step or graft_train_next.
 * `loader`: the one of graft_train_next, which from here on reads this worker's samples only; NULL where the app gives
 * the samples. *step, unless NULL: the steps that are done.
 *
 * An error ends the group. But where a step fails with GRAFT_IO_ERROR or GRAFT_TIMEOUT because a worker is gone or
 * another one waits, and the group has reform(), all that are left call this again and go on from *step: the one that
 * failed, or, for a worker that had just ended it, that one once more. graft_trainer_rank() says who a worker is then.
 */
GRAFT_API graft_status graft_trainer_join(graft_trainer* trainer, graft_loader* loader, uint64_t* step);
/* What ended the group's last step, or graft_trainer_join. */
typedef enum graft_group_trouble GRAFT_ENUM_OF_INT {
  GRAFT_GROUP_FINE = 0,
  GRAFT_GROUP_LOST = 1,     /* a worker is gone: graft_trainer_join goes on without it */
  GRAFT_GROUP_NEWCOMER = 2, /* one waits: graft_trainer_join lets it in */
  GRAFT_GROUP_DIFFERS = 3   /* some workers' parameters are not those of the others: graft_trainer_join gives them
                               worker 0's */
} graft_group_trouble;

/* GRAFT_GROUP_FINE for a worker that is alone, too. */
GRAFT_API graft_group_trouble graft_trainer_trouble(const graft_trainer* trainer);
/* The first half of graft_trainer_join, where a worker is gone or waits: those that are left meet, by reform(), and
 * have new ranks. Whoever is worker 0 then may open the run's checkpoint with graft_checkpoint_options.take_over,
 * before all call graft_trainer_join, which gives its state to the others. A failure with GRAFT_IO_ERROR or
 * GRAFT_TIMEOUT: meet again. */
GRAFT_API graft_status graft_trainer_meet(graft_trainer* trainer, graft_loader* loader);
/* After the last step, by all workers, again and again: returns once all have ended it, so that nobody is missed who is
 * still needed. *ended becomes 1 where worker 0 has said `finished`, 0 where it has things to do, such as to save;
 * until then the others call this again. The optimizer's state of all is with worker 0 then (graft_trainer_gather).
 * Fails as a step does. */
GRAFT_API graft_status graft_trainer_conclude(graft_trainer* trainer, int finished, int* ended);
/* Which of how many workers this one is now: reform() changes both. */
GRAFT_API graft_status graft_trainer_rank(const graft_trainer* trainer, uint32_t* rank, uint32_t* size);
/* Which samples of a step's batch of `samples` this worker computes; the contents of the others are not looked at.
 * Where a resumed run is in the middle of a step, that step needs all of them: *count is `samples`. */
GRAFT_API graft_status graft_trainer_share(const graft_trainer* trainer, uint32_t samples, uint32_t* first,
                                           uint32_t* count);
/* Asks worker 0's next step to end with what graft_trainer_gather brings, and those after it as long as it is not
 * there, before a snapshot that the app decides upon alone, as at a signal. *is_whole, which may be NULL, is 1 where it
 * is there now, as without shard_optimizer always. */
GRAFT_API graft_status graft_trainer_request_whole(graft_trainer* trainer, int* is_whole);
/* With graft_group.shard_optimizer, by all workers between the same steps: until the next one worker 0 has the
 * optimizer's state of all, for graft_checkpoint_save(). Else nothing is to be done. */
GRAFT_API graft_status graft_trainer_gather(graft_trainer* trainer);

GRAFT_END_C
#endif
