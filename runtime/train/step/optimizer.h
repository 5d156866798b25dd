// Optimizers as nodes of a graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/build.h"
#include "runtime/train/step/options.h"
#include "shaders/common/step_state.h"

namespace graft::train {

/// The group of a parameter: 0 where no pattern matches, else 1 + the index of the first that does.
std::uint32_t group_of(const TrainOptions& options, std::string_view parameter);

/// What the name of the state that keeps w0 of OptimizerOptions::proximal adds to the parameter's.
inline constexpr std::string_view kAnchor = "/anchor";

/// The same of the state that is a running mean of the parameter (OptimizerOptions::ema). A step moves it by the
/// parameter as it was before: whoever reads it moves it once more, by the parameter as it is.
inline constexpr std::string_view kEma = "/ema";

struct OptimizerState {
  std::string name;
  DType dtype;
  Shape shape;
};
/// The optimizer's state for a parameter of this shape (constant), in the order of the step op's inputs; then the
/// anchor and the running mean.
std::vector<OptimizerState> optimizer_state(const OptimizerOptions& options, std::string_view parameter,
                                            const Shape& shape, const SourcePerm& source_perm = {});

/// One parameter with its gradient.
struct Update {
  ValueId parameter;
  ValueId gradient;
  double rate_scale = 1;        ///< of the learning rate, beside that of the group
  SourcePerm source_perm = {};  ///< of the parameter
  bool steps = true;            ///< false: another worker takes its step; its gradient counts for the norm
};

/// The state of loss scaling (shaders/loss_scale/loss_scale_state.h), also an output of the graph that holds the
/// optimizer's steps.
inline constexpr std::string_view kLossScaleState = "loss_scale";

/// The sum of the losses of a step's micro-batches, where loss scaling looks at it and gradients are accumulated.
inline constexpr std::string_view kLossSumState = "loss_scale/loss";

/// Scalar output without loss scaling: what gradients were multiplied by; NaN where the step was not taken, since its
/// loss or its gradients were not finite.
inline constexpr std::string_view kUpdateFactorOutput = "update_factor";
/// The same where each parameter was held back alone (TrainOptions::optimizer_in_backward); NaN: one of them was.
inline constexpr std::string_view kSeparateFactorsOutput = "update_factors";

/// The cotangent of the loss, scaled where loss scaling applies.
Result<ValueId> add_loss_scale(Graph& graph, ValueId weight, const TrainOptions& options);

/// Adds loss scaling's verdict, clipping and one step node for each parameter; the state of optimizer_state() is added
/// where the graph has none. Gives the sum of squares of the gradients (without the loss scale) where clip_norm is
/// asked for, else kNoValue. A step whose `loss` or gradients are not finite changes nothing: with loss scaling it is
/// left out, else kUpdateFactorOutput tells. With optimizer_in_backward that holds for each parameter and its gradient
/// alone, and kSeparateFactorsOutput tells.
Result<ValueId> add_updates(Graph& graph, std::vector<Update> updates, ValueId loss, const TrainOptions& options);

/// Writes the learning rates and bias corrections of optimizer step `step` (the first is 0) into the step state.
void set_step(const TrainOptions& options, std::uint64_t step, StepState& state);

}  // namespace graft::train
