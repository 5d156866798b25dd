#include "tools/graft/device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "platform/gpu/checks.h"
#include "platform/gpu/presets.h"
#include "runtime/ops/choice.h"
#include "tools/graft/caps_json.h"
#include "tools/graft/numbers.h"

namespace graft::cli {
namespace {

void write_log(void*, LogLevel level, std::string_view message) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  std::fprintf(stderr, "graft [%s] %.*s\n", kNames[static_cast<int>(level)], static_cast<int>(message.size()),
               message.data());
}

constexpr std::array<const char*, 3> kMatmulPrecisions = {"highest", "high", "medium"};

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

nlohmann::ordered_json matmul_precision_json(const gpu::Target& target) {
  return {{"asked", kMatmulPrecisions[static_cast<std::size_t>(target.policy.matmul_precision)]},
          {"rounds", rounds_products(target)}};
}

void add_caps_flag(CLI::App& app, std::string& given) {
  std::string names;
  for (const gpu::CapsPreset& p : gpu::caps_presets()) names += cat("\n  ", p.name, ": ", p.summary);
  for (const gpu::Figures& f : gpu::known_figures()) names += cat("\n  ", f.name, ": ", f.summary);
  app.add_option("--caps", given,
                 "As for another device: FILE.json, as graft devices --json prints it there, or" + names);
}

Status apply_caps_flag(const std::string& given, gpu::Target& target) {
  return given.ends_with(".json") ? read_caps_file(given, target.caps) : gpu::apply_caps_preset(given, target);
}

Status apply_caps_to_run(const std::string& given, gpu::Target& target) {
  const gpu::Caps device = target.caps;
  GRAFT_TRY(apply_caps_flag(given, target));
  if (given.ends_with(".json") && target.caps.type == gpu::DeviceType::cpu &&
      target.caps.subgroup_size > device.subgroup_size) {
    return invalid(given, ": kernels for a CPU with subgroups of ", target.caps.subgroup_size, " cannot run on \"",
                   device.device_name, "\", whose subgroups are of ", device.subgroup_size, ".");
  }
  target.caps = gpu::within_device(std::move(target.caps), device);
  return ok_status();
}

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "Index or part of the name of the device (see: graft devices)");
  app.add_option("--vulkan-library", flags.library, "Loader or driver to load instead of libvulkan.so.1");
  app.add_option("--matmul-precision", flags.matmul_precision,
                 "Products of f32 values: highest (f32, the default), high (rounded to f16 where the device has matrix "
                 "units, sums in f32), medium (also to 8 bits beside quantized weights, to bf16 beside bf16 operands)")
      ->check(CLI::IsMember(std::vector<std::string>(kMatmulPrecisions.begin(), kMatmulPrecisions.end())));
  app.add_option("--cache", flags.cache,
                 "Folder for compiled pipelines, verdicts of the self-test and tuned choices; \"none\" for no files");
  app.add_flag("--no-self-test", flags.no_self_test, "Use kernels on this device without testing them first");
  app.add_flag("--validate", flags.validate, "Run under the Vulkan validation layers; any message is a failure");
  app.add_flag("--verbose", flags.verbose, "Show graft's log on stderr");
}

void add_pace_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option(
         "--slice-ms", flags.slice_ms,
         "Let others use the device after so many milliseconds: longer submissions are cut, large dispatches too")
      ->check(number(0.5, 60e3));
  app.add_option("--duty", flags.duty, "Share of time in which the device may work; the rest it idles")
      ->check(number(0.01, 1));
}

std::string cache_folder(const DeviceFlags& flags) {
  if (flags.cache == "none") return {};
  if (!flags.cache.empty()) return flags.cache;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/graft";
  if (home != nullptr && *home != '\0') return std::string(home) + "/.cache/graft";
  return {};
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
  GRAFT_TRY_ASSIGN(opened->device_, vulkan::create_device(options));
  if (flags.use == DeviceUse::run) GRAFT_TRY(gpu::check_runs(opened->device().caps()));
  const std::string rounding = matmul_precision_text(opened->device().target());
  if (!rounding.empty()) std::fprintf(stderr, "%s\n", rounding.c_str());
  // Without a folder nothing would be remembered, and every run would test its kernels anew.
  const std::string folder = options.compile_only ? "" : cache_folder(flags);
  GRAFT_TRY_ASSIGN(opened->remembered_,
                   RememberedDevice::open(os::system_files(), folder, opened->device(), log_sink(flags),
                                          !folder.empty() && !flags.no_self_test));
  return opened;
}

Result<gpu::Device*> OpenDevice::reopen() {
  GRAFT_TRY_ASSIGN(auto device, vulkan::create_device(options_));
  device->set_advice(device_->target().advice);
  lost_.push_back(std::move(device_));
  device_ = std::move(device);
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
  for (const std::string& message : messages) std::fprintf(stderr, "validation: %s\n", message.c_str());
  if (messages.empty()) return ok_status();
  return error(Code::device_error, "The validation layers reported ", messages.size(), " problems (above).");
}

}  // namespace graft::cli
