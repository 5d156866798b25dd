// Learning-rate schedules: a factor for each optimizer step, in closed form, computed on the host in double.
#pragma once

#include <cstdint>
#include <string_view>

#include "platform/base/status.h"

namespace graft::train {

enum class ScheduleKind : std::uint8_t {
  constant,
  linear,      ///< from 1 to final_factor over the steps after the warm-up
  cosine,      ///< the same, along half a cosine
  step,        ///< times gamma after every step_size steps
  one_cycle,   ///< up along half a cosine for a share of the steps, then down to almost nothing: torch's OneCycleLR
  polynomial,  ///< to final_factor as a power of what is left
  plateau,     ///< times gamma where a metric of evaluations has not become better for a while: see Monitors
};
Result<ScheduleKind> parse_schedule(std::string_view name);

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  std::uint64_t warmup_steps = 0;  ///< step s < warmup_steps gets (s + 1) / (warmup_steps + 1)
  std::uint64_t total_steps = 0;   ///< linear and cosine: where final_factor is reached; it stays from there on
  double final_factor = 0;         ///< linear and cosine
  std::uint64_t step_size = 1;     ///< step
  double gamma = 0.1;              ///< step, plateau
  double rise = 0.3;               ///< one_cycle: share of the steps in which the rate rises
  double div_factor = 25;          ///< one_cycle: the rate over the first one
  double final_div_factor = 1e4;   ///< one_cycle: the first one over the last
  double power = 1;                ///< polynomial
};

Status check(const Schedule& schedule);

/// Whether it ends at total_steps.
bool has_end(ScheduleKind kind);

/// What the base learning rate is multiplied by in step `step` (the first is 0). With w = warmup_steps, T = total_steps
/// and x = (step - w) / (T - w), at most 1:
///   one_cycle: of T steps, as torch.optim.lr_scheduler.OneCycleLR with cosines; polynomial: final + (1 - final) (1 -
///   x)^power; linear 1 + (final - 1) x;  cosine final + (1 - final) (1 + cos(pi x)) / 2;  step gamma^floor((step - w)
///   / step_size).
double learning_rate_factor(const Schedule& schedule, std::uint64_t step);

}  // namespace graft::train
