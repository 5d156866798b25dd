// Cutting recorded work smaller: runs of steps, and dispatches by their workgroups.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"

namespace graft {

/// Workgroups of a dispatch, from number `first` on.
struct Workgroups {
  std::array<std::uint32_t, 3> first{};
  std::array<std::uint32_t, 3> count{};
};

/// About what a step takes on a slow device, which does 10 GFLOP/s and moves 5 GB/s.
double slow_device_ns(const Step& step);

/// Steps [first, end) as at most `parts` runs of about equal work: where each ends. Parts are at least 1.
std::vector<std::uint32_t> split_steps(std::span<const Step> steps, std::uint32_t first, std::uint32_t end,
                                       std::uint32_t parts);

/// The workgroups in at most `parts` parts, of which the largest is one row, plane or column larger than the smallest.
/// Only the last dimension that has more than one is cut, so that shaders/common/index.glsl numbers each as it did.
std::vector<Workgroups> split_dispatch(const Workgroups& whole, std::uint32_t parts);

}  // namespace graft
