/* What evaluations tell: metrics and a confusion matrix of a model, a run that is watched while it trains, and what it
   changed.
   usage: evaluate_c MODEL "digits:?count=96" */
#include <graft/graft.h>
#include <stdio.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

static void print_confusion(const graft_evaluation* evaluation) {
  const uint64_t* counts = NULL;
  size_t classes = 0;
  if (graft_evaluation_confusion(evaluation, &counts, &classes) != GRAFT_OK) return;
  for (size_t i = 0; i < classes; ++i) {
    const char* name = graft_evaluation_class(evaluation, i);
    printf("%-8s", name == NULL ? "" : name);
    for (size_t j = 0; j < classes; ++j) printf(" %4llu", (unsigned long long)counts[i * classes + j]);
    printf("\n");
  }
}

static void print_signatures(const graft_model* model) {
  for (size_t i = 0; i < graft_model_signature_count(model); ++i) {
    graft_signature signature = {0};
    graft_tensor_info info = {0};
    signature.struct_size = sizeof signature;
    if (graft_model_signature(model, i, &signature) != GRAFT_OK) return;
    printf("%s gives", signature.name);
    for (size_t o = 0; o < signature.output_count; ++o) {
      if (graft_model_signature_tensor(model, i, GRAFT_OUTPUTS, o, &info) == GRAFT_OK) printf(" %s", info.name);
    }
    printf("\n");
  }
}

int main(int argc, char** argv) {
  graft_context* context = NULL;
  graft_model* model = NULL;
  graft_data_set* data = NULL;
  graft_trainer* trainer = NULL;
  graft_evaluation *before = NULL, *now = NULL;
  if (argc != 3) return 2;
  const graft_status opened = graft_context_create(NULL, &context);
  if (opened == GRAFT_NOT_FOUND) {
    printf("%s\n", graft_message(context));
    graft_context_destroy(context);
    return 77; /* there is no device */
  }
  if (opened != GRAFT_OK) return fail(context, "context");
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "model");
  print_signatures(model);

  graft_data_options how = {0};
  how.struct_size = sizeof how;
  how.model = model;
  how.evaluation = 1;
  if (graft_data_open_with(context, argv[2], &how, &data) != GRAFT_OK) return fail(context, "data");
  int predictions = 0;
  if (graft_metrics_check(context, "f1,auroc", &predictions) != GRAFT_OK) return fail(context, "metrics");
  graft_data_summary summary = {0}; /* of text: what was cut or left out */
  summary.struct_size = sizeof summary;
  if (graft_data_describe(data, &summary) != GRAFT_OK) return fail(context, "summary");
  printf("%s", summary.text);
  /* Digits have no names; a set of folders has. */
  if (graft_model_keep_classes(model, data) == GRAFT_OK) printf("0 is %s\n", graft_model_class(model, 0));

  graft_evaluation_options wanted = {0};
  wanted.struct_size = sizeof wanted;
  wanted.metrics = "f1,top3";
  wanted.confusion = 1;
  wanted.outcomes = 1;
  if (graft_evaluate_model(model, data, &wanted, &before) != GRAFT_OK) return fail(context, graft_metric_names());
  graft_totals totals = {0};
  totals.struct_size = sizeof totals;
  if (graft_evaluation_totals(before, &totals) != GRAFT_OK) return fail(context, "totals");
  printf("%llu samples, loss %g\n", (unsigned long long)totals.samples, totals.loss);
  for (size_t i = 0; i < graft_evaluation_count(before); ++i) {
    graft_metric_value value = {0};
    value.struct_size = sizeof value;
    if (graft_evaluation_metric(before, i, &value) != GRAFT_OK) return fail(context, "metric");
    printf("%s %g\n", value.name, value.value);
  }
  print_confusion(before);

  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  graft_trainer_options_init(&options, GRAFT_ADAMW);
  options.data = data;
  options.schedule = GRAFT_PLATEAU;
  options.predictions = 1;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  graft_watch_options watch = {0};
  watch.struct_size = sizeof watch;
  graft_watch_options_init(&watch);
  watch.plateau = "loss";
  watch.early_stop = "f1";
  watch.stop_patience = 2;
  watch.best = "f1";
  graft_verdict verdict = {0};
  verdict.struct_size = sizeof verdict;
  for (int epoch = 0; epoch < 2 && !verdict.stop; ++epoch) {
    graft_loader* loader = NULL;
    graft_loader_options once = {0};
    once.struct_size = sizeof once;
    graft_loader_options_init(&once);
    once.epochs = 1;
    once.seed = (uint64_t)epoch;
    if (graft_loader_create(data, &once, &loader) != GRAFT_OK) return fail(context, "loader");
    for (int more = 1; more;) {
      if (graft_train_next(trainer, loader, &more, NULL) != GRAFT_OK) return fail(context, "step");
    }
    graft_loader_destroy(loader);
    graft_evaluation_destroy(now);
    if (graft_evaluate_trainer(trainer, data, &wanted, &now) != GRAFT_OK) return fail(context, "evaluation");
    if (graft_trainer_observe(trainer, now, &watch, &verdict) != GRAFT_OK) return fail(context, "verdict");
    printf("%s, the rate is %g\n", verdict.best ? "the best so far" : "no better", verdict.learning_rate);
  }
  graft_comparison comparison = {0};
  comparison.struct_size = sizeof comparison;
  if (graft_evaluations_compare(before, now, &comparison) != GRAFT_OK) return fail(context, "comparison");
  printf("%zu samples gained, %zu lost, p = %g\n", comparison.gained_count, comparison.lost_count, comparison.p_value);
  graft_evaluation_destroy(before);
  graft_evaluation_destroy(now);
  graft_trainer_destroy(trainer);
  graft_data_destroy(data);
  graft_model_destroy(model);
  graft_context_destroy(context);
  return 0;
}
