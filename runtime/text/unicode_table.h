// The generated Unicode tables; unicode.cpp alone reads them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace graft::text {

/// Every `step`-th code point of [first, last] has the lower case form `delta` further on.
struct LowerRun {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t step;
  std::int32_t delta;
};

/// Run starts in order: code point << 8 | Category.
extern const std::span<const std::uint32_t> kCategoryRuns;
/// Run starts in order: code point << 8 | canonical combining class.
extern const std::span<const std::uint32_t> kCombiningRuns;
extern const std::span<const LowerRun> kLowerRuns;
/// In order: code point << 43 | first part << 22 | second part (0 for none) << 1 | 1 where NFC composes it again.
extern const std::span<const std::uint64_t> kDecompositions;
/// In order: code point << 40 | count << 24 | where in kCompatibilityParts its full compatibility decomposition begins.
extern const std::span<const std::uint64_t> kCompatibility;
extern const std::span<const std::uint32_t> kCompatibilityParts;
/// Scripts as perl spells them, the first for what has none; run starts in order: code point << 8 | index of the
/// script.
extern const std::span<const std::string_view> kScriptNames;
extern const std::span<const std::uint32_t> kScriptRuns;

}  // namespace graft::text
