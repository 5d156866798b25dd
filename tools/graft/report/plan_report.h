// A plan's document as text, as --json prints it, and as a page.
#pragma once

#include <string>
#include <vector>

#include "tools/graft/report/plan_document.h"
#include "tools/graft/report/svg_curve.h"

namespace graft::cli {

/// Classes of memory, the peak and where it is, saved and recomputed values, the costliest nodes. `plan`: one of the
/// document's.
void print_plan(const PlanDocument& plan, const std::string& title);

/// What is kept in 16 bits and what in f32, by op, with the reason; nothing for f32.
void print_precision(const PlanDocument& report);

/// What --matmul-precision does on the device, as a sentence; empty: products of f32 stay in f32 unasked.
std::string matmul_precision_text(const PlanDocument& report);

/// A line for each pass: its name, nodes before and after, and the ops that there are more or fewer of.
void print_passes(const PlanDocument& report);

void print_curve(const PlanDocument& report);

/// `what`: "a step" or "it".
void print_time(const PlanDocument& report, const char* what);

/// What --json prints for the model of the file `path`.
PlanDocument plan_json(PlanDocument report, const std::string& path);

/// A page with the memory map (hovering names the values), what was chosen and why, and every layer.
std::string plan_html(const std::string& title, const std::vector<std::string>& reasons, const PlanDocument& plan,
                      const CurvePicture& curve);

}  // namespace graft::cli
