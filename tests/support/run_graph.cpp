#include "tests/support/run_graph.h"

#include <cstdlib>

#include "platform/gpu/presets.h"
#include "runtime/reference/device_run.h"
#include "shaders/kernels.gen.h"
#include "tests/support/gpu_device.h"

namespace graft::test {
namespace {

Result<gpu::Device*> shared_device() {
  static const auto device = test_device();
  if (!device.ok()) return device.status();
  return device->get();
}

void (*edit_caps)(gpu::Caps&) = nullptr;

// The device with other capabilities; everything else is passed on.
class DeviceWithCaps : public gpu::Device {
 public:
  DeviceWithCaps(gpu::Device& device, gpu::Caps caps) : device_(device), caps_(std::move(caps)) {}
  const gpu::Caps& caps() const override { return caps_; }
  void set_advice(gpu::Advice advice) override { caps_.advice = std::move(advice); }
  Result<std::unique_ptr<gpu::Buffer>> create_buffer(std::uint64_t bytes, gpu::MemoryKind kind,
                                                     std::string_view name) override {
    return device_.create_buffer(bytes, kind, name);
  }
  Result<std::vector<std::unique_ptr<gpu::Kernel>>> create_kernels(std::span<const gpu::KernelDesc> kernels) override {
    return device_.create_kernels(kernels);
  }
  Result<std::unique_ptr<gpu::Recorder>> record(std::string_view name, std::uint32_t timestamps) override {
    return device_.record(name, timestamps);
  }
  Result<gpu::Ticket> submit(std::span<gpu::CommandList* const> lists) override { return device_.submit(lists); }
  Status wait(gpu::Ticket ticket, std::chrono::nanoseconds timeout) override { return device_.wait(ticket, timeout); }
  Status read_timestamps(gpu::CommandList& list, std::span<std::uint64_t> ticks) override {
    return device_.read_timestamps(list, ticks);
  }
  gpu::MemoryStats memory() const override { return device_.memory(); }
  Status open_pipeline_cache(const std::string& path) override { return device_.open_pipeline_cache(path); }
  Status save_pipeline_cache() override { return device_.save_pipeline_cache(); }

 private:
  gpu::Device& device_;
  gpu::Caps caps_;
};

}  // namespace

EditedCaps::EditedCaps(void (*edit)(gpu::Caps&)) { edit_caps = edit; }
EditedCaps::~EditedCaps() { edit_caps = nullptr; }

Result<gpu::Caps> test_caps() {
  GRAFT_TRY_ASSIGN(gpu::Device* const device, shared_device());
  gpu::Caps caps = device->caps();
  const char* const preset = std::getenv("GRAFT_TEST_CAPS");
  if (preset != nullptr && *preset != '\0') GRAFT_TRY(gpu::apply_caps_preset(preset, caps));
  if (edit_caps != nullptr) edit_caps(caps);
  return caps;
}

bool rounds_products() {
  const auto caps = test_caps();
  return caps.ok() && caps->rounded_products && caps->cooperative_matrix &&
         shaders::kernel_info(shaders::KernelId::matmul__f32_coopmat).built();
}

Status device_available() { return detail::to_status(shared_device()); }

Result<RefTensors> run_on_device(const Graph& graph, const RefTensors& feeds, const RefStepState& step_state) {
  GRAFT_TRY_ASSIGN(gpu::Device* const device, shared_device());
  const RunOnceOptions options{.timeout = kTestTimeout, .check_plan = true};
  GRAFT_TRY_ASSIGN(gpu::Caps caps, test_caps());
  DeviceWithCaps edited(*device, std::move(caps));
  GRAFT_TRY_ASSIGN(RefTensors result, graft::run_on_device(edited, graph, feeds, step_state, options));
  expect_no_validation_messages();
  return result;
}

}  // namespace graft::test
