/* Two workers of one run, over a group of the app's own: threads that meet at a counter. Each keeps the optimizer's
   state of its part of the parameters. They end with the bits of a run of one. usage: workers_c MODEL */
#include <graft/distribute.h>
#include <graft/graft.h>
#include <graft/steps.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#define WORKERS 2
#define BATCH 8
#define STEPS 5

/* Where the workers meet. */
typedef struct meeting {
  mtx_t mutex;
  cnd_t changed;
  const void* const* out[WORKERS];
  const size_t* out_bytes[WORKERS];
  unsigned here, done;
  unsigned long rounds;
  int gone;
} meeting;

typedef struct worker {
  meeting* place;
  const char* model;
  uint32_t rank;
  int alone;
  int failed;
  double loss; /* of the last step */
} worker;

static graft_status exchange(void* user, size_t parts, const void* const* out, const size_t* out_bytes, void* const* in,
                             const size_t* in_bytes, uint64_t deadline_ms, char* message, size_t message_bytes) {
  const worker* const self = user;
  meeting* const place = self->place;
  graft_status status = GRAFT_OK;
  (void)deadline_ms; /* these workers cannot vanish */
  mtx_lock(&place->mutex);
  place->out[self->rank] = out;
  place->out_bytes[self->rank] = out_bytes;
  if (++place->here == WORKERS) cnd_broadcast(&place->changed);
  while (place->here < WORKERS && !place->gone) cnd_wait(&place->changed, &place->mutex);
  if (place->here < WORKERS) {
    snprintf(message, message_bytes, "Another worker has left.");
    mtx_unlock(&place->mutex);
    return GRAFT_CANCELLED;
  }
  for (size_t i = 0; i < parts * WORKERS; ++i) {
    const size_t r = i % WORKERS, theirs = i - r + self->rank; /* part * size + rank */
    if (place->out_bytes[r][theirs] != in_bytes[i]) {
      snprintf(message, message_bytes, "Worker %d gives another number of bytes than is expected.", (int)r);
      status = GRAFT_INVALID_ARGUMENT;
    } else if (in_bytes[i] > 0) {
      memcpy(in[i], place->out[r][theirs], in_bytes[i]);
    }
  }
  const unsigned long round = place->rounds;
  if (++place->done == WORKERS) {
    place->here = place->done = 0;
    ++place->rounds;
    cnd_broadcast(&place->changed);
  }
  while (place->rounds == round) cnd_wait(&place->changed, &place->mutex); /* others may still copy */
  mtx_unlock(&place->mutex);
  return status;
}

static void leave(void* user, graft_status why, const char* message) {
  meeting* const place = ((worker*)user)->place;
  if (why != GRAFT_OK) fprintf(stderr, "A worker stops: %s\n", message);
  mtx_lock(&place->mutex);
  place->gone = 1;
  cnd_broadcast(&place->changed);
  mtx_unlock(&place->mutex);
}

/* Samples first to first + count of a step; the others stay zero. */
static void samples_of(unsigned step, uint32_t first, uint32_t count, size_t elements, float* x, int32_t* labels) {
  memset(x, 0, BATCH * elements * sizeof *x);
  memset(labels, 0, BATCH * sizeof *labels);
  for (uint32_t i = first; i < first + count; ++i) {
    for (size_t k = 0; k < elements; ++k) x[i * elements + k] = (float)((step * 31 + i * 7 + k) % 17) / 17.0f;
    labels[i] = (int32_t)((step + i) % 10);
  }
}

