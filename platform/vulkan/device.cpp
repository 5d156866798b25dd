#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "platform/vulkan/features.h"
#include "platform/vulkan/objects.h"
#include "platform/vulkan/pipeline_cache.h"

namespace graft::vulkan {
namespace {

/// What graft switches on, by what describe() found.
void enable(const PhysicalDevice& device, FeatureChain& features) {
  const gpu::Caps& caps = device.target.caps;
  features.all.features.shaderInt64 = caps.shader_int64;
  features.storage16.storageBuffer16BitAccess = caps.storage_16bit;
  features.storage8.storageBuffer8BitAccess = caps.storage_8bit;
  features.float16.shaderFloat16 = caps.shader_float16;
  features.float16.shaderInt8 = caps.shader_int8;
  features.timeline.timelineSemaphore = caps.timeline_semaphore;
  features.integer_dot.shaderIntegerDotProduct = caps.integer_dot;
  features.matrix.cooperativeMatrix = caps.cooperative_matrix;
  features.matrix2.cooperativeMatrixFlexibleDimensions = !caps.flexible_shapes.empty();
  features.matrix2.cooperativeMatrixPerElementOperations = !caps.flexible_shapes.empty();
  features.maintenance4.maintenance4 = !caps.flexible_shapes.empty();
  features.bfloat16.shaderBFloat16Type = caps.shader_bfloat16;
  features.bfloat16.shaderBFloat16CooperativeMatrix = caps.shader_bfloat16;
  features.subgroup_size.subgroupSizeControl = device.sets_subgroup_size;
  features.subgroup_size.computeFullSubgroups = device.full_subgroups;
  features.memory_model.vulkanMemoryModel = caps.cooperative_matrix;
  features.memory_model.vulkanMemoryModelDeviceScope = caps.cooperative_matrix && device.atomics_in_memory_model;
  features.executables.pipelineExecutableInfo = VK_TRUE;  // linked only where it was asked for
}

class VulkanDevice final : public gpu::Device {
 public:
  static Result<std::unique_ptr<gpu::Device>> create(const DeviceOptions& options);

  explicit VulkanDevice(const DeviceOptions& options)
      : files_(options.files),
        memory_(context_, options.block_bytes, options.assume_non_coherent),
        submissions_(context_),
        cache_(context_),
        layouts_(context_),
        idle_(context_) {}

  const gpu::Target& target() const override { return context_.target(); }
  void set_advice(gpu::Advice advice) override { context_.physical.target.advice = std::move(advice); }

  Result<std::unique_ptr<gpu::Buffer>> create_buffer(std::uint64_t bytes, gpu::MemoryKind kind,
                                                     std::string_view name) override {
    return VulkanBuffer::create(owner_, bytes, kind, name);
  }
  Result<std::unique_ptr<gpu::Buffer>> import_buffer(const gpu::ExternalMemory& memory,
                                                     std::string_view name) override {
    return VulkanBuffer::import(owner_, memory, name);
  }
  Result<std::vector<std::unique_ptr<gpu::Kernel>>> create_kernels(std::span<const gpu::KernelDesc> kernels) override {
    return VulkanKernel::create(owner_, layouts_, cache_.handle(), kernels);
  }
  Result<gpu::KernelReport> report(const gpu::Kernel& kernel) override {
    return static_cast<const VulkanKernel&>(kernel).report();
  }
  Result<std::unique_ptr<gpu::Recorder>> record(std::string_view name, std::uint32_t timestamps) override {
    return make_recorder(owner_, name, timestamps);
  }
  Result<gpu::Ticket> submit(std::span<gpu::CommandList* const> lists) override;
  Status wait(gpu::Ticket ticket, std::chrono::nanoseconds timeout) override {
    GRAFT_TRY(submissions_.wait(ticket, timeout));
    return memory_.invalidate();
  }
  Status read_timestamps(gpu::CommandList& list, std::span<std::uint64_t> ticks) override {
    return static_cast<VulkanCommandList&>(list).read_timestamps(ticks);
  }
  gpu::MemoryStats memory() const override { return memory_.stats(); }
  std::uint64_t available_memory() const override { return memory_.available(); }
  Status open_pipeline_cache(const std::string& path) override { return cache_.initialize(*files_, path); }
  Status save_pipeline_cache() override { return cache_.save(); }

 private:
  /// First in, last out: everything else destroys its handles before the device goes.
  struct DeviceGuard {
    Context& context;
    ~DeviceGuard() {
      if (context.stuck) {
        (void)context.instance.release();
      } else if (context.given) {
        return;  // the caller's
      } else if (context.device != VK_NULL_HANDLE && context.fn.DestroyDevice != nullptr) {
        context.fn.DestroyDevice(context.device, nullptr);
      }
    }
  };

