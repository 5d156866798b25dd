#include <cmath>
#include <numbers>

#include "runtime/core/philox.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::random {
namespace {

void random(RefContext& c, bool normal) {
  const RefStepState& state = c.step_state();
  const auto stream = static_cast<std::uint32_t>(c.attrs().integer("stream"));
  const double offset = c.attrs().number("offset"), factor = c.attrs().number("factor");
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    const auto words =
        philox({static_cast<std::uint32_t>(i / 4), state.micro_step, state.step, 0}, {state.seed, stream});
    const auto unit = [&](std::size_t k) { return static_cast<double>(words[k] >> 8) * 0x1p-24; };
    const std::size_t pair = i % 4 / 2 * 2;
    const double angle = 2 * std::numbers::pi * unit(pair + 1);
    const double radius = std::sqrt(-2 * std::log(1 - unit(pair)));
    const double number = !normal ? unit(i % 4) : radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    c.out()[i] = offset + factor * number;
  }
}

}  // namespace

void ref_random_uniform(RefContext& c) { random(c, false); }
void ref_random_normal(RefContext& c) { random(c, true); }

}  // namespace graft::ops::random
