// A forecast as the document that docs/reference/formats.md describes.
#pragma once

#include <string>

#include "runtime/report/plan_forecast.h"

namespace graft {

/// JSON, without line breaks.
std::string plan_report(const PlanForecast& forecast, const gpu::Target& target);

}  // namespace graft
