#include "runtime/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace graft::train {

Result<ScheduleKind> parse_schedule(std::string_view name) {
  if (name == "constant") return ScheduleKind::constant;
  if (name == "linear") return ScheduleKind::linear;
  if (name == "cosine") return ScheduleKind::cosine;
  if (name == "step") return ScheduleKind::step;
  return invalid("There is no schedule \"", name, "\"; there are constant, linear, cosine and step.");
}

Status check(const Schedule& schedule) {
  const bool decays = schedule.kind == ScheduleKind::linear || schedule.kind == ScheduleKind::cosine;
  if (decays && schedule.total_steps <= schedule.warmup_steps) {
    return invalid("The learning rate is to fall over ", schedule.total_steps, " steps of which ",
                   schedule.warmup_steps, " are warm-up; more steps are needed.");
  }
  if (schedule.kind == ScheduleKind::step && schedule.step_size == 0) {
    return invalid("The learning rate is to change every 0 steps; it must be at least 1.");
  }
  for (const double factor : {schedule.final_factor, schedule.gamma}) {
    if (!(factor >= 0 && factor <= 1e6)) {
      return invalid("A learning rate factor is ", factor, "; it must lie in [0, 1e6].");
    }
  }
  return {};
}

double learning_rate_factor(const Schedule& schedule, std::uint64_t step) {
  if (step < schedule.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps + 1);
  }
  const std::uint64_t after = step - schedule.warmup_steps;
  if (schedule.kind == ScheduleKind::constant) return 1;
  if (schedule.kind == ScheduleKind::step) {
    const std::uint64_t drops = after / schedule.step_size;
    return std::pow(schedule.gamma, static_cast<double>(drops));
  }
  const auto span = static_cast<double>(schedule.total_steps - schedule.warmup_steps);
  const double x = std::min(1.0, static_cast<double>(after) / span);
  if (schedule.kind == ScheduleKind::linear) return 1 + (schedule.final_factor - 1) * x;
  return schedule.final_factor + (1 - schedule.final_factor) * (1 + std::cos(std::numbers::pi * x)) / 2;
}

}  // namespace graft::train
