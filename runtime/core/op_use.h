// Which ops the nodes of graphs are made of on the way from a model to its plans: what a smaller build must keep.
#pragma once

#include <set>

#include "runtime/core/graph.h"

namespace graft {

/// While it lives it notes the op of every node that is added to any graph on its thread. Not nested.
class OpUse {
 public:
  OpUse() { current_ = this; }
  ~OpUse() { current_ = nullptr; }
  OpUse(const OpUse&) = delete;
  OpUse& operator=(const OpUse&) = delete;
  static OpUse* current() { return current_; }  ///< null: nobody asks

  void note(Op op) { ops_.insert(op); }
  const std::set<Op>& ops() const { return ops_; }

 private:
  inline static thread_local OpUse* current_ = nullptr;
  std::set<Op> ops_;
};

}  // namespace graft
