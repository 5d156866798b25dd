// Text to token ids and back: byte-level BPE, SentencePiece BPE and unigram, WordPiece.
//
// A Tokenizer is immutable once made and may be used from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft::text {

struct EncodeOptions {
  bool add_special = true;      ///< put Vocabulary::before and after around the text
  bool parse_special = false;   ///< control tokens that are spelled out in the text become their ids; leave off for
                                ///< text from outside, which must not be able to forge them
  bool continued = false;       ///< the text goes on with another: no space is put before it that only a first one gets
  std::string_view marks = {};  ///< a mark for each byte of the text: with parse_special, control tokens are read only
                                ///< where all marks are zero. Empty: everywhere
};

/// A special token in an encoded text, or the text between two of them. Spaces that a token strips are in neither.
struct EncodedStretch {
  std::size_t begin, end;  ///< bytes of the text
  std::size_t first;       ///< index of its first id
  bool special;
};

struct DecodeOptions {
  bool skip_control = true;  ///< control tokens and the unknown token leave nothing; otherwise they are spelled out
  bool at_start = true;      ///< the ids begin a text: the space that encoding put before it is dropped
};

class Tokenizer {
 public:
  /// corrupt: ids out of range, merges of tokens that do not exist, a vocabulary without tokens or too large.
  static Result<Tokenizer> make(Vocabulary vocabulary);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Bytes of `text` that are not valid UTF-8 are kept where the vocabulary can express bytes.
  /// invalid_argument: a text of 1 GiB or more, or one with a character for which the vocabulary has neither a token,
  /// byte tokens, nor an unknown token. `stretches` (may be null): appends the stretches of the text, in order.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {},
                                      std::vector<EncodedStretch>* stretches = nullptr) const;

  /// Valid UTF-8: bytes that form no character become U+FFFD. invalid_argument: an id outside of the vocabulary.
  Result<std::string> decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  /// The id of the token spelled `text` in the vocabulary, of any kind; kNoToken where there is none.
  TokenId find(std::string_view text) const;
  /// Control and user-defined tokens whose spelling begins with that byte, the longest first.
  std::span<const TokenId> special_from(char first) const;
  /// The bytes that a token adds to a text. Requires 0 <= id < size().
  std::string_view bytes_of(TokenId id) const;
  std::size_t size() const;
  const Vocabulary& vocabulary() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Turns ids into text one by one, and never cuts a character in two.
class StreamDecoder {
 public:
  /// `tokenizer` must outlive this.
  explicit StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : tokenizer_(&tokenizer), options_(options) {}

  /// The text that became certain with this id: maybe empty. Text of all calls and of finish() together equals
  /// decode() of all ids. invalid_argument: an id outside of the vocabulary; the state stays as it was.
  Result<std::string> push(TokenId id);
  /// What is left, with U+FFFD for bytes that form no character.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  std::string held_;  ///< up to three bytes that may begin a character
};

}  // namespace graft::text
