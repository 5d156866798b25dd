// The graphs of a training run: forward, loss, backward and update, for given numbers of samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/graph.h"
#include "runtime/passes/input_rules.h"
#include "runtime/passes/precision.h"
#include "runtime/plan/residents.h"
#include "runtime/train/step/loss.h"
#include "runtime/train/step/options.h"

namespace graft::train {

/// A parameter and what belongs to it, by the names of values.
struct TrainedTensor {
  std::string name;
  std::uint32_t group = 0;                   ///< index into the arrays of the step state
  std::uint32_t owner = 0;                   ///< the worker that takes its step, where PlanRequest::shard
  std::vector<std::string> optimizer_state;  ///< as in "fc.weight/exp_avg"
  std::string accumulator;                   ///< empty where gradients are not accumulated
  double rate_scale = 1;                     ///< of its layer
  SourcePerm source_perm = {};
};

/// Running statistics that a slot moves (slots.h): what it would move them by comes out instead.
struct SlotStatistic {
  std::string running_mean;
  std::string running_var;
  std::string mean;  ///< outputs of the training graph, and inputs of build_statistics_graph()
  std::string var;
  Attrs attrs;  ///< of batch_norm_update
};

struct TrainingGraph {
  Graph graph;     ///< outputs: those of add_loss_outputs(), and squared_norm where it is clipped by norm
  LossNodes loss;  ///< ids into graph
  std::vector<passes::InputRule> rules;
  std::vector<passes::PackedShape> packed;
  std::vector<TrainedTensor> tensors;
  std::vector<SlotStatistic> statistics;  ///< of a slot
  std::vector<std::string> untrained;     ///< parameters: not floats, or no gradient leads from the loss to them
  std::string note;                       ///< what the loss chose that was not said
  passes::PrecisionReport precision;
};

/// Scalar output: the sum of squares of all gradients, after clipping by value and before clipping by norm.
inline constexpr std::string_view kSquaredNormOutput = "squared_norm";

/// Outputs of a slot: "slot:NAME" is what running statistics of that name are moved towards.
inline constexpr std::string_view kSlotPrefix = "slot:";

/// Output "fetch:NAME": a value of TrainOptions::fetch, in the source's order of axes.
inline constexpr std::string_view kFetchPrefix = "fetch:";

/// The symbol that stands for the batch: the first axis of the model's inputs; empty where that is a number.
/// An error where inputs disagree.
Result<std::string> batch_symbol(const Graph& model);

/// The model's graph with `samples` in the batch. An error where the model was made for another number.
/// The source's axis of an input along which samples lie, by the batch's symbol; nullopt: the input is one for all
/// samples. Without a symbol it is the first.
std::optional<std::size_t> batch_axis(const Value& input, std::string_view symbol);
Result<Graph> bind_batch(const Graph& model, std::int64_t samples, const Bindings& bindings);

/// What follows the gradients in a training graph.
enum class GradientUse : std::uint8_t {
  step,        ///< the optimizer's step
  accumulate,  ///< they are added to accumulators
  slot,        ///< the same, and what running statistics are moved by comes out as well (slots.h)
};

/// Loss and gradients of `samples` samples of the model. Gradients are of loss.sum times the step state's loss_weight.
Result<TrainingGraph> build_training_graph(const Graph& model, std::int64_t samples, const TrainOptions& options,
                                           GradientUse use);

/// Moves running statistics by what a slot gave.
Result<Graph> build_statistics_graph(const TrainingGraph& slot);

/// Clips what was accumulated, takes the optimizer's step, and sets the accumulators to zero. No step is taken where
/// the step state's loss_weight is not finite: the trainer's word that the loss is not. `owner`: of its tensors alone,
/// after clipping by the norm of all.
Result<Graph> build_update_graph(const TrainingGraph& accumulating, const TrainOptions& options,
                                 std::optional<std::uint32_t> owner = {});

/// Output of add_hash(): 64 bits.
inline constexpr std::string_view kHashOutput = "state_hash";

/// Hashes the parameters and running statistics that a step leaves. Not the optimizer's state, for three times the
/// cost: what differs there differs in the parameters as soon as it matters.
/// The graph may hold some of these values already, and move them: the hash is of what it leaves.
Status add_hash(Graph& graph, const Residents& residents);

/// The model in inference mode, its loss and its metrics. Weights are kept as among the residents of training, or where
/// nothing is trained, as for inference.
struct EvaluationGraph {
  Graph graph;
  LossNodes loss;
  std::vector<passes::InputRule> rules;
  std::vector<passes::PackedShape> packed;
};
Result<EvaluationGraph> build_evaluation_graph(const Graph& model, std::int64_t samples, const TrainOptions& options,
                                               const Residents* trained);

}  // namespace graft::train
