/* A model on the app's own Vulkan device, which a renderer would use as well: vulkan_c MODEL */
#include <graft/vulkan.h>
#include <stdio.h>
#include <stdlib.h>
#include <vulkan/vulkan.h>

static int fail(graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, context == NULL ? "" : graft_message(context));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return fail(NULL, "vulkan_c MODEL");
  VkApplicationInfo app = {0};
  app.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  app.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo start = {0};
  start.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  start.pApplicationInfo = &app;
  graft_vulkan_device mine = {0};
  mine.struct_size = sizeof mine;
  mine.get_instance_proc_addr = vkGetInstanceProcAddr;
  mine.api_version = app.apiVersion;
  if (vkCreateInstance(&start, NULL, &mine.instance) != VK_SUCCESS) return 77; /* no device here: skipped */
  uint32_t count = 1;
  (void)vkEnumeratePhysicalDevices(mine.instance, &count, &mine.physical_device);
  if (count == 0) return 77;

  /* The app's own extensions and features would come besides. */
  const graft_vulkan_wanted_device* wanted = NULL;
  if (graft_vulkan_wanted(&mine, &wanted) != GRAFT_OK) return fail(NULL, "wanted");
  const float priority = 0.5f;
  VkDeviceQueueCreateInfo queue = {0};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = wanted->queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info = {0};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = wanted->features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = wanted->extension_count;
  info.ppEnabledExtensionNames = wanted->extensions;
  if (vkCreateDevice(mine.physical_device, &info, NULL, &mine.device) != VK_SUCCESS) return fail(NULL, "device");
  mine.queue_family = wanted->queue_family;
  vkGetDeviceQueue(mine.device, mine.queue_family, 0, &mine.queue);
  mine.extensions = wanted->extensions;
  mine.extension_count = wanted->extension_count;
  mine.features = wanted->features;

  graft_context* context = NULL;
  if (graft_context_create_vulkan(NULL, &mine, &context) != GRAFT_OK) return fail(context, "context");
  graft_vulkan_wanted_destroy(wanted);
  graft_model* model = NULL;
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "model");
  graft_tensor_info input, output;
  if (graft_model_tensor(model, GRAFT_INPUTS, 0, &input) != GRAFT_OK) return fail(context, "input");
  if (graft_model_tensor(model, GRAFT_OUTPUTS, 0, &output) != GRAFT_OK) return fail(context, "output");
  size_t size = 1;
  for (uint32_t i = 1; i < input.rank; ++i) size *= (size_t)input.dims[i];
  float* x = calloc(size, sizeof *x);
  graft_binding batch = {"batch", 1};
  graft_session_options options = {0};
  options.struct_size = sizeof options;
  options.bindings = &batch;
  options.binding_count = 1;
  graft_session* session = NULL;
  if (graft_session_create(model, &options, &session) != GRAFT_OK) return fail(context, "session");
  if (graft_session_set_input(session, input.name, x, size * sizeof *x) != GRAFT_OK) return fail(context, "input");
  if (graft_session_run(session) != GRAFT_OK) return fail(context, "run");
  const void* data = NULL;
  size_t bytes = 0;
  if (graft_session_output(session, output.name, &data, &bytes, NULL) != GRAFT_OK) return fail(context, "output");
  for (size_t i = 0; i < bytes / sizeof(float); ++i) printf("%a\n", ((const float*)data)[i]);

  /* graft first, then what was lent to it. */
  graft_session_destroy(session);
  graft_model_destroy(model);
  graft_context_destroy(context);
  free(x);
  vkDestroyDevice(mine.device, NULL);
  vkDestroyInstance(mine.instance, NULL);
  return 0;
}
