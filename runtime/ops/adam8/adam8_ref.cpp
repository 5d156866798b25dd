#include <algorithm>
#include <cmath>

#include "runtime/reference/ref_context.h"
#include "shaders/adam8/codes.h"

namespace graft::ops::adam8 {
namespace {

std::uint32_t code_at(std::span<const double> words, std::size_t i) {
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(words[i / 4])) >> (8 * (i % 4)) & 255u;
}

void set_codes(std::span<double> words, std::size_t i, std::uint32_t code) {
  const std::uint32_t shift = 8 * (i % 4);
  const auto word = static_cast<std::uint32_t>(static_cast<std::int64_t>(words[i / 4]));
  words[i / 4] = static_cast<std::int32_t>((word & ~(255u << shift)) | code << shift);
}

}  // namespace

void ref_adam8_step(RefContext& c) {
  const Attrs& a = c.attrs();
  const auto group = a.integer("group");
  double factor = 1;
  double correction1 = c.step_state().bias_correction1[group];
  double correction2 = c.step_state().bias_correction2[group];
  if (c.has(6)) factor = c.in(6)[0];
  if (std::isnan(factor)) return;
  if (c.has(6) && c.in(6).size() == 4) {
    if (c.in(6)[3] == 1) return;
    correction1 = c.in(6)[1];
    correction2 = c.in(6)[2];
  }
  const double beta1 = a.number("beta1"), beta2 = a.number("beta2");
  const double rate = c.step_state().learning_rate[group] * a.number("rate_scale"), decay = a.number("weight_decay");
  const auto param = c.update(0);
  for (std::size_t block = 0; block * codes::kCodeBlock < param.size(); ++block) {
    const std::size_t begin = block * codes::kCodeBlock;
    const std::size_t end = std::min<std::size_t>(begin + codes::kCodeBlock, param.size());
    double m[codes::kCodeBlock], v[codes::kCodeBlock], largest_m = 0, largest_v = 0;
    for (std::size_t i = begin; i < end; ++i) {
      double g = c.in(1)[i] * factor;
      if (a.flag("maximize")) g = -g;
      if (a.flag("decoupled")) {
        param[i] *= 1 - rate * decay;
      } else {
        g += decay * param[i];
      }
      double& first = m[i - begin];
      double& second = v[i - begin];
      first = beta1 * c.update(3)[block] * codes::decode_signed(code_at(c.update(2), i)) + (1 - beta1) * g;
      second = beta2 * c.update(5)[block] * codes::decode_unsigned(code_at(c.update(4), i)) + (1 - beta2) * g * g;
      param[i] -= rate / correction1 * first / (std::sqrt(second) / std::sqrt(correction2) + a.number("epsilon"));
      largest_m = std::max(largest_m, std::abs(first));
      largest_v = std::max(largest_v, second);
    }
    c.update(3)[block] = largest_m;
    c.update(5)[block] = largest_v;
    for (std::size_t i = begin; i < end; ++i) {
      set_codes(c.update(2), i, codes::encode_signed(largest_m > 0 ? m[i - begin] / largest_m : 0));
      set_codes(c.update(4), i, codes::encode_unsigned(largest_v > 0 ? v[i - begin] / largest_v : 0));
    }
  }
}

}  // namespace graft::ops::adam8
