// A model by layer, before anything runs: what each node of its graph takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/model.h"

namespace graft {

/// `given`, then the model's own defaults, then 1 where `fill` is set, or of lengths, heights and widths the smallest
/// power of two that the graph takes; without it an error names what is unbound.
Result<Bindings> complete_bindings(const Model& model, const Bindings& given, bool fill);

struct Layer {
  std::string name;
  std::string op;
  std::string shape;             ///< of its first output, in the source's order of axes
  std::uint64_t parameters = 0;  ///< elements; a tied weight belongs to its first use
  std::uint64_t bytes = 0;       ///< of parameters, constants and state
  std::uint64_t flops = 0;       ///< with the bindings
};
/// Without nodes that only change the order of axes. `bindings` are complete.
Result<std::vector<Layer>> layers_of(const Model& model, const Bindings& bindings);

}  // namespace graft
