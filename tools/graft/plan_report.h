// A plan as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/train/training_plan.h"
#include "tools/graft/svg_curve.h"

namespace graft::cli {

/// Classes of memory, the peak and where it is, saved and recomputed values, the costliest nodes.
void print_plan(const Plan& plan, const gpu::Quirks& quirks, const std::string& title);

nlohmann::ordered_json plan_json(const Plan& plan, const gpu::Quirks& quirks);

/// Bytes by class, by name.
nlohmann::ordered_json memory_json(const MemoryByClass& memory);

/// What is kept in 16 bits and what in f32, by op, with the reason; nothing for f32.
void print_precision(const passes::PrecisionReport& report);
nlohmann::ordered_json precision_json(const passes::PrecisionReport& report);

void print_curve(const train::TrainingCurve& curve);
nlohmann::ordered_json curve_json(const train::TrainingCurve& curve);

/// A page with the memory map (hovering names the values), what was chosen and why, and every layer.
std::string plan_html(const std::string& title, const std::vector<std::string>& reasons, const Plan& plan,
                      const CurvePicture& curve);

}  // namespace graft::cli
