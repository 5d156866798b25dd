// From a model's graph to the graph that training runs forward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/core/graph.h"

namespace graft::passes {

struct TrainModeOptions {
  std::vector<std::string> freeze;  ///< patterns of parameters that stay as they are (matches())
  bool batch_statistics = true;     ///< false: batch norm uses its running statistics, and does not update them
  std::optional<double> batch_norm_momentum;  ///< default: the node's, else 0.1
  /// Of noise on the embeddings of tokens; 0: none. N. Jain et al., "NEFTune: Noisy Embeddings Improve Instruction
  /// Finetuning", 2023.
  double neftune_alpha = 0;
};

/// A copy of a bound graph in train mode, with what the ids became.
struct TrainModeGraph {
  Graph graph;
  std::vector<ValueId> values;  ///< by the source's value index; kNoValue for what is not in the copy
};

/// Copies the nodes that some of `targets` depends on.
///   batch_norm -> batch_norm_train and batch_norm_update of its statistics, which become state (if batch_statistics);
///   dropout -> training, each with a stream of its own;
///   rows of a matrix that the first input, of tokens [batch, length], looks up -> with numbers added to them that are
///   uniform in +-neftune_alpha / sqrt(length * width) (if neftune_alpha is not 0; invalid_argument: no such lookup);
///   parameters that are frozen by pattern -> constants.
/// Outputs are not copied.
Result<TrainModeGraph> to_train_mode(const Graph& source, const std::vector<ValueId>& targets,
                                     const TrainModeOptions& options);
inline Result<TrainModeGraph> to_train_mode(const Graph& source, ValueId target, const TrainModeOptions& options) {
  return to_train_mode(source, std::vector<ValueId>{target}, options);
}

/// For each node, whether some of `targets` depends on it.
std::vector<bool> nodes_behind(const Graph& graph, const std::vector<ValueId>& targets);

}  // namespace graft::passes
