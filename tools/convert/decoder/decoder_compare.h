// Whether two descriptions are of the same computation.
#pragma once

#include <string>
#include <vector>

#include "tools/convert/decoder/decoder_spec.h"

namespace graft::convert {

/// What differs, in words; windows of attention come last. How a file stores its numbers counts for nothing: the order
/// of rotary pairs, transposed matrices, norms' weights less one, the family's name.
std::vector<std::string> decoder_differences(const DecoderSpec& a, const DecoderSpec& b);

/// What such a difference in windows begins with: it shows in long texts only.
inline constexpr std::string_view kWindowDifference = "the window of layer ";
/// Whether windows differ in a layer so that a text within the context of `a` shows it.
bool windows_matter(const DecoderSpec& a, const DecoderSpec& b);

/// Radians per position of each pair of a head of `head_dim`.
std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t head_dim);

}  // namespace graft::convert
