// Losses and metrics, built from ops.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/core/build.h"
#include "runtime/train/options.h"

namespace graft::train {

/// Metrics that a step or an evaluation counts; each is an output of the graph under its name.
inline constexpr std::string_view kLossOutput = "loss";        ///< summed over rows or elements
inline constexpr std::string_view kCorrectOutput = "correct";  ///< rows whose most likely class is right
inline constexpr std::string_view kTop5Output = "top5";        ///< rows whose class is among the five most likely

/// What the loss adds to a graph.
struct LossNodes {
  ValueId sum;               ///< f32 scalar: the loss summed over rows (cross entropy) or elements
  ValueId target;            ///< the new input: i32 labels (cross entropy), or f32 of the output's shape
  ValueId correct;           ///< cross entropy with metrics, else kNoValue
  ValueId top5;              ///< the same, with more than five classes
  std::int64_t classes = 0;  ///< cross entropy
};

/// The value that the loss is taken of: the chosen output, or what goes into its softmax or sigmoid where the loss does
/// that itself (cross entropy, bce); a note is then written to `note`.
Result<ValueId> loss_input(const Graph& graph, const LossOptions& options, std::string* note);

/// Adds the loss of `prediction` and an input for the targets. The shape must be constant.
/// Cross entropy of a language model's logits, [batch, .., classes] as a product by a weight [classes, d], takes that
/// product into itself (linear_cross_entropy): the logits are never whole, and right answers are not counted.
Result<LossNodes> add_loss(Graph& graph, ValueId prediction, const LossOptions& options, bool metrics);

/// Names the nodes' outputs loss, correct and top5, in this order and as far as they exist.
void add_loss_outputs(Graph& graph, const LossNodes& loss);

}  // namespace graft::train
