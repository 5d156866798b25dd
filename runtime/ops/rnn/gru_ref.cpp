#include <algorithm>
#include <vector>

#include "runtime/ops/rnn/cell_ref.h"

namespace graft::ops::rnn {

void ref_gru(RefContext& c) {
  const RefSizes s(c, 0, true, kGruActivations);
  const bool resets = c.attrs().flag("linear_before_reset");
  const auto& [f, g, unused] = s.cell.activations;
  std::vector<double> state = s.state(c, 2);
  const auto r_hidden = c.in(1).subspan(2 * s.hidden * s.hidden);
  for (std::size_t k = 0; k < s.steps; ++k) {
    const std::size_t t = s.time(k);
    const std::vector<double> products = s.products(c.in(1), state, 3);
    std::vector<double> z(s.row_elements()), r(s.row_elements()), inner(s.row_elements());
    for (std::size_t i = 0; i < s.row_elements(); ++i) {
      const std::size_t row = i / s.hidden, j = i % s.hidden;
      const auto gate = [&](std::size_t n) { return ((t * s.rows + row) * 3 + n) * s.hidden + j; };
      const auto product = [&](std::size_t n) { return products[(row * 3 + n) * s.hidden + j]; };
      const double z_sum = c.in(0)[gate(0)] + product(0), r_sum = c.in(0)[gate(1)] + product(1);
      z[i] = activated(f, s.clipped(z_sum));
      r[i] = activated(f, s.clipped(r_sum));
      inner[i] = resets ? product(2) + (c.has(4) ? c.in(4)[j] : 0) : r[i] * state[i];
      if (s.rests(c, 3, row, t)) continue;
      c.out(2)[gate(0)] = s.saved(z_sum, z[i]);
      c.out(2)[gate(1)] = s.saved(r_sum, r[i]);
      c.out(3)[t * s.row_elements() + i] = inner[i];
    }
    const std::vector<double> second = resets ? std::vector<double>() : s.product(r_hidden, inner, s.hidden, s.hidden);
    for (std::size_t i = 0; i < s.row_elements(); ++i) {
      const std::size_t row = i / s.hidden;
      if (s.rests(c, 3, row, t)) continue;
      const std::size_t gate = ((t * s.rows + row) * 3 + 2) * s.hidden + i % s.hidden;
      const double sum = c.in(0)[gate] + (resets ? r[i] * inner[i] : second[i]);
      const double n = activated(g, s.clipped(sum));
      c.out(2)[gate] = s.saved(sum, n);
      state[i] = (1 - z[i]) * n + z[i] * state[i];
      c.out(0)[t * s.row_elements() + i] = state[i];
    }
  }
  std::ranges::copy(state, c.out(1).begin());
}

void ref_gru_grad(RefContext& c) {
  const RefSizes s(c, 3, false, kGruActivations);
  const bool resets = c.attrs().flag("linear_before_reset");
  const auto& [f, g, unused] = s.cell.activations;
  s.fill_before(c, c.in(3), s.state(c, 4), 5, c.out(2));
  const auto r_hidden = c.in(0).subspan(2 * s.hidden * s.hidden);
  std::vector<double> dstate = s.state(c, 7);
  for (std::size_t k = s.steps; k-- > 0;) {
    const std::size_t t = s.time(k);
    std::vector<double> factors(3 * s.row_elements()), dn(s.row_elements());
    const auto kept = [&](std::size_t gate) { return c.in(1)[gate]; };
    const auto gate = [&](std::size_t i, std::size_t n) {
      return ((t * s.rows + i / s.hidden) * 3 + n) * s.hidden + i % s.hidden;
    };
    const auto factor = [&](std::size_t i, std::size_t n) { return (i / s.hidden * 3 + n) * s.hidden + i % s.hidden; };
    for (std::size_t i = 0; i < s.row_elements(); ++i) {
      if (s.rests(c, 5, i / s.hidden, t)) continue;
      const std::size_t at = t * s.row_elements() + i;
      const double dh = dstate[i] + (c.has(6) ? c.in(6)[at] : 0);
      const double z = s.restored(f, kept(gate(i, 0))), r = s.restored(f, kept(gate(i, 1)));
      const double n = s.restored(g, kept(gate(i, 2)));
      const double dz = dh * (c.out(2)[at] - n) * s.slope_of(f, kept(gate(i, 0)), z);
      dn[i] = dh * (1 - z) * s.slope_of(g, kept(gate(i, 2)), n);
      dstate[i] = dh * z;
      c.out(0)[gate(i, 0)] = factors[factor(i, 0)] = dz;
      c.out(0)[gate(i, 2)] = dn[i];
      if (!resets) continue;
      c.out(0)[gate(i, 1)] = factors[factor(i, 1)] = dn[i] * c.in(2)[at] * s.slope_of(f, kept(gate(i, 1)), r);
      factors[factor(i, 2)] = dn[i] * r;
      for (std::size_t m = 0; m < 3; ++m) c.out(3)[gate(i, m)] = factors[factor(i, m)];
    }
    if (!resets) {
      std::vector<double> dreset(s.row_elements());  // of r * h
      s.add_back(r_hidden, dn, 1, dreset);
      for (std::size_t i = 0; i < s.row_elements(); ++i) {
        if (s.rests(c, 5, i / s.hidden, t)) continue;
        const double r = s.restored(f, kept(gate(i, 1)));
        dstate[i] += dreset[i] * r;
        c.out(0)[gate(i, 1)] = factors[factor(i, 1)] =
            dreset[i] * c.out(2)[t * s.row_elements() + i] * s.slope_of(f, kept(gate(i, 1)), r);
      }
    }
    s.add_back(c.in(0), factors, 3, dstate);
  }
  std::ranges::copy(dstate, c.out(1).begin());
}

}  // namespace graft::ops::rnn
