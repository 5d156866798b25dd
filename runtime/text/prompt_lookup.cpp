#include "runtime/text/prompt_lookup.h"

#include <algorithm>

namespace graft::text {
namespace {

constexpr std::size_t kLeastMatch = 2;  // tokens; a single one says too little about what follows
constexpr std::size_t kMostMatch = 6;   // and a longer match hardly more
constexpr std::uint32_t kLongestPause = 16;

}  // namespace

std::span<const TokenId> PromptLookup::draft(std::span<const TokenId> text) {
  if (most_ == 0) return {};
  if (wait_ > 0) {
    --wait_;
    return {};
  }
  std::size_t best = 0;
  std::size_t after = 0;
  // `end` tokens stand before what would follow.
  for (std::size_t end = text.size() < 2 ? 0 : text.size() - 1; end >= kLeastMatch && best < kMostMatch; --end) {
    std::size_t same = 0;
    while (same < kMostMatch && same < end && text[end - 1 - same] == text[text.size() - 1 - same]) ++same;
    if (same < kLeastMatch || same <= best) continue;
    best = same;
    after = end;
  }
  return best == 0 ? text.first(0) : text.subspan(after, std::min<std::size_t>(most_, text.size() - after));
}

void PromptLookup::judge(std::size_t right) {
  pause_ = right > 0 ? 0 : std::min(kLongestPause, std::max(1u, 2 * pause_));
  wait_ = pause_;
}

}  // namespace graft::text
