/* Reads and writes a model's numbers and words, and changes the learning rate in the course of a run.
   usage: parameters MODEL OUT */
#include <graft/graft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 4

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  graft_model* model = NULL;
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "load");

  /* Words. */
  const char* key = NULL;
  const char* value = NULL;
  if (graft_model_set_metadata(model, "app.note", "halved") != GRAFT_OK) return fail(context, "set_metadata");
  for (size_t i = 0; i < graft_model_metadata_count(model); ++i) {
    if (graft_model_metadata_at(model, i, &key, &value) != GRAFT_OK) return fail(context, "metadata_at");
    printf("%s: %.40s\n", key, value);
  }
  if (graft_model_metadata(model, "app.note", &value) != GRAFT_OK || strcmp(value, "halved") != 0) {
    return fail(context, "metadata");
  }

  /* Numbers: the first parameter, halved. */
  graft_tensor_info first;
  graft_tensor_info input;
  if (graft_model_tensor(model, GRAFT_PARAMETERS, 0, &first) != GRAFT_OK) return fail(context, "parameter");
  if (graft_model_tensor(model, GRAFT_INPUTS, 0, &input) != GRAFT_OK) return fail(context, "input");
  size_t count = 1;
  for (uint32_t i = 0; i < first.rank; ++i) count *= (size_t)first.dims[i];
  float* numbers = malloc(count * sizeof *numbers);
  float* trained = malloc(count * sizeof *trained);
  if (numbers == NULL || trained == NULL) return 2;
  if (graft_model_read(model, first.name, numbers, count * sizeof *numbers, NULL) != GRAFT_OK) {
    return fail(context, "read");
  }
  for (size_t i = 0; i < count; ++i) numbers[i] *= 0.5f;
  if (graft_model_write(model, first.name, numbers, count * sizeof *numbers) != GRAFT_OK) return fail(context, "write");
  if (graft_model_save(model, argv[2]) != GRAFT_OK) return fail(context, "save");

  /* A trainer whose biases do not decay, and whose rate falls by half after a step. */
  size_t per_sample = 1;
  for (uint32_t i = 1; i < input.rank; ++i) per_sample *= (size_t)input.dims[i];
  float* x = malloc(SAMPLES * per_sample * sizeof *x);
  if (x == NULL) return 2;
  for (size_t i = 0; i < SAMPLES * per_sample; ++i) x[i] = (float)(i % 7) * 0.1f;
  const int32_t labels[SAMPLES] = {0, 1, 2, 3};
  const void* inputs[] = {x};
  graft_parameter_group no_decay;
  graft_parameter_group_init(&no_decay);
  no_decay.pattern = "*bias*";
  no_decay.weight_decay = 0;
  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  graft_trainer_options_init(&options, GRAFT_ADAMW);
  options.batch = SAMPLES;
  options.weight_decay = 0.01;
  options.groups = &no_decay;
  options.group_count = 1;
  graft_trainer* trainer = NULL;
  graft_metrics metrics = {0};
  metrics.struct_size = sizeof metrics;
  double rate = 0;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  if (graft_train_step(trainer, inputs, 1, labels, SAMPLES, &metrics) != GRAFT_OK) return fail(context, "step");
  if (graft_trainer_learning_rate(trainer, &rate) != GRAFT_OK) return fail(context, "learning_rate");
  if (graft_trainer_set_learning_rate(trainer, rate / 2) != GRAFT_OK) return fail(context, "set_learning_rate");
  if (graft_train_step(trainer, inputs, 1, labels, SAMPLES, &metrics) != GRAFT_OK) return fail(context, "step");
  printf("learning rate %g, then %g\n", rate, metrics.learning_rate);
  if (metrics.learning_rate != rate / 2) return 1;

  /* And the parameter put back to what it was before these steps. */
  if (graft_trainer_read(trainer, first.name, trained, count * sizeof *trained, NULL) != GRAFT_OK) {
    return fail(context, "trainer read");
  }
  if (memcmp(trained, numbers, count * sizeof *trained) == 0) return 1;
  if (graft_trainer_write(trainer, first.name, numbers, count * sizeof *numbers) != GRAFT_OK) {
    return fail(context, "trainer write");
  }
  graft_trainer_destroy(trainer);

  /* Two classes more: the rows of the others keep their bits. */
  graft_head_options head = {0};
  head.struct_size = sizeof head;
  head.classes = 12;
  if (graft_model_resize_head(model, &head) != GRAFT_OK) return fail(context, "resize_head");
  graft_model_destroy(model);
  graft_context_destroy(context);
  free(x);
  free(trained);
  free(numbers);
  return 0;
}
