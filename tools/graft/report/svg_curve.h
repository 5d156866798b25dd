// Panels below the memory map: memory against work, and the layers that hold the most.
#pragma once

#include <cstdint>
#include <vector>

#include "graft/plan.h"
#include "tools/graft/report/plan_document.h"
#include "tools/graft/report/svg.h"

namespace graft::cli {

/// The trades between memory and work, and where the plan stands among them.
struct CurvePicture {
  std::vector<graft_plan_point> points;
  std::uint64_t flops = 0;   ///< of a step that computes nothing again
  std::uint64_t budget = 0;  ///< 0: none
  std::uint64_t chosen_bytes = 0;
  std::uint64_t chosen_flops = 0;  ///< extra
};

struct Panel {
  double x, y, width, height;
};

void draw_curve(Svg& svg, const Panel& panel, const CurvePicture& curve);

/// As many rows as fit, those with the most saved bytes and FLOPs.
void draw_layers(Svg& svg, const Panel& panel, const PlanDocument& plan);

}  // namespace graft::cli
