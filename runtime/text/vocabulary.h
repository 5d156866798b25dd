// What a tokenizer is made of: the one form that every loader fills in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft::text {

using TokenId = std::int32_t;
inline constexpr TokenId kNoToken = -1;

enum class Algorithm : std::uint8_t {
  byte_bpe,    ///< ranked merges over bytes, written in GPT-2's printable alphabet
  char_bpe,    ///< ranked merges over characters, bytes as <0xNN> where a character is unknown
  scored_bpe,  ///< SentencePiece BPE: the pair whose joined piece has the best score merges first
  unigram,     ///< SentencePiece unigram: the split with the best sum of scores
  word_piece,  ///< longest match from the left within a word; pieces that start a word begin with U+2581
};

std::string_view algorithm_name(Algorithm algorithm);  ///< "byte_bpe"

/// Values as in SentencePiece and GGUF.
enum class TokenKind : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,       ///< found in text only where the caller asks for it
  user_defined = 4,  ///< always found in text, before anything else
  unused = 5,
  byte = 6,  ///< <0xNN>
};

/// One step of pre-tokenization: each span is cut into matches of a pattern and what lies between them.
enum class Split : std::uint8_t {
  gpt2,                ///< the pattern of GPT-2
  llama3,              ///< the pattern of Llama 3: any case of contractions, numbers of up to three digits
  qwen2,               ///< the pattern of Qwen 2: as Llama 3, one digit at a time
  digit,               ///< \p{N}
  line_break,          ///< [\r\n]
  spaced_letters,      ///< \s?\p{L}+
  spaced_punctuation,  ///< \s?\p{P}+
  cjk,                 ///< [U+4E00-U+9FA5 U+0800-U+4E00 U+AC00-U+D7FF]+
};
inline constexpr int kSplitCount = 8;

enum class SpacePrefix : std::uint8_t {
  none,
  first,
  every
};  ///< before which stretches of text between special tokens

struct Token {
  std::string text;
  float score = 0;
  TokenKind kind = TokenKind::normal;
  bool strip_left = false;   ///< white space before it in text belongs to it
  bool strip_right = false;  ///< white space after it in text belongs to it
};

struct Vocabulary {
  Algorithm algorithm = Algorithm::byte_bpe;
  std::vector<Token> tokens;  ///< by id
  /// Pairs of ids to be joined, best first. byte_bpe and char_bpe only.
  std::vector<std::pair<TokenId, TokenId>> merges;
  std::vector<Split> splits;  ///< byte_bpe only; applied in order

  bool normal_form_c = false;
  bool ignore_merges = false;         ///< a span that is a token as it stands is not merged from its bytes
  bool fuse_unknown = true;           ///< neighbouring unknown characters become one unknown token
  bool byte_fallback = false;         ///< an unknown character becomes its <0xNN> tokens
  bool lower_case = false;            ///< word_piece
  bool strip_accents = false;         ///< word_piece
  bool collapse_spaces = false;       ///< runs of spaces become one, none at the ends (SentencePiece)
  bool prefix_unless_spaced = false;  ///< no space prefix where the text already begins with a space
  SpacePrefix space_prefix = SpacePrefix::none;
  std::string character_map;  ///< SentencePiece's precompiled_charsmap; empty for none

  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId unknown = kNoToken;
  TokenId pad = kNoToken;
  TokenId mask = kNoToken;
  std::vector<TokenId> before;  ///< put before an encoded text on request, [BOS] or [CLS]
  std::vector<TokenId> after;   ///< put after it, [EOS] or [SEP]
};

}  // namespace graft::text
