/* Trains with nothing said but loss and optimizer: two steps of four samples for each pair.
   usage: defaults MODEL SPEC [LOSS OPTIMIZER OUT]...; LOSS and OPTIMIZER: numbers of graft_loss and graft_optimizer */
#include <graft/graft.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

static int train(graft_context* context, const char* path, const char* spec, int loss, int optimizer, const char* out) {
  graft_model* model = NULL;
  graft_data_set* set = NULL;
  graft_trainer* trainer = NULL;
  graft_loader* loader = NULL;
  graft_data_options kind = {0};
  kind.struct_size = sizeof kind;
  if (graft_model_load(context, path, &model) != GRAFT_OK) return fail(context, "load");
  kind.model = model;
  if (graft_data_open_with(context, spec, &kind, &set) != GRAFT_OK) return fail(context, "data");
  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  if (graft_trainer_options_init(&options, (graft_optimizer)optimizer) != GRAFT_OK) return fail(context, "init");
  options.loss = (graft_loss)loss;
  options.batch = 4;
  options.data = set;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  graft_loader_options batches = {0};
  batches.struct_size = sizeof batches;
  graft_loader_options_init(&batches);
  batches.batch = 4;
  batches.epochs = 1;
  if (graft_loader_create(set, &batches, &loader) != GRAFT_OK) return fail(context, "loader");
  for (int more = 1; more != 0;) {
    if (graft_train_next(trainer, loader, &more, NULL) != GRAFT_OK) return fail(context, "step");
  }
  if (graft_trainer_store(trainer) != GRAFT_OK) return fail(context, "store");
  if (graft_model_save(model, out) != GRAFT_OK) return fail(context, "save");
  graft_loader_destroy(loader);
  graft_trainer_destroy(trainer);
  graft_data_destroy(set);
  graft_model_destroy(model);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3 || argc % 3 != 0) return 2;
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  int failed = 0;
  for (int i = 3; i < argc && !failed; i += 3) {
    failed = train(context, argv[1], argv[2], atoi(argv[i]), atoi(argv[i + 1]), argv[i + 2]);
  }
  graft_context_destroy(context);
  return failed;
}