  Status open(const DeviceOptions& options);
  Status open_own(const DeviceOptions& options);
  Status adopt(const DeviceOptions& options);
  Status recognise(const DeviceOptions& options);

  os::FileSystem* files_;
  Context context_;
  DeviceGuard guard_{context_};
  MemoryPool memory_;
  Submissions submissions_;
  PipelineCache cache_;
  LayoutCache layouts_;
  IdlePipelines idle_;
  Owner owner_{context_, memory_, submissions_};
  std::vector<VkCommandBuffer> scratch_;
};

Result<std::unique_ptr<gpu::Device>> VulkanDevice::create(const DeviceOptions& options) {
  auto device = std::make_unique<VulkanDevice>(options);
  GRAFT_TRY(device->open(options));
  return std::unique_ptr<gpu::Device>(std::move(device));
}

Status VulkanDevice::open(const DeviceOptions& options) {
  context_.faults = options.instance.faults;
  context_.log = options.instance.log;
  GRAFT_TRY(options.given ? adopt(options) : open_own(options));
  context_.physical.target.policy.matmul_precision = options.matmul_precision;
  context_.compile_threads = options.compile_threads;
  if (options.compile_threads == 0 && caps().type != gpu::DeviceType::cpu) {
    context_.compile_threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  }
  GRAFT_TRY(submissions_.initialize(options.timeline_semaphore && caps().timeline_semaphore));
  GRAFT_TRY(recognise(options));
  const bool is_slow_to_compile = caps().type == gpu::DeviceType::cpu;
  if (options.reuse_pipelines && is_slow_to_compile && !context_.capture && context_.faults == nullptr) {
    idle_.reserve();
    owner_.idle = &idle_;
  }
  return cache_.initialize(*options.files, options.pipeline_cache_path);
}

/// Whether anything runs here: words that are copied through the device come back. Drivers without hardware, which
/// exist to compile, take every call and submission, and do nothing.
Status VulkanDevice::recognise(const DeviceOptions& options) {
  bool& compiles_only = context_.physical.target.caps.compiles_only;
  compiles_only = options.compile_only || context_.physical.memory.memoryTypeCount == 0;
  if (compiles_only) return ok_status();
  // Objects of its own: what the device counts begins with its user.
  MemoryPool memory(context_, 0, options.assume_non_coherent);
  Submissions submissions(context_);
  GRAFT_TRY(submissions.initialize(options.timeline_semaphore && caps().timeline_semaphore));
  Owner owner{context_, memory, submissions};
  constexpr std::array<std::uint32_t, 4> kSent = {0x67726166, 0x74206973, 0x20686572, 0x652e0a00};
  GRAFT_TRY_ASSIGN(const auto from, VulkanBuffer::create(owner, sizeof kSent, gpu::MemoryKind::upload, "sent"));
  GRAFT_TRY_ASSIGN(const auto to, VulkanBuffer::create(owner, sizeof kSent, gpu::MemoryKind::readback, "come back"));
  std::memcpy(from->mapped().data(), kSent.data(), sizeof kSent);
  std::memset(to->mapped().data(), 0, sizeof kSent);
  GRAFT_TRY_ASSIGN(const auto recorder, make_recorder(owner, "round trip", 0));
  recorder->copy({from.get(), 0, sizeof kSent}, {to.get(), 0, sizeof kSent});
  recorder->host_barrier();
  GRAFT_TRY_ASSIGN(const auto list, recorder->finish());
  const VkCommandBuffer commands[] = {static_cast<VulkanCommandList&>(*list).commands()};
  GRAFT_TRY(memory.flush());
  GRAFT_TRY_ASSIGN(const gpu::Ticket ticket, submissions.submit(commands));
  GRAFT_TRY(submissions.wait(ticket, std::chrono::minutes(1)));
  GRAFT_TRY(memory.invalidate());
  compiles_only = std::memcmp(to->mapped().data(), kSent.data(), sizeof kSent) != 0;
  return ok_status();
}

Status VulkanDevice::adopt(const DeviceOptions& options) {
  const GivenDevice& given = *options.given;
  GRAFT_TRY_ASSIGN(context_.instance, Instance::adopt(options.instance, given));
  if (given.device == nullptr || given.queue == nullptr) {
    return invalid("A device of the caller's needs its VkDevice and its VkQueue.");
  }
  if ((given.lock_queue == nullptr) != (given.unlock_queue == nullptr)) {
    return invalid("A queue that others use needs both lock_queue and unlock_queue.");
  }
  const InstanceFunctions& instance = context_.instance->fn();
  GRAFT_TRY_ASSIGN(context_.physical,
                   describe(instance, static_cast<VkPhysicalDevice>(given.physical_device), context_.faults, &given));
  context_.given = given;
  context_.given->features = nullptr;  // was the caller's for the call
  context_.device = static_cast<VkDevice>(given.device);
  context_.queue = static_cast<VkQueue>(given.queue);
  GRAFT_TRY_ASSIGN(context_.fn, load_device_functions(instance, context_.device));
  // Whether the instance has VK_EXT_debug_utils is not known.
  context_.fn.CmdBeginDebugUtilsLabelEXT = nullptr;
  context_.fn.CmdEndDebugUtilsLabelEXT = nullptr;
  context_.fn.SetDebugUtilsObjectNameEXT = nullptr;
  return ok_status();
}

Status VulkanDevice::open_own(const DeviceOptions& options) {
  GRAFT_TRY_ASSIGN(context_.instance, Instance::create(options.instance));
  GRAFT_TRY_ASSIGN(auto devices, context_.instance->physical_devices());
  GRAFT_TRY_ASSIGN(const std::size_t index, select_device(devices, options.device));
  context_.physical = std::move(devices[index]);
  context_.hides_memory = options.assume_discrete;
  context_.physical.target.caps.unified_memory &= !options.assume_discrete;
  if (options.compile_only && context_.physical.tells_of_kernels) {
    context_.capture = true;
    context_.physical.extensions.emplace_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  }

  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = context_.physical.queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceQueueGlobalPriorityCreateInfoKHR among_all{VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_KHR};
  among_all.globalPriority =
      options.priority == QueuePriority::low ? VK_QUEUE_GLOBAL_PRIORITY_LOW_KHR : VK_QUEUE_GLOBAL_PRIORITY_HIGH_KHR;
  const bool has_priorities = context_.physical.has_extension(VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME) ||
                              context_.physical.has_extension(VK_EXT_GLOBAL_PRIORITY_EXTENSION_NAME);
  if (has_priorities && options.priority != QueuePriority::medium) queue.pNext = &among_all;
  std::vector<const char*> extensions;
  for (const std::string& name : context_.physical.extensions) extensions.push_back(name.c_str());
  FeatureChain features(context_.physical);
  enable(context_.physical, features);
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = &features.all;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  const InstanceFunctions& instance = context_.instance->fn();
  const auto create = [&] {
    return GRAFT_VK_CALL(context_.faults, instance, CreateDevice, context_.physical.handle, &info, nullptr,
                         &context_.device);
  };
  VkResult result = create();
  if (result == VK_ERROR_NOT_PERMITTED_KHR && queue.pNext != nullptr) {
    context_.log(LogLevel::info, "The system does not permit this priority of the queue: it is medium.");
    queue.pNext = nullptr;
    result = create();
  }
  if (result != VK_SUCCESS) {
    return context_.failed(result, "vkCreateDevice", cat("Opening the device \"", caps().device_name, "\""));
  }
  GRAFT_TRY_ASSIGN(context_.fn, load_device_functions(instance, context_.device));
  context_.fn.GetDeviceQueue(context_.device, context_.physical.queue_family, 0, &context_.queue);
  return ok_status();
}

Result<gpu::Ticket> VulkanDevice::submit(std::span<gpu::CommandList* const> lists) {
  GRAFT_TRY(gpu::check_runs(caps()));
  scratch_.clear();
  for (gpu::CommandList* it : lists) {
    const auto& list = static_cast<const VulkanCommandList&>(*it);
    if (!submissions_.completed(list.last_ticket)) {
      return invalid("List \"", list.name(), "\" still runs as submission ", list.last_ticket,
                     "; wait for it before submitting it again.");
    }
    if (std::find(scratch_.begin(), scratch_.end(), list.commands()) != scratch_.end()) {
      return invalid("List \"", list.name(), "\" stands twice in one submission.");
    }
    scratch_.push_back(list.commands());
  }
  GRAFT_TRY(memory_.flush());
  GRAFT_TRY_ASSIGN(const gpu::Ticket ticket, submissions_.submit(scratch_));
  for (gpu::CommandList* it : lists) static_cast<VulkanCommandList&>(*it).last_ticket = ticket;
  return ticket;
}

}  // namespace

Result<std::unique_ptr<gpu::Device>> create_device(const DeviceOptions& options) {
  return VulkanDevice::create(options);
}

Result<WantedDevice> wanted_device(const GivenDevice& given) {
  GRAFT_TRY_ASSIGN(const auto instance, Instance::adopt({}, given));
  GRAFT_TRY_ASSIGN(const PhysicalDevice device,
                   describe(instance->fn(), static_cast<VkPhysicalDevice>(given.physical_device), nullptr));
  const auto features = std::make_shared<FeatureChain>(device);
  enable(device, *features);
  return WantedDevice{device.extensions, {features, &features->all}, device.queue_family};
}

}  // namespace graft::vulkan
