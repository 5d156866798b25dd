// A graph whose results are kept in 16 bits, to test kernels over such elements.
#pragma once

#include "runtime/core/graph.h"

namespace graft {

/// The same graph with every f32 result but those of train::wide_output() kept as `storage` (f16 or bf16), f32 inputs
/// as well by a copy that is read in their stead. Outputs have the names of the graph's values, and are copied to f32.
Result<Graph> keep_narrow(const Graph& graph, DType storage);

/// The nearest value of f16 or bf16, ties to even.
double rounded_to(DType storage, double x);

}  // namespace graft
