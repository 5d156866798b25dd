// Several adapters on one model, each with a weight of its own.
#pragma once

#include <span>

#include "runtime/lora/adapter.h"

namespace graft {

struct WeightedAdapter {
  const Model* adapter = nullptr;
  double weight = 1;  ///< what its product is multiplied by; may be negative
};

/// One adapter that adds what these add together: of each layer the matrices of all side by side, scales and weights in
/// B, so that its rank is the sum of theirs. Weights that are 1 of a single adapter change nothing of it.
/// invalid_argument: made for different bases, matrices of different sizes, a weight that is not finite; unsupported:
/// DoRA, whose lengths are of one adapter alone, and one that adds tokens.
Result<Model> combine_adapters(std::span<const WeightedAdapter> adapters);

}  // namespace graft
