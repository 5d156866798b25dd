// How models stretch their rotary embedding to longer contexts than they were first trained on.
#pragma once

#include <cstdint>
#include <span>

#include "platform/base/status.h"
#include "tools/convert/decoder_spec.h"

namespace graft::convert {

// Each sets RopeSpec::frequencies (from theta and `turned`, the elements of a head that turn) and maybe the magnitude.
// corrupt where a number is out of its range.

/// Positions divided by `factor`.
Status scale_linear(RopeSpec& rope, std::int64_t turned, double factor);

/// Llama 3.1: slow pairs are divided by `factor`, fast ones stay, in between a blend.
struct Llama3Scaling {
  double factor = 8;
  double low = 1;  ///< turns within the old context, below which a pair is slow
  double high = 4;
  double old_context = 8192;
};
Status scale_llama3(RopeSpec& rope, std::int64_t turned, const Llama3Scaling& scaling);

/// YaRN (Peng et al. 2023).
struct YarnScaling {
  double factor = 1;
  double old_context = 4096;
  double beta_fast = 32;
  double beta_slow = 1;
  double magnitude = 0;  ///< 0: 0.1 ln(factor) + 1
};
Status scale_yarn(RopeSpec& rope, std::int64_t turned, const YarnScaling& scaling);

/// Frequency i divided by factors[i], as GGUF files carry them.
Status scale_each(RopeSpec& rope, std::int64_t turned, std::span<const float> factors);

}  // namespace graft::convert
