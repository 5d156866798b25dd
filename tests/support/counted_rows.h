// Of tensors that are as long as the data decide, what is there.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/model/counted.h"
#include "runtime/reference/ref_context.h"

namespace graft::test {

/// The first `count` along an axis.
inline RefTensor first_along(const RefTensor& tensor, std::size_t axis, std::int64_t count) {
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : tensor.dims[i];
  RefTensor out{tensor.dims, {}};
  out.dims[axis] = count;
  for (std::int64_t i = 0; i < outer; ++i) {
    const auto from = tensor.data.begin() + i * tensor.dims[axis] * inner;
    out.data.insert(out.data.end(), from, from + count * inner);
  }
  return out;
}

/// An output among computed tensors, without what its count says is not there.
template <typename Tensors>
RefTensor counted_output(const Graph& graph, const Tensors& tensors, const std::vector<CountedOutput>& counted,
                         const Output& output) {
  const RefTensor& whole = tensors.find(graph.value(output.value).name)->second;
  const auto found = std::ranges::find(counted, output.name, &CountedOutput::name);
  if (found == counted.end()) return whole;
  const auto count = std::ranges::find(graph.outputs(), found->count, &Output::name);
  const double rows = tensors.find(graph.value(count->value).name)->second.data[0];
  return first_along(whole, found->axis, static_cast<std::int64_t>(rows));
}

}  // namespace graft::test
