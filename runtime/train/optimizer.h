// Optimizers as nodes of a graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/build.h"
#include "runtime/train/options.h"
#include "shaders/common/step_state.h"

namespace graft::train {

/// The group of a parameter: 0 where no pattern matches, else 1 + the index of the first that does.
std::uint32_t group_of(const TrainOptions& options, std::string_view parameter);

/// Names of the optimizer's state for a parameter, in the order of the step op's inputs.
std::vector<std::string> optimizer_state_names(const OptimizerOptions& options, std::string_view parameter);

/// One parameter with its gradient.
struct Update {
  ValueId parameter;
  ValueId gradient;
};

/// Adds clipping and one step node for each parameter; the state of optimizer_state_names() is added where the graph
/// has none. Gives the sum of squares of the gradients where clip_norm is asked for, else kNoValue.
Result<ValueId> add_updates(Graph& graph, std::vector<Update> updates, const TrainOptions& options);

/// Writes the learning rates and bias corrections of optimizer step `step` (the first is 0) into the step state.
void set_step(const TrainOptions& options, std::uint64_t step, StepState& state);

}  // namespace graft::train
