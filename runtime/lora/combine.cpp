#include "runtime/lora/combine.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/lora/base_names.h"

namespace graft {
namespace {

constexpr double kMostWeight = 1e6;

/// What the adapters have of one layer.
struct Part {
  const Model* adapter = nullptr;
  AdapterLayer layer;
  double factor = 1;  ///< of B
};

Result<std::span<const float>> matrix_of(const Part& part, std::string_view which, std::int64_t rows,
                                         std::int64_t columns) {
  const std::string name = part.layer.layer + std::string(which);
  const ValueId id = part.adapter->graph.find_value(name);
  const auto bytes = id.valid() ? part.adapter->weight(id) : std::nullopt;
  if (!bytes || part.adapter->graph.value(id).dtype != DType::f32) {
    return error(Code::not_found, "The adapter has no matrix \"", name, "\".");
  }
  const Shape& shape = part.adapter->graph.value(id).shape;
  if (shape != Shape::of({rows, columns})) {
    return invalid("The adapter's \"", name, "\" has the shape ", shape.text(), " in one file and ",
                   Shape::of({rows, columns}).text(), " was expected after another.");
  }
  return std::span(reinterpret_cast<const float*>(bytes->data()), bytes->size() / sizeof(float));
}

std::int64_t axis_of(const Part& part, std::string_view which, std::size_t axis) {
  const ValueId id = part.adapter->graph.find_value(part.layer.layer + std::string(which));
  if (!id.valid()) return 0;
  const Shape& shape = part.adapter->graph.value(id).shape;
  return shape.rank() == 2 && shape.is_constant() ? shape[axis].value() : 0;
}

Status add_matrix(Model& model, const std::string& name, std::int64_t rows, std::int64_t columns,
                  std::span<const float> numbers) {
  GRAFT_TRY_ASSIGN(const ValueId id,
                   model.graph.add_value(name, DType::f32, Shape::of({rows, columns}), ValueKind::parameter));
  return model.copy_weight(id, std::as_bytes(numbers));
}

/// A of an embedding: columns side by side.
std::vector<float> joined_columns(const std::vector<std::span<const float>>& matrices, std::int64_t rows) {
  std::vector<float> out;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    for (const auto& matrix : matrices) {
      const std::size_t columns = matrix.size() / static_cast<std::size_t>(rows);
      out.insert(out.end(), &matrix[row * columns], &matrix[row * columns] + columns);
    }
  }
  return out;
}

Status add_layer(Model& model, const std::string& layer, const std::vector<Part>& parts) {
  const bool embedding = parts.front().layer.embedding;
  const std::string_view name_a = embedding ? kLoraEmbeddingA : kLoraA;
  const std::string_view name_b = embedding ? kLoraEmbeddingB : kLoraB;
  const std::int64_t in = axis_of(parts.front(), name_a, embedding ? 0 : 1);
  const std::int64_t out = axis_of(parts.front(), name_b, 0);
  std::vector<std::span<const float>> tables;
  std::int64_t rank = 0;
  for (const Part& part : parts) rank += part.layer.rank;
  std::vector<float> a;
  std::vector<float> b(static_cast<std::size_t>(out * rank));
  std::int64_t first = 0;
  for (const Part& part : parts) {
    const std::int64_t own = part.layer.rank;
    if (part.layer.embedding != embedding) {
      return invalid("The adapter of \"", layer, "\" is of an embedding in one file and of a linear layer in another.");
    }
    GRAFT_TRY_ASSIGN(const auto its_a, matrix_of(part, name_a, embedding ? in : own, embedding ? own : in));
    GRAFT_TRY_ASSIGN(const auto its_b, matrix_of(part, name_b, out, own));
    tables.push_back(its_a);
    if (!embedding) a.insert(a.end(), its_a.begin(), its_a.end());
    for (std::int64_t row = 0; row < out; ++row) {
      for (std::int64_t r = 0; r < own; ++r) {
        const double number = part.factor * its_b[static_cast<std::size_t>(row * own + r)];
        b[static_cast<std::size_t>(row * rank + first + r)] = static_cast<float>(number);
      }
    }
    first += own;
  }
  if (embedding) a = joined_columns(tables, in);
  GRAFT_TRY(add_matrix(model, cat(layer, name_a), embedding ? in : rank, embedding ? rank : in, a));
  return add_matrix(model, cat(layer, name_b), out, rank, b);
}

/// What all adapters say of their base.
Status take_metadata(std::span<const WeightedAdapter> adapters, Model& model) {
  for (const WeightedAdapter& one : adapters) {
    GRAFT_TRY(check_base(base_text(*one.adapter), base_text(model)));
    for (const std::string_view key :
         {kMetaAdapterBase, kMetaAdapterShared, kMetaFamily, kMetaHeads, kMetaPairs, kMetaSourceNames, kMetaPooling,
          kMetaNormalize}) {
      const auto found = one.adapter->metadata.find(key);
      if (found != one.adapter->metadata.end()) model.metadata.insert(*found);
    }
  }
  model.metadata.insert_or_assign(std::string(kMetaAdapter), "lora");
  return ok_status();
}

}  // namespace

Result<Model> combine_adapters(std::span<const WeightedAdapter> adapters) {
  if (adapters.empty()) return invalid("There are no adapters to combine.");
  Model model;
  GRAFT_TRY(take_metadata(adapters, model));
  std::map<std::string, std::vector<Part>> layers;
  for (const WeightedAdapter& one : adapters) {
    if (!std::isfinite(one.weight) || std::abs(one.weight) > kMostWeight) {
      return invalid("The weight of an adapter is ", one.weight, "; it must lie in [-1e6, 1e6].");
    }
    if (one.adapter->metadata.contains(kMetaAdapterTokens)) {
      return unsupported("One of the adapters adds tokens to the vocabulary; such a one stands alone: merge it first.");
    }
    GRAFT_TRY_ASSIGN(const std::vector<AdapterLayer> own, adapter_layers(*one.adapter));
    for (const AdapterLayer& layer : own) {
      if (layer.dora) {
        return unsupported("The adapter of the layer \"", layer.layer,
                           "\" is DoRA: its lengths hold for it alone, and for its own weight.");
      }
      layers[layer.layer].push_back({one.adapter, layer, one.weight * layer.scale()});
    }
  }
  std::int64_t most = 0, least = INT64_MAX;
  std::string alphas;
  for (const auto& [layer, parts] : layers) {
    GRAFT_TRY(add_layer(model, layer, parts));
    std::int64_t rank = 0;
    for (const Part& part : parts) rank += part.layer.rank;
    most = std::max(most, rank);
    least = std::min(least, rank);
    alphas += cat(alphas.empty() ? "" : "\n", layer, " ", rank);  // the scale is 1
  }
  model.metadata.insert_or_assign(std::string(kMetaAdapterRank), cat(most));
  model.metadata.insert_or_assign(std::string(kMetaAdapterAlpha), cat(most));
  if (least != most) model.metadata.insert_or_assign(std::string(kMetaAdapterAlphas), std::move(alphas));
  return model;
}

}  // namespace graft
