/* A model inside a package (an asset stored in a zip archive), in memory, and behind a function that reads: each gives
   the same output. usage: sources MODEL ADAPTERS. ADAPTERS is written; the package is MODEL with an odd number of bytes
   before it. */
#define _POSIX_C_SOURCE 200809L
#include <graft/graft.h>
#include <stdio.h>
#include <stdlib.h>

#define BEFORE 13

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* The app's own way to its data; here the file itself. */
static int read_file(void* user, uint64_t offset, size_t bytes, void* out) {
  FILE* file = user;
  return fseek(file, (long)offset, SEEK_SET) != 0 || fread(out, 1, bytes, file) != bytes;
}

/* All of a file, from malloc(). */
static void* contents(FILE* file, size_t* bytes) {
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  void* data = malloc(*bytes);
  if (data == NULL || read_file(file, 0, *bytes, data) != 0) exit(1);
  return data;
}

/* The first number of the output. */
static int run(graft_context* context, graft_session* session, const char* output, float* first) {
  const void* data = NULL;
  if (graft_session_run(session) != GRAFT_OK) return fail(context, "run");
  if (graft_session_output(session, output, &data, NULL, NULL) != GRAFT_OK) return fail(context, "output");
  *first = *(const float*)data;
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  FILE* file = fopen(argv[1], "rb");
  if (file == NULL) return 2;
  size_t bytes = 0;
  void* data = contents(file, &bytes);
  FILE* package = tmpfile();
  if (package == NULL || fwrite("thirteen byte", 1, BEFORE, package) != BEFORE ||
      fwrite(data, 1, bytes, package) != bytes || fflush(package) != 0) {
    return 2;
  }

  graft_source sources[3] = {{0}, {0}, {0}};
  sources[0].kind = GRAFT_SOURCE_MEMORY; /* malloc() aligns well enough to lend it */
  sources[0].data = data;
  sources[0].bytes = bytes;
  sources[1].kind = GRAFT_SOURCE_DESCRIPTOR;
  sources[1].descriptor = fileno(package);
  sources[1].offset = BEFORE;
  sources[1].bytes = bytes;
  sources[2].kind = GRAFT_SOURCE_READER;
  sources[2].name = "the app's data";
  sources[2].bytes = bytes;
  sources[2].read = read_file;
  sources[2].user = file;

  float outputs[3];
  for (int i = 0; i < 3; ++i) {
    sources[i].struct_size = sizeof sources[i];
    graft_model* model = NULL;
    if (graft_model_open_source(context, &sources[i], NULL, &model) != GRAFT_OK) return fail(context, "open");
    graft_tensor_info input;
    graft_tensor_info output;
    if (graft_model_tensor(model, GRAFT_INPUTS, 0, &input) != GRAFT_OK) return fail(context, "input");
    if (graft_model_tensor(model, GRAFT_OUTPUTS, 0, &output) != GRAFT_OK) return fail(context, "output");
    size_t numbers = 1;
    for (uint32_t axis = 1; axis < input.rank; ++axis) numbers *= (size_t)input.dims[axis];
    float* numbers_in = malloc(numbers * sizeof *numbers_in);
    if (numbers_in == NULL) return 2;
    for (size_t n = 0; n < numbers; ++n) numbers_in[n] = 0.5f;
    graft_binding batch = {"batch", 1};
    graft_session_options options = {0};
    options.struct_size = sizeof options;
    options.bindings = &batch;
    options.binding_count = 1;
    graft_session* session = NULL;
    if (i == 0) {
      /* Adapters that change nothing yet, kept as a file and put on again from memory. */
      if (graft_model_add_adapters(model, "r=2", 1) != GRAFT_OK) return fail(context, "add adapters");
      if (graft_model_save_adapters(model, argv[2]) != GRAFT_OK) return fail(context, "save adapters");
    }
    FILE* kept = fopen(argv[2], "rb");
    if (kept == NULL) return 2;
    graft_source adapters = {0};
    adapters.struct_size = sizeof adapters;
    adapters.kind = GRAFT_SOURCE_DESCRIPTOR;
    adapters.descriptor = fileno(kept);
    if (graft_model_load_adapters_source(model, &adapters) != GRAFT_OK) return fail(context, "load adapters");
    /* Half of them and half of the same: as before, but of twice the rank. */
    const graft_source* both[2] = {&adapters, &adapters};
    const double halves[2] = {0.5, 0.5};
    if (graft_model_load_adapters_sources(model, both, halves, 2) != GRAFT_OK) return fail(context, "several adapters");
    if (graft_session_create(model, &options, &session) != GRAFT_OK) return fail(context, "session");
    if (graft_session_set_input(session, input.name, numbers_in, numbers * sizeof *numbers_in) != GRAFT_OK) {
      return fail(context, "set_input");
    }
    if (graft_session_swap_adapters_source(session, &adapters) != GRAFT_OK) return fail(context, "swap");
    if (run(context, session, output.name, &outputs[i]) != 0) return 1;
    fclose(kept);
    free(numbers_in);
    graft_session_destroy(session);
    graft_model_destroy(model);
  }
  printf("%f from memory, %f from a package, %f from a reader\n", outputs[0], outputs[1], outputs[2]);
  if (outputs[0] != outputs[1] || outputs[0] != outputs[2]) return 1;

  /* Adapters of a running generator are swapped in the same way; this model writes no text. */
  if (graft_generator_swap_adapters_source(NULL, &sources[0]) != GRAFT_INVALID_ARGUMENT) return 1;
  fclose(package);
  fclose(file);
  graft_context_destroy(context);
  free(data);
  return 0;
}
