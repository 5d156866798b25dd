#include "runtime/session/adapter.h"

#include <charconv>
#include <cstring>

namespace graft {
namespace {

Status copy_floats(Model& model, std::string_view name, std::span<const float> numbers) {
  return model.copy_weight(model.graph.find_value(name), std::as_bytes(numbers));
}

Result<std::span<const float>> floats_of(const Model& model, std::string_view name) {
  const ValueId id = model.graph.find_value(name);
  const auto bytes = id.valid() ? model.weight(id) : std::nullopt;
  if (!bytes || model.graph.value(id).dtype != DType::f32) {
    return error(Code::not_found, "The adapter has no matrix \"", name, "\".");
  }
  return std::span(reinterpret_cast<const float*>(bytes->data()), bytes->size() / sizeof(float));
}

template <typename Number>
Status read_number(const Model& adapter, std::string_view key, Number& number) {
  const auto found = adapter.metadata.find(key);
  if (found == adapter.metadata.end()) return invalid("This is no adapter: its metadata has no \"", key, "\".");
  const std::string& text = found->second;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed == std::errc() && end == text.data() + text.size()) return ok_status();
  return invalid("The adapter's \"", key, "\" is \"", text, "\", which is no such number.");
}

constexpr std::string_view kA = ".lora_A.weight";

/// The adapter's own options: the weights that it adapts are targets by their whole names.
Result<train::LoraOptions> options_of(const Model& base, const Model& adapter) {
  train::LoraOptions options;
  GRAFT_TRY(read_number(adapter, kMetaAdapterRank, options.rank));
  GRAFT_TRY(read_number(adapter, kMetaAdapterAlpha, options.alpha));
  for (const Value& value : adapter.graph.values()) {
    if (!value.name.ends_with(kA)) continue;
    const std::string layer = value.name.substr(0, value.name.size() - kA.size());
    // A layer's name may also be that of its result.
    const bool dotted = base.graph.find_value(layer + ".weight").valid();
    const std::string weight = dotted ? layer + ".weight" : layer;
    if (!base.graph.find_value(weight).valid()) {
      return error(Code::not_found, "The adapter is of the layer \"", layer, "\", which the model does not have.");
    }
    options.targets.push_back(weight);
  }
  if (options.targets.empty()) return invalid("The adapter adapts nothing.");
  return options;
}

struct Attached {
  Model model;
  std::vector<train::LoraSite> sites;
};

Result<Attached> attach(const Model& base, const train::LoraOptions& options) {
  GRAFT_TRY_ASSIGN(train::LoraGraph made, train::add_lora(base.graph, options));
  Attached out{{}, std::move(made.sites)};
  out.model.graph = std::move(made.graph);
  GRAFT_TRY(borrow_rest(base, out.model));
  out.model.metadata.insert_or_assign(std::string(kMetaAdapter), "lora");
  out.model.metadata.insert_or_assign(std::string(kMetaAdapterRank), cat(options.rank));
  out.model.metadata.insert_or_assign(std::string(kMetaAdapterAlpha), cat(options.alpha));
  return out;
}

/// weight += scale B A, or its transpose where the weight is [in, out].
std::vector<float> merged(std::span<const float> weight, std::span<const float> a, std::span<const float> b,
                          const train::LoraSite& site, const train::LoraOptions& options) {
  std::vector<float> sum(weight.begin(), weight.end());
  const auto in = static_cast<std::size_t>(site.in);
  const auto out = static_cast<std::size_t>(site.out);
  const auto rank = static_cast<std::size_t>(options.rank);
  std::vector<double> row(in);
  for (std::size_t n = 0; n < out; ++n) {
    std::fill(row.begin(), row.end(), 0.0);
    for (std::size_t r = 0; r < rank; ++r) {
      const double factor = options.scale() * b[n * rank + r];
      for (std::size_t k = 0; k < in; ++k) row[k] += factor * a[r * in + k];
    }
    for (std::size_t k = 0; k < in; ++k) {
      float& w = sum[site.transposed ? n * in + k : k * out + n];
      w = static_cast<float>(w + row[k]);
    }
  }
  return sum;
}

}  // namespace

