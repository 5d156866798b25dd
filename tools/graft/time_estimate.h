// How long dispatches take, estimated from what a device reaches when nothing but one thing is asked of it: the larger
// of arithmetic and memory, and the handing out. It ranks; it does not know caches, latency, or how well a kernel suits
// a device. Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore
// architectures", Communications of the ACM 52 (4), 2009.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/graft/device_bench.h"

namespace graft::cli {

/// Sums in seconds. Of a dispatch that memory takes longer than its arithmetic, all but the handing out is `memory`.
struct TimeEstimate {
  double arithmetic = 0;
  double memory = 0;
  double dispatching = 0;  ///< with barriers and the submission

  double seconds() const { return arithmetic + memory + dispatching; }
  void add(const TimeEstimate& other, double times);
};

/// A dispatch of so many FLOPs that reads and writes so many bytes.
TimeEstimate estimate_dispatch(std::uint64_t flops, std::uint64_t bytes, bool barrier, const DeviceFigures& figures);
/// A copy by a command.
TimeEstimate estimate_copy(std::uint64_t bytes, const DeviceFigures& figures);

struct KnownFigures {
  std::string device;
  DeviceFigures figures;
};

/// What graft bench device --json printed, or a file of it. invalid_argument where a figure that an estimate needs is
/// missing or no number above 0; as reading gives it.
Result<KnownFigures> read_figures(const std::string& given);

/// Spearman's coefficient of rank correlation, with mean ranks of equal numbers: 1 where both rise together, 0 where
/// one says nothing of the other or there are fewer than two. Requires lists of one length.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace graft::cli
