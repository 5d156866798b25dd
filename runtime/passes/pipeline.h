// The passes between a model and its plan: graph to graph, one after the other.
//
//   bind -> (train mode, loss) -> prepare() -> gradients, optimizer -> precision -> fuse() -> plan
//
// prepare() makes of a network what graft would have written itself: patterns that exporters spell out become the ops
// that they mean (canonicalise), and axes are laid out where that is cheapest (layout).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/core/graph.h"

namespace graft::passes {

/// What a pass did, for `graft plan --passes`.
struct PassNote {
  std::string_view pass;
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
  std::vector<std::pair<Op, std::int64_t>> changes;  ///< ops that there are more of now (> 0) or fewer, by number
  std::string text;                                  ///< the graph after it, as text, where the options ask for it
};

/// What a pass made of `before`.
PassNote note_of(std::string_view pass, const Graph& before, const Graph& after);

struct PrepareOptions {
  /// Nothing will be differentiated, and running it changes no weights: rewrites that hold only then are allowed.
  bool inference = false;
  /// Weights are those of the model from run to run, so that what depends on them alone is computed once
  /// (fold_constants()). Not so where a model is evaluated while it is trained.
  bool fixed_weights = false;
  bool keep_text = false;  ///< of the graph after each pass that changed something
};

struct Prepared {
  Graph graph;
  std::vector<ValueId> values;  ///< by the index of a value in the graph that was given; kNoValue: it is gone
  std::vector<PassNote> notes;  ///< of every pass, in order
};

/// Runs all passes that come before differentiation over a bound graph. Every output and every value of `pinned` is
/// still there, in the same shape and order of axes, by the same name. A pinned value is read by all that read it
/// before, so that gradients with respect to it mean the same.
Result<Prepared> prepare(const Graph& graph, const std::vector<ValueId>& pinned, const PrepareOptions& options = {});

}  // namespace graft::passes
