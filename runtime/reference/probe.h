// A graph of one node with its gradients: what tests and `graft verify` compare on a device and in the reference.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/reference/interpreter.h"

namespace graft {

struct ProbeInput {
  DType dtype = DType::f32;
  Shape shape;                        ///< constant
  ValueKind kind = ValueKind::input;  ///< parameter or state where the op mutates it
  bool grad = true;                   ///< floats only
  bool missing = false;
};

struct Probe {
  /// Inputs in0, in1, ...; the node "y"; inputs cotangent0, ... for differentiated outputs. Outputs out0, ... and
  /// grad_in0, ... for every input with a gradient.
  Graph graph;
  std::vector<std::string> wrt;                               ///< names of inputs that are differentiated
  std::vector<std::string> gradients;                         ///< names of the values that hold their gradients
  std::vector<std::pair<std::string, std::string>> weighted;  ///< float outputs and their cotangents
};

/// The first `cotangents` float outputs are differentiated; 0 leaves gradients out. Errors are those of inference and
/// of add_gradients().
Result<Probe> make_probe(Op op, const std::vector<ProbeInput>& inputs, const Attrs& attrs, std::size_t cotangents);

}  // namespace graft
