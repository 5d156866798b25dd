// Losses and metrics, built from ops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/build.h"
#include "runtime/train/step/loss_terms.h"
#include "runtime/train/step/options.h"

namespace graft::train {

/// Metrics that a step or an evaluation counts; each is an output of the graph under its name.
inline constexpr std::string_view kLossOutput = "loss";        ///< summed over rows or elements
inline constexpr std::string_view kCorrectOutput = "correct";  ///< rows whose most likely class is right
inline constexpr std::string_view kTop5Output = "top5";        ///< rows whose class is among the five most likely
inline constexpr std::string_view kMarginOutput = "margin";    ///< of preferences: reward margins, summed over samples
/// Output "prediction:I" of an evaluation (TrainOptions::predictions): what term I is taken of first, with its classes
/// as they stand in the model's output.
inline constexpr std::string_view kPredictionPrefix = "prediction:";

/// Numbers that a loss brings along: a resident of this name.
struct LossConstant {
  std::string name;
  std::vector<float> contents;
};

/// What the loss adds to a graph.
struct LossNodes {
  ValueId sum;                          ///< f32 scalar: the loss summed over rows or elements, all terms together
  std::vector<ValueId> targets;         ///< by term: the new input, i32 labels or f32; kNoValue where it has none
  std::vector<std::string> fields;      ///< by term: the field of the data that it takes; empty: the next of them
  ValueId sample_weights = kNoValue;    ///< a new input too
  std::string weights_field;            ///< of the data
  ValueId reference = kNoValue;         ///< of preferences: a new input too, of the field kReferenceField
  std::vector<ValueId> predictions;     ///< by term
  ValueId correct = kNoValue;           ///< cross entropy or focal loss of labels first, with metrics; preferences
  ValueId margin = kNoValue;            ///< preferences
  ValueId top5 = kNoValue;              ///< the same, with more than five classes
  std::int64_t classes = 0;             ///< of the first term, where it has labels
  std::vector<std::size_t> class_axes;  ///< by term: of its prediction; 0: it has no labels
  std::vector<LossCount> counts;        ///< by term
  std::vector<LossConstant> constants;
  std::string note;  ///< of the terms' class axes

  /// All ids become what they are in another graph.
  template <typename Of>
  void follow(const Of& of) {
    const auto move = [&](ValueId& id) {
      if (id.valid()) id = of(id);
    };
    for (ValueId* const id : {&sum, &sample_weights, &reference, &correct, &margin, &top5}) move(*id);
    for (ValueId& id : targets) move(id);
    for (ValueId& id : predictions) move(id);
  }
};

/// By term: the values that the loss is taken of. That is the chosen output, or what goes into its softmax or sigmoid
/// where the loss does that itself (cross entropy, bce); a note is then written to `note`.
using LossInputs = std::vector<std::vector<ValueId>>;
Result<LossInputs> loss_inputs(const Graph& graph, const TrainOptions& options, std::string* note);
/// All of them.
std::vector<ValueId> all_of(const LossInputs& inputs);

/// Adds the loss of `inputs`, and inputs for the targets. Shapes must be constant.
/// Cross entropy of a language model's logits, [batch, .., classes] as a product by a weight [classes, d], takes that
/// product into itself (linear_cross_entropy): the logits are never whole, and right answers are not counted.
Result<LossNodes> add_loss(Graph& graph, const LossInputs& inputs, std::int64_t samples, const TrainOptions& options);

/// Names the nodes' outputs loss, correct and top5, in this order and as far as they exist.
void add_loss_outputs(Graph& graph, const LossNodes& loss);

}  // namespace graft::train
