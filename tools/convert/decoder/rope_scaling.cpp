#include "tools/convert/decoder/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace graft::convert {
namespace {

Status check_positive(const char* what, double value) {
  if (value > 0 && std::isfinite(value)) return {};
  return corrupt("The ", what, " of the rotary embedding's scaling is ", value, "; it must be positive and finite.");
}

/// Radians per position of each pair, before scaling.
Result<std::vector<double>> plain(const RopeSpec& rope, std::int64_t turned) {
  constexpr std::int64_t kMost = 4096;
  if (turned < 2 || turned > kMost) return corrupt(turned, " elements of a head turn; 2 to ", kMost, " can be.");
  GRAFT_TRY(check_positive("base", rope.theta));
  std::vector<double> out(static_cast<std::size_t>(turned / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
  }
  return out;
}

void store(RopeSpec& rope, const std::vector<double>& frequencies) {
  rope.frequencies.assign(frequencies.begin(), frequencies.end());
}

}  // namespace

void stop_turning(std::size_t interval, DecoderSpec& spec) {
  for (std::size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].rotates = (i + 1) % interval != 0;
}

Status scale_linear(RopeSpec& rope, std::int64_t turned, double factor) {
  GRAFT_TRY(check_positive("factor", factor));
  GRAFT_TRY_ASSIGN(auto frequencies, plain(rope, turned));
  for (double& f : frequencies) f /= factor;
  store(rope, frequencies);
  rope.scaling = {.type = "linear", .factor = factor};
  return {};
}

Status scale_llama3(RopeSpec& rope, std::int64_t turned, const Llama3Scaling& s) {
  GRAFT_TRY(check_positive("factor", s.factor));
  GRAFT_TRY(check_positive("old context", s.old_context));
  if (!(s.high > s.low))
    return corrupt("The high frequency factor ", s.high, " is not above the low one, ", s.low, ".");
  GRAFT_TRY_ASSIGN(auto frequencies, plain(rope, turned));
  for (double& f : frequencies) {
    const double turns = s.old_context * f / (2 * std::numbers::pi);
    const double fast = std::clamp((turns - s.low) / (s.high - s.low), 0.0, 1.0);
    f *= fast + (1 - fast) / s.factor;
  }
  store(rope, frequencies);
  rope.scaling = {.type = "llama3", .factor = s.factor, .low = s.low, .high = s.high, .old_context = s.old_context};
  return {};
}

Status scale_yarn(RopeSpec& rope, std::int64_t turned, const YarnScaling& s) {
  GRAFT_TRY(check_positive("factor", s.factor));
  GRAFT_TRY(check_positive("old context", s.old_context));
  GRAFT_TRY(check_positive("fast bound", s.beta_fast));
  GRAFT_TRY(check_positive("slow bound", s.beta_slow));
  GRAFT_TRY_ASSIGN(auto frequencies, plain(rope, turned));
  // The pair that turns `turns` times within the old context.
  const auto pair_of = [&](double turns) {
    return static_cast<double>(turned) * std::log(s.old_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  const double fast = pair_of(s.beta_fast), slow = pair_of(s.beta_slow);
  const double low = std::max(s.truncate ? std::floor(fast) : fast, 0.0);
  const double high = std::min(s.truncate ? std::ceil(slow) : slow, static_cast<double>(turned) - 1);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double width = std::max(high - low, 1e-3);
    const double share = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
    frequencies[i] *= (1 - share) + share / s.factor;
  }
  store(rope, frequencies);
  rope.scaling = {.type = "yarn",
                  .factor = s.factor,
                  .old_context = s.old_context,
                  .beta_fast = s.beta_fast,
                  .beta_slow = s.beta_slow,
                  .truncate = s.truncate};
  rope.magnitude = s.magnitude != 0 ? s.magnitude : s.factor <= 1 ? 1 : 0.1 * std::log(s.factor) + 1;
  return {};
}

Status scale_each(RopeSpec& rope, std::int64_t turned, std::span<const float> factors) {
  GRAFT_TRY_ASSIGN(auto frequencies, plain(rope, turned));
  if (factors.size() != frequencies.size()) {
    return corrupt("There are ", factors.size(), " factors for the rotary embedding's ", frequencies.size(),
                   " frequencies.");
  }
  for (std::size_t i = 0; i < factors.size(); ++i) {
    GRAFT_TRY(check_positive("factor", factors[i]));
    frequencies[i] /= factors[i];
  }
  store(rope, frequencies);
  rope.scaling = {.type = "factors"};
  return {};
}

Status scale_longrope(RopeSpec& rope, std::int64_t turned, LongRopeScaling s) {
  GRAFT_TRY(check_positive("factor", s.factor));
  GRAFT_TRY(check_positive("old context", s.old_context - 1));
  GRAFT_TRY(scale_each(rope, turned, s.long_factors));  // checked like the others, though not used
  GRAFT_TRY(scale_each(rope, turned, s.short_factors));
  rope.magnitude = s.magnitude != 0 ? s.magnitude
                   : s.factor <= 1  ? 1
                                    : std::sqrt(1 + std::log(s.factor) / std::log(s.old_context));
  GRAFT_TRY(check_positive("attention factor", rope.magnitude));
  rope.scaling = {.type = "longrope",
                  .factor = s.factor,
                  .old_context = s.old_context,
                  .short_factors = std::move(s.short_factors),
                  .long_factors = std::move(s.long_factors)};
  return {};
}

std::int64_t whole_context(const DecoderSpec& spec) {
  const RopeScaling& scaling = spec.rope.scaling;
  return scaling.type == "longrope" ? std::llround(scaling.factor * scaling.old_context) : spec.context;
}

std::string longrope_note(double old_context) {
  return cat("Its rotary embedding turns by other factors beyond ", old_context,
             " positions (type longrope); graft keeps to those within, and to that context.");
}

}  // namespace graft::convert
