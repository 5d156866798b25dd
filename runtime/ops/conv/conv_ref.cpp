#include <cstdint>

#include "runtime/ops/conv/conv_common.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::conv {
namespace {

struct Positions {
  std::size_t x;
  std::size_t weight;
  std::size_t y;
};

// Calls visit(positions) for every product of the convolution x * weight -> y.
template <typename Visit>
void for_each_product(const Attrs& attrs, const std::vector<std::int64_t>& x, const std::vector<std::int64_t>& weight,
                      const std::vector<std::int64_t>& y, Visit visit) {
  const ConvWindow window = read_conv_window(attrs).value();
  const std::int64_t group_c = weight[3];
  const std::int64_t group_o = y[3] / window.groups;
  for (std::int64_t n = 0; n < y[0]; ++n) {
    for (std::int64_t oh = 0; oh < y[1]; ++oh) {
      for (std::int64_t ow = 0; ow < y[2]; ++ow) {
        for (std::int64_t r = 0; r < weight[1]; ++r) {
          const std::int64_t h = oh * window.strides[0] - window.pads[0] + r * window.dilations[0];
          if (h < 0 || h >= x[1]) continue;
          for (std::int64_t s = 0; s < weight[2]; ++s) {
            const std::int64_t w = ow * window.strides[1] - window.pads[1] + s * window.dilations[1];
            if (w < 0 || w >= x[2]) continue;
            for (std::int64_t o = 0; o < y[3]; ++o) {
              for (std::int64_t c = 0; c < group_c; ++c) {
                visit(
                    Positions{static_cast<std::size_t>(((n * x[1] + h) * x[2] + w) * x[3] + o / group_o * group_c + c),
                              static_cast<std::size_t>(((o * weight[1] + r) * weight[2] + s) * group_c + c),
                              static_cast<std::size_t>(((n * y[1] + oh) * y[2] + ow) * y[3] + o)});
              }
            }
          }
        }
      }
    }
  }
}

void add_bias(RefContext& c) {
  if (!c.has(2)) return;
  const std::size_t channels = c.in(2).size();
  for (std::size_t i = 0; i < c.out().size(); ++i) c.out()[i] += c.in(2)[i % channels];
}

void data_gradient(RefContext& c) {
  for_each_product(c.attrs(), c.out_dims(), c.in_dims(1), c.in_dims(0),
                   [&](const Positions& at) { c.out()[at.x] += c.in(0)[at.y] * c.in(1)[at.weight]; });
}

}  // namespace

void ref_conv(RefContext& c) {
  for_each_product(c.attrs(), c.in_dims(0), c.in_dims(1), c.out_dims(),
                   [&](const Positions& at) { c.out()[at.y] += c.in(0)[at.x] * c.in(1)[at.weight]; });
  add_bias(c);
}

void ref_conv_grad_data(RefContext& c) { data_gradient(c); }

void ref_conv_grad_weight(RefContext& c) {
  for_each_product(c.attrs(), c.in_dims(0), c.out_dims(), c.in_dims(1),
                   [&](const Positions& at) { c.out()[at.weight] += c.in(0)[at.x] * c.in(1)[at.y]; });
}

void ref_conv_transpose(RefContext& c) {
  data_gradient(c);
  add_bias(c);
}

}  // namespace graft::ops::conv
