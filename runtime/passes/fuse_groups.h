// The live nodes of a graph in groups, each of which will be one node. Internal to fusion.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/core/graph.h"
#include "runtime/passes/fuse_program.h"

namespace graft::passes {

/// Nodes are indices into the graph's. A group of one node without bias or norm is that node as it is.
struct Group {
  std::vector<std::uint32_t> nodes;     ///< ascending; none: another group has taken them
  std::optional<ValueProgram> program;  ///< elementwise; or, where it begins with a source, the epilogue of `main`
  NodeId main;                          ///< the node around which it is; kNoNode: elementwise, or one node as it is
  ValueId bias;                         ///< what main adds to its columns, as its own input
  ValueId addend;                       ///< what main, a norm, adds to its input 0
};

class Groups {
 public:
  explicit Groups(const Graph& graph);

  const Graph& graph() const { return graph_; }
  const std::vector<std::uint32_t>& roots() const { return roots_; }
  std::size_t size() const { return groups_.size(); }  ///< as many as nodes
  Group& at(std::uint32_t group) { return groups_[group]; }
  const Group& at(std::uint32_t group) const { return groups_[group]; }

  bool is_live(std::uint32_t node) const { return live_[node]; }
  /// It reads what a node has changed by then: it must not be moved.
  bool reads_changed(const Node& node) const;
  /// The group that makes the memory of this value; nullopt for inputs and residents.
  std::optional<std::uint32_t> maker(ValueId v) const;
  /// Of the backward pass, or behind it.
  bool is_late(std::uint32_t group) const { return late_[groups_[group].nodes[0]]; }

  /// Whether anything but group s wants what stands in the value's memory.
  bool wanted(ValueId result, std::uint32_t s) const;
  /// Whether s must wait for something, other than p itself, that waits for p: then they cannot be one.
  bool apart(std::uint32_t p, std::uint32_t s) const;
  /// Whether p's work may be done where s stands without more memory in use: s could run right behind p anyway, or what
  /// p reads, and would be needed longer for that, is no more than the values that are `gone` then. Where some result
  /// of p `stays`, what a main op reads must not be what its memory could have been taken from.
  bool fits_memory(std::uint32_t p, std::uint32_t s, const std::vector<ValueId>& gone, bool stays) const;

  /// The nodes of p are s's from here on.
  void merge(std::uint32_t p, std::uint32_t s);

  /// What the node of a group will read.
  std::vector<ValueId> inputs(std::uint32_t group) const;
  /// Groups in an order in which each comes after what it reads; without views that nobody wants any more.
  std::vector<std::uint32_t> order() const;

 private:
  std::uint32_t last(std::uint32_t group) const { return groups_[group].nodes.back(); }
  bool is_view(const Node& node) const;
  std::vector<std::uint32_t> after(std::uint32_t group) const;
  std::vector<std::uint32_t> roots_read(std::uint32_t group) const;
  /// Transient memory that nobody but these two groups reads.
  bool dies(std::uint32_t root, std::uint32_t p, std::uint32_t s) const;
  std::vector<bool> needed() const;

  const Graph& graph_;
  std::vector<bool> live_;
  std::vector<bool> late_;                                // per node
  std::vector<std::uint32_t> roots_;                      // per value
  std::vector<bool> changed_;                             // per value: it shows what a mutation left
  std::vector<bool> output_;                              // per root
  std::vector<std::vector<std::uint32_t>> root_readers_;  // per root: live nodes that are no views
  std::vector<std::vector<std::uint32_t>> mutators_;      // per root
  std::vector<Group> groups_;                             // per node: at first its own
  std::vector<std::uint32_t> group_of_;                   // per node
};

}  // namespace graft::passes
