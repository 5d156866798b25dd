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
  word_level,  ///< each span is one token or unknown
};

std::string_view algorithm_name(Algorithm algorithm);  ///< "byte_bpe"

/// Values as in SentencePiece and GGUF.
enum class TokenKind : std::uint8_t {
  normal = 1,
  unknown = 2,       ///< as control
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

/// What Hugging Face's tokenizer.json does with a text before the model sees it, one step after the other.
enum class StepKind : std::uint8_t {
  // These change the text.
  nfc,
  nfd,
  nfkc,
  nfkd,
  lower_case,
  drop_marks,        ///< \p{M}
  drop_nonspacing,   ///< \p{Mn}
  clean,             ///< BERT's: controls go, white space becomes a space
  space_ideographs,  ///< BERT's: a space on each side
  strip,             ///< white space at the left (flag_a) and right (flag_b) end
  replace,           ///< matches of `text` (flag_a: as it stands) become `with`
  prepend,           ///< `text`, before a text that is not empty
  nmt,               ///< controls go, unusual spaces become a space
  precompiled,       ///< by the map `text`, for each grapheme as Hugging Face's library has it
  character_map,     ///< by the map `text`, the longest match first, as SentencePiece has it
  collapse_spaces,   ///< runs of spaces become one, none at the ends
  byte_alphabet,     ///< each byte becomes its printable character
  // These cut it into spans.
  split,        ///< at matches of `text` (flag_a: as it stands; flag_b: at what lies between them)
  metaspace,    ///< spaces become `text`, which a span may get before it (`prefix`); flag_b: cut before each
  digits,       ///< at numbers, each character (Behavior::isolated) or run (contiguous)
  byte_level,   ///< flag_a: a space before each span; flag_b: cut by GPT-2's pattern; then byte_alphabet
  punctuation,  ///< at punctuation
  scripts,      ///< where the script changes
  words,        ///< runs of \w and of what is neither that nor white space, which goes
  white_space,  ///< at white space, which goes
  delimiter,    ///< at the character `text`, which goes
  ideographs,   ///< each ideograph is a span
  // These make text of tokens; replace, strip (of `text`), metaspace and byte_level (the bytes again) do, too.
  byte_fallback,  ///< <0xNN> is a byte
  fuse,           ///< what follows sees the whole text
  join_words,     ///< a space before each token that does not begin with `text`, which goes; flag_a: tidied punctuation
  drop_suffix     ///< `text` behind a token becomes a space
};
inline constexpr int kStepKindCount = 31;
inline constexpr std::uint32_t kMostSteps = 64;  // of each kind

/// What becomes of the matches at which a step cuts.
enum class Behavior : std::uint8_t { isolated, removed, merged_with_previous, merged_with_next, contiguous };

enum class SpacePrefix : std::uint8_t {
  none,
  first,
  every
};  ///< before which stretches of text between special tokens

struct Step {
  StepKind kind = StepKind::nfc;
  Behavior behavior = Behavior::isolated;
  SpacePrefix prefix = SpacePrefix::none;
  bool flag_a = false;
  bool flag_b = false;
  std::string text = {};
  std::string with = {};

  bool operator==(const Step&) const = default;
};

struct Token {
  std::string text;
  float score = 0;
  TokenKind kind = TokenKind::normal;
  bool strip_left = false;   ///< white space before it in text belongs to it
  bool strip_right = false;  ///< white space after it in text belongs to it
  bool single_word = false;  ///< found only where no word goes on at its ends
  bool normalized = false;   ///< found in the text after its normalization, by its own spelling normalized
  bool apart = false;        ///< added beside the model, which itself makes no such token
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
  /// What the flags above cannot say, in their place: normal_form_c and those from lower_case to space_prefix are then
  /// without effect on encoding, and `splits` is empty; space_prefix says whether decoding drops a first space.
  /// tokenizer.json alone.
  bool by_steps = false;
  std::vector<Step> normalizers;     ///< of the kinds that change a text
  std::vector<Step> pre_tokenizers;  ///< of the kinds that cut one
  std::vector<Step> decoders;        ///< of those that make text of tokens
  std::string inner_prefix;          ///< bpe and word_piece by steps: before pieces inside of a word, as in "##"
  std::string end_suffix;            ///< bpe by steps: behind a piece that ends a word, as in "</w>"
  std::uint32_t longest_word = 100;  ///< word_piece: characters; a longer word is unknown as a whole
  /// Normalizer, pre-tokenizer, post-processor and decoder as the tokenizer.json had them, for writing one again.
  std::string source_json;
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
