// The algorithms that cut a stretch of text, free of special tokens, into tokens.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/tokenizer/piece_table.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft::text {

class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Appends the tokens of `text`, a span of Pipeline::cut.
  virtual Status encode(std::string_view text, std::vector<TokenId>& out) const = 0;
};

/// Each checks what its algorithm needs of the vocabulary (corrupt, unsupported). Both arguments must outlive the
/// result.
Result<std::unique_ptr<Encoder>> make_bpe(const Vocabulary& vocabulary, const PieceTable& pieces);
Result<std::unique_ptr<Encoder>> make_unigram(const Vocabulary& vocabulary, const PieceTable& pieces);
Result<std::unique_ptr<Encoder>> make_word_piece(const Vocabulary& vocabulary, const PieceTable& pieces);
std::unique_ptr<Encoder> make_word_level(const Vocabulary& vocabulary, const PieceTable& pieces);

/// Appends the tokens for a stretch that no piece covers: its bytes where the vocabulary falls back on them, otherwise
/// the unknown token, once for neighbours where `after_unknown` and the vocabulary fuses them. Sets `after_unknown`.
/// invalid_argument: the vocabulary has neither.
Status append_unknown(const Vocabulary& vocabulary, const PieceTable& pieces, std::string_view text,
                      bool& after_unknown, std::vector<TokenId>& out);

}  // namespace graft::text
