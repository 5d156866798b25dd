// Opening the device that the user asked for.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "platform/vulkan/vulkan_device.h"
#include "runtime/exec/program.h"
#include "runtime/self_test/self_test.h"
#include "tools/common/device_flags.h"

namespace graft::cli {

/// --caps of commands that plan: a preset's name or a .json file (read_caps_file), laid over the device's capabilities.
void add_caps_flag(CLI::App& app, std::string& given);
Status apply_caps_flag(const std::string& given, gpu::Target& target);
/// The same for kernels that then run here: a file gives no more than the device has, and may not ask for a CPU with
/// larger subgroups, whose lanes kernels count on.
Status apply_caps_to_run(const std::string& given, gpu::Target& target);

/// Follows --matmul-precision, where it is given.
void apply_matmul_precision(const DeviceFlags& flags, gpu::Policy& policy);
/// What it does on such a device, as a sentence; empty: products of f32 stay in f32 unasked.
std::string matmul_precision_text(const gpu::Target& target);

/// A device that says on stderr what the validation layers find and, with --verbose, what graft logs.
/// Destroy it through close(), which fails when validation found anything.
class OpenDevice {
 public:
  /// `calls`, which outlive it, get the time of Vulkan calls.
  static Result<std::unique_ptr<OpenDevice>> open(const DeviceFlags& flags, vulkan::CallTimes* calls = nullptr);
  gpu::Device& device() { return *device_; }
  /// What is remembered of the device.
  RememberedDevice* remembered() { return remembered_.get(); }
  /// What programs are told: what is remembered of the device, and how much of it they may take.
  void give_to(ProgramOptions& program) {
    program.proof = remembered_.get();
    program.control = &control_;
  }
  RunControl& control() { return control_; }
  /// The device anew, after it was lost; what was made of the old one may still be destroyed.
  graft::Result<gpu::Device*> reopen();
  Status close();

 private:
  vulkan::ValidationMessages messages_;
  vulkan::CallFaults calls_;
  RunControl control_;
  LogSink log_;
  vulkan::DeviceOptions options_;
  std::vector<std::unique_ptr<gpu::Device>> lost_;
  std::unique_ptr<gpu::Device> device_;
  std::unique_ptr<RememberedDevice> remembered_;
};

/// graft's log on stderr, as much as the flags ask for.
LogSink log_sink(const DeviceFlags& flags);

/// Options for vulkan::enumerate() by the same flags.
vulkan::InstanceOptions instance_options(const DeviceFlags& flags);

}  // namespace graft::cli
