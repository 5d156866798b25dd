/* What can be known before anything runs: devices, a model's layers, what training would take and what other choices
   there are; and whether file and device are to be trusted.
   usage: inspect_c MODEL CACHE_FOLDER [--self-test] */
#include <graft/cache.h>
#include <graft/graft.h>
#include <stdio.h>
#include <string.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

static void count_kernel(void* user, const char* kernel, graft_kernel_verdict verdict, const char* why) {
  size_t* counts = user;
  ++counts[verdict];
  if (verdict == GRAFT_KERNEL_FAILED) printf("%s: %s\n", kernel, why);
}

static void print_choice(void* user, const char* choice, const char* variant) {
  (void)user;
  printf("  %s: %s\n", choice, variant);
}

static void print_devices(void) {
  graft_devices* devices = NULL;
  if (graft_devices_find(NULL, &devices) != GRAFT_OK) printf("%s\n", graft_devices_message(devices));
  for (size_t i = 0; i < graft_devices_count(devices); ++i) {
    graft_device_info info = {0};
    graft_device_fact fact = {0};
    graft_device_quirk quirk = {0};
    graft_device_heap heap = {0};
    size_t seen[3] = {0, 0, 0};
    const char* file = "";
    info.struct_size = sizeof info;
    fact.struct_size = sizeof fact;
    quirk.struct_size = sizeof quirk;
    heap.struct_size = sizeof heap;
    if (graft_devices_info(devices, i, &info) != GRAFT_OK) continue;
    printf("%s, %llu bytes\n", info.name, (unsigned long long)info.memory);
    for (size_t f = 0; graft_devices_fact(devices, i, f, &fact) == GRAFT_OK; ++f) {
      if (fact.is_feature && fact.values[0]) printf("  %s\n", fact.text != NULL ? fact.text : fact.name);
    }
    for (size_t h = 0; graft_devices_heap(devices, i, h, &heap) == GRAFT_OK; ++h) {
      printf("  %llu bytes %s\n", (unsigned long long)heap.bytes, heap.device_local ? "of its own" : "of the host");
    }
    if (graft_devices_remembered(devices, i, "", count_kernel, print_choice, seen, &file) == GRAFT_OK && *file == 0) {
      printf("  nothing is remembered without a folder\n");
    }
    for (size_t q = 0; graft_devices_quirk(devices, i, q, &quirk) == GRAFT_OK; ++q) {
      printf("  %s: %s\n", quirk.action, quirk.reason);
    }
  }
  graft_devices_destroy(devices);
}

static int print_node(void* user, const graft_node_verdict* verdict) {
  (void)user;
  printf("%s: %g%s\n", verdict->node, verdict->forward, verdict->passed ? "" : " FAILED");
  return 0;
}

static int plan(graft_context* context, graft_model* model) {
  graft_trainer_options training = {0};
  graft_plan_options options = {0};
  graft_plan* plan = NULL;
  graft_forecast forecast = {0};
  const graft_plan_point* points = NULL;
  size_t count = 0;
  training.struct_size = sizeof training;
  graft_trainer_options_init(&training, GRAFT_ADAMW);
  options.struct_size = sizeof options;
  graft_plan_options_init(&options);
  options.training = &training;
  options.curve = 1;
  forecast.struct_size = sizeof forecast;
  if (graft_plan_create(model, &options, &plan) != GRAFT_OK || graft_plan_forecast(plan, &forecast) != GRAFT_OK ||
      graft_plan_curve(plan, &points, &count) != GRAFT_OK) {
    return fail(context, "plan");
  }
  printf("a step takes %llu bytes and %llu FLOPs\n", (unsigned long long)forecast.total,
         (unsigned long long)forecast.flops);
  for (size_t i = 0; i < count; ++i) {
    printf("  with %llu bytes %llu FLOPs more\n", (unsigned long long)points[i].bytes,
           (unsigned long long)points[i].extra_flops);
  }
  for (size_t i = 0; i < graft_plan_node_count(plan); ++i) {
    graft_plan_node node = {0};
    node.struct_size = sizeof node;
    if (graft_plan_node_at(plan, i, &node) == GRAFT_OK) printf("  %s %s\n", node.op, node.name);
  }
  for (size_t i = 0; i < graft_plan_value_count(plan); ++i) {
    graft_plan_value value = {0};
    value.struct_size = sizeof value;
    if (graft_plan_value_at(plan, i, &value) == GRAFT_OK && value.saved) printf("  saved: %s\n", value.name);
  }
  graft_plan_info info = {0};
  info.struct_size = sizeof info;
  const char* json = NULL;
  if (graft_plan_describe(plan, &info) != GRAFT_OK || graft_plan_report(plan, &json) != GRAFT_OK) {
    return fail(context, "report");
  }
  printf("for %s: %u dispatches, an arena of %llu bytes; %zu bytes of report\n", info.device, info.dispatches,
         (unsigned long long)info.arena, strlen(json));
  graft_plan_destroy(plan);

  /* On a phone that is not here: does it fit, and how long would a step take? */
  graft_known_device known = {0};
  known.struct_size = sizeof known;
  size_t at = 0;
  while (graft_known_device_at(at, &known) == GRAFT_OK && !known.has_figures) ++at;
  printf("%s\n", known.summary);
  if (graft_trainer_options_init(&training, GRAFT_MUON) != GRAFT_OK || training.momentum == 0) return fail(context, "muon");
  training.no_evaluation = 1;
  options.caps = known.name;
  options.figures = "";
  options.passes = 1;
  if (graft_plan_create(model, &options, &plan) != GRAFT_OK || graft_plan_describe(plan, &info) != GRAFT_OK) {
    return fail(context, "phone");
  }
  printf("%s: %g ms, %s\n", info.device, 1e3 * info.seconds, forecast.total < info.largest_heap ? "fits" : "too large");
  graft_plan_destroy(plan);

  /* What a library for this model and that phone has to hold: -DGRAFT_OPS=FILE. */
  options.training = NULL;
  options.figures = NULL;
  options.curve = 0;
  if (graft_model_parts(model, &options, 1, &json) != GRAFT_OK) return fail(context, "parts");
  printf("%s", json);
  return 0;
}

