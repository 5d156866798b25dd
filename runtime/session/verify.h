// Every op of a model on a device against the double-precision reference, forward and gradient.
//
// The model runs once in double on random inputs; each node is then probed alone on the device with the values that
// reached it there, so that an error in one op cannot hide behind another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "platform/gpu/gpu.h"
#include "runtime/model/model.h"

namespace graft {

struct NodeVerdict {
  std::string node;
  std::string op;
  double forward = 0;    ///< largest |device - reference| over the outputs' root mean square
  double gradient = -1;  ///< the same of gradients; -1: the op has none
  std::string failure;   ///< why it could not be compared

  bool passed(double tolerance) const { return failure.empty() && forward <= tolerance && gradient <= tolerance; }
};

/// Told of each verdict, and how many nodes of how many were looked at; an error ends the call with it.
using VerdictReport = std::function<Status(const NodeVerdict& verdict, std::size_t done, std::size_t total)>;

/// Nodes that differ, each by itself and as the device fuses them. `bindings` are complete.
Status verify_ops(gpu::Device& device, const Model& model, const Bindings& bindings, std::uint64_t seed,
                  const VerdictReport& report);

}  // namespace graft
