// The forward pass in segments: where it is cut, the results that are still to be read stay, and all others go.
#pragma once

#include "runtime/plan/recompute/recompute_search.h"

namespace graft {

/// The choice that computes nothing again. Values that the backward pass does not read count as dropped: this has no
/// effect until values made from them are dropped too, and then it is what one wants.
std::vector<char> nothing_dropped(const RecomputeGraph& graph);

class Segments {
 public:
  explicit Segments(const RecomputeEvaluator& evaluate);

  std::uint64_t saved_bytes() const { return saved_bytes_; }

  /// The cuts that keep the fewest bytes, with at most `limit` saved bytes in a segment; empty where none will do.
  std::vector<char> cut(std::uint64_t limit) const;

 private:
  /// Whether candidate c is read behind a cut before candidate b.
  bool crosses(std::size_t c, std::size_t b) const { return b < made_.size() && read_[c] >= made_[b]; }

  const RecomputeEvaluator& evaluate_;
  std::vector<std::uint32_t> made_;
  std::vector<std::uint32_t> read_;  ///< last by the forward pass
  std::uint64_t saved_bytes_ = 0;
};

}  // namespace graft
