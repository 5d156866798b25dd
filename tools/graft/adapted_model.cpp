#include "tools/graft/adapted_model.h"

#include "tools/convert/adapter/adapter_files.h"
#include "tools/graft/model_io.h"

namespace graft::cli {

void add_adapter_flags(CLI::App& app, AdapterFlags& flags, bool required) {
  auto* file = app.add_option("--adapter", flags.file,
                              "An adapter for the model: of graft train --lora, a PEFT folder, or a GGUF file")
                   ->required(required);
  app.add_flag("--any-base", flags.any_base, "Take the adapter although it was made for other weights")->needs(file);
}

Result<Model> read_adapter(const AdapterFlags& flags, const Model& base) {
  GRAFT_TRY_ASSIGN(Model adapter, convert::open_adapter(os::system_files(), flags.file, base));
  if (flags.any_base) adapter.metadata.erase(std::string(kMetaAdapterBase));
  return adapter;
}

Result<AdaptedModel> open_adapted(const std::string& path, const AdapterFlags& adapter, WeightCheck check,
                                  const std::string& lora, std::uint32_t seed) {
  GRAFT_TRY_ASSIGN(Model base, open_model(path, check));
  return put_adapters_on(std::move(base), adapter, lora, seed);
}

Result<AdaptedModel> put_adapters_on(Model base, const AdapterFlags& adapter, const std::string& lora,
                                     std::uint32_t seed) {
  if (!adapter.file.empty() && !lora.empty()) {
    return invalid("Give --lora for fresh adapters or --adapter for those of a file, not both.");
  }
  AdaptedModel made;
  made.base = std::move(base);
  if (!adapter.file.empty()) {
    GRAFT_TRY_ASSIGN(made.adapter, read_adapter(adapter, made.base));
    auto adapted = with_adapter(made.base, made.adapter);
    if (!adapted.ok())
      return std::move(adapted).status().with_context(cat("While putting the adapter \"", adapter.file, "\" on"));
    made.adapted = std::move(*adapted);
  } else if (!lora.empty()) {
    GRAFT_TRY_ASSIGN(const LoraOptions options, parse_lora(lora));
    GRAFT_TRY_ASSIGN(made.adapted, with_lora(made.base, options, seed));
  }
  return made;
}

}  // namespace graft::cli
