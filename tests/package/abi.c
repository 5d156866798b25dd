/* Options and results of the C interface by size: what a program does that was compiled with headers of another version
   than the library's. abi.py compiles it with today's headers, with headers whose structs lack their last field (an
   older program), and with such that have one more (a newer program, GROWN). All must print the same.
   usage: abi MODEL CHECKPOINT_FOLDER */
#include <graft/cache.h>
#include <graft/graft.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 4

/* A newer program may ask an older library for no more than that knows. */
#ifdef GROWN
#define SIZE(type) offsetof(type, of_the_next_version)
#else
#define SIZE(type) sizeof(type)
#endif

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* What the library must not write to: what lies behind the size that it was told, or that it knows. */
static int is_untouched(const void* of, size_t from, size_t to) {
  const unsigned char* bytes = of;
  for (size_t i = from; i < to; ++i) {
    if (bytes[i] != 0xA5) return 0;
  }
  return 1;
}

/* A result with a guard behind it. */
#define RESULT(type, name)          \
  struct {                          \
    type of;                        \
    unsigned char guard[16];        \
  } name;                           \
  memset(&name, 0xA5, sizeof name); \
  name.of.struct_size = sizeof name.of
#define GUARDED(name) is_untouched(&name, sizeof name.of, sizeof name)

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  graft_context* context = NULL;
  graft_context_options context_options = {0};
  context_options.struct_size = SIZE(graft_context_options);
  if (graft_context_create(&context_options, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  graft_model* model = NULL;
  graft_model_options model_options = {0};
  model_options.struct_size = SIZE(graft_model_options);
  model_options.check = GRAFT_CHECK_AT_ONCE;
  if (graft_model_open(context, argv[1], &model_options, &model) != GRAFT_OK) return fail(context, "model");
  graft_tensor_info input;
  graft_tensor_info output;
  if (graft_model_tensor(model, GRAFT_INPUTS, 0, &input) != GRAFT_OK) return fail(context, "input");
  if (graft_model_tensor(model, GRAFT_OUTPUTS, 0, &output) != GRAFT_OK) return fail(context, "output");
  size_t elements = SAMPLES;
  for (uint32_t i = 1; i < input.rank; ++i) elements *= (size_t)input.dims[i];
  float* x = malloc(elements * sizeof *x);
  for (size_t i = 0; i < elements; ++i) x[i] = (float)(i % 13) / 13.0f;
  const int32_t labels[SAMPLES] = {1, 2, 3, 4};

  const graft_binding batch = {"batch", SAMPLES};
  graft_session_options session_options = {0};
  session_options.struct_size = SIZE(graft_session_options);
  session_options.bindings = &batch;
  session_options.binding_count = 1;
  graft_session* session = NULL;
  const void* data = NULL;
  if (graft_session_create(model, &session_options, &session) != GRAFT_OK) return fail(context, "session");
  if (graft_session_set_input(session, input.name, x, elements * sizeof *x) != GRAFT_OK) return fail(context, "input");
  if (graft_session_run(session) != GRAFT_OK) return fail(context, "run");
  if (graft_session_output(session, output.name, &data, NULL, NULL) != GRAFT_OK) return fail(context, "output");
  RESULT(graft_memory, memory);
  if (graft_session_memory(session, &memory.of) != GRAFT_OK) return fail(context, "memory");
  printf("%a, %llu bytes of weights and parameters\n", ((const float*)data)[0],
         (unsigned long long)(memory.of.weights + memory.of.parameters));
  graft_session_destroy(session);

  graft_trainer_options options = {0};
  options.struct_size = SIZE(graft_trainer_options);
  graft_trainer_options_init(&options, GRAFT_ADAMW);
  options.batch = SAMPLES;
  options.checkpoints = 1;
  graft_trainer* trainer = NULL;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  graft_checkpoint_options kept = {0};
  kept.struct_size = SIZE(graft_checkpoint_options);
  graft_checkpoint_options_init(&kept);
  kept.folder = argv[2];
  RESULT(graft_checkpoint_info, opened);
  if (graft_checkpoint_open(trainer, &kept, &opened.of) != GRAFT_OK) return fail(context, "checkpoint");
  const void* inputs[] = {x};
  RESULT(graft_metrics, metrics);
  if (graft_train_step(trainer, inputs, 1, labels, SAMPLES, &metrics.of) != GRAFT_OK) return fail(context, "step");
  printf("step %llu after %llu, loss %a\n", (unsigned long long)metrics.of.step, (unsigned long long)opened.of.step,
         metrics.of.loss);
  if (!GUARDED(memory) || !GUARDED(opened) || !GUARDED(metrics))
    return fail(context, "more than the struct was written");

#ifdef GROWN
  /* What the library does not know stays as it was in results, and is refused in options. */
  if (!is_untouched(&metrics.of.of_the_next_version, 0, sizeof metrics.of.of_the_next_version)) {
    return fail(context, "a field that the library does not know was written");
  }
  graft_trainer* other = NULL;
  options.struct_size = sizeof options;
  if (graft_trainer_create(model, &options, &other) != GRAFT_INVALID_ARGUMENT) return fail(context, "a larger struct");
  if (strstr(graft_message(context), "this library knows up to") == NULL) return fail(context, "another sentence");
#endif
  graft_trainer_destroy(trainer);
  graft_model_destroy(model);
  graft_context_destroy(context);
  free(x);
  return 0;
}
