// How models stretch their rotary embedding to longer contexts than they were first trained on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/base/status.h"
#include "tools/convert/decoder/decoder_spec.h"

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
  bool truncate = true;  ///< the range of pairs that are blended begins and ends with a whole pair
};
Status scale_yarn(RopeSpec& rope, std::int64_t turned, const YarnScaling& scaling);

/// LongRoPE (Ding et al. 2024): frequency i divided by a factor of its own, from one list within the old context and
/// from another beyond it. graft's frequencies do not change with the length: it takes those within.
struct LongRopeScaling {
  double factor = 1;  ///< the new context by the old one
  double old_context = 4096;
  double magnitude = 0;  ///< 0: sqrt(1 + ln(factor) / ln(old context))
  std::vector<float> short_factors;
  std::vector<float> long_factors;
};
Status scale_longrope(RopeSpec& rope, std::int64_t turned, LongRopeScaling scaling);
/// The context that files state, which graft's is a part of.
std::int64_t whole_context(const DecoderSpec& spec);
/// What to tell the user of it.
std::string longrope_note(double old_context);

/// Frequency i divided by factors[i], as GGUF files carry them.
Status scale_each(RopeSpec& rope, std::int64_t turned, std::span<const float> factors);

}  // namespace graft::convert
