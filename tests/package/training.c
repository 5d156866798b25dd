/* What an app on a phone does around training: asks what it takes, takes steps in pieces, gives memory back, reads what
   the forward pass computed, keeps bytes of its own with the run.
   usage: training_c MODEL CHECKPOINT_FOLDER CACHE_FOLDER ADAPTERS */
#include <graft/cache.h>
#include <graft/graft.h>
#include <graft/steps.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 8

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* The elements of one sample of the model's input. */
static size_t sample_elements(const graft_tensor_info* info) {
  size_t count = 1;
  for (uint32_t i = 1; i < info->rank; ++i) count *= (size_t)info->dims[i];
  return count;
}

/* Gradients of the outputs by the input, for cotangents of one. */
static int gradients_of(graft_context* context, graft_model* model, const char* input, const float* x, size_t bytes,
                        const char* output) {
  const char* wrt[] = {input};
  const graft_binding batch = {"batch", SAMPLES};
  float ones[SAMPLES * 10];
  for (size_t i = 0; i < SAMPLES * 10; ++i) ones[i] = 1;
  graft_gradient_options options = {0};
  options.struct_size = sizeof options;
  options.of = output;
  options.wrt = wrt;
  options.wrt_count = 1;
  options.bindings = &batch;
  options.binding_count = 1;
  options.micro_batch = 4;
  const graft_data inputs[] = {{input, x, bytes}, {"cotangent", ones, sizeof ones}};
  graft_gradients* gradients = NULL;
  if (graft_gradients_compute(model, &options, inputs, 2, &gradients) != GRAFT_OK) return fail(context, "gradients");
  const void* data = NULL;
  size_t got = 0;
  graft_gradients_info how = {0};
  how.struct_size = sizeof how;
  if (graft_gradients_describe(gradients, &how) != GRAFT_OK || how.micro_batch == 0) return fail(context, "info");
  if (graft_gradients_get(gradients, input, &data, &got, NULL) != GRAFT_OK) return fail(context, "gradient");
  printf("%zu bytes of gradients, the first is %g\n", got, ((const float*)data)[0]);
  graft_gradients_destroy(gradients);
  return got == bytes ? 0 : fail(context, "another number of gradients");
}

/* A session whose adapters are taken off and put on again. */
static int swap_adapters(graft_context* context, graft_model* model, const char* adapters) {
  const graft_binding batch = {"batch", 1};
  graft_session_options options = {0};
  options.struct_size = sizeof options;
  options.bindings = &batch;
  options.binding_count = 1;
  graft_memory memory = {0};
  memory.struct_size = sizeof memory;
  graft_session* session = NULL;
  if (graft_model_load_adapters(model, adapters) != GRAFT_OK) return fail(context, "adapters");
  if (graft_session_create(model, &options, &session) != GRAFT_OK) return fail(context, "session");
  if (graft_session_memory(session, &memory) != GRAFT_OK || memory.total == 0) return fail(context, "session's memory");
  if (graft_session_swap_adapters(session, NULL) != GRAFT_OK) return fail(context, "without adapters");
  if (graft_session_swap_adapters(session, adapters) != GRAFT_OK) return fail(context, "with adapters");
  graft_session_destroy(session);
  /* Of several files' adapters each counts by its weight: here the same ones, as strong as alone. */
  const char* const two[] = {adapters, adapters};
  const double weights[] = {0.25, 0.75};
  if (graft_model_load_adapters_together(model, two, weights, 2) != GRAFT_OK) return fail(context, "two adapters");
  if (graft_model_load_adapters(model, NULL) != GRAFT_OK) return fail(context, "taking adapters off");
  /* Fresh adapters add nothing: the model is what it was once they are merged. */
  if (graft_model_add_adapters(model, "r=1", 3) != GRAFT_OK) return fail(context, "fresh adapters");
  return graft_model_merge_adapters(model, NULL) == GRAFT_OK ? 0 : fail(context, "merge");
}

