// What values of an ONNX graph are used for.
#pragma once

#include <initializer_list>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/convert/onnx/proto/onnx_graph.h"

namespace graft::convert {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> all);

/// Of a graph that outlives it, with the bodies of its nodes. A name that bodies use twice counts as one value.
class OnnxUses {
 public:
  explicit OnnxUses(const OnnxGraph& graph);

  bool is_used(std::string_view name) const { return readers_.contains(name); }
  /// Whether a gradient can come to it from an output: not through a comparison, say.
  bool has_gradient(std::string_view name) const { return reached_.contains(name); }
  /// What the value is for, behind nodes that only move it and behind those of `more`: ops, "" for an output, "?" where
  /// that goes too far.
  std::set<std::string_view> purposes(std::string_view name, std::initializer_list<std::string_view> more) const;
  /// Whether all that reads it multiplies something normalised by it, or adds it to that or to a product's result.
  bool is_scale_or_shift(std::string_view name) const;

 private:
  void add(const OnnxGraph& graph);
  /// The node behind a value and what moves it; nullptr: it is given.
  const OnnxNode* maker(std::string_view name) const;
  /// A norm's node, or something divided by a deviation: by the root of what was computed, or centred by given numbers
  /// and divided by others.
  bool is_normalised(const OnnxNode* node) const;

  std::vector<const OnnxNode*> nodes_;
  std::unordered_map<std::string_view, std::size_t> producers_;
  std::unordered_map<std::string_view, std::vector<std::pair<std::size_t, std::size_t>>> readers_;  ///< node, input
  std::unordered_map<std::string_view, std::vector<std::string_view>> taken_;  ///< a body's results: those of its node
  std::set<std::string_view> reached_;
  std::set<std::string_view> outputs_;
};

}  // namespace graft::convert
