// Runs a bound graph on the CPU in double precision, node by node: the oracle of tests and of `graft verify`.
#pragma once

#include <map>
#include <string>

#include "runtime/reference/ref_context.h"

namespace graft {

/// Tensors by value name. Inputs, constants, parameters and state must be fed; mutated ones are updated in place.
using RefTensors = std::map<std::string, RefTensor, std::less<>>;

/// Computes every value of `graph` (all constant shapes). On return `tensors` holds each of them by name.
/// Errors: a value that is not fed or has the wrong number of elements.
Status interpret(const Graph& graph, RefTensors& tensors, const RefStepState& step_state = {});

}  // namespace graft
