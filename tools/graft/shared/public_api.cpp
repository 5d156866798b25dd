#include "tools/graft/shared/public_api.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string_view>

#include "graft/cache.h"
#include "graft/devices.h"
#include "tools/common/progress.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

/// What the validation layers found in this process.
std::atomic<std::size_t> validation_messages = 0;

void write_log(void*, graft_log_level level, const char* message) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  if (std::string_view(message).starts_with("validation: ")) {
    ++validation_messages;
    to_stderr("%s\n", message);
    return;
  }
  to_stderr("graft [%s] %s\n", kNames[level], message);
}

/// Says on stderr why nothing happens yet, where the driver takes more than two seconds for kernels.
void tell_compiling(void*, graft_stage stage, std::uint64_t done, std::uint64_t total) {
  static std::unique_ptr<WaitNotice> notice;
  if (stage != GRAFT_STAGE_KERNELS || done >= total) {
    notice.reset();
  } else if (notice == nullptr) {
    notice = std::make_unique<WaitNotice>("Compiling shaders ...");
  }
}

/// Says on stderr what becomes of products, where more than f32 was asked for.
Status tell_rounding(graft_context* context, const std::string& asked) {
  if (asked.empty() || asked == kMatmulPrecisions.front()) return ok_status();
  graft_rounding rounding = {};
  rounding.struct_size = sizeof rounding;
  TRY(checked(graft_context_rounding(context, &rounding), context));
  if (rounding.rounds == 0) {
    to_stderr("Products at --matmul-precision %s stay in f32: %s has no matrix units that graft uses.\n", asked.c_str(),
              graft_device_name(context));
    return ok_status();
  }
  std::string to;
  const auto add = [&](int rounds, const char* how) {
    if (rounds != 0) to += (to.empty() ? "" : ",") + std::string(how);
  };
  add(rounding.to_f16, " to f16 for matrix units");
  add(rounding.to_bf16, " to bf16 for them beside bf16 operands");
  add(rounding.to_8_bits, " to 8 bits beside quantized weights");
  to_stderr("Products at --matmul-precision %s: f32 operands are rounded%s; sums in f32.\n", asked.c_str(), to.c_str());
  return ok_status();
}

}  // namespace

Status checked(graft_status status, const graft_context* context) {
  if (status == GRAFT_OK) return {};
  return error(static_cast<Code>(status), graft_message(context));
}

Status checked(graft_status status, const graft_conversion* conversion) {
  if (status == GRAFT_OK) return {};
  constexpr std::string_view kOption = "Name it among the ignored fields to convert without it.";
  std::string sentence = graft_conversion_message(conversion);
  if (const auto at = sentence.find(kOption); at != std::string::npos)
    sentence.replace(at, kOption.size(), "graft convert --ignore-field with its name converts without it.");
  return error(static_cast<Code>(status), sentence);
}

Result<Owned<graft_devices>> find_devices(const DeviceFlags& flags) {
  graft_context_options options = {};
  options.struct_size = sizeof options;
  if (!flags.library.empty()) options.vulkan_library = flags.library.c_str();
  options.log = write_log;
  options.log_level = flags.verbose ? GRAFT_LOG_DEBUG : GRAFT_LOG_ERROR;
  graft_devices* made = nullptr;
  const graft_status found = graft_devices_find(&options, &made);
  Owned<graft_devices> devices(made);
  if (found != GRAFT_OK) return error(static_cast<Code>(found), graft_devices_message(made));
  return devices;
}

Result<Owned<graft_context>> open_context(const DeviceFlags& flags) {
  graft_context_options options = {};
  options.struct_size = sizeof options;
  if (!flags.device.empty()) options.device = flags.device.c_str();
  if (!flags.library.empty()) options.vulkan_library = flags.library.c_str();
  options.log = write_log;
  options.log_level = flags.verbose ? GRAFT_LOG_DEBUG : GRAFT_LOG_ERROR;
  if (flags.matmul_precision == "high") options.matmul_precision = GRAFT_MATMUL_HIGH;
  if (flags.matmul_precision == "medium") options.matmul_precision = GRAFT_MATMUL_MEDIUM;
  options.validate = flags.validate ? 1 : 0;
  options.plans_only = flags.use == DeviceUse::plan ? 1 : 0;
  graft_context* made = nullptr;
  const graft_status created = graft_context_create(&options, &made);
  Owned<graft_context> context(made);
  TRY(checked(created, made));
  if (options.plans_only == 0) TRY(checked(graft_set_progress(made, tell_compiling, nullptr), made));
  TRY(tell_rounding(made, flags.matmul_precision));
  const bool paced = flags.slice_ms != 0 || flags.duty != 1;
  if (paced && graft_set_pace(made, flags.slice_ms, flags.duty) != GRAFT_OK) return invalid("There is no such pace.");
  graft_cache_options cache = {};
  cache.struct_size = sizeof cache;
  const std::string folder = cache_folder(flags);
  cache.folder = folder.c_str();
  cache.skip_self_test = flags.no_self_test ? 1 : 0;
  if (!folder.empty()) TRY(checked(graft_context_open_cache(made, &cache), made));
  return context;
}

