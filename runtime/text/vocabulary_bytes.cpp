// Little endian, in the order of vocabulary_to_bytes: a number is 4 bytes, a list is its count and its items.
#include "runtime/text/vocabulary_bytes.h"

#include <array>
#include <type_traits>

#include "platform/base/byte_reader.h"

namespace graft::text {
namespace {

constexpr std::uint32_t kFlagCount = 8;

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
    if (strip > 3) return corrupt("A token of the tokenizer has the flags ", int{strip}, "; 0 to 3 are possible.");
    token.strip_left = (strip & 1) != 0;
    token.strip_right = (strip & 2) != 0;
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

Status read_all(ByteReader& reader, Vocabulary& out) {
  GRAFT_TRY(read_enum(reader, "algorithm", 0, 4, out.algorithm));
  GRAFT_TRY(read_enum(reader, "space prefix", 0, 2, out.space_prefix));
  GRAFT_TRY_ASSIGN(const std::uint32_t flags, reader.number<std::uint32_t>());
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
  if (reader.left() != 0) return corrupt("The tokenizer is followed by ", reader.left(), " bytes too many.");
  return {};
}

}  // namespace

std::string vocabulary_to_bytes(const Vocabulary& vocabulary) {
  Writer out;
  out.byte(static_cast<std::uint8_t>(vocabulary.algorithm));
  out.byte(static_cast<std::uint8_t>(vocabulary.space_prefix));
  std::uint32_t flags = 0;
  std::uint32_t bit = 0;
  for (const bool* flag : flags_of(vocabulary)) flags |= std::uint32_t{*flag} << bit++;
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
    out.byte(static_cast<std::uint8_t>((token.strip_left ? 1 : 0) | (token.strip_right ? 2 : 0)));
  }
  out.count(vocabulary.merges.size());
  for (const auto& [left, right] : vocabulary.merges) {
    out.number(left);
    out.number(right);
  }
  return out.take();
}

Result<Vocabulary> vocabulary_from_bytes(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Vocabulary out;
  GRAFT_TRY(read_all(reader, out));
  return out;
}

}  // namespace graft::text
