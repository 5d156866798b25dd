// std::stable_sort by one short function: the standard library's is ten for each type and order, two kilobytes of code
// (std::sort: one). Where equal elements look alike, it is std::sort too.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

namespace graft {

/// Sorts so that equal elements keep their order: less(a, b) says that a comes first. O(n log n), with room for as many
/// elements again.
template <typename Iterator, typename Less>
void stable_sort(Iterator first, Iterator last, const Less& less) {
  const auto count = static_cast<std::size_t>(last - first);
  if (count < 2) return;
  std::vector<typename std::iterator_traits<Iterator>::value_type> other(std::make_move_iterator(first),
                                                                         std::make_move_iterator(last));
  // Pairs of runs, each twice as long as before, from `other` back to where they were, and then into `other` again.
  for (std::size_t run = 1; run < count; run *= 2) {
    for (std::size_t begin = 0; begin < count; begin += 2 * run) {
      const std::size_t middle = begin + run < count ? begin + run : count;
      const std::size_t end = middle + run < count ? middle + run : count;
      std::size_t left = begin, right = middle;
      for (std::size_t to = begin; to < end; ++to) {
        const bool from_right = right < end && (left == middle || less(other[right], other[left]));
        first[static_cast<std::ptrdiff_t>(to)] = std::move(other[from_right ? right++ : left++]);
      }
    }
    if (run * 2 < count) std::move(first, last, other.begin());
  }
}

/// The same of a whole container.
template <typename Range, typename Less>
void stable_sort(Range& range, const Less& less) {
  graft::stable_sort(range.begin(), range.end(), less);
}

/// The same by operator<.
template <typename Range>
void stable_sort(Range& range) {
  graft::stable_sort(range.begin(), range.end(), std::less<>());
}

}  // namespace graft