/* What a screen shows of a run: its plan, its last step, where it stands; and what its weights say now. */
static int tell_of(graft_context* context, graft_trainer* trainer, const char* input) {
  graft_run_info plan = {0};
  plan.struct_size = sizeof plan;
  graft_step_info step = {0};
  step.struct_size = sizeof step;
  graft_totals totals = {0};
  totals.struct_size = sizeof totals;
  graft_run_place place = {0};
  place.struct_size = sizeof place;
  graft_tensor_info parameter;
  if (graft_trainer_describe(trainer, &plan) != GRAFT_OK) return fail(context, "plan");
  if (graft_trainer_parameter(trainer, 0, &parameter) != GRAFT_OK) return fail(context, "parameter");
  if (graft_trainer_last_step(trainer, &step, &totals) != GRAFT_OK) return fail(context, "last step");
  if (graft_trainer_place(trainer, &place) != GRAFT_OK || place.step != step.step) return fail(context, "place");
  printf("step %u of %u samples, loss %g; %s is the first of %u parameters\n", (unsigned)step.step,
         (unsigned)plan.batch, totals.loss, parameter.name, (unsigned)plan.tensors);
  if (graft_trainer_epoch(trainer, &totals) != GRAFT_OK) return fail(context, "epoch");
  graft_model* now = NULL;
  if (graft_trainer_copy(trainer, 0, &now) != GRAFT_OK) return fail(context, "a model beside it");
  if (graft_model_tensor(now, GRAFT_INPUTS, 0, &parameter) != GRAFT_OK || strcmp(parameter.name, input) != 0) {
    return fail(context, "another model");
  }
  graft_model_destroy(now);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  graft_cache_options cache = {0};
  cache.struct_size = sizeof cache;
  cache.folder = argv[3];
  cache.skip_self_test = 1;
  if (graft_context_open_cache(context, &cache) != GRAFT_OK) return fail(context, "cache");
  graft_cancel(context);
  if (graft_uncancel(context) != 1) return fail(context, "uncancel"); /* no call had taken it */
  /* Half of the device's time, 8 ms at once: the app stays smooth, the battery cool. */
  if (graft_set_pace(context, 8, 0.5) != GRAFT_OK) return fail(context, "pace");

  graft_model_options how = {0};
  how.struct_size = sizeof how;
  how.check = GRAFT_CHECK_AT_ONCE;
  graft_model* model = NULL;
  if (graft_model_open(context, argv[1], &how, &model) != GRAFT_OK) return fail(context, "open");
  graft_tensor_info input;
  graft_tensor_info output;
  const char* name = NULL;
  if (graft_model_count(model, GRAFT_INPUTS) != 1) return fail(context, "inputs");
  if (graft_model_tensor(model, GRAFT_INPUTS, 0, &input) != GRAFT_OK) return fail(context, "input");
  if (graft_model_tensor(model, GRAFT_OUTPUTS, 0, &output) != GRAFT_OK) return fail(context, "output");
  if (graft_model_dimension(model, GRAFT_INPUTS, 0, 0, &name) != GRAFT_OK) return fail(context, "dimension");
  if (strcmp(name, "batch") != 0) return fail(context, "the first axis is not the batch");

  const size_t elements = SAMPLES * sample_elements(&input);
  float* x = malloc(elements * sizeof *x);
  for (size_t i = 0; i < elements; ++i) x[i] = (float)(i % 17) / 17.0f - 0.5f;
  int32_t labels[SAMPLES];
  for (int i = 0; i < SAMPLES; ++i) labels[i] = i % 10;
  if (gradients_of(context, model, input.name, x, elements * sizeof *x, output.name) != 0) return 1;
  if (swap_adapters(context, model, argv[4]) != 0) return 1;

  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  if (graft_trainer_options_init(&options, GRAFT_ADAMW) != GRAFT_OK) return fail(context, "defaults");
  options.weight_decay = 0;
  graft_loss kind = GRAFT_LOSS_OUTPUT;
  size_t kinds = 0;
  if (graft_loss_kinds("ce", &kind, 1, &kinds) != GRAFT_OK || kind != GRAFT_LOSS_CROSS_ENTROPY) return 1;
  printf("losses: %s\n", graft_loss_names());
  options.batch = SAMPLES;
  options.micro_batch = 2;
  options.fetch = output.name;
  options.checkpoints = 1;
  graft_forecast forecast = {0};
  forecast.struct_size = sizeof forecast;
  if (graft_forecast_training(model, &options, &forecast) != GRAFT_OK) return fail(context, "forecast");
  graft_trainer* trainer = NULL;
  graft_memory memory = {0};
  memory.struct_size = sizeof memory;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  if (graft_trainer_memory(trainer, &memory) != GRAFT_OK) return fail(context, "memory");
  if (memory.total != forecast.total) return fail(context, "the forecast was another");
  graft_tensor_info part;
  for (size_t i = 0; graft_trainer_sample(trainer, i, &part) == GRAFT_OK; ++i) {
    printf("a sample has %s of %u axes\n", part.name, (unsigned)part.rank);
  }

  graft_checkpoint_options kept = {0};
  kept.struct_size = sizeof kept;
  graft_checkpoint_options_init(&kept);
  kept.folder = argv[2];
  const char place[] = "page 17";
  const void* data = NULL;
  size_t bytes = 0;
  if (graft_checkpoint_open(trainer, &kept, NULL) != GRAFT_OK) return fail(context, "checkpoint");
  if (graft_checkpoint_set_data(trainer, 0, place, sizeof place) != GRAFT_OK) return fail(context, "data of the app");
  if (graft_checkpoint_data(trainer, 0, &data, &bytes) != GRAFT_OK) return fail(context, "reading it");
  if (bytes != sizeof place || memcmp(data, place, bytes) != 0) return fail(context, "the data is another");

  /* One micro-batch at a time, as long as the app may run. */
  const void* inputs[] = {x};
  graft_metrics metrics = {0};
  metrics.struct_size = sizeof metrics;
  unsigned pieces = 0;
  for (int done = 0; done == 0; ++pieces) {
    if (graft_train_micro_step(trainer, inputs, 1, labels, SAMPLES, &done, &metrics) != GRAFT_OK) {
      return fail(context, "micro-step");
    }
  }
  printf("step %u in %u pieces, loss %g\n", (unsigned)metrics.step, pieces, metrics.loss);
  /* As durable as was asked already: the checkpoint is not late. */
  graft_checkpoint_state state = {0};
  state.struct_size = sizeof state;
  if (graft_checkpoint_acknowledge(trainer) != GRAFT_OK) return fail(context, "durable");
  if (graft_checkpoint_describe(trainer, &state) != GRAFT_OK || state.replayed != 0) return fail(context, "its state");
  if (tell_of(context, trainer, input.name) != 0) return 1;
  if (pieces < 4 || graft_trainer_fetch(trainer, output.name, &data, &bytes, NULL) != GRAFT_OK) {
    return fail(context, "fetch");
  }
  /* A smaller budget, and what the system may still ask for. */
  uint64_t shortages = 1;
  if (graft_trainer_set_budget(trainer, memory.total) != GRAFT_OK) return fail(context, "budget");
  if (graft_trainer_trim(trainer, 1024) != GRAFT_OK) return fail(context, "trim");
  if (graft_trainer_pause(trainer) != GRAFT_OK) return fail(context, "pause"); /* the app goes to the background */
  if (graft_trainer_resume(trainer) != GRAFT_OK) return fail(context, "resume");
  if (graft_trainer_shortages(trainer, &shortages) != GRAFT_OK || shortages != 0) return fail(context, "shortages");
  if (graft_trainer_trim(trainer, memory.total) != GRAFT_OUT_OF_MEMORY)
    return fail(context, "everything was given back");
  printf("%s\n", graft_status_name(GRAFT_OUT_OF_MEMORY));
  if (graft_evaluate(trainer, inputs, 1, labels, SAMPLES, &metrics) != GRAFT_OK) return fail(context, "evaluate");
  graft_trainer_destroy(trainer);
  /* The same pictures as bytes, which the device scales. */
  const float scale = 1.0f / 255;
  graft_input_format pixels = {0};
  pixels.name = input.name;
  pixels.element = GRAFT_ELEMENT_U8;
  pixels.scale = &scale;
  pixels.scale_count = 1;
  options.fetch = NULL;
  options.inputs = &pixels;
  options.input_count = 1;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer of bytes");
  if (graft_trainer_sample(trainer, 0, &part) != GRAFT_OK || part.dtype != GRAFT_U8) return fail(context, "sample");
  unsigned char* bytes_of_pictures = calloc(elements, 1);
  inputs[0] = bytes_of_pictures;
  if (graft_train_step(trainer, inputs, 1, labels, SAMPLES, NULL) != GRAFT_OK) return fail(context, "step of bytes");
  free(bytes_of_pictures);
  graft_trainer_destroy(trainer);
  graft_model_destroy(model);
  graft_context_destroy(context);
  free(x);
  return 0;
}
