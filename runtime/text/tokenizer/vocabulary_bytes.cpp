// Little endian, in the order of vocabulary_to_bytes: a number is 4 bytes, a list is its count and its items. The
// second form has steps and what belongs to them at the end.
#include "runtime/text/tokenizer/vocabulary_bytes.h"

#include <array>
#include <type_traits>

#include "platform/base/byte_reader.h"

namespace graft::text {
namespace {

constexpr std::uint32_t kFlagCount = 8;
constexpr std::uint32_t kSteps = 1u << 31;  // among the flags: steps follow, the second form
constexpr std::uint8_t kMostTokenFlags = 31;

/// A token's flags in the order of their bits, the first form's two before the others.
template <typename T>
auto flags_of_token(T& token) {
  using Bool = std::conditional_t<std::is_const_v<T>, const bool, bool>;
  return std::to_array<Bool*>(
      {&token.strip_left, &token.strip_right, &token.single_word, &token.normalized, &token.apart});
}

template <typename V>
auto step_lists_of(V& v) {
  using Steps = std::conditional_t<std::is_const_v<V>, const std::vector<Step>, std::vector<Step>>;
  return std::to_array<Steps*>({&v.normalizers, &v.pre_tokenizers, &v.decoders});
}

/// The flags in the order of their bits; one list for both directions.
template <typename V>
auto flags_of(V& v) {
  using Bool = std::conditional_t<std::is_const_v<V>, const bool, bool>;
  return std::to_array<Bool*>({&v.normal_form_c, &v.ignore_merges, &v.fuse_unknown, &v.byte_fallback, &v.lower_case,
                               &v.strip_accents, &v.collapse_spaces, &v.prefix_unless_spaced});
}

template <typename V>
auto ids_of(V& v) {
  using Id = std::conditional_t<std::is_const_v<V>, const TokenId, TokenId>;
  return std::to_array<Id*>({&v.bos, &v.eos, &v.unknown, &v.pad, &v.mask});
}

class Writer {
 public:
  template <typename T>
  void number(T value) {
    static_assert(sizeof(T) == 4);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void byte(std::uint8_t value) { bytes_ += static_cast<char>(value); }
  void count(std::size_t value) { number(static_cast<std::uint32_t>(value)); }
  void text(const std::string& value) {
    count(value.size());
    bytes_ += value;
  }
  void ids(const std::vector<TokenId>& values) {
    count(values.size());
    for (const TokenId id : values) number(id);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// How many items follow; refused where they cannot fit into what is left.
Result<std::uint32_t> read_count(ByteReader& reader, const char* what, std::uint64_t smallest) {
  GRAFT_TRY_ASSIGN(const std::uint32_t count, reader.number<std::uint32_t>());
  if (count > reader.left() / smallest) {
    return corrupt("The tokenizer promises ", count, " ", what, ", but only ", reader.left(), " bytes follow.");
  }
  return count;
}

Result<std::string> read_text(ByteReader& reader) {
  GRAFT_TRY_ASSIGN(const std::uint32_t size, read_count(reader, "bytes of text", 1));
  GRAFT_TRY_ASSIGN(const std::string_view text, reader.text(size));
  return std::string(text);
}

Status read_ids(ByteReader& reader, std::vector<TokenId>& out) {
  GRAFT_TRY_ASSIGN(const std::uint32_t count, read_count(reader, "ids", 4));
  for (std::uint32_t i = 0; i < count; ++i) {
    GRAFT_TRY_ASSIGN(const TokenId id, reader.number<TokenId>());
    out.push_back(id);
  }
  return {};
}

/// A byte that is an enumerator in [low, high].
template <typename Enum>
Status read_enum(ByteReader& reader, const char* what, int low, int high, Enum& out) {
  GRAFT_TRY_ASSIGN(const std::uint8_t value, reader.number<std::uint8_t>());
  if (value < low || value > high) {
    return corrupt("The tokenizer's ", what, " is ", int{value}, "; ", low, " to ", high, " are possible.");
  }
  out = static_cast<Enum>(value);
  return {};
}

Status read_tokens(ByteReader& reader, Vocabulary& out) {
  GRAFT_TRY_ASSIGN(const std::uint32_t count, read_count(reader, "tokens", 4 + 4 + 2));
  out.tokens.resize(count);
  for (Token& token : out.tokens) {
    GRAFT_TRY_ASSIGN(token.text, read_text(reader));
    GRAFT_TRY_ASSIGN(token.score, reader.number<float>());
    GRAFT_TRY(read_enum(reader, "token kind", 1, 6, token.kind));
    GRAFT_TRY_ASSIGN(const std::uint8_t strip, reader.number<std::uint8_t>());
    const int most = out.by_steps ? kMostTokenFlags : 3;
    if (strip > most) {
      return corrupt("A token of the tokenizer has the flags ", int{strip}, "; 0 to ", most, " are possible.");
    }
    int place = 0;
    for (bool* flag : flags_of_token(token)) *flag = (strip >> place++ & 1) != 0;
  }
  return {};
}

Status read_merges(ByteReader& reader, Vocabulary& out) {
  GRAFT_TRY_ASSIGN(const std::uint32_t count, read_count(reader, "merges", 8));
  out.merges.resize(count);
  for (auto& [left, right] : out.merges) {
    GRAFT_TRY_ASSIGN(left, reader.number<TokenId>());
    GRAFT_TRY_ASSIGN(right, reader.number<TokenId>());
  }
  return {};
}

Status read_step(ByteReader& reader, Step& step) {
  GRAFT_TRY(read_enum(reader, "step", 0, kStepKindCount - 1, step.kind));
  GRAFT_TRY(read_enum(reader, "behavior of a step", 0, 4, step.behavior));
  GRAFT_TRY(read_enum(reader, "prefix of a step", 0, 2, step.prefix));
  GRAFT_TRY_ASSIGN(const std::uint8_t flags, reader.number<std::uint8_t>());
  if (flags > 3) return corrupt("A step of the tokenizer has the flags ", int{flags}, "; 0 to 3 are possible.");
  step.flag_a = (flags & 1) != 0;
  step.flag_b = (flags & 2) != 0;
  GRAFT_TRY_ASSIGN(step.text, read_text(reader));
  GRAFT_TRY_ASSIGN(step.with, read_text(reader));
  return {};
}

Status read_steps(ByteReader& reader, Vocabulary& out) {
  for (std::vector<Step>* list : step_lists_of(out)) {
    GRAFT_TRY_ASSIGN(const std::uint32_t count, read_count(reader, "steps", 4 + 4 + 4));
    if (count > kMostSteps) return corrupt("The tokenizer has ", count, " steps; ", kMostSteps, " are possible.");
    list->resize(count);
    for (Step& step : *list) GRAFT_TRY(read_step(reader, step));
  }
  for (std::string* text : {&out.inner_prefix, &out.end_suffix, &out.source_json}) {
    GRAFT_TRY_ASSIGN(*text, read_text(reader));
  }
  GRAFT_TRY_ASSIGN(out.longest_word, reader.number<std::uint32_t>());
  return {};
}

Status read_all(ByteReader& reader, Vocabulary& out) {
  GRAFT_TRY(read_enum(reader, "algorithm", 0, 5, out.algorithm));
  GRAFT_TRY(read_enum(reader, "space prefix", 0, 2, out.space_prefix));
  GRAFT_TRY_ASSIGN(std::uint32_t flags, reader.number<std::uint32_t>());
  out.by_steps = (flags & kSteps) != 0;
  flags &= ~kSteps;
  if (flags >> kFlagCount != 0) return corrupt("The tokenizer has flags that this version does not know: ", flags, ".");
  std::uint32_t bit = 0;
  for (bool* flag : flags_of(out)) *flag = (flags >> bit++ & 1) != 0;
  for (TokenId* id : ids_of(out)) {
    GRAFT_TRY_ASSIGN(*id, reader.number<TokenId>());
  }
  GRAFT_TRY(read_ids(reader, out.before));
  GRAFT_TRY(read_ids(reader, out.after));
  GRAFT_TRY_ASSIGN(const std::uint32_t splits, read_count(reader, "splits", 1));
  out.splits.resize(splits);
  for (Split& split : out.splits) GRAFT_TRY(read_enum(reader, "split", 0, kSplitCount - 1, split));
  GRAFT_TRY_ASSIGN(out.character_map, read_text(reader));
  GRAFT_TRY(read_tokens(reader, out));
  GRAFT_TRY(read_merges(reader, out));
  if (out.by_steps) GRAFT_TRY(read_steps(reader, out));
  if (reader.left() != 0) return corrupt("The tokenizer is followed by ", reader.left(), " bytes too many.");
  return {};
}

void write_steps(const Vocabulary& vocabulary, Writer& out) {
  for (const std::vector<Step>* list : step_lists_of(vocabulary)) {
    out.count(list->size());
    for (const Step& step : *list) {
      out.byte(static_cast<std::uint8_t>(step.kind));
      out.byte(static_cast<std::uint8_t>(step.behavior));
      out.byte(static_cast<std::uint8_t>(step.prefix));
      out.byte(static_cast<std::uint8_t>((step.flag_a ? 1 : 0) | (step.flag_b ? 2 : 0)));
      out.text(step.text);
      out.text(step.with);
    }
  }
  for (const std::string* text : {&vocabulary.inner_prefix, &vocabulary.end_suffix, &vocabulary.source_json}) {
    out.text(*text);
  }
  out.number(vocabulary.longest_word);
}

}  // namespace

std::string vocabulary_to_bytes(const Vocabulary& vocabulary) {
  Writer out;
  out.byte(static_cast<std::uint8_t>(vocabulary.algorithm));
  out.byte(static_cast<std::uint8_t>(vocabulary.space_prefix));
  std::uint32_t flags = 0;
  std::uint32_t bit = 0;
  for (const bool* flag : flags_of(vocabulary)) flags |= std::uint32_t{*flag} << bit++;
  if (vocabulary.by_steps) flags |= kSteps;
  out.number(flags);
  for (const TokenId* id : ids_of(vocabulary)) out.number(*id);
  out.ids(vocabulary.before);
  out.ids(vocabulary.after);
  out.count(vocabulary.splits.size());
  for (const Split split : vocabulary.splits) out.byte(static_cast<std::uint8_t>(split));
  out.text(vocabulary.character_map);
  out.count(vocabulary.tokens.size());
  for (const Token& token : vocabulary.tokens) {
    out.text(token.text);
    out.number(token.score);
    out.byte(static_cast<std::uint8_t>(token.kind));
    int token_flags = 0, place = 0;
    for (const bool* flag : flags_of_token(token)) token_flags |= (*flag ? 1 : 0) << place++;
    out.byte(static_cast<std::uint8_t>(vocabulary.by_steps ? token_flags : token_flags & 3));
  }
  out.count(vocabulary.merges.size());
  for (const auto& [left, right] : vocabulary.merges) {
    out.number(left);
    out.number(right);
  }
  if (vocabulary.by_steps) write_steps(vocabulary, out);
  return out.take();
}

Result<Vocabulary> vocabulary_from_bytes(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Vocabulary out;
  GRAFT_TRY(read_all(reader, out));
  return out;
}

}  // namespace graft::text