Result<Owned<graft_context>> open_context_without_device() {
  graft_context_options options = {};
  options.struct_size = sizeof options;
  options.device = "none";
  options.log = write_log;
  options.log_level = GRAFT_LOG_ERROR;
  graft_context* made = nullptr;
  const graft_status created = graft_context_create(&options, &made);
  Owned<graft_context> context(made);
  TRY(checked(created, made));
  return context;
}

Status close_context(Owned<graft_context> context) {
  context.reset();
  if (validation_messages == 0) return ok_status();
  return error(Code::device_error, "The validation layers reported ", validation_messages.load(), " problems (above).");
}

namespace {

Result<Owned<graft_model>> open_model_with(graft_context* context, const std::string& path, graft_weight_check check,
                                           int allow_non_finite) {
  TRY(check_is_model(path));
  graft_model_options options = {};
  options.struct_size = sizeof options;
  options.check = check;
  options.allow_non_finite = allow_non_finite;
  graft_model* made = nullptr;
  const graft_status loaded = graft_model_open(context, path.c_str(), &options, &made);
  Owned<graft_model> model(made);
  TRY(checked(loaded, context));
  return model;
}

}  // namespace

Result<Owned<graft_model>> open_model(graft_context* context, const std::string& path, graft_weight_check check) {
  return open_model_with(context, path, check, 1);  // as the file is, so it is written again
}

Result<Owned<graft_model>> open_trainable(graft_context* context, const std::string& path, graft_weight_check check) {
  return open_model_with(context, path, check, 2);
}

Result<graft_precision> parse_precision(const std::string& name) {
  if (name == "f32") return GRAFT_PRECISION_F32;
  if (name == "f16") return GRAFT_PRECISION_F16;
  if (name == "bf16") return GRAFT_PRECISION_BF16;
  return invalid("There is no precision \"", name, "\"; there are f32, f16 and bf16.");
}

Result<std::uint64_t> parse_budget(const std::string& text) {
  if (text.empty()) return std::uint64_t{0};
  return parse_size(text);
}

Result<Budget> parse_step_budget(const std::string& text) {
  constexpr std::string_view kBeside = "weights+";
  const bool beside = text.starts_with(kBeside);
  TRY_ASSIGN(const std::uint64_t bytes, parse_budget(beside ? text.substr(kBeside.size()) : text));
  return beside ? Budget{.beside_weights = std::max<std::uint64_t>(bytes, 1)} : Budget{.bytes = bytes};
}

void add_check_flag(CLI::App& app, bool& check) {
  app.add_flag("--check", check, "Compare all weights with their checksums before anything else");
}

Status check_is_model(const std::string& path) {
  for (const char* extension : {".onnx", ".gguf", ".safetensors", ".pt", ".tflite"}) {
    if (path.ends_with(extension)) {
      return invalid("\"", path, "\" is not a .graft file; convert it first: graft convert ", path, " -o MODEL.graft.");
    }
  }
  return ok_status();
}

std::vector<std::string> all_names(const char* (*name_at)(std::size_t index)) {
  std::vector<std::string> names;
  while (const char* name = name_at(names.size())) names.emplace_back(name);
  return names;
}

void add_public_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "Index or part of the name of the device (see: graft devices)");
  app.add_option("--vulkan-library", flags.library, "Loader or driver to load instead of libvulkan.so.1");
  app.add_option("--matmul-precision", flags.matmul_precision, "Products of f32 values: highest, high or medium")
      ->check(CLI::IsMember({"highest", "high", "medium"}));
  app.add_option("--cache", flags.cache, "Folder for what is remembered of the device; \"none\" for no files");
  app.add_flag("--no-self-test", flags.no_self_test, "Use kernels on this device without testing them first");
  app.add_flag("--verbose", flags.verbose, "Show graft's log on stderr");
}

}  // namespace graft::cli