Status borrow_rest(const Model& base, Model& model) {
  model.metadata = base.metadata;
  model.symbol_defaults = base.symbol_defaults;
  model.tokenizer = base.tokenizer;
  for (std::uint32_t i = 0; i < base.graph.values().size(); ++i) {
    const auto weight = base.weight({i});
    if (weight) GRAFT_TRY(model.view_weight(model.graph.find_value(base.graph.values()[i].name), *weight));
  }
  return ok_status();
}

Result<Model> borrow_model(const Model& base) {
  Model model;
  model.graph = base.graph;
  GRAFT_TRY(borrow_rest(base, model));
  model.signatures = base.signatures;
  return model;
}

Result<Model> with_lora(const Model& base, const train::LoraOptions& options, std::uint32_t seed) {
  GRAFT_TRY_ASSIGN(Attached made, attach(base, options));
  for (const train::LoraSite& site : made.sites) {
    GRAFT_TRY(copy_floats(made.model, site.a, initial_lora_a(site, options.rank, seed)));
    GRAFT_TRY(copy_floats(made.model, site.b, std::vector<float>(static_cast<std::size_t>(site.out * options.rank))));
  }
  return std::move(made.model);
}

Result<Model> adapter_of(const Model& adapted) {
  Model adapter;
  for (const std::string_view key : {kMetaAdapter, kMetaAdapterRank, kMetaAdapterAlpha}) {
    const auto found = adapted.metadata.find(key);
    if (found == adapted.metadata.end()) return invalid("The model has no adapters.");
    adapter.metadata.insert(*found);
  }
  for (const std::string_view key : {kMetaFamily, kMetaHeads, kMetaPairs}) {
    if (const auto found = adapted.metadata.find(key); found != adapted.metadata.end()) adapter.metadata.insert(*found);
  }
  for (const ValueId id : adapted.graph.of_kind(ValueKind::parameter)) {
    const Value& value = adapted.graph.value(id);
    GRAFT_TRY_ASSIGN(const ValueId made,
                     adapter.graph.add_value(value.name, value.dtype, value.shape, ValueKind::parameter));
    const auto weight = adapted.weight(id);
    if (!weight) return invalid("The adapter's matrix \"", value.name, "\" has no contents.");
    GRAFT_TRY(adapter.view_weight(made, *weight));
  }
  return adapter;
}

Result<Model> with_adapter(const Model& base, const Model& adapter) {
  GRAFT_TRY_ASSIGN(const train::LoraOptions options, options_of(base, adapter));
  GRAFT_TRY_ASSIGN(Attached made, attach(base, options));
  for (const train::LoraSite& site : made.sites) {
    for (const std::string& name : {site.a, site.b}) {
      GRAFT_TRY_ASSIGN(const auto numbers, floats_of(adapter, name));
      GRAFT_TRY(made.model.view_weight(made.model.graph.find_value(name), std::as_bytes(numbers)));
    }
  }
  return std::move(made.model);
}

Result<Model> merge_adapter(const Model& base, const Model& adapter) {
  GRAFT_TRY_ASSIGN(const train::LoraOptions options, options_of(base, adapter));
  GRAFT_TRY_ASSIGN(const Attached made, attach(base, options));
  GRAFT_TRY_ASSIGN(Model model, borrow_model(base));
  for (const train::LoraSite& site : made.sites) {
    const Value& weight = base.graph.value(base.graph.find_value(site.weight));
    if (weight.dtype != DType::f32) {
      return unsupported("The weight \"", site.weight, "\" is of type ", dtype_name(weight.dtype),
                         "; adapters can be merged into f32 weights.");
    }
    GRAFT_TRY_ASSIGN(const auto w, floats_of(base, site.weight));
    GRAFT_TRY_ASSIGN(const auto a, floats_of(adapter, site.a));
    GRAFT_TRY_ASSIGN(const auto b, floats_of(adapter, site.b));
    if (a.size() != static_cast<std::size_t>(site.in * options.rank) ||
        b.size() != static_cast<std::size_t>(site.out * options.rank)) {
      return invalid("The adapter's matrices \"", site.a, "\" and \"", site.b, "\" do not fit \"", site.weight,
                     "\" of shape ", weight.shape.text(), ".");
    }
    GRAFT_TRY(copy_floats(model, site.weight, merged(w, a, b, site, options)));
  }
  return model;
}

}  // namespace graft
