#include <cmath>

#include "runtime/core/philox.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::dropout {

void ref_dropout(RefContext& c) {
  const double p = c.attrs().number("p");
  const bool training = c.attrs().flag("training");
  const double threshold = std::round(p * 0x1p32);
  const RefStepState& state = c.step_state();
  const auto stream = static_cast<std::uint32_t>(c.attrs().integer("stream"));
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    const auto words =
        philox({static_cast<std::uint32_t>(i / 4), state.micro_step, state.step, 0}, {state.seed, stream});
    const bool kept = words[i % 4] >= threshold;
    c.out()[i] = !training ? c.in(0)[i] : (kept ? c.in(0)[i] / (1 - p) : 0);
  }
}

void ref_dropout_grad(RefContext& c) { ref_dropout(c); }

}  // namespace graft::ops::dropout
