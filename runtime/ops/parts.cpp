#include "runtime/ops/parts.h"

#include <algorithm>
#include <numeric>

namespace graft {

Result<std::uint64_t> items_per_part(const gpu::Caps& caps, std::uint64_t items,
                                     std::initializer_list<std::uint64_t> words_per_item, std::string_view what) {
  const std::uint64_t limit = binding_words(caps);
  const std::uint64_t alignment = std::max<std::uint64_t>(caps.storage_buffer_alignment / 4, 1);
  std::uint64_t most = std::max<std::uint64_t>(items, 1);
  std::uint64_t step = 1;
  for (const std::uint64_t words : words_per_item) {
    if (words == 0) continue;
    most = std::min(most, limit / words);
    step = std::lcm(step, alignment / std::gcd(alignment, words));
  }
  if (most >= items) return most;
  if (most < step) {
    return unsupported(step, " at a time of the ", what, " do not fit one binding of ", 4 * limit,
                       " bytes, and they cannot be cut further.");
  }
  return most / step * step;
}

}  // namespace graft
