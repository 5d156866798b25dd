// Ranges of whole numbers as parts of a grammar.
#pragma once

#include <cstdint>
#include <string>

namespace graft::text {

/// Alternatives for the decimal numbers from `low` to `high`, in as many digits as they need. Requires low <= high,
/// both of at most 18 digits.
std::string integers_between(std::int64_t low, std::int64_t high);

}  // namespace graft::text
