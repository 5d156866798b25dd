/* Teaches a language model by adapters, to the bytes of
   graft train MODEL --data SPEC --seq 128 --batch 8 --lora r=16,alpha=32 --lr 1e-2 --seed 1 -o OUT
   usage: adapter MODEL SPEC OUT */
#include <graft/graft.h>
#include <stdio.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  graft_model* model = NULL;
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "load");
  if (graft_model_add_adapters(model, "r=16,alpha=32", 1) != GRAFT_OK) return fail(context, "adapters");

  graft_data_options texts = {0};
  texts.struct_size = sizeof texts;
  texts.model = model;
  texts.length = 128;
  graft_data_set* set = NULL;
  if (graft_data_open_with(context, argv[2], &texts, &set) != GRAFT_OK) return fail(context, "data");

  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  if (graft_trainer_options_init(&options, GRAFT_ADAMW) != GRAFT_OK) return fail(context, "defaults");
  options.learning_rate = 1e-2;
  options.batch = 8;
  options.seed = 1;
  options.data = set;
  graft_trainer* trainer = NULL;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");

  graft_loader_options batches = {0};
  batches.struct_size = sizeof batches;
  graft_loader_options_init(&batches);
  batches.batch = 8;
  batches.seed = 1;
  batches.epochs = 1;
  graft_loader* loader = NULL;
  if (graft_loader_create(set, &batches, &loader) != GRAFT_OK) return fail(context, "loader");

  graft_metrics metrics = {0};
  metrics.struct_size = sizeof metrics;
  for (int more = 1; more != 0;) {
    if (graft_train_next(trainer, loader, &more, &metrics) != GRAFT_OK) return fail(context, "step");
  }
  if (graft_trainer_store(trainer) != GRAFT_OK) return fail(context, "store");
  if (graft_model_save_adapters(model, argv[3]) != GRAFT_OK) return fail(context, "save");
  printf("%llu steps, the last with a loss of %.4f\n", (unsigned long long)metrics.step, metrics.loss);
  graft_loader_destroy(loader);
  graft_trainer_destroy(trainer);
  graft_data_destroy(set);
  graft_model_destroy(model);
  graft_context_destroy(context);
  return 0;
}
