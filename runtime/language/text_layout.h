// Which texts, or parts of texts, are put together in a sample.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft {

/// Tokens [first, first + count) of a record. The last one takes no place: it is the label of the one before.
struct TextPiece {
  std::uint32_t record = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  std::uint32_t places() const { return count - 1; }
};

/// Best fit, the longest first: a text is never cut to fill a sample. Takes about 24 bytes for each piece.
class TextLayout {
 public:
  TextLayout() = default;
  /// Pieces of 1 to `length` places. Samples come in the order of the first piece of each, and hold theirs in order.
  /// `packed` false: each piece is a sample.
  TextLayout(std::vector<TextPiece> pieces, std::uint32_t length, bool packed);

  std::uint64_t samples() const { return begins_.empty() ? pieces_.size() : begins_.size() - 1; }
  std::uint64_t size(std::uint64_t sample) const { return begins_.empty() ? 1 : begins_[sample + 1] - begins_[sample]; }
  /// Piece i of a sample.
  const TextPiece& piece(std::uint64_t sample, std::uint64_t i) const {
    return pieces_[begins_.empty() ? sample : order_[begins_[sample] + i]];
  }
  /// Whether any sample holds several.
  bool packs() const { return samples() < pieces_.size(); }

 private:
  std::vector<TextPiece> pieces_;
  std::vector<std::uint32_t> order_;   ///< pieces by sample
  std::vector<std::uint32_t> begins_;  ///< of samples in order_, and its end; empty: a piece a sample
};

}  // namespace graft
