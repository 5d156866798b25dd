#include "tools/graft/training/planned_model.h"

#include "tools/graft/shared/put_adapters.h"

namespace graft::cli {
namespace {

/// What the config.json says, as the bytes of a model without contents.
Result<Owned<graft_model>> open_config(graft_context* context, const std::string& path, const std::string& quantize) {
  graft_convert_options options = {};
  options.struct_size = sizeof options;
  options.quantize = quantize.c_str();
  options.shapes_only = 1;
  graft_conversion* made = nullptr;
  const graft_status converted = graft_convert(path.c_str(), &options, nullptr, &made);
  const Owned<graft_conversion> conversion(made);
  if (converted != GRAFT_OK) return error(static_cast<Code>(converted), graft_conversion_message(made));
  graft_source source = {};
  source.struct_size = sizeof source;
  source.kind = GRAFT_SOURCE_MEMORY;
  source.name = path.c_str();
  source.copy = 1;
  std::size_t bytes = 0;
  const graft_status given = graft_conversion_bytes(made, &source.data, &bytes);
  if (given != GRAFT_OK) return error(static_cast<Code>(given), graft_conversion_message(made));
  source.bytes = bytes;
  graft_model_options shapes = {};
  shapes.struct_size = sizeof shapes;
  shapes.shapes_only = 1;
  graft_model* opened = nullptr;
  const graft_status loaded = graft_model_open_source(context, &source, &shapes, &opened);
  Owned<graft_model> model(opened);
  TRY(checked(loaded, context));
  return model;
}

Status check_adapters(const TrainFlags& flags) {
  if (!flags.adapter.files.empty() && !flags.lora.empty()) {
    return invalid("Give --lora for fresh adapters or --adapter for those of a file, not both.");
  }
  if (!flags.adapter.files.empty() && !flags.add_tokens.empty()) {
    return invalid("--add-tokens goes with fresh adapters or none; merge those of --adapter into the model first.");
  }
  return ok_status();
}

}  // namespace

Result<Owned<graft_context>> open_context_for_plans(const DeviceFlags& flags, bool needed) {
  DeviceFlags wanted = flags;
  wanted.use = DeviceUse::plan;
  wanted.matmul_precision.clear();  // said of the device that is planned for
  auto opened = open_context(wanted);
  if (opened.ok() || needed || !flags.device.empty() || !flags.library.empty()) return opened;
  return open_context_without_device();
}

Result<Owned<graft_model>> open_planned(graft_context* context, const std::string& path, const std::string& quantize) {
  if (path.ends_with(".json")) return open_config(context, path, quantize);
  if (!quantize.empty()) return invalid("--quantize goes with a config.json; convert takes it for models.");
  return open_model(context, path);
}

Result<Owned<graft_model>> open_planned(graft_context* context, const std::string& path, const std::string& quantize,
                                        const TrainFlags& flags) {
  TRY_ASSIGN(auto model, open_planned(context, path, quantize));
  TRY(check_adapters(flags));
  TRY(put_adapters(context, model.get(), path, flags.adapter));
  if (!flags.add_tokens.empty()) {
    TRY_ASSIGN(const std::string tokens, new_tokens_json(flags.add_tokens));
    TRY(checked(graft_model_add_tokens(model.get(), tokens.c_str()), context));
  }
  if (!flags.lora.empty())
    TRY(checked(graft_model_add_adapters(model.get(), flags.lora.c_str(), flags.options.seed), context));
  return model;
}

}  // namespace graft::cli
