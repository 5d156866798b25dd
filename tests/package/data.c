/* Trains on a data set as `graft train MODEL --data SPEC --steps STEPS --seed 3 --batch 32 -o OUT` does, to the same
   bytes; stopped half way and resumed. Then on samples in memory and of a function.
   usage: data MODEL SPEC STEPS CHECKPOINT_FOLDER OUT */
#include <graft/graft.h>
#include <graft/steps.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* Samples of a kind each: a picture of one shade, and which it is. */
static int shade(void* user, uint64_t index, void* const* out) {
  const size_t count = *(const size_t*)user;
  for (size_t i = 0; i < count; ++i) ((float*)out[0])[i] = (float)(index % 10) * 0.1f;
  *(int32_t*)out[1] = (int32_t)(index % 10);
  return 1;
}

/* Trains until `until` steps are done; the folder keeps the run. */
static int train(graft_context* context, graft_model* model, const char* spec, const char* folder, uint64_t until) {
  graft_data_set* set = NULL;
  graft_loader* loader = NULL;
  graft_trainer* trainer = NULL;
  if (graft_data_open(context, spec, &set) != GRAFT_OK) return fail(context, "data");
  printf("%llu samples of %zu fields\n", (unsigned long long)graft_data_samples(set), graft_data_field_count(set));
  graft_loader_options order = {0};
  order.struct_size = sizeof order;
  graft_loader_options_init(&order);
  order.batch = 32;
  order.seed = 3;
  if (graft_loader_create(set, &order, &loader) != GRAFT_OK) return fail(context, "loader");
  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  graft_trainer_options_init(&options, GRAFT_ADAMW);
  options.batch = 32;
  options.seed = 3;
  options.checkpoints = 1;
  options.data = set;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  graft_checkpoint_options kept = {0};
  kept.struct_size = sizeof kept;
  graft_checkpoint_options_init(&kept);
  kept.folder = folder;
  kept.resume = 1;
  kept.loader = loader;
  if (graft_checkpoint_open(trainer, &kept, NULL) != GRAFT_OK) return fail(context, "checkpoint");
  graft_metrics metrics = {0};
  metrics.struct_size = sizeof metrics;
  int more = 1;
  graft_task* task = NULL;
  graft_status outcome = GRAFT_OK;
  if (graft_task_create(context, &task) != GRAFT_OK) return 1;
  while (more && metrics.step < until) {
    if (metrics.step % 3 == 2) { /* In pieces, between which the app may be suspended. */
      int done = 0;
      while (more && !done) {
        if (graft_train_next_part(trainer, loader, &more, &done) != GRAFT_OK) return fail(context, "part");
      }
      metrics.step += done ? 1 : 0;
      continue;
    }
    if (metrics.step % 2 == 0) {
      if (graft_train_next(trainer, loader, &more, &metrics) != GRAFT_OK) return fail(context, "step");
      continue;
    }
    /* Every second one beside the app, which would draw a frame instead of looking again: the same steps. */
    if (graft_train_next_async(trainer, loader, &more, &metrics, graft_task_done, task) != GRAFT_OK) return 1;
    while (graft_task_wait(task, 10, &outcome) == GRAFT_TIMEOUT) continue;
    if (outcome != GRAFT_OK) {
      fprintf(stderr, "step: %s\n", graft_task_message(task));
      return 1;
    }
  }
  graft_task_destroy(task);
  printf("step %llu, loss %f\n", (unsigned long long)metrics.step, metrics.loss);
  if (graft_checkpoint_save(trainer, NULL) != GRAFT_OK) return fail(context, "save checkpoint");
  if (graft_trainer_store(trainer) != GRAFT_OK) return fail(context, "store");
  graft_trainer_destroy(trainer);
  graft_loader_destroy(loader);
  graft_data_destroy(set);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const uint64_t steps = strtoull(argv[3], NULL, 10);
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  /* Half of the steps, and the rest by a model and a trainer that know nothing of them. */
  graft_model* model = NULL;
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "load");
  if (train(context, model, argv[2], argv[4], steps / 2) != 0) return 1;
  graft_model_destroy(model);
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "load");
  if (train(context, model, argv[2], argv[4], steps) != 0) return 1;
  if (graft_model_save(model, argv[5]) != GRAFT_OK) return fail(context, "save");

  /* The same fields, filled by a function and then from memory. */
  graft_data_set* set = NULL;
  graft_field fields[2];
  if (graft_data_open(context, argv[2], &set) != GRAFT_OK) return fail(context, "data");
  for (size_t i = 0; i < 2; ++i) {
    if (graft_data_field(set, i, &fields[i]) != GRAFT_OK) return fail(context, "field");
  }
  size_t count = 1;
  for (uint32_t i = 0; i < fields[0].rank; ++i) count *= (size_t)fields[0].dims[i];
  graft_data_set* made = NULL;
  graft_loader* loader = NULL;
  graft_batch batch = {0};
  batch.struct_size = sizeof batch;
  graft_loader_options once = {0};
  once.struct_size = sizeof once;
  graft_loader_options_init(&once);
  once.epochs = 1;
  if (graft_data_from_callback(context, fields, 2, 64, shade, &count, &made) != GRAFT_OK) return fail(context, "made");
  if (graft_loader_create(made, &once, &loader) != GRAFT_OK) return fail(context, "loader");
  if (graft_loader_next(loader, &batch) != GRAFT_OK) return fail(context, "batch");
  graft_data_set* held = NULL;
  if (graft_data_from_memory(context, fields, 2, batch.fields, batch.samples, &held) != GRAFT_OK) {
    return fail(context, "memory");
  }
  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  graft_trainer_options_init(&options, GRAFT_ADAMW);
  options.data = held;
  options.ema = 0.99;
  graft_trainer* trainer = NULL;
  graft_metrics metrics = {0};
  metrics.struct_size = sizeof metrics;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  if (graft_evaluate_data(trainer, held, &metrics) != GRAFT_OK) return fail(context, "evaluate");
  if (graft_trainer_store_ema(trainer) != GRAFT_OK) return fail(context, "the running means");
  printf("%llu shades: loss %f, accuracy %.3f\n", (unsigned long long)batch.samples, metrics.loss, metrics.accuracy);
  /* And a run from the first step on, from weights as the model has them. */
  if (graft_trainer_restart(trainer, model) != GRAFT_OK) return fail(context, "restart");
  graft_trainer_destroy(trainer);

  /* Would these weights pass? With a path and an old model, graft_gate puts them in its place. */
  graft_gate_options gate = {0};
  gate.struct_size = sizeof gate;
  gate.conditions = "accuracy>=0";
  graft_gate_result verdict = {0};
  verdict.struct_size = sizeof verdict;
  if (graft_gate(model, NULL, held, &gate, NULL, &verdict) != GRAFT_OK) return fail(context, "gate");
  printf("accuracy %.3f: %s\n", verdict.now, verdict.passed ? "passed" : verdict.reason);
  graft_gate_row row = {0};
  row.struct_size = sizeof row;
  if (graft_gate_condition(model, 0, &row) != GRAFT_OK || !row.holds) return fail(context, "the condition");
  graft_comparison change = {0};
  change.struct_size = sizeof change;
  if (graft_gate_compare(model, &change) != GRAFT_NOT_FOUND) return fail(context, "there was no old model");
  /* The last samples alone, as to evaluate on; they are no text, whose tokens could be shown. */
  if (graft_data_narrow(held, batch.samples - 1, 1) != GRAFT_OK) return fail(context, "a part");
  const graft_shown_token* tokens = NULL;
  size_t shown = 0;
  if (graft_data_shown(held, 0, &tokens, &shown) != GRAFT_NOT_FOUND) return fail(context, "tokens");
  /* Three clients, whose labels are not alike; and the samples of the first that has any. */
  const uint64_t all = graft_data_samples(set);
  uint64_t* const rows = malloc((size_t)all * sizeof *rows);
  uint64_t ends[3] = {0};
  if (rows == NULL || graft_data_split(set, "dirichlet=0.5", 3, 1, rows, ends) != GRAFT_OK) {
    return fail(context, "the clients");
  }
  const uint64_t its = ends[0] != 0 ? ends[0] : ends[1] != 0 ? ends[1] : ends[2];
  graft_data_set* client = NULL;
  if (graft_data_select(set, rows, its, &client) != GRAFT_OK) return fail(context, "a client's samples");
  printf("a client has %llu of %llu samples\n", (unsigned long long)graft_data_samples(client),
         (unsigned long long)all);
  graft_data_destroy(client);
  free(rows);
  const char* const name = graft_data_class(set, 1, 0);
  if (name != NULL) printf("class 0 is %s\n", name);
  graft_data_destroy(held);
  graft_loader_destroy(loader);
  graft_data_destroy(made);
  graft_data_destroy(set);
  graft_model_destroy(model);
  graft_context_destroy(context);
  return 0;
}
