#include <algorithm>
#include <vector>

#include "runtime/ops/rnn/cell_ref.h"

namespace graft::ops::rnn {
namespace {

struct LstmRef {
  explicit LstmRef(const RefContext& c, std::size_t y_like, bool y_is_output)
      : sizes(c, y_like, y_is_output, kLstmActivations),
        forgets_input(c.attrs().flag("input_forget")),
        limit(c.attrs().number("cell_clip")) {}
  RefSizes sizes;
  bool forgets_input;
  double limit;  ///< of cells; 0: none
};

}  // namespace

void ref_lstm(RefContext& c) {
  const LstmRef l(c, 0, true);
  const RefSizes& s = l.sizes;
  const auto& [f, g, h] = s.cell.activations;
  std::vector<double> state = s.state(c, 2), cells = s.state(c, 3);
  for (std::size_t k = 0; k < s.steps; ++k) {
    const std::size_t t = s.time(k);
    const std::vector<double> products = s.products(c.in(1), state, 4);
    for (std::size_t i = 0; i < s.row_elements(); ++i) {
      const std::size_t row = i / s.hidden, j = i % s.hidden, at = t * s.row_elements() + i;
      const auto gate = [&](std::size_t n) { return ((t * s.rows + row) * 4 + n) * s.hidden + j; };
      const auto sum = [&](std::size_t n) { return c.in(0)[gate(n)] + products[(row * 4 + n) * s.hidden + j]; };
      const auto peephole = [&](std::size_t n, double cell) { return c.has(5) ? c.in(5)[n * s.hidden + j] * cell : 0; };
      c.out(4)[at] = cells[i];
      if (s.rests(c, 4, row, t)) continue;
      const double in_sum = sum(0) + peephole(0, cells[i]);
      const double forget_sum = sum(2) + peephole(2, cells[i]);
      const double in = activated(f, s.clipped(in_sum));
      const double forget = l.forgets_input ? 1 - in : activated(f, s.clipped(forget_sum));
      const double cell = activated(g, s.clipped(sum(3)));
      cells[i] = forget * cells[i] + in * cell;
      if (l.limit > 0) cells[i] = std::clamp(cells[i], -l.limit, l.limit);
      const double out_sum = sum(1) + peephole(1, cells[i]);
      const double out = activated(f, s.clipped(out_sum));
      state[i] = out * activated(h, cells[i]);
      c.out(0)[at] = state[i];
      c.out(3)[gate(0)] = s.saved(in_sum, in);
      c.out(3)[gate(1)] = s.saved(out_sum, out);
      c.out(3)[gate(2)] = s.saved(forget_sum, forget);
      c.out(3)[gate(3)] = s.saved(sum(3), cell);
      c.out(4)[at] = cells[i];
    }
  }
  std::ranges::copy(state, c.out(1).begin());
  std::ranges::copy(cells, c.out(2).begin());
}

void ref_lstm_grad(RefContext& c) {
  const LstmRef l(c, 2, false);
  const RefSizes& s = l.sizes;
  const auto& [f, g, h] = s.cell.activations;
  const std::vector<double> first_cells = s.state(c, 5);
  std::vector<double> dstate = s.state(c, 9), dcells = s.state(c, 10);
  for (std::size_t k = s.steps; k-- > 0;) {
    const std::size_t t = s.time(k);
    for (std::size_t i = 0; i < s.row_elements(); ++i) {
      const std::size_t row = i / s.hidden, j = i % s.hidden, at = t * s.row_elements() + i;
      if (s.rests(c, 6, row, t)) continue;
      const auto gate = [&](std::size_t n) { return ((t * s.rows + row) * 4 + n) * s.hidden + j; };
      const auto kept = [&](std::size_t n) { return c.in(1)[gate(n)]; };
      const auto peephole = [&](std::size_t n) { return c.has(7) ? c.in(7)[n * s.hidden + j] : 0; };
      const double dh = dstate[i] + (c.has(8) ? c.in(8)[at] : 0);
      const double in = s.restored(f, kept(0)), out = s.restored(f, kept(1)), cell = s.restored(g, kept(3));
      const double forget = l.forgets_input ? 1 - in : s.restored(f, kept(2));
      const double c_now = c.in(2)[at];
      const double c_before = k == 0 ? first_cells[i] : c.in(2)[s.time(k - 1) * s.row_elements() + i];
      const double shown = activated(h, c_now);
      const double dout = dh * shown * s.slope_of(f, kept(1), out);
      const double own = dcells[i] + dh * out * slope(h, c_now, shown) + dout * peephole(1);
      const double dc = l.limit > 0 && std::abs(c_now) >= l.limit ? 0 : own;
      const double din = (dc * cell - (l.forgets_input ? dc * c_before : 0)) * s.slope_of(f, kept(0), in);
      const double dforget = l.forgets_input ? 0 : dc * c_before * s.slope_of(f, kept(2), forget);
      dcells[i] = dc * forget + din * peephole(0) + dforget * peephole(2);
      c.out(0)[gate(0)] = din;
      c.out(0)[gate(1)] = dout;
      c.out(0)[gate(2)] = dforget;
      c.out(0)[gate(3)] = dc * in * s.slope_of(g, kept(3), cell);
      dstate[i] = 0;
    }
    s.add_back(c.in(0), c.out(0).subspan(t * s.row_elements() * 4, s.row_elements() * 4), 4, dstate);
  }
  std::ranges::copy(dstate, c.out(1).begin());
  std::ranges::copy(dcells, c.out(2).begin());
  std::size_t next = 3;
  if (c.attrs().flag("weight_gradient")) s.fill_before(c, c.in(3), s.state(c, 4), 6, c.out(next++));
  if (c.attrs().flag("peephole_gradient")) s.fill_before(c, c.in(2), first_cells, kNoLengths, c.out(next));
}

}  // namespace graft::ops::rnn
