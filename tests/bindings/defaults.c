/* Trains two steps of four samples for each pair of a loss and an optimizer, with nothing else said, or with a file of
   lines OPTION=VALUE. usage: defaults MODEL SPEC [LOSS OPTIMIZER[@FILE] OUT]...; LOSS and OPTIMIZER: numbers of
   graft_loss and graft_optimizer */
#include <graft/graft.h>
#include <stdio.h>

#include "set_option.h"

static int fail(const graft_context* context, const char* out) {
  fprintf(stderr, "%s: %s\n", out, graft_message(context));
  return 1;
}

/* The options of `text`, OPTIMIZER[@FILE]; they point into memory that the next call changes. 0: there are none. */
static int read_options(const char* text, graft_trainer_options* options) {
  static char lines[4096];
  options->struct_size = sizeof *options;
  if (graft_trainer_options_init(options, (graft_optimizer)atoi(text)) != GRAFT_OK) return 0;
  const char* path = strchr(text, '@');
  if (path == NULL) return 1;
  FILE* file = fopen(path + 1, "r");
  if (file == NULL) return 0;
  lines[fread(lines, 1, sizeof lines - 1, file)] = 0;
  fclose(file);
  for (char* line = strtok(lines, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    char* value = strchr(line, '=');
    if (value == NULL) return 0;
    *value = 0;
    if (!set_option(options, line, value + 1)) return 0;
  }
  return 1;
}

static int train(graft_context* context, const char* path, const char* spec, int loss, const char* optimizer,
                 const char* out) {
  graft_model* model = NULL;
  graft_data_set* set = NULL;
  graft_trainer* trainer = NULL;
  graft_loader* loader = NULL;
  graft_data_options kind = {0};
  kind.struct_size = sizeof kind;
  graft_trainer_options options = {0};
  graft_loader_options batches = {0};
  batches.struct_size = sizeof batches;
  graft_loader_options_init(&batches);
  int done = 0;
  if (!read_options(optimizer, &options)) {
    fprintf(stderr, "%s: the options %s cannot be read\n", out, optimizer);
    return 1;
  }
  if (graft_model_load(context, path, &model) != GRAFT_OK) goto end;
  kind.model = model;
  if (graft_data_open_with(context, spec, &kind, &set) != GRAFT_OK) goto end;
  options.loss = (graft_loss)loss;
  options.batch = 4;
  options.data = set;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) goto end;
  batches.batch = 4;
  batches.epochs = 1;
  batches.seed = options.seed;
  if (graft_loader_create(set, &batches, &loader) != GRAFT_OK) goto end;
  for (int more = 1; more != 0;) {
    if (graft_train_next(trainer, loader, &more, NULL) != GRAFT_OK) goto end;
  }
  if (graft_trainer_store(trainer) != GRAFT_OK) goto end;
  done = graft_model_save(model, out) == GRAFT_OK;
end:
  if (!done) fail(context, out);
  graft_loader_destroy(loader);
  graft_trainer_destroy(trainer);
  graft_data_destroy(set);
  graft_model_destroy(model);
  return !done;
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
  for (int i = 3; i < argc; i += 3) {
    failed |= train(context, argv[1], argv[2], atoi(argv[i]), argv[i + 1], argv[i + 2]);
  }
  graft_context_destroy(context);
  return failed;
}