static int train(worker* self) {
  graft_context_options context_options = {0};
  context_options.struct_size = sizeof context_options;
  graft_context_options_init(&context_options);
  graft_context* context = NULL;
  graft_model* model = NULL;
  graft_trainer* trainer = NULL;
  graft_tensor_info info;
  graft_group group = {sizeof group, self->rank, WORKERS, self, exchange, leave, NULL, NULL, 0, 0, 0, 0};
  group.shard_optimizer = 1;
  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  graft_trainer_options_init(&options, GRAFT_ADAMW);
  options.batch = BATCH;
  options.micro_batch = 2;
  options.group = self->alone ? NULL : &group;
  int good = graft_context_create(&context_options, &context) == GRAFT_OK &&
             graft_model_load(context, self->model, &model) == GRAFT_OK &&
             graft_model_tensor(model, GRAFT_INPUTS, 0, &info) == GRAFT_OK &&
             graft_trainer_create(model, &options, &trainer) == GRAFT_OK &&
             (self->alone || graft_trainer_join(trainer, NULL, NULL) == GRAFT_OK);
  size_t elements = 1;
  for (uint32_t i = 1; good && i < info.rank; ++i) elements *= (size_t)info.dims[i];
  float* const x = malloc(BATCH * elements * sizeof *x);
  int32_t labels[BATCH];
  for (unsigned step = 0; good && step < STEPS; ++step) {
    uint32_t first = 0, count = 0;
    graft_metrics metrics = {0};
    metrics.struct_size = sizeof metrics;
    good = graft_trainer_share(trainer, BATCH, &first, &count) == GRAFT_OK;
    samples_of(step, first, count, elements, x, labels);
    const void* inputs[] = {x};
    good = good && graft_train_step(trainer, inputs, 1, labels, BATCH, &metrics) == GRAFT_OK;
    self->loss = metrics.loss;
    uint32_t rank = 0, size = 1;
    if (good && !self->alone) {
      good = graft_trainer_rank(trainer, &rank, &size) == GRAFT_OK && rank == self->rank && size == WORKERS;
    }
  }
  /* Then worker 0 could write the state of both by graft_checkpoint_save(); at a signal, of its own accord. */
  if (good && !self->alone) good = graft_trainer_gather(trainer) == GRAFT_OK;
  int is_whole = 0;
  if (good) good = graft_trainer_request_whole(trainer, &is_whole) == GRAFT_OK && (is_whole || self->rank != 0);
  graft_worker_report report = {0};
  report.struct_size = sizeof report;
  if (good && !self->alone) good = graft_trainer_worker(trainer, self->rank, &report) == GRAFT_OK;
  /* Nobody is gone: where one were, the others would meet and join again. */
  if (good) good = graft_trainer_trouble(trainer) == GRAFT_GROUP_FINE;
  if (good) good = graft_trainer_meet(trainer, NULL) == GRAFT_INVALID_ARGUMENT;
  int ended = 0;
  if (good) good = graft_trainer_conclude(trainer, 1, &ended) == GRAFT_OK && ended;
  if (!good) fprintf(stderr, "worker %u: %s\n", self->rank, graft_message(context));
  graft_trainer_destroy(trainer);
  graft_model_destroy(model);
  graft_context_destroy(context);
  free(x);
  return good ? 0 : 1;
}

static int run(void* user) {
  worker* const self = user;
  self->failed = train(self);
  if (self->failed) leave(self, GRAFT_OK, "");
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: workers_c MODEL\n"), 2;
  graft_group own = {0}; /* What graft has for threads of one process, by itself. */
  if (graft_group_in_process(1, &own) != GRAFT_OK || own.size != 1) return 1;
  graft_group_release(&own);
  meeting place = {0};
  mtx_init(&place.mutex, mtx_plain);
  cnd_init(&place.changed);
  worker alone = {&place, argv[1], 0, 1, 0, 0};
  worker workers[WORKERS];
  thrd_t threads[WORKERS];
  run(&alone);
  place.gone = 0;
  for (uint32_t r = 0; r < WORKERS; ++r) {
    workers[r] = alone;
    workers[r].rank = r;
    workers[r].alone = 0;
    if (thrd_create(&threads[r], run, &workers[r]) != thrd_success) return fprintf(stderr, "no thread\n"), 1;
  }
  int failed = alone.failed;
  for (uint32_t r = 0; r < WORKERS; ++r) {
    thrd_join(threads[r], NULL);
    failed = failed || workers[r].failed || workers[r].loss != alone.loss;
  }
  printf("%d workers: loss %.9g, alone %.9g\n", WORKERS, workers[0].loss, alone.loss);
  cnd_destroy(&place.changed);
  mtx_destroy(&place.mutex);
  return failed;
}
