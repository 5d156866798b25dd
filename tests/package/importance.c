/* What a text says of which columns of a language model's matrices matter, as an importance matrix to quantize by.
   usage: importance MODEL TEXT IMATRIX.gguf [QUANTIZED.gguf] */
#include <graft/convert.h>
#include <graft/graft.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* Ends the program's talk with the converter. */
static int told(graft_status status, graft_conversion* conversion) {
  if (status != GRAFT_OK) fprintf(stderr, "%s\n", graft_conversion_message(conversion));
  printf("%s", graft_conversion_report(conversion));
  graft_conversion_destroy(conversion);
  return status == GRAFT_OK ? 0 : 1;
}

static int write_matrix(const graft_importance* importance, const char* model, const char* text, const char* output) {
  graft_importance_info info = {0};
  info.struct_size = sizeof info;
  if (graft_importance_describe(importance, &info) != GRAFT_OK) return 1;
  const size_t count = graft_importance_count(importance);
  graft_importance_matrix* matrices = malloc(count * sizeof *matrices);
  if (matrices == NULL) return 1;
  for (size_t i = 0; i < count; ++i) graft_importance_at(importance, i, &matrices[i]);
  printf("%zu matrices, %llu chunks of %u tokens, %llu tokens in none\n", count, (unsigned long long)info.chunks,
         (unsigned)info.context, (unsigned long long)info.dropped);
  graft_imatrix_options options = {0};
  options.struct_size = sizeof options;
  options.matrices = matrices;
  options.matrix_count = count;
  options.datasets = &text;
  options.dataset_count = 1;
  options.chunks = info.chunks;
  options.context = info.context;
  graft_conversion* conversion = NULL;
  const graft_status status = graft_write_imatrix(model, &options, output, &conversion);
  free(matrices);
  return told(status, conversion);
}

/* The model as q4_0 blocks, whose scales leave the least error where it matters. */
static int quantize(const char* model, const char* matrix, const char* output) {
  graft_export_options options = {0};
  options.struct_size = sizeof options;
  options.format = "gguf";
  options.dtype = "q4_0";
  options.imatrix = matrix;
  graft_conversion* conversion = NULL;
  const graft_status status = graft_export(model, &options, output, &conversion);
  return told(status, conversion);
}

/* What the matrices are multiplied with, over chunks of a few tokens. */
static int add_up(graft_context* context, graft_importance* importance, const char* path) {
  static char text[1 << 20];
  FILE* file = fopen(path, "rb");
  if (file == NULL) return 1;
  const size_t bytes = fread(text, 1, sizeof text, file);
  fclose(file);
  uint64_t waiting = 0;
  if (graft_importance_add(importance, text, bytes, &waiting) != GRAFT_OK) return fail(context, "text");
  while (waiting != 0) { /* an app would draw a bar, and might stop here */
    if (graft_importance_step(importance, &waiting) != GRAFT_OK) return fail(context, "chunk");
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  graft_model* model = NULL;
  graft_importance* importance = NULL;
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "load");
  graft_importance_options options = {0};
  options.struct_size = sizeof options;
  options.context = 16;
  if (graft_importance_create(model, &options, &importance) != GRAFT_OK) return fail(context, "importance");
  graft_memory memory = {0};
  memory.struct_size = sizeof memory;
  if (graft_importance_memory(importance, &memory) != GRAFT_OK) return fail(context, "memory");
  printf("%llu bytes, whatever the text's length\n", (unsigned long long)memory.total);
  if (add_up(context, importance, argv[2]) != 0) return 1;
  /* The same of tokens that the app has. */
  int32_t ids[16];
  for (int i = 0; i < 16; ++i) ids[i] = 1 + i % 3;
  if (graft_importance_add_tokens(importance, ids, 16, NULL) != GRAFT_OK) return fail(context, "tokens");
  if (graft_importance_step(importance, NULL) != GRAFT_OK) return fail(context, "chunk");
  if (write_matrix(importance, argv[1], argv[2], argv[3]) != 0) return 1;
  graft_importance_destroy(importance);
  graft_model_destroy(model);
  graft_context_destroy(context);
  return argc == 5 ? quantize(argv[1], argv[3], argv[4]) : 0;
}
