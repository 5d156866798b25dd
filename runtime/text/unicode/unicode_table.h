// The Unicode tables, unpacked from unicode.bin when they are first read; unicode.cpp alone reads them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace graft::text {

/// Every `step`-th code point of [first, last] has the lower case form `delta` further on.
struct LowerRun {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t step;
  std::int32_t delta;
};

/// Full compatibility decompositions.
struct Compatibility {
  std::vector<std::uint64_t> places;  ///< in order: code point << 40 | count << 24 | where in `parts` it begins
  std::vector<std::uint32_t> parts;
};

/// Run starts in order: code point << 8 | Category.
const std::vector<std::uint32_t>& category_runs();
/// Run starts in order: code point << 8 | canonical combining class.
const std::vector<std::uint32_t>& combining_runs();
/// Run starts in order: code point << 8 | index of the script in script_names().
const std::vector<std::uint32_t>& script_runs();
/// Run starts in order: code point << 8 | 1 where Unicode 8 had it, 2 where Unicode 9 was the first that had it, else
/// 0.
const std::vector<std::uint32_t>& age_runs();
const std::vector<LowerRun>& lower_runs();
/// In order: code point << 43 | first part << 22 | second part (0 for none) << 1 | 1 where NFC composes it again.
const std::vector<std::uint64_t>& decompositions();
const Compatibility& compatibility_table();
/// As the Unicode Character Database spells them, the first for code points that have none.
const std::vector<std::string_view>& script_names();

}  // namespace graft::text
