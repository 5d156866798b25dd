#include "runtime/lora/live_adapters.h"

#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "runtime/lora/adapter.h"

namespace graft {
namespace {

/// A matrix of the adapter; it must have this shape.
Result<std::span<const float>> matrix(const Model& adapter, const std::string& name, std::int64_t rows,
                                      std::int64_t columns) {
  const ValueId id = adapter.graph.find_value(name);
  const auto bytes = id.valid() ? adapter.weight(id) : std::nullopt;
  if (!bytes) return error(Code::not_found, "The adapter has no matrix \"", name, "\".");
  const Value& value = adapter.graph.value(id);
  if (value.dtype != DType::f32 || value.shape != Shape{rows, columns}) {
    return invalid("The adapter's \"", name, "\" is ", dtype_name(value.dtype), value.shape.text(), "; ",
                   Shape{rows, columns}.text(), " of f32 is needed.");
  }
  return std::span(reinterpret_cast<const float*>(bytes->data()), bytes->size() / sizeof(float));
}

}  // namespace

bool changes_on_device(const Resident& resident) {
  return resident.kind == ValueKind::state || resident.name.ends_with(kLoraA) || resident.name.ends_with(kLoraB) ||
         resident.name.ends_with(kLoraMagnitude);
}

LiveAdapters::LiveAdapters(const Graph& graph, std::string base) : base_(std::move(base)) {
  for (const Value& value : graph.values()) {
    embedding_ = embedding_ || value.name.ends_with(kLoraEmbeddingA);
    tokens_ = tokens_ || value.name.ends_with(kNewRows);
  }
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::lora) continue;
    const Value& a = graph.value(node.inputs[2]);
    const Value& b = graph.value(node.inputs[3]);
    if (!a.name.ends_with(kLoraA)) continue;
    const std::string layer = a.name.substr(0, a.name.size() - kLoraA.size());
    dora_ = dora_ || graph.find_value(layer + std::string(kLoraMagnitude)).valid();
    pissa_ = pissa_ || graph.find_value(layer + std::string(kPissaA)).valid();
    // A weight that several layers share has one adapter.
    if (std::ranges::any_of(sites_, [&](const Site& site) { return site.layer == layer; })) continue;
    sites_.push_back({layer, a.shape[0].value(), a.shape[1].value(), b.shape[0].value(), node.attrs.number("scale")});
  }
}

Result<LiveAdapters::Matrices> LiveAdapters::matrices(const Site& site, const Model& adapter, double scale,
                                                      std::int64_t rank) {
  if (rank > site.rank) {
    return invalid("The adapter of the layer \"", site.layer, "\" has the rank ", rank, "; there is room for ",
                   site.rank, ".");
  }
  if (site.scale == 0 && scale != 0) {
    return invalid("The adapter of the layer \"", site.layer, "\" cannot be scaled: the running one's alpha is 0.");
  }
  GRAFT_TRY_ASSIGN(const auto a, matrix(adapter, site.layer + std::string(kLoraA), rank, site.in));
  GRAFT_TRY_ASSIGN(const auto b, matrix(adapter, site.layer + std::string(kLoraB), site.out, rank));
  Matrices out;
  out.a.assign(a.begin(), a.end());
  out.a.resize(static_cast<std::size_t>(site.rank * site.in));
  out.b.resize(static_cast<std::size_t>(site.out * site.rank));
  const double ratio = scale == site.scale ? 1 : scale / site.scale;
  for (std::int64_t row = 0; row < site.out; ++row) {
    for (std::int64_t r = 0; r < rank; ++r) {
      const float number = b[static_cast<std::size_t>(row * rank + r)];
      out.b[static_cast<std::size_t>(row * site.rank + r)] = static_cast<float>(number * ratio);
    }
  }
  return out;
}

Status LiveAdapters::swap(Memory& memory, const Model* adapter) const {
  if (embedding_)
    return unsupported("The running model adapts an embedding, which is not swapped; load the model anew.");
  if (tokens_ || (adapter != nullptr && adapter->metadata.contains(kMetaAdapterTokens))) {
    return unsupported("An adapter that adds tokens to the vocabulary is not swapped; load the model anew.");
  }
  if (sites_.empty()) return invalid("The running model was made without adapters; none can be put on.");
  if (dora_) return unsupported("The running model's adapters are DoRA, which is not swapped; load the model anew.");
  if (pissa_) {
    return unsupported(
        "The running model's adapters began with init=pissa, and its weights lack what they began with; "
        "save them, and load the model anew.");
  }
  std::vector<AdapterLayer> layers;
  if (adapter != nullptr) {
    GRAFT_TRY(check_base(base_text(*adapter), base_));
    GRAFT_TRY_ASSIGN(layers, adapter_layers(*adapter));
  }
  std::vector<Matrices> made(sites_.size());
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    const Site& site = sites_[i];
    made[i].a.resize(static_cast<std::size_t>(site.rank * site.in));
    made[i].b.resize(static_cast<std::size_t>(site.out * site.rank));
  }
  for (const AdapterLayer& layer : layers) {
    if (layer.dora) {
      return unsupported("The adapter of the layer \"", layer.layer, "\" is DoRA, which is not swapped in.");
    }
    const auto site = std::ranges::find_if(sites_, [&](const Site& s) { return s.layer == layer.layer; });
    if (site == sites_.end()) {
      return error(Code::not_found, "The adapter is of the layer \"", layer.layer,
                   "\", which has none in the running model.");
    }
    GRAFT_TRY_ASSIGN(made[static_cast<std::size_t>(site - sites_.begin())],
                     matrices(*site, *adapter, layer.scale(), layer.rank));
  }
  for (const Resident& resident : memory.residents().entries()) {  // before anything is written
    if (!resident.streamed || !(resident.name.ends_with(kLoraA) || resident.name.ends_with(kLoraB))) continue;
    return unsupported("The adapter's \"", resident.name,
                       "\" is streamed to keep to the budget; it cannot be swapped.");
  }
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    GRAFT_TRY(memory.write(sites_[i].layer + std::string(kLoraA), std::as_bytes(std::span(made[i].a))));
    GRAFT_TRY(memory.write(sites_[i].layer + std::string(kLoraB), std::as_bytes(std::span(made[i].b))));
  }
  return ok_status();
}

}  // namespace graft