/* What a model takes and gives, as `graft info` has it. */
static int print_tensors(graft_context* context, graft_model* model) {
  const graft_binding* bindings = NULL;
  size_t count = 0;
  for (size_t i = 0; i < graft_model_count(model, GRAFT_OUTPUTS); ++i) {
    graft_tensor_text text = {0};
    uint32_t axis = 0;
    const char* says = NULL;
    text.struct_size = sizeof text;
    if (graft_model_tensor_text(model, GRAFT_OUTPUTS, i, &text) != GRAFT_OK) return fail(context, "tensor");
    printf("%s %s%s\n", text.name, text.dtype, text.shape);
    const graft_status counted = graft_model_counted(model, i, &axis, &says);
    if (counted == GRAFT_OK) printf("  as long along axis %u as %s says\n", axis, says);
    if (counted != GRAFT_OK && counted != GRAFT_NOT_FOUND) return fail(context, "counted");
  }
  if (graft_model_complete_bindings(model, NULL, 0, &bindings, &count) != GRAFT_OK) return fail(context, "bindings");
  for (size_t i = 0; i < count; ++i) printf("%s = %lld\n", bindings[i].name, (long long)bindings[i].size);
  return 0;
}

int main(int argc, char** argv) {
  graft_context* context = NULL;
  graft_model* model = NULL;
  const graft_layer* layers = NULL;
  const graft_damage* damage = NULL;
  size_t count = 0, kernels[3] = {0, 0, 0};
  graft_context_options nowhere = {0};
  if (argc < 3) return 2;
  print_devices();
  nowhere.struct_size = sizeof nowhere;
  graft_context_options_init(&nowhere);
  nowhere.device = "none";
  const graft_status opened = graft_context_create(NULL, &context);
  const int has_device = opened == GRAFT_OK;
  if (!has_device) {
    graft_context_destroy(context);
    if (graft_context_create(&nowhere, &context) != GRAFT_OK) return fail(context, "context");
  }
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "model");
  if (graft_model_find_damage(model, &damage, &count) != GRAFT_OK) return fail(context, "file");
  for (size_t i = 0; i < count; ++i) printf("%s is damaged\n", damage[i].weight);
  printf("%llu bytes of weights\n", (unsigned long long)graft_model_weight_bytes(model));
  if (print_tensors(context, model) != 0) return 1;
  if (graft_model_layers(model, NULL, 0, &layers, &count) != GRAFT_OK) return fail(context, "layers");
  for (size_t i = 0; i < count; ++i) printf("%-12s %s %s\n", layers[i].op, layers[i].name, layers[i].shape);
  if (plan(context, model) != 0) return 1;
  if (has_device) {
    graft_cache_options cache = {0};
    cache.struct_size = sizeof cache;
    cache.folder = argv[2];
    if (graft_context_open_cache(context, &cache) != GRAFT_OK) return fail(context, "cache");
    graft_rounding rounding = {0};
    rounding.struct_size = sizeof rounding;
    if (graft_context_rounding(context, &rounding) != GRAFT_OK) return fail(context, "rounding");
    if (rounding.rounds != 0) return 1; /* nobody asked for it */
    graft_verify_options compared = {0};
    compared.struct_size = sizeof compared;
    graft_verify_options_init(&compared);
    if (graft_model_verify(model, &compared, print_node, NULL, NULL, NULL) != GRAFT_OK) return fail(context, "verify");
    if (argc > 3 && graft_context_self_test(context, count_kernel, kernels) != GRAFT_OK) return fail(context, "test");
    if (argc <= 3 && graft_context_known_kernels(context, count_kernel, kernels) != GRAFT_OK)
      return fail(context, "known");
    printf("%zu kernels passed, %zu failed\n", kernels[GRAFT_KERNEL_PASSED], kernels[GRAFT_KERNEL_FAILED]);
  }
  graft_model_destroy(model);
  graft_context_destroy(context);
  return has_device ? 0 : 77;
}
