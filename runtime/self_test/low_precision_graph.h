// A graph whose results have low-precision storage, to test kernels over 16-bit elements.
#pragma once

#include "runtime/core/graph.h"

namespace graft {

/// The same graph with every f32 result but those of passes::wide_output() kept as `storage` (f16 or bf16). f32 inputs
/// are read through copies that are kept so. Outputs have the names of the graph's values, and are copied to f32.
Result<Graph> keep_low_precision(const Graph& graph, DType storage);

/// The nearest value of f16 or bf16, ties to even.
double rounded_to(DType storage, double x);

}  // namespace graft
