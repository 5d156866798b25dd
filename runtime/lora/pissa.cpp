#include "runtime/lora/pissa.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "platform/os/threads.h"
#include "runtime/lora/principal.h"

namespace graft {
namespace {

constexpr std::size_t kMostThreads = 16;

Status copy_matrix(Model& model, const std::string& name, const std::vector<float>& numbers) {
  return model.copy_weight(model.graph.find_value(name), std::as_bytes(std::span(numbers)));
}

/// A [rank, in] and B [out, rank] of the transposed weight's, which are [rank, out] and [in, rank].
PrincipalMatrices turned(const PrincipalMatrices& of, std::size_t in, std::size_t out, std::size_t rank) {
  PrincipalMatrices made{std::vector<float>(rank * in), std::vector<float>(out * rank)};
  for (std::size_t r = 0; r < rank; ++r) {
    for (std::size_t k = 0; k < in; ++k) made.a[r * in + k] = of.b[k * rank + r];
    for (std::size_t n = 0; n < out; ++n) made.b[n * rank + r] = of.a[r * out + n];
  }
  return made;
}

Result<PrincipalMatrices> start_of(const Model& base, const LoraSite& site, const LoraOptions& options) {
  const auto in = static_cast<std::size_t>(site.in), out = static_cast<std::size_t>(site.out);
  const auto rank = static_cast<std::size_t>(options.rank);
  if (base.weight_bytes() == 0) return PrincipalMatrices{std::vector<float>(rank * in), std::vector<float>(out * rank)};
  GRAFT_TRY_ASSIGN(const std::vector<float> weight, weight_as_floats(base, site.weight));
  const auto at = std::ranges::find_if_not(weight, [](float w) { return std::isfinite(w); });
  if (at != weight.end()) {
    return invalid("The weight \"", site.weight, "\" is not finite at element ", at - weight.begin(),
                   ": it has no directions for an adapter to begin with.");
  }
  PrincipalMatrices found = site.transposed ? principal_matrices(weight, out, in, rank)
                                            : turned(principal_matrices(weight, in, out, rank), in, out, rank);
  const double factor = 1 / std::sqrt(options.scale());
  for (auto* matrix : {&found.a, &found.b}) {
    for (float& x : *matrix) x = static_cast<float>(factor * x);
  }
  return found;
}

std::string start_name(std::string_view matrix) {
  for (const auto& [ending, start] : {std::pair(kLoraA, kPissaA), std::pair(kLoraB, kPissaB)}) {
    if (matrix.ends_with(ending)) return cat(matrix.substr(0, matrix.size() - ending.size()), start);
  }
  return {};
}

}  // namespace

Status start_pissa(const Model& base, const std::vector<LoraSite>& sites, const LoraOptions& options, Model& model) {
  std::vector<std::optional<Result<PrincipalMatrices>>> found(sites.size());
  std::atomic<std::size_t> next = 0;
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  os::run_in_threads(std::min(threads, sites.size()), [&](std::size_t) {
    for (std::size_t i = next++; i < sites.size(); i = next++) found[i] = start_of(base, sites[i], options);
  });
  for (std::size_t i = 0; i < sites.size(); ++i) {
    GRAFT_TRY(found[i]->status());
    const PrincipalMatrices& start = **found[i];
    for (const auto& name : {sites[i].a, sites[i].pissa_a}) GRAFT_TRY(copy_matrix(model, name, start.a));
    for (const auto& name : {sites[i].b, sites[i].pissa_b}) GRAFT_TRY(copy_matrix(model, name, start.b));
    found[i].reset();
  }
  return ok_status();
}

bool has_pissa(const Graph& graph, std::string_view matrix) {
  const std::string name = start_name(matrix);
  return !name.empty() && graph.find_value(name).valid();
}

Status add_with_start(const Model& adapted, const std::string& matrix, Model& adapter) {
  const ValueId now = adapted.graph.find_value(matrix), then = adapted.graph.find_value(start_name(matrix));
  const auto ours = adapted.weight(now), start = adapted.weight(then);
  if (!ours || !start) return invalid("The adapter's matrix \"", matrix, "\" has no contents.");
  const Shape& shape = adapted.graph.value(now).shape;
  const bool is_a = matrix.ends_with(kLoraA);
  const std::size_t rows = is_a ? 1 : static_cast<std::size_t>(shape[0].value());
  const std::size_t width = ours->size() / sizeof(float) / rows;  // of a row, or of all of A, whose rows follow
  std::vector<float> both(2 * rows * width);
  for (std::size_t row = 0; row < rows; ++row) {
    float* const to = both.data() + 2 * row * width;
    std::memcpy(to, ours->data() + row * width * sizeof(float), width * sizeof(float));
    std::memcpy(to + width, start->data() + row * width * sizeof(float), width * sizeof(float));
    if (is_a) continue;
    for (std::size_t k = 0; k < width; ++k) to[width + k] = -to[width + k];
  }
  const std::int64_t a = shape[0].value(), b = shape[1].value();
  GRAFT_TRY_ASSIGN(
      const ValueId made,
      adapter.graph.add_value(matrix, DType::f32, is_a ? Shape{2 * a, b} : Shape{a, 2 * b}, ValueKind::parameter));
  return adapter.copy_weight(made, std::as_bytes(std::span(both)));
}

}  // namespace graft
