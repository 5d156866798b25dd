// Pre-tokenization: cuts text into the spans within which byte-level BPE merges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/text/tokenizer/vocabulary.h"
#include "runtime/text/unicode/pattern.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text {

/// Applies `splits` in order to the whole of `points`. Returns the end of each span, as an index into `points`, rising;
/// the last one is points.size(). Nothing for an empty text.
std::vector<std::uint32_t> split_text(std::span<const CodePoint> points, std::span<const Split> splits);

/// What the scanner matches, from left to right.
std::vector<PatternMatch> split_matches(std::span<const CodePoint> points, Split split);

}  // namespace graft::text
