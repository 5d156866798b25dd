/* Loads a model and runs it: what a library without training and text is for.
   usage: infer_c MODEL */
#include <graft/external.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* On a thread of graft's. */
static void done(void* user, graft_status status, const char* message) {
  if (status != GRAFT_OK) fprintf(stderr, "run: %s\n", message);
  atomic_store((atomic_int*)user, status == GRAFT_OK ? 1 : 2);
}

static void progress(void* user, graft_stage stage, uint64_t at, uint64_t total) {
  if (stage == GRAFT_STAGE_KERNELS && at == total) ++*(int*)user;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  graft_model* model = NULL;
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "load");
  graft_tensor_info input;
  graft_tensor_info output;
  if (graft_model_tensor(model, GRAFT_INPUTS, 0, &input) != GRAFT_OK) return fail(context, "input");
  if (graft_model_tensor(model, GRAFT_OUTPUTS, 0, &output) != GRAFT_OK) return fail(context, "output");
  size_t count = 1;
  for (uint32_t i = 1; i < input.rank; ++i) count *= (size_t)input.dims[i];
  float* x = calloc(count, sizeof *x);
  graft_binding batch = {"batch", 1};
  graft_session_options options = {0};
  options.struct_size = sizeof options;
  options.bindings = &batch;
  options.binding_count = 1;
  int compiled = 0;
  if (graft_set_progress(context, progress, &compiled) != GRAFT_OK) return fail(context, "progress");
  graft_session* session = NULL;
  if (graft_session_create(model, &options, &session) != GRAFT_OK) return fail(context, "session");
  if (graft_session_set_input(session, input.name, x, count * sizeof *x) != GRAFT_OK) return fail(context, "input");
  /* The app was in the background meanwhile, and gave the device's memory back. */
  if (graft_session_pause(session) != GRAFT_OK) return fail(context, "pause");
  if (graft_session_resume(session) != GRAFT_OK) return fail(context, "resume");
  if (graft_session_run(session) != GRAFT_OK) return fail(context, "run");
  /* The same while the app does something else; a real one would be told by its own queue. */
  atomic_int state = 0;
  if (graft_session_run_async(session, done, &state) != GRAFT_OK) return 1;
  const struct timespec moment = {0, 1000000};
  while (atomic_load(&state) == 0) thrd_sleep(&moment, NULL);
  if (atomic_load(&state) != 1 || compiled == 0) return 1;
  /* Or with a task, which can be waited for and cancelled: nobody needs the second frame. */
  graft_task* frames[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) {
    if (graft_task_create(context, &frames[i]) != GRAFT_OK) return 1;
    if (graft_session_run_async(session, graft_task_done, frames[i]) != GRAFT_OK) return 1;
  }
  graft_task_cancel(frames[1]);
  for (int i = 0; i < 2; ++i) {
    graft_status outcome = GRAFT_OK;
    if (graft_task_wait(frames[i], 60e3, &outcome) != GRAFT_OK) return 1;
    if (outcome != GRAFT_OK && (i == 0 || outcome != GRAFT_CANCELLED)) {
      fprintf(stderr, "frame %d: %s\n", i, graft_task_message(frames[i]));
      return 1;
    }
    graft_task_destroy(frames[i]);
  }
  if (graft_session_run(session) != GRAFT_OK) return fail(context, "run");
  const void* data = NULL;
  size_t bytes = 0;
  if (graft_session_output(session, output.name, &data, &bytes, NULL) != GRAFT_OK) return fail(context, "output");
  for (size_t i = 0; i < bytes / sizeof(float); ++i) printf("%a\n", ((const float*)data)[i]);
  graft_session_destroy(session);
  /* Batches of up to four, in the memory of the largest. */
  batch.size = 4;
  options.resizable = 1;
  if (graft_session_create(model, &options, &session) != GRAFT_OK) return fail(context, "session of four");
  for (batch.size = 1; batch.size <= 4; ++batch.size) {
    if (graft_session_resize(session, &batch, 1) != GRAFT_OK) return fail(context, "resize");
  }
  graft_session_destroy(session);
  /* One picture as the bytes that a decoder gave. */
  const float scale = 1.0f / 255;
  graft_input_format pixels = {0};
  pixels.name = input.name;
  pixels.element = GRAFT_ELEMENT_U8;
  pixels.scale = &scale;
  pixels.scale_count = 1;
  options.inputs = &pixels;
  options.input_count = 1;
  batch.size = 1;
  const graft_status made = graft_session_create(model, &options, &session);
  if (made == GRAFT_UNSUPPORTED) { /* a library of one model's ops has no fused_unpack, unless it is asked for */
    graft_model_destroy(model);
    graft_context_destroy(context);
    free(x);
    return 0;
  }
  if (made != GRAFT_OK) return fail(context, "session of bytes");
  if (graft_session_set_input(session, input.name, x, count) != GRAFT_OK) return fail(context, "bytes");
  if (graft_session_run(session) != GRAFT_OK) return fail(context, "run of bytes");
  /* Or from memory that a camera or a decoder fills; here the app's own. A device without the extension says so. */
  const size_t page = 65536;
  graft_external_memory picture = {0};
  picture.struct_size = sizeof picture;
  picture.kind = GRAFT_EXTERNAL_HOST;
  picture.bytes = (count + page - 1) / page * page;
  char* pages = malloc(picture.bytes + page);
  if (pages == NULL) return 1;
  picture.pointer = pages + (page - (uintptr_t)pages % page) % page;
  const graft_status bound = graft_session_bind(session, input.name, &picture);
  if (bound != GRAFT_OK && bound != GRAFT_UNSUPPORTED) return fail(context, "bind");
  if (graft_session_run(session) != GRAFT_OK) return fail(context, "run of memory");
  graft_session_destroy(session);
  free(pages);
  graft_model_destroy(model);
  graft_context_destroy(context);
  free(x);
  return 0;
}
