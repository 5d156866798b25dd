#include <algorithm>
#include <vector>

#include "runtime/ops/rnn/cell_ref.h"

namespace graft::ops::rnn {

void ref_rnn(RefContext& c) {
  const RefSizes s(c, 0, true, kRnnActivations);
  const ActivationUse& f = s.cell.activations[0];
  std::vector<double> state = s.state(c, 2);
  for (std::size_t k = 0; k < s.steps; ++k) {
    const std::size_t t = s.time(k);
    const std::vector<double> products = s.products(c.in(1), state, 1);
    for (std::size_t i = 0; i < s.row_elements(); ++i) {
      if (s.rests(c, 3, i / s.hidden, t)) continue;
      const std::size_t at = t * s.row_elements() + i;
      const double sum = c.in(0)[at] + products[i];
      c.out(0)[at] = state[i] = activated(f, s.clipped(sum));
      c.out(2)[at] = s.saved(sum, state[i]);
    }
  }
  std::ranges::copy(state, c.out(1).begin());
}

void ref_rnn_grad(RefContext& c) {
  const RefSizes s(c, 1, false, kRnnActivations);
  const ActivationUse& f = s.cell.activations[0];
  std::vector<double> dstate = s.state(c, 6);
  for (std::size_t k = s.steps; k-- > 0;) {
    const std::size_t t = s.time(k);
    for (std::size_t i = 0; i < s.row_elements(); ++i) {
      if (s.rests(c, 4, i / s.hidden, t)) continue;
      const std::size_t at = t * s.row_elements() + i;
      const double dh = dstate[i] + (c.has(5) ? c.in(5)[at] : 0);
      c.out(0)[at] = dh * s.slope_of(f, c.in(1)[at], s.restored(f, c.in(1)[at]));
      dstate[i] = 0;
    }
    s.add_back(c.in(0), c.out(0).subspan(t * s.row_elements(), s.row_elements()), 1, dstate);
  }
  std::ranges::copy(dstate, c.out(1).begin());
  if (c.attrs().flag("weight_gradient")) s.fill_before(c, c.in(2), s.state(c, 3), 4, c.out(2));
}

}  // namespace graft::ops::rnn
