// Copies a graph node by node, while a pass replaces some of them.
//
// A pass walks source().nodes() in order and says of each node what becomes of it: copy() it as it is, or add other
// nodes through builder() and call replace(). Names stay: a replaced value gives its name to what stands in its place.
// finish() drops what nothing needs any more, which is how the inner nodes of a matched pattern go away: a pass copies
// them like any other, and replaces the last one alone.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/core/build.h"
#include "runtime/core/graph.h"

namespace graft::passes {

/// A graph, and values in it that must stay distinct, read by all that reads them now: those that a gradient is asked
/// with respect to. Outputs need no pin.
struct PassGraph {
  Graph graph;
  std::vector<bool> pinned;     ///< by value
  std::vector<ValueId> values;  ///< of the graph that the pipeline began with, by its index; kNoValue: gone

  explicit PassGraph(Graph begin);
  void pin(ValueId value) { pinned[value.index] = true; }
  bool is_pinned(ValueId value) const { return pinned[value.index]; }
};

class Rewriter {
 public:
  explicit Rewriter(const PassGraph& source);

  const Graph& source() const { return source_.graph; }
  Builder& builder() { return builder_; }
  Graph& graph() { return out_; }

  // Of the source.
  const Value& value(ValueId v) const { return source_.graph.value(v); }
  const Node* producer(ValueId v) const;
  /// The node, where it is of this op and `v` its first output; else nullptr.
  const Node* producer(ValueId v, Op op) const;
  /// Nodes that read the value; a node that reads it twice counts twice.
  const std::vector<NodeId>& readers(ValueId v) const { return readers_[v.index]; }
  bool is_output(ValueId v) const { return output_[v.index]; }
  bool is_pinned(ValueId v) const { return source_.is_pinned(v); }
  /// Nothing but nodes of this pattern may care about it: it is neither an output nor pinned.
  bool may_vanish(ValueId v) const { return v.valid() && !is_output(v) && !is_pinned(v); }
  /// The same, and one node alone reads it.
  bool is_inner(ValueId v) const { return may_vanish(v) && readers_[v.index].size() == 1; }

  /// Where a value of the source stands in the copy; kNoValue for kNoValue. Its node must have been copied or replaced.
  ValueId at(ValueId v) const { return v.valid() ? map_[v.index] : kNoValue; }
  std::vector<ValueId> at(const std::vector<ValueId>& values) const;

  /// The node as it is, its inputs where they stand now; or with other inputs (of the copy) and attributes.
  Status copy(const Node& node) { return copy(node, at(node.inputs), node.attrs); }
  Status copy(const Node& node, std::vector<ValueId> inputs, Attrs attrs);
  /// `made`, of the copy, stands for `v` from here on, and takes its name where nothing but this pass named it.
  /// Requires equal shapes and dtypes.
  void replace(ValueId v, ValueId made);
  /// Adds one node that stands for `v`. Its node is named as v's producer was.
  Status replace(ValueId v, Op op, std::vector<ValueId> inputs, Attrs attrs = {});

  /// Gives `made` the name of `v`, which it holds with its axes in another order: axis k is v's axis order[k].
  void name(ValueId made, ValueId v, SourcePerm order);

  /// The copy without what neither an output nor a mutation needs, and without weights that lost their last reader.
  Result<PassGraph> finish();

 private:
  /// Makes room for a name of the source: a value that a pass made gives it up.
  void claim(const std::string& name);

  const PassGraph& source_;
  Graph out_;
  Builder builder_;
  std::vector<ValueId> map_;                  // by the source's value
  std::vector<std::vector<NodeId>> readers_;  // by the source's value
  std::vector<bool> output_;                  // by the source's value
  std::vector<bool> kept_;                    // by the source's value: the pipeline began with it
  std::vector<bool> named_;                   // by the copy's value: its name is not a pass's own
};

/// Drops nodes that no output, no pinned value and no mutation needs, and constants and parameters that had readers and
/// have none left.
Result<PassGraph> prune(const PassGraph& graph);

}  // namespace graft::passes
