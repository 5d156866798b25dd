#include "tools/convert/adapter/adapter_parts.h"

#include <algorithm>

namespace graft::convert {
namespace {

/// How rows have to move; keep where the two sides agree, or the layer has no pairs.
PairOrder reorder(const std::optional<DecoderLayout>& layout, const std::string& layer, bool from, bool to,
                  std::int64_t& heads) {
  heads = layout ? layout->paired_heads(layer) : 0;
  if (heads == 0 || from == to) return PairOrder::keep;
  return layout->row_order(to);
}

Status add_matrix(const std::string& name, ExportTensor tensor, Model& out) {
  tensor.name = name;
  tensor.dtype = DType::f32;
  const Shape shape = Shape::of(tensor.dims());
  GRAFT_TRY_ASSIGN(const ValueId value, out.graph.add_value(name, DType::f32, shape, ValueKind::parameter));
  GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(tensor));
  return out.copy_weight(value, made.bytes);
}

/// The alpha that most layers have.
double common_alpha(const std::map<std::string, double>& alphas) {
  std::map<double, std::size_t> counts;
  for (const auto& [layer, alpha] : alphas) ++counts[alpha];
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->first;
}

}  // namespace

Status AdapterBuilder::add_a(const std::string& layer, const SourceTensor& tensor) {
  if (std::exchange(layers_[layer].a, &tensor) == nullptr) return {};
  return corrupt("The layer \"", layer, "\" has two matrices A.");
}

Status AdapterBuilder::add_embedding_a(const std::string& layer, const SourceTensor& tensor, bool turned) {
  GRAFT_TRY(add_a(layer, tensor));
  layers_[layer].embedding = true;
  layers_[layer].turned = turned;
  return {};
}

Status AdapterBuilder::add_b(const std::string& layer, const SourceTensor& tensor) {
  if (std::exchange(layers_[layer].b, &tensor) == nullptr) return {};
  return corrupt("The layer \"", layer, "\" has two matrices B.");
}

Status AdapterBuilder::add_magnitude(const std::string& layer, const SourceTensor& tensor) {
  if (std::exchange(layers_[layer].magnitude, &tensor) == nullptr) return {};
  return corrupt("The layer \"", layer, "\" has two magnitudes.");
}

Status AdapterBuilder::check(const std::string& layer, const Pair& pair) {
  if (pair.a == nullptr || pair.b == nullptr) {
    return corrupt("The layer \"", layer, "\" has a matrix ", pair.a == nullptr ? "B and no A." : "A and no B.");
  }
  const auto& a = pair.a->dims;
  const auto& b = pair.b->dims;
  const bool last = pair.rank_is_last();
  if (a.size() != 2 || b.size() != 2 || a[last ? 1 : 0] != b[1] || a[0] < 1 || a[1] < 1 || b[0] < 1) {
    return corrupt("The layer \"", layer, "\" has matrices of shapes ", Shape::of(a).text(), " and ",
                   Shape::of(b).text(), "; ", last ? "[rows, rank]" : "[rank, in]", " and [out, rank] are needed.");
  }
  if (pair.magnitude != nullptr && pair.magnitude->dims != std::vector<std::int64_t>{b[0]}) {
    return corrupt("The layer \"", layer, "\" has magnitudes of shape ", Shape::of(pair.magnitude->dims).text(), "; [",
                   b[0], "] are needed.");
  }
  return {};
}

Result<Model> AdapterBuilder::finish(bool neighbours, const std::map<std::string, double>& alphas) const {
  if (layers_.empty()) return corrupt("The file holds no adapter's matrices.");
  const auto layout = layout_of(base_.metadata);
  const double alpha = common_alpha(alphas);
  std::string own;
  bool shared = false;
  Model out;
  for (const auto& [layer, pair] : layers_) {
    if (alphas.at(layer) != alpha) own += cat(own.empty() ? "" : "\n", layer, " ", exact_text(alphas.at(layer)));
    ExportTensor a;
    a.source = *pair.a;
    if (pair.turned) a.perm = {1, 0};
    shared = shared || is_looked_up_and_multiplied(base_.graph, layer) ||
             is_looked_up_and_multiplied(base_.graph, layer + ".weight");
    GRAFT_TRY(add_matrix(cat(layer, pair.embedding ? kLoraEmbeddingA : kLoraA), std::move(a), out));
    ExportTensor b;
    b.source = *pair.b;
    b.pairs = reorder(layout, layer, neighbours, layout && layout->neighbours, b.heads);
    GRAFT_TRY(add_matrix(cat(layer, pair.embedding ? kLoraEmbeddingB : kLoraB), std::move(b), out));
    if (pair.magnitude == nullptr) continue;
    ExportTensor m;
    m.source = *pair.magnitude;
    m.pairs = reorder(layout, layer, neighbours, layout && layout->neighbours, m.heads);
    GRAFT_TRY(add_matrix(layer + std::string(kLoraMagnitude), std::move(m), out));
  }
  out.metadata[std::string(kMetaAdapter)] = "lora";
  out.metadata[std::string(kMetaAdapterRank)] = cat(layers_.begin()->second.rank());
  out.metadata[std::string(kMetaAdapterAlpha)] = exact_text(alpha);
  if (!own.empty()) out.metadata[std::string(kMetaAdapterAlphas)] = own;
  if (shared) out.metadata[std::string(kMetaAdapterShared)] = "yes";
  for (const std::string_view key : {kMetaFamily, kMetaHeads, kMetaPairs, kMetaSourceNames}) {
    if (const auto found = base_.metadata.find(key); found != base_.metadata.end()) out.metadata.insert(*found);
  }
  return out;
}

Result<std::vector<ExportTensor>> adapter_tensors(const Model& adapter, bool neighbours, std::optional<DType> dtype) {
  if (dtype && !is_float(*dtype)) {
    return unsupported("Adapters are written as f32, f16 or bf16, not as ", dtype_name(*dtype), ".");
  }
  const auto layout = layout_of(adapter.metadata);
  std::vector<ExportTensor> out;
  for (std::uint32_t i = 0; i < adapter.graph.values().size(); ++i) {
    const Value& value = adapter.graph.values()[i];
    const auto bytes = adapter.weight({i});
    const bool of_embedding = value.name.ends_with(kLoraEmbeddingA) || value.name.ends_with(kLoraEmbeddingB);
    const bool of_outputs = value.name.ends_with(kLoraB) || value.name.ends_with(kLoraMagnitude);
    const bool rows = value.name.ends_with(kNewRows);
    if (!bytes || (!of_outputs && !of_embedding && !rows && !value.name.ends_with(kLoraA))) {
      return unsupported("The adapter's \"", value.name, "\" is no matrix of LoRA, and cannot be written.");
    }
    out.push_back(export_tensor(value, *bytes));
    out.back().dtype = dtype.value_or(value.dtype);
    if (of_outputs) {
      out.back().pairs = reorder(layout, value.name, layout && layout->neighbours, neighbours, out.back().heads);
    }
  }
  return out;
}

}  // namespace graft::convert
