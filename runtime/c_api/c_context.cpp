#include "platform/base/exceptions.h"
#include "platform/gpu/checks.h"
#include "platform/vulkan/vulkan_device.h"
#include "runtime/c_api/c_async.h"
#include "runtime/c_api/c_handles.h"

namespace graft::c_api {

graft_status guarded_call(graft_context* context, GuardedBody* call, void* body) {
  if (context == nullptr) return GRAFT_INVALID_ARGUMENT;
  const CallScope<graft_context> scope(*context);
  std::string* message = nullptr;
  const auto run = [&]() -> graft_status {
    message = &context->messages.own();
    if (!scope.entered()) {
      if (scope.forked()) {
        *message = cat("Process ", context->process, " made this context, and process ", os::process_id(),
                       " is a child forked from it: a child makes its own context.");
      } else {
        *message = "A callback called graft on the context that called it; nothing was done.";
      }
      return GRAFT_INVALID_ARGUMENT;
    }
    context->control.begin_call();
    std::uint64_t looked = 0;
    const CancelScope planning([context, &looked](std::uint64_t, std::uint64_t) {
      context->control.report(Stage::plan, ++looked, 0);
      return context->control.is_cancelled();
    });
    const Status status = call(body);
    if (status.code() == Code::cancelled) (void)context->control.forget_cancel();  // it ended a call
    if (!status.ok()) *message = status.message();
    return static_cast<graft_status>(status.code());
  };
  return catching(run, [&message](Thrown thrown) {
    if (message != nullptr) *message = thrown == Thrown::bad_alloc ? "Out of memory." : "Internal.";
    return thrown == Thrown::bad_alloc ? GRAFT_OUT_OF_MEMORY : GRAFT_INTERNAL;
  });
}

graft_tensor_info info_of(const char* name, DType dtype, const Shape& shape) {
  graft_tensor_info info{};
  info.name = name;
  info.dtype = dtype == DType::i32 ? GRAFT_I32 : dtype == DType::boolean ? GRAFT_BOOL32 : GRAFT_F32;
  info.rank = static_cast<std::uint32_t>(shape.rank());
  for (std::size_t i = 0; i < shape.rank(); ++i) info.dims[i] = shape[i].is_constant() ? shape[i].value() : -1;
  return info;
}

graft_memory memory_of(const MemoryByClass& memory) {
  graft_memory out{};
  out.weights = memory[MemoryClass::weights];
  out.parameters = memory[MemoryClass::parameters];
  out.gradients = memory[MemoryClass::gradients];
  out.optimizer = memory[MemoryClass::optimizer];
  out.activations = memory[MemoryClass::activations];
  out.workspace = memory[MemoryClass::workspace];
  out.staging = memory[MemoryClass::staging];
  out.step_state = memory[MemoryClass::step_state];
  out.total = memory.total();
  return out;
}

void set_memory(const MemoryByClass& memory, graft_forecast& forecast) {
  const graft_memory by_class = memory_of(memory);
  forecast.weights = by_class.weights;
  forecast.parameters = by_class.parameters;
  forecast.gradients = by_class.gradients;
  forecast.optimizer = by_class.optimizer;
  forecast.activations = by_class.activations;
  forecast.workspace = by_class.workspace;
  forecast.staging = by_class.staging;
  forecast.step_state = by_class.step_state;
  forecast.total = by_class.total;
}

gpu::Target target_of(const graft_context& context) {
  return context.device ? context.device->target() : gpu::Target{};
}

namespace {

void forward_log(void* user, LogLevel level, std::string_view message) {
  const auto* context = static_cast<const graft_context*>(user);
  const CallbackScope in_callback;
  context->log_callback(context->log_user, static_cast<graft_log_level>(level), std::string(message).c_str());
}

Status open_context(graft_context& context, const graft_context_options* given,
                    const std::function<Status(vulkan::DeviceOptions&)>& choose) {
  GRAFT_TRY_ASSIGN(const graft_context_options options, read_options(given, "graft_context_options"));
  if ((options.allocate == nullptr) != (options.deallocate == nullptr)) {
    return invalid("An allocator needs both allocate and deallocate.");
  }
  if (options.allocate != nullptr) context.allocator = {options.allocate, options.deallocate, options.allocator_user};
  if (options.log != nullptr) {
    context.log_callback = options.log;
    context.log_user = options.log_user;
    context.log = {forward_log, &context, static_cast<LogLevel>(options.log_level)};
  }
  vulkan::DeviceOptions& device = context.device_options;
  device.instance.log = context.log;
  if (options.vulkan_library != nullptr) device.instance.library = options.vulkan_library;
  device.instance.get_instance_proc_addr = options.vulkan_get_instance_proc_addr;
  if (options.device != nullptr) device.device = options.device;
  if (options.validate != 0) device.instance.validation = &context.validation.messages;
  GRAFT_TRY(choose(device));
  context.deviceless = device.device == "none" && !device.given;
  if (context.deviceless) return ok_status();
  const auto products = static_cast<unsigned>(options.matmul_precision);
  if (products > GRAFT_MATMUL_MEDIUM) return invalid("There is no matmul precision number ", products, ".");
  device.matmul_precision = static_cast<gpu::MatmulPrecision>(products);
  const auto priority = static_cast<unsigned>(options.priority);
  if (priority > GRAFT_PRIORITY_HIGH) return invalid("There is no priority number ", priority, ".");
  device.priority = static_cast<vulkan::QueuePriority>(priority);
  if (options.pipeline_cache != nullptr) device.pipeline_cache_path = options.pipeline_cache;
  GRAFT_TRY_ASSIGN(auto opened, vulkan::create_device(device));
  context.plans_only = options.plans_only != 0;
  if (!context.plans_only) GRAFT_TRY(gpu::check_runs(opened->caps()));
  context.device = std::move(opened);
  if (device.given) device.given->features = nullptr;  // the caller's for the call
  return ok_status();
}

}  // namespace

graft_status create_context(const graft_context_options* options, graft_context** context,
                            const std::function<Status(vulkan::DeviceOptions&)>& choose) {
  if (context == nullptr) return GRAFT_INVALID_ARGUMENT;
  *context = new (std::nothrow) graft_context();
  if (*context == nullptr) return GRAFT_OUT_OF_MEMORY;
  return guarded(*context, [&] { return open_context(**context, options, choose); });
}

Result<gpu::Device*> reopen_device(graft_context& context) {
  if (context.device_options.given) {
    return unsupported("The device was lost, and it is the caller's own: graft cannot open it anew.");
  }
  GRAFT_TRY_ASSIGN(auto device, vulkan::create_device(context.device_options));
  device->set_advice(context.device->target().advice);  // what was learned of its kernels
  context.lost.push_back(std::move(context.device));
  context.device = std::move(device);
  return context.device.get();
}

}  // namespace graft::c_api

