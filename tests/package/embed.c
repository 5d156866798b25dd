/* Loads a model, runs it, trains it for some steps, saves it: in C, against the installed package.
   usage: embed_c MODEL OUT CHECKPOINT_FOLDER */
#include <graft/graft.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>

#define SAMPLES 16

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* On a thread of graft's. */
static void done(void* user, graft_status status, const char* message) {
  if (status != GRAFT_OK) fprintf(stderr, "step: %s\n", message);
  atomic_store((atomic_int*)user, status == GRAFT_OK ? 1 : 2);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  printf("graft %s on %s\n", graft_version(), graft_device_name(context));

  graft_model* model = NULL;
  if (graft_model_load(context, "/nonexistent.graft", &model) != GRAFT_NOT_FOUND) return fail(context, "missing file");
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "load");
  graft_tensor_info input;
  graft_tensor_info output;
  if (graft_model_tensor(model, GRAFT_INPUTS, 0, &input) != GRAFT_OK) return fail(context, "input");
  if (graft_model_tensor(model, GRAFT_OUTPUTS, 0, &output) != GRAFT_OK) return fail(context, "output");
  size_t per_sample = 1;
  for (uint32_t i = 1; i < input.rank; ++i) per_sample *= (size_t)input.dims[i];

  float* x = malloc(SAMPLES * per_sample * sizeof *x);
  int32_t labels[SAMPLES];
  unsigned state = 1;
  for (size_t i = 0; i < SAMPLES * per_sample; ++i) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
  }
  for (int i = 0; i < SAMPLES; ++i) labels[i] = i % 10;

  graft_binding batch = {"batch", SAMPLES};
  graft_session_options session_options = {0};
  session_options.struct_size = sizeof session_options;
  session_options.bindings = &batch;
  session_options.binding_count = 1;
  const graft_binding* known = NULL; /* with the model's own sizes */
  size_t known_count = 0;
  const char* missing = NULL;
  if (graft_model_known_bindings(model, &batch, 1, &known, &known_count, &missing) != GRAFT_OK || *missing != 0) {
    return fail(context, missing);
  }
  if (!graft_model_reads_input(model, 0)) return fail(context, "nothing reads the input");
  /* Where the time goes: see below. */
  graft_profile* profile = NULL;
  if (graft_profile_create(context, 1, &profile) != GRAFT_OK) return fail(context, "profile");
  session_options.profile = profile;
  graft_session* session = NULL;
  if (graft_session_create(model, &session_options, &session) != GRAFT_OK) return fail(context, "session");
  graft_tensor_info taken;
  for (size_t i = 0; i < graft_session_count(session, GRAFT_INPUTS); ++i) {
    if (graft_session_tensor(session, GRAFT_INPUTS, i, &taken) != GRAFT_OK) return fail(context, "tensor");
    printf("%s of %lld samples%s\n", taken.name, (long long)taken.dims[0], graft_session_streaming(session));
  }
  if (graft_session_set_input(session, input.name, x, SAMPLES * per_sample * sizeof *x) != GRAFT_OK) {
    return fail(context, "set_input");
  }
  if (graft_session_set_input(session, input.name, x, 3) != GRAFT_INVALID_ARGUMENT) return fail(context, "wrong size");
  if (graft_session_run(session) != GRAFT_OK) return fail(context, "run");
  const void* data = NULL;
  size_t bytes = 0;
  if (graft_session_output(session, output.name, &data, &bytes, NULL) != GRAFT_OK) return fail(context, "output");
  printf("%zu outputs, the first is %f\n", bytes / sizeof(float), ((const float*)data)[0]);
  graft_profile_info spent = {0};
  graft_profile_row row = {0};
  graft_profile_phase phase = {0};
  spent.struct_size = sizeof spent;
  row.struct_size = sizeof row;
  phase.struct_size = sizeof phase;
  if (graft_profile_describe(profile, &spent) != GRAFT_OK || spent.steps != 1) return fail(context, "profile");
  if (graft_profile_node(profile, 0, &row) != GRAFT_OK) return fail(context, "node");
  printf("%.3f ms, most of it in %s: %.3f ms\n", spent.step_ms, row.name, row.ms);
  if (graft_profile_op(profile, 0, &row) != GRAFT_OK) return fail(context, "op");
  for (size_t i = 0; graft_profile_phase_at(profile, i, &phase) == GRAFT_OK; ++i) {
    printf("the host: %s %.3f ms\n", phase.name, phase.ms);
  }
  if (graft_profile_save_trace(profile, "/nonexistent/trace.json") == GRAFT_OK) return fail(context, "trace");
  graft_session_destroy(session);
  graft_profile_destroy(profile);

  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  graft_trainer_options_init(&options, GRAFT_ADAMW);
  options.optimizer = GRAFT_ADAMW;
  options.learning_rate = 2e-3;
  options.batch = SAMPLES;
  options.checkpoints = 1;
  graft_trainer* trainer = NULL;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  graft_memory memory = {0};
  memory.struct_size = sizeof memory;
  graft_checkpoint_options kept = {0};
  kept.struct_size = sizeof kept;
  graft_checkpoint_options_init(&kept);
  kept.folder = argv[3];
  kept.every = 10;
  kept.journal_every = 5;
  if (graft_checkpoint_open(trainer, &kept, NULL) != GRAFT_OK) return fail(context, "checkpoint");
  if (graft_trainer_memory(trainer, &memory) != GRAFT_OK) return fail(context, "memory");
  graft_metrics metrics = {0};
  metrics.struct_size = sizeof metrics;
  const void* inputs[] = {x};
  double first = 0;
  for (int step = 0; step < 30; ++step) {
    /* Every other one while the app does something else. */
    atomic_int state = 0;
    if (step % 2 == 0) {
      if (graft_train_step(trainer, inputs, 1, labels, SAMPLES, &metrics) != GRAFT_OK) return fail(context, "step");
    } else if (graft_train_step_async(trainer, inputs, 1, labels, SAMPLES, &metrics, done, &state) != GRAFT_OK) {
      return 1;
    }
    const struct timespec moment = {0, 1000000};
    while (step % 2 != 0 && atomic_load(&state) == 0) thrd_sleep(&moment, NULL);
    if (atomic_load(&state) == 2) return 1;
    if (step == 0) first = metrics.loss;
  }
  printf("%llu bytes planned; loss %f after the first step, %f after %llu\n", (unsigned long long)memory.total, first,
         metrics.loss, (unsigned long long)metrics.step);
  if (!(metrics.loss < 0.5 * first)) return fail(context, "the loss did not fall");
  if (graft_trainer_store(trainer) != GRAFT_OK) return fail(context, "store");
  if (graft_model_save(model, argv[2]) != GRAFT_OK) return fail(context, "save");
  if (graft_checkpoint_save(trainer, "last") != GRAFT_OK) return fail(context, "save checkpoint");
  if (graft_checkpoint_close(trainer) != GRAFT_OK) return fail(context, "close checkpoint");
  graft_trainer_destroy(trainer);

  /* Resumed, the run stands where it stood; warm-started, a new one begins with its weights. */
  graft_checkpoint_info info = {0};
  info.struct_size = sizeof info;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  if (graft_checkpoint_open(trainer, &kept, NULL) != GRAFT_INVALID_ARGUMENT) return fail(context, "overwritten");
  kept.resume = 1;
  if (graft_checkpoint_open(trainer, &kept, &info) != GRAFT_OK) return fail(context, "resume");
  printf("resumed at step %llu\n", (unsigned long long)info.step);
  if (info.step != metrics.step) return 1;
  graft_trainer_destroy(trainer);
  options.optimizer = GRAFT_SGD;
  options.checkpoints = 0;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  if (graft_warm_start(trainer, argv[3], "last", NULL) != GRAFT_OK) return fail(context, "warm start");
  if (graft_train_step(trainer, inputs, 1, labels, SAMPLES, &metrics) != GRAFT_OK) return fail(context, "warm step");
  if (!(metrics.step == 1 && metrics.loss < 0.5 * first)) return fail(context, "the weights are not warm");
  graft_trainer_destroy(trainer);
  graft_model_destroy(model);
  graft_context_destroy(context);
  free(x);
  return 0;
}
