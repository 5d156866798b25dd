#include <algorithm>
#include <cmath>

#include "runtime/delta/average.h"
#include "runtime/delta/privacy.h"
#include "runtime/delta/svd.h"
#include "runtime/lora/adapter.h"

namespace graft::delta {
namespace {

/// The adapters' names, shapes and metadata, without their numbers.
Result<Model> shapes_of(const Delta& delta) {
  Model model;
  model.metadata = delta.metadata;
  for (const Tensor& tensor : delta.tensors) {
    GRAFT_TRY(detail::to_status(model.graph.add_value(tensor.name, tensor.dtype, tensor.shape, ValueKind::parameter)));
  }
  return model;
}

/// The columns of all clients' B, and the rows of all their A, side by side: their product is the average.
struct Stacked {
  std::size_t out = 0;
  std::size_t in = 0;
  std::vector<double> b;  // [columns, out]
  std::vector<double> a;  // [columns, in]
};

Status stack(const Delta& delta, const AdapterLayer& layer, double weight, Stacked& all) {
  const Tensor* const a = delta.find(cat(layer.layer, kLoraA));
  const Tensor* const b = delta.find(cat(layer.layer, kLoraB));
  if (b == nullptr) return ok_status();  // it was left out: fresh adapters have a B of zeros
  const auto rank = static_cast<std::size_t>(layer.rank);
  if (b->shape.rank() != 2 || b->shape[1] != a->shape[0]) {
    return invalid("The matrices of the layer \"", layer.layer, "\" have the shapes ", a->shape.text(), " and ",
                   b->shape.text(), ".");
  }
  const auto in = static_cast<std::size_t>(a->shape[1].value());
  const auto out = static_cast<std::size_t>(b->shape[0].value());
  if (all.in != 0 && (all.in != in || all.out != out)) {
    return invalid("The layer \"", layer.layer, "\" is [", all.out, ", ", all.in, "] in one delta and [", out, ", ", in,
                   "] in another.");
  }
  all.in = in;
  all.out = out;
  const std::vector<float> as = numbers_of(delta, *a);
  const std::vector<float> bs = numbers_of(delta, *b);
  for (std::size_t r = 0; r < rank; ++r) {
    for (std::size_t i = 0; i < out; ++i)
      all.b.push_back(weight * layer.scale() * static_cast<double>(bs[i * rank + r]));
    all.a.insert(all.a.end(), &as[r * in], &as[r * in] + in);
  }
  return ok_status();
}

Matrix columns_of(const std::vector<double>& values, std::size_t rows) {
  Matrix matrix(rows, values.size() / rows);
  matrix.values = values;
  return matrix;
}

struct Factors {
  std::vector<double> a;  // [rank, in]
  std::vector<double> b;  // [out, rank]
  double kept = 0;        // squared norms
  double all = 0;
};

/// Matrices with scale B A as near to the product as their rank allows, each with half of the singular values.
Factors factorize(const Stacked& stacked, std::size_t rank, double scale) {
  Factors factors;
  factors.a.resize(rank * stacked.in);
  factors.b.resize(stacked.out * rank);
  const Svd parts = svd_of_product(columns_of(stacked.b, stacked.out), columns_of(stacked.a, stacked.in));
  for (std::size_t k = 0; k < parts.singular.size(); ++k) {
    const double s = parts.singular[k];
    factors.all += s * s;
    if (k >= rank) continue;
    factors.kept += s * s;
    const double half = std::sqrt(s / scale);
    for (std::size_t i = 0; i < stacked.in; ++i) factors.a[k * stacked.in + i] = half * parts.right.column(k)[i];
    for (std::size_t i = 0; i < stacked.out; ++i) factors.b[i * rank + k] = half * parts.left.column(k)[i];
  }
  return factors;
}

void add_matrix(Delta& delta, const std::string& name, std::size_t rows, std::size_t columns) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = Shape::of({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)});
  delta.tensors.push_back(std::move(tensor));
}

}  // namespace

Result<Products> average_products(const std::vector<Delta>& deltas, std::uint32_t rank, Weighing weighing) {
  if (deltas.empty()) return invalid("There is no delta to average.");
  std::map<std::string, Stacked> layers;
  double total = 0;
  double scale = 0;
  std::uint32_t largest = 0;
  Products out;
  out.average = deltas.front();
  out.average.tensors.clear();
  out.average.samples = 0;
  out.average.clients = 0;
  out.average.local_steps = 0;
  for (const Delta& delta : deltas) {
    if (delta.kind != Kind::adapters || delta.coding == Coding::fixed) {
      return invalid("Products are averaged of adapters that were made against their model, coded as numbers.");
    }
    if (!(delta.base == deltas.front().base)) return invalid("The deltas were made for different bases.");
    total += weighing == Weighing::samples ? static_cast<double>(delta.samples) : delta.clients;
    out.average.samples += delta.samples;
    out.average.clients += delta.clients;
    out.average.local_steps += delta.local_steps;
  }
  for (const Delta& delta : deltas) {
    GRAFT_TRY_ASSIGN(const Model shapes, shapes_of(delta));
    if (delta.metadata.contains(kMetaAdapterTokens)) {
      return unsupported("The adapters add tokens, whose rows are no products; average the factors.");
    }
    GRAFT_TRY_ASSIGN(const auto found, adapter_layers(shapes));
    const double weight = weighing == Weighing::samples ? static_cast<double>(delta.samples) : delta.clients;
    for (const AdapterLayer& layer : found) {
      if (layer.dora) {
        return unsupported("The adapter of the layer \"", layer.layer,
                           "\" is DoRA, whose products are not averaged; average the factors.");
      }
      if (layer.embedding) {
        return unsupported("The adapter of \"", layer.layer,
                           "\" is of an embedding, whose products are not averaged; average the factors.");
      }
      GRAFT_TRY(stack(delta, layer, weight / total, layers[layer.layer]));
      largest = std::max(largest, static_cast<std::uint32_t>(layer.rank));
      if (scale == 0) scale = layer.scale();
    }
  }
  if (rank == 0) rank = largest;
  if (!(scale > 0)) return invalid("The adapters' scale is ", scale, ".");
  double kept = 0, all = 0;
  Numbers numbers;
  for (const auto& [name, stacked] : layers) {
    if (stacked.in == 0) continue;  // B is zero with every client
    Factors factors = factorize(stacked, rank, scale);
    kept += factors.kept;
    all += factors.all;
    add_matrix(out.average, cat(name, kLoraA), rank, stacked.in);
    add_matrix(out.average, cat(name, kLoraB), stacked.out, rank);
    numbers[cat(name, kLoraA)] = std::move(factors.a);
    numbers[cat(name, kLoraB)] = std::move(factors.b);
  }
  if (numbers.empty()) return invalid("The adapters change nothing: every B is zero.");
  std::ranges::sort(out.average.tensors, {}, &Tensor::name);
  out.average.coding = Coding::f32;
  out.average.rank = rank;
  out.average.norm = norm_of(numbers);
  out.average.clip_norm = out.average.noise = 0;
  out.average.metadata.insert_or_assign(std::string(kMetaAdapterRank), cat(rank));
  out.average.metadata.insert_or_assign(std::string(kMetaAdapterAlpha), exact_text(scale * rank));
  out.average.metadata.erase(std::string(kMetaAdapterAlphas));
  for (const auto& [name, values] : numbers) GRAFT_TRY(set_numbers(out.average, name, values));
  out.kept = all > 0 ? kept / all : 1;
  return out;
}

}  // namespace graft::delta
