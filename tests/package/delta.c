/* A round of federated learning without a device: two clients change a model, their deltas are sent as integers behind
   masks that cancel, averaged, and put on the model. usage: delta MODEL NEW DELTA; writes NEW and DELTA */
#include <graft/graft.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CLIENTS 2
#define WEIGHT "fc2.bias"
#define COUNT 10

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* What training would do: the first client adds 0.25, the second takes 0.5 away. */
static graft_status train(graft_model* model, int client) {
  float numbers[COUNT];
  graft_status status = graft_model_read(model, WEIGHT, numbers, sizeof numbers, NULL);
  if (status != GRAFT_OK) return status;
  for (int i = 0; i < COUNT; ++i) numbers[i] += client == 0 ? 0.25f : -0.5f;
  return graft_model_write(model, WEIGHT, numbers, sizeof numbers);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  graft_context* context = NULL;
  graft_context_options no_device = {0};
  no_device.struct_size = sizeof no_device;
  graft_context_options_init(&no_device);
  no_device.device = "none";
  if (graft_context_create(&no_device, &context) != GRAFT_OK) return fail(context, "context");
  graft_model* base = NULL;
  if (graft_model_load(context, argv[1], &base) != GRAFT_OK) return fail(context, "load");

  graft_delta* deltas[CLIENTS] = {NULL, NULL};
  for (int client = 0; client < CLIENTS; ++client) {
    graft_model* mine = NULL;
    if (graft_model_load(context, argv[1], &mine) != GRAFT_OK) return fail(context, "load again");
    if (train(mine, client) != GRAFT_OK) return fail(context, "train");
    graft_delta_options options = {0};
    options.struct_size = sizeof options;
    graft_delta_options_init(&options);
    options.samples = 100;
    options.local_steps = 3;
    options.coding = GRAFT_DELTA_FIXED;
    if (graft_delta_make(base, mine, &options, &deltas[client]) != GRAFT_OK) return fail(context, "make");
    /* In a quarter of the bytes; what rounding loses goes into the same client's next delta. */
    graft_delta* coarse = NULL;
    options.coding = GRAFT_DELTA_INT8;
    if (graft_residual_create(context, &options.kept) != GRAFT_OK) return fail(context, "residual");
    if (graft_delta_make(base, mine, &options, &coarse) != GRAFT_OK) return fail(context, "int8");
    graft_delta_destroy(coarse);
    graft_residual_destroy(options.kept);
    graft_model_destroy(mine);
    /* The two clients have agreed on a mask, which one adds and the other takes away. */
    uint32_t* integers = NULL;
    size_t count = 0;
    if (graft_delta_integers(deltas[client], WEIGHT, &integers, &count) != GRAFT_OK) return fail(context, "integers");
    for (size_t i = 0; i < count; ++i)
      integers[i] += client == 0 ? 0x9e3779b9u * (uint32_t)(i + 1) : 0u - 0x9e3779b9u * (uint32_t)(i + 1);
  }

  /* As bytes over the network, and back. */
  const void* sent = NULL;
  size_t bytes = 0;
  if (graft_delta_bytes(deltas[0], &sent, &bytes) != GRAFT_OK) return fail(context, "bytes");
  graft_source source = {0};
  source.struct_size = sizeof source;
  source.kind = GRAFT_SOURCE_MEMORY;
  source.data = sent;
  source.bytes = bytes;
  source.copy = 1;
  graft_delta* received = NULL;
  if (graft_delta_load_source(context, &source, &received) != GRAFT_OK) return fail(context, "receive");
  graft_delta_destroy(deltas[0]);
  deltas[0] = received;

  graft_delta* average = NULL;
  graft_average_options how = {0};
  how.struct_size = sizeof how;
  if (graft_delta_average(context, deltas, CLIENTS, &how, &average) != GRAFT_OK) return fail(context, "average");
  graft_delta_info info = {0};
  info.struct_size = sizeof info;
  graft_tensor_info tensor;
  float change[COUNT];
  if (graft_delta_describe(average, &info) != GRAFT_OK) return fail(context, "describe");
  if (graft_delta_tensor(average, 0, &tensor) != GRAFT_OK) return fail(context, "tensor");
  graft_tensor_text text = {0};
  text.struct_size = sizeof text;
  if (graft_delta_tensor_text(average, 0, &text) != GRAFT_OK) return fail(context, "text");
  printf("%s %s%s\n", text.name, text.dtype, text.shape);
  if (graft_delta_numbers(average, tensor.name, change, COUNT) != GRAFT_OK) return fail(context, "numbers");
  printf("%u clients, %llu samples: %s changes by %g of weights %s\n", (unsigned)info.clients,
         (unsigned long long)info.samples, tensor.name, change[0], info.base);
  if (fabsf(change[0] + 0.125f) > 1e-6f) return 1;

  if (info.fixed_bits != 0 || info.kept != 1) return 1; /* it is of numbers, and of no products */

  /* The same of one delta after the other, as a server of many clients does it, and a step of its optimizer. */
  graft_averager* averager = NULL;
  graft_delta* same = NULL;
  if (graft_averager_create(context, &how, &averager) != GRAFT_OK) return fail(context, "averager");
  for (int client = 0; client < CLIENTS; ++client) {
    if (graft_averager_add(averager, deltas[client]) != GRAFT_OK) return fail(context, "add");
  }
  if (graft_averager_finish(averager, &same) != GRAFT_OK) return fail(context, "finish");
  graft_averager_destroy(averager);
  graft_server_options optimizer = {0};
  optimizer.struct_size = sizeof optimizer;
  graft_server_options_init(&optimizer);
  optimizer.kind = GRAFT_SERVER_FEDADAM;
  graft_server* server = NULL;
  graft_delta* step = NULL;
  float stepped[COUNT];
  if (graft_server_create(context, &optimizer, &server) != GRAFT_OK) return fail(context, "server");
  if (graft_server_keeps(server) != 1) return 1; /* moments */
  if (graft_server_step(server, base, same, &step) != GRAFT_OK) return fail(context, "step");
  if (graft_delta_numbers(step, WEIGHT, stepped, COUNT) != GRAFT_OK) return fail(context, "numbers of the step");
  if (!(stepped[0] < 0)) return 1; /* in the direction of the average */
  if (graft_server_save(server, argv[3]) != GRAFT_OK) return fail(context, "save the moments");
  if (graft_server_load(server, argv[3]) != GRAFT_OK) return fail(context, "load the moments");
  graft_delta_destroy(step);
  graft_delta_destroy(same);
  graft_server_destroy(server);

  if (graft_delta_save(average, argv[3]) != GRAFT_OK) return fail(context, "save");
  graft_delta* kept = NULL;
  if (graft_delta_load(context, argv[3], &kept) != GRAFT_OK) return fail(context, "load the delta");
  if (graft_delta_apply(base, kept, 1) != GRAFT_OK) return fail(context, "apply");
  if (graft_delta_apply(base, kept, 1) != GRAFT_INVALID_ARGUMENT) return fail(context, "it is no longer the base");
  if (graft_model_save(base, argv[2]) != GRAFT_OK) return fail(context, "save the model");

  double epsilon = 0;
  if (graft_delta_privacy(context, 1.1, 0.01, 1000, 1e-5, &epsilon) != GRAFT_OK) return fail(context, "privacy");
  printf("1000 rounds of 1%% of the clients at noise 1.1: epsilon %.3g by the order %u\n", epsilon,
         (unsigned)graft_delta_privacy_order(1.1, 0.01, 1000, 1e-5));

  graft_delta_destroy(kept);
  graft_delta_destroy(average);
  for (int client = 0; client < CLIENTS; ++client) graft_delta_destroy(deltas[client]);
  graft_model_destroy(base);
  graft_context_destroy(context);
  return 0;
}