using namespace graft;
using namespace graft::c_api;

#define GRAFT_TEXT_INNER(x) #x
#define GRAFT_TEXT(x) GRAFT_TEXT_INNER(x)

const char* graft_version(void) {
  return GRAFT_TEXT(GRAFT_VERSION_MAJOR) "." GRAFT_TEXT(GRAFT_VERSION_MINOR) "." GRAFT_TEXT(GRAFT_VERSION_PATCH);
}

const char* graft_status_name(graft_status status) { return code_name(static_cast<Code>(status)); }

graft_status graft_context_create(const graft_context_options* options, graft_context** context) {
  return create_context(options, context, [](vulkan::DeviceOptions&) { return ok_status(); });
}

graft_context::~graft_context() {
  if (!device) return;
  // The cache only saves time: a failure to write it is logged, not reported.
  (void)guarded(this, [&] {
    if (control.slice().count() != 0 && control.submissions() != 0) {
      const auto us = [&](double share) { return control.quantile(share).count() / 1000; };
      log(LogLevel::info, control.submissions(), " submissions: half took at most ", us(0.5), " us, 99 % ", us(0.99),
          " us, all ", us(1), " us.");
    }
    const Status saved = device->save_pipeline_cache();
    if (!saved.ok()) log(LogLevel::warning, saved.message());
    return ok_status();
  });
}

void graft_context_destroy(graft_context* context) {
  if (context != nullptr) destroy(context, context);
}

void graft_cancel(graft_context* context) {
  if (context != nullptr) context->control.cancel();
}

int graft_uncancel(graft_context* context) { return context != nullptr && context->control.forget_cancel() ? 1 : 0; }

graft_status graft_set_pace(graft_context* context, double slice_ms, double duty) {
  constexpr double kLeastSlice = 0.5, kMostSlice = 60e3, kLeastDuty = 0.01;  // a submission takes tens of microseconds
  if (context == nullptr) return GRAFT_INVALID_ARGUMENT;
  if (!(slice_ms == 0 || (slice_ms >= kLeastSlice && slice_ms <= kMostSlice)) ||
      !(duty == 0 || (duty >= kLeastDuty && duty <= 1))) {
    return refuse(context, "slice_ms is 0 or from 0.5 to 60000, duty 0 or from 0.01 to 1.");
  }
  context->control.set_slice(std::chrono::nanoseconds(static_cast<std::int64_t>(slice_ms * 1e6)));
  context->control.set_duty(duty == 0 ? 1 : duty);
  return GRAFT_OK;
}

const char* graft_message(const graft_context* context) { return context == nullptr ? "" : context->messages.get(); }

const char* graft_device_name(const graft_context* context) {
  return context == nullptr || !context->device ? "" : context->device->caps().device_name.c_str();
}
