// The memory map: the arena over time, every value a box; the classes of memory beside it.
#pragma once

#include <string>

#include "tools/graft/report/plan_document.h"
#include "tools/graft/report/svg_curve.h"

namespace graft::cli {

/// Of one of a document's plans. x: nodes in the order of execution; y: bytes in the arena. Backward nodes lie on a
/// shaded ground; the fullest moment is marked; hovering over a box names the value.
std::string memory_svg(const std::string& title, const PlanDocument& plan, const CurvePicture& curve = {});

}  // namespace graft::cli
