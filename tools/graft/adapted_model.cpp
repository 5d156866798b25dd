#include "tools/graft/adapted_model.h"

#include "tools/convert/adapter/adapter_files.h"
#include "tools/graft/model_io.h"

namespace graft::cli {

Result<AdaptedModel> open_adapted(const std::string& path, const std::string& adapter, const std::string& lora,
                                  std::uint32_t seed) {
  GRAFT_TRY_ASSIGN(Model base, open_model(path));
  return put_adapters_on(std::move(base), adapter, lora, seed);
}

Result<AdaptedModel> put_adapters_on(Model base, const std::string& adapter, const std::string& lora,
                                     std::uint32_t seed) {
  if (!adapter.empty() && !lora.empty()) {
    return invalid("Give --lora for fresh adapters or --adapter for those of a file, not both.");
  }
  AdaptedModel made;
  made.base = std::move(base);
  if (!adapter.empty()) {
    GRAFT_TRY_ASSIGN(made.adapter, convert::open_adapter(os::system_files(), adapter, made.base));
    auto adapted = with_adapter(made.base, made.adapter);
    if (!adapted.ok())
      return std::move(adapted).status().with_context(cat("While putting the adapter \"", adapter, "\" on"));
    made.adapted = std::move(*adapted);
  } else if (!lora.empty()) {
    GRAFT_TRY_ASSIGN(const passes::LoraOptions options, passes::parse_lora(lora));
    GRAFT_TRY_ASSIGN(made.adapted, with_lora(made.base, options, seed));
  }
  return made;
}

}  // namespace graft::cli
