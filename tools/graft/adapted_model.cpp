#include "tools/graft/adapted_model.h"

#include "tools/bench/model_io.h"
#include "tools/convert/adapter/adapter_files.h"

namespace graft::cli {

namespace {

std::string names_text(const AdapterFlags& flags) {
  std::string text;
  for (const std::string& file : flags.files) text += (text.empty() ? "" : "\" and \"") + file;
  return text;
}

/// The files' adapters together, in graft's form, for `base`; another base than theirs is refused unless --any-base is
/// given.
Result<Model> read_adapter(const AdapterFlags& flags, const Model& base) {
  std::vector<Model> read;
  std::vector<double> weights;
  for (std::string file : flags.files) {
    weights.push_back(take_adapter_weight(file));
    TRY_ASSIGN(Model adapter, convert::open_adapter(os::system_files(), file, base));
    if (flags.any_base) adapter.metadata.erase(std::string(kMetaAdapterBase));
    read.push_back(std::move(adapter));
  }
  if (read.size() == 1 && weights.front() == 1) return std::move(read.front());
  std::vector<WeightedAdapter> all;
  for (std::size_t i = 0; i < read.size(); ++i) all.push_back({&read[i], weights[i]});
  return combine_adapters(all);
}

}  // namespace

Result<AdaptedModel> open_adapted(const std::string& path, const AdapterFlags& adapter, WeightCheck check,
                                  const FreshAdapters& fresh) {
  TRY_ASSIGN(Model base, open_model(path, check));
  return put_adapters_on(std::move(base), adapter, fresh);
}

Result<AdaptedModel> put_adapters_on(Model base, const AdapterFlags& adapter, const FreshAdapters& fresh) {
  if (!adapter.files.empty() && !fresh.lora.empty()) {
    return invalid("Give --lora for fresh adapters or --adapter for those of a file, not both.");
  }
  if (!adapter.files.empty() && !fresh.add_tokens.empty()) {
    return invalid("--add-tokens goes with fresh adapters or none; merge those of --adapter into the model first.");
  }
  AdaptedModel made;
  made.base = std::move(base);
  if (!adapter.files.empty()) {
    TRY_ASSIGN(made.adapter, read_adapter(adapter, made.base));
    auto adapted = with_adapter(made.base, made.adapter);
    if (!adapted.ok())
      return std::move(adapted).status().with_context(
          cat("While putting the adapter \"", names_text(adapter), "\" on"));
    made.adapted = std::move(*adapted);
  } else if (!fresh.add_tokens.empty()) {
    TRY_ASSIGN(const std::string json, new_tokens_json(fresh.add_tokens));
    TRY_ASSIGN(const std::vector<NewToken> tokens, parse_new_tokens(json));
    TRY_ASSIGN(const LoraOptions options, parse_lora(fresh.lora));
    const LoraOptions* const lora = fresh.lora.empty() ? nullptr : &options;
    TRY_ASSIGN(made.adapted, with_new_tokens(made.base, tokens, lora, fresh.seed));
    if (!fresh.compares) return made;
    TRY_ASSIGN(made.longer, with_new_tokens(made.base, tokens));
  } else if (!fresh.lora.empty()) {
    TRY_ASSIGN(const LoraOptions options, parse_lora(fresh.lora));
    TRY_ASSIGN(made.adapted, with_lora(made.base, options, fresh.seed));
  }
  return made;
}

}  // namespace graft::cli
