#include "tools/bench/device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "platform/gpu/checks.h"
#include "platform/gpu/presets.h"
#include "runtime/ops/choice.h"
#include "tools/bench/caps_json.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

void write_log(void*, LogLevel level, std::string_view message) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  to_stderr("graft [%s] %.*s\n", kNames[static_cast<int>(level)], static_cast<int>(message.size()), message.data());
}

}  // namespace

void apply_matmul_precision(const DeviceFlags& flags, gpu::Policy& policy) {
  const auto* const it = std::ranges::find(kMatmulPrecisions, flags.matmul_precision);
  if (it == kMatmulPrecisions.end()) return;
  policy.matmul_precision = static_cast<gpu::MatmulPrecision>(it - kMatmulPrecisions.begin());
}

std::string matmul_precision_text(const gpu::Target& target) {
  if (target.policy.matmul_precision == gpu::MatmulPrecision::highest) return {};
  const char* const name = kMatmulPrecisions[static_cast<std::size_t>(target.policy.matmul_precision)];
  if (!rounds_products(target)) {
    return cat("Products at --matmul-precision ", name, " stay in f32: ", target.caps.device_name,
               " has no matrix units that graft uses.");
  }
  const bool medium = target.policy.matmul_precision == gpu::MatmulPrecision::medium;
  std::string to;
  const auto add = [&](bool rounds, const char* how) {
    if (rounds) to += (to.empty() ? "" : ",") + std::string(how);
  };
  add(rounds_to_f16(target), " to f16 for matrix units");
  add(medium && multiplies_bf16(target), " to bf16 for them beside bf16 operands");
  add(medium && target.caps.integer_dot && target.caps.type != gpu::DeviceType::cpu,
      " to 8 bits beside quantized weights");
  return cat("Products at --matmul-precision ", name, ": f32 operands are rounded", to, "; sums in f32.");
}

void add_caps_flag(CLI::App& app, std::string& given) {
  std::string names;
  for (const gpu::CapsPreset& p : gpu::caps_presets()) names += cat("\n  ", p.name, ": ", p.summary);
  for (const gpu::Figures& f : gpu::known_figures()) names += cat("\n  ", f.name, ": ", f.summary);
  app.add_option("--caps", given,
                 "As for another device: FILE.json, as graft devices --json prints it there, or" + names);
}

Status apply_caps_flag(const std::string& given, gpu::Target& target) {
  if (given.ends_with(".json")) return read_caps_file(given, target.caps);
  return gpu::apply_caps_preset(given, target);
}

Status apply_caps_to_run(const std::string& given, gpu::Target& target) {
  const gpu::Caps device = target.caps;
  TRY(apply_caps_flag(given, target));
  if (given.ends_with(".json") && target.caps.type == gpu::DeviceType::cpu &&
      target.caps.subgroup_size > device.subgroup_size) {
    return invalid(given, ": kernels for a CPU with subgroups of ", target.caps.subgroup_size, " cannot run on \"",
                   device.device_name, "\", whose subgroups are of ", device.subgroup_size, ".");
  }
  target.caps = gpu::within_device(std::move(target.caps), device);
  return ok_status();
}

LogSink log_sink(const DeviceFlags& flags) {
  return {write_log, nullptr, flags.verbose ? LogLevel::debug : LogLevel::error};
}

vulkan::InstanceOptions instance_options(const DeviceFlags& flags) {
  vulkan::InstanceOptions options;
  options.library = flags.library;
  options.log = log_sink(flags);
  return options;
}

Result<std::unique_ptr<OpenDevice>> OpenDevice::open(const DeviceFlags& flags, vulkan::CallTimes* calls) {
  auto opened = std::make_unique<OpenDevice>();
  opened->control_.set_slice(std::chrono::nanoseconds(static_cast<std::int64_t>(flags.slice_ms * 1e6)));
  opened->control_.set_duty(flags.duty);
  opened->log_ = log_sink(flags);
  vulkan::DeviceOptions& options = opened->options_;
  options.instance = instance_options(flags);
  if (flags.validate) options.instance.validation = &opened->messages_;
  options.device = flags.device;
  if (calls != nullptr) {
    opened->calls_.times = calls;
    options.instance.faults = &opened->calls_;
  }
  gpu::Policy wanted;
  apply_matmul_precision(flags, wanted);
  options.matmul_precision = wanted.matmul_precision;
  options.compile_only = flags.use == DeviceUse::compile;
  TRY_ASSIGN(opened->device_, vulkan::create_device(options));
  if (flags.use == DeviceUse::run) TRY(gpu::check_runs(opened->device().caps()));
  const std::string rounding = matmul_precision_text(opened->device().target());
  if (!rounding.empty()) to_stderr("%s\n", rounding.c_str());
  // Without a folder nothing would be remembered, and every run would test its kernels anew.
  const std::string folder = options.compile_only ? "" : cache_folder(flags);
  TRY_ASSIGN(opened->remembered_, RememberedDevice::open(os::system_files(), folder, opened->device(), log_sink(flags),
                                                         !folder.empty() && !flags.no_self_test));
  return opened;
}

graft::Result<gpu::Device*> OpenDevice::reopen() {
  auto device = vulkan::create_device(options_);
  if (!device.ok()) return std::move(device).status();
  (*device)->set_advice(device_->target().advice);
  lost_.push_back(std::move(device_));
  device_ = std::move(device).value();
  return device_.get();
}

Status OpenDevice::close() {
  if (control_.slice().count() != 0 && control_.submissions() != 0) {
    const auto us = [&](double share) { return control_.quantile(share).count() / 1000; };
    log_(LogLevel::info, control_.submissions(), " submissions: half took at most ", us(0.5), " us, 99 % ", us(0.99),
         " us, all ", us(1), " us.");
  }
  const Status saved = device_->save_pipeline_cache();
  if (!saved.ok()) write_log(nullptr, LogLevel::warning, saved.message());
  device_.reset();
  lost_.clear();
  const auto messages = messages_.take();
  for (const std::string& message : messages) to_stderr("validation: %s\n", message.c_str());
  if (messages.empty()) return ok_status();
  return error(Code::device_error, "The validation layers reported ", messages.size(), " problems (above).");
}

}  // namespace graft::cli
