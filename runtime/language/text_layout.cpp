#include "runtime/language/text_layout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "platform/base/stable_sort.h"

namespace graft {
namespace {

/// Bins by the places that are left in them.
class Bins {
 public:
  explicit Bins(std::uint32_t length) : by_room_(std::size_t{length} + 1), length_(length) {}

  /// The bin with the least room that suffices, or a new one.
  std::uint32_t take(std::uint32_t places) {
    const auto found = rooms_.lower_bound(places);
    std::uint32_t room = length_, bin = count_;
    if (found == rooms_.end()) {
      ++count_;
    } else {
      room = *found;
      bin = by_room_[room].back();
      by_room_[room].pop_back();
      if (by_room_[room].empty()) rooms_.erase(found);
    }
    room -= places;
    if (room == 0) return bin;
    if (by_room_[room].empty()) rooms_.insert(room);
    by_room_[room].push_back(bin);
    return bin;
  }

  std::uint32_t count() const { return count_; }

 private:
  std::vector<std::vector<std::uint32_t>> by_room_;
  std::set<std::uint32_t> rooms_;  ///< with a bin
  std::uint32_t length_, count_ = 0;
};

}  // namespace

TextLayout::TextLayout(std::vector<TextPiece> pieces, std::uint32_t length, bool packed) : pieces_(std::move(pieces)) {
  if (!packed || pieces_.empty()) return;
  const std::size_t count = pieces_.size();
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0U);
  graft::stable_sort(order_,
                     [&](std::uint32_t a, std::uint32_t b) { return pieces_[a].places() > pieces_[b].places(); });
  Bins bins(length);
  std::vector<std::uint32_t> bin_of(count);
  for (const std::uint32_t piece : order_) bin_of[piece] = bins.take(pieces_[piece].places());
  if (bins.count() == count) {  // nothing fits together
    order_.clear();
    return;
  }
  // Samples are numbered by their first piece.
  std::vector<std::uint32_t> number(bins.count(), UINT32_MAX);
  std::uint32_t next = 0;
  for (std::uint32_t& bin : bin_of) {
    if (number[bin] == UINT32_MAX) number[bin] = next++;
    bin = number[bin];
  }
  begins_.assign(std::size_t{next} + 1, 0);
  for (const std::uint32_t bin : bin_of) ++begins_[bin + 1];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  std::vector<std::uint32_t> at(begins_.begin(), begins_.end() - 1);
  for (std::uint32_t piece = 0; piece < count; ++piece) order_[at[bin_of[piece]]++] = piece;
}

}  // namespace graft
