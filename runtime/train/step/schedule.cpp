#include "runtime/train/step/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace graft::train {

Result<ScheduleKind> parse_schedule(std::string_view name) {
  if (name == "constant") return ScheduleKind::constant;
  if (name == "linear") return ScheduleKind::linear;
  if (name == "cosine") return ScheduleKind::cosine;
  if (name == "step") return ScheduleKind::step;
  if (name == "one-cycle" || name == "one_cycle") return ScheduleKind::one_cycle;
  if (name == "polynomial") return ScheduleKind::polynomial;
  if (name == "plateau") return ScheduleKind::plateau;
  return invalid("There is no schedule \"", name,
                 "\"; there are constant, linear, cosine, step, one-cycle, polynomial and plateau.");
}

bool has_end(ScheduleKind kind) {
  return kind == ScheduleKind::linear || kind == ScheduleKind::cosine || kind == ScheduleKind::one_cycle ||
         kind == ScheduleKind::polynomial;
}

Status check(const Schedule& schedule) {
  const bool none = schedule.total_steps == 0 || schedule.total_steps < schedule.warmup_steps;
  if (has_end(schedule.kind) && none) {
    return invalid("The learning rate is to fall over ", schedule.total_steps, " steps of which ",
                   schedule.warmup_steps, " are warm-up; more steps are needed.");
  }
  if (schedule.kind == ScheduleKind::one_cycle && schedule.warmup_steps > 0) {
    return invalid("A one-cycle schedule has a rise of its own; it takes no warm-up.");
  }
  return {};
}

namespace {

/// From `start` to `end` along half a cosine.
double along_cosine(double start, double end, double share) {
  return end + (start - end) / 2 * (std::cos(std::numbers::pi * share) + 1);
}

double one_cycle(const Schedule& schedule, std::uint64_t step) {
  const double top = schedule.rise * static_cast<double>(schedule.total_steps) - 1;
  const double last = static_cast<double>(schedule.total_steps) - 1;
  const double first = 1 / schedule.div_factor, least = first / schedule.final_div_factor;
  const double at = std::min(static_cast<double>(step), last);
  if (at <= top) return top > 0 ? along_cosine(first, 1, at / top) : 1;
  return along_cosine(1, least, (at - top) / (last - top));  // the rise is below 1, so last > top
}

}  // namespace

double learning_rate_factor(const Schedule& schedule, std::uint64_t step) {
  if (step < schedule.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps + 1);
  }
  const std::uint64_t after = step - schedule.warmup_steps;
  if (schedule.kind == ScheduleKind::constant || schedule.kind == ScheduleKind::plateau) return 1;
  if (schedule.kind == ScheduleKind::one_cycle) return one_cycle(schedule, step);
  if (schedule.kind == ScheduleKind::step) {
    const std::uint64_t drops = after / schedule.step_size;
    return std::pow(schedule.gamma, static_cast<double>(drops));
  }
  const auto span = static_cast<double>(schedule.total_steps - schedule.warmup_steps);
  const double x = span > 0 ? std::min(1.0, static_cast<double>(after) / span) : 1;
  if (schedule.kind == ScheduleKind::polynomial) {
    return schedule.final_factor + (1 - schedule.final_factor) * std::pow(1 - x, schedule.power);
  }
  if (schedule.kind == ScheduleKind::linear) return 1 + (schedule.final_factor - 1) * x;
  return schedule.final_factor + (1 - schedule.final_factor) * (1 + std::cos(std::numbers::pi * x)) / 2;
}

}  // namespace graft::train
