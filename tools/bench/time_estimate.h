// How well estimates of time put kernels in order.
#pragma once

#include <span>

#include "runtime/report/plan_speed.h"

namespace graft::cli {

/// Spearman's coefficient of rank correlation, with mean ranks of equal numbers: 1 where both rise together, 0 where
/// one says nothing of the other or there are fewer than two. Requires lists of one length.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace graft::cli
