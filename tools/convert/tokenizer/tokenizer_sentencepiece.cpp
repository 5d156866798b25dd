// SentencePiece's tokenizer.model: a protobuf message of few fields, read from the wire format.
#include <cstring>

#include "platform/base/byte_reader.h"
#include "tools/convert/tokenizer/tokenizer_load.h"
#include "tools/convert/tokenizer/vocabulary_parts.h"

namespace graft::convert {
namespace {

using text::Token;
using text::TokenId;
using text::Vocabulary;

struct Field {
  std::uint32_t number = 0;
  std::uint32_t wire = 0;   ///< 0 varint, 1 fixed 64, 2 bytes, 5 fixed 32
  std::uint64_t value = 0;  ///< of a varint or a fixed number
  std::span<const std::byte> bytes;

  std::string text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  bool flag() const { return value != 0; }
};

Result<std::uint64_t> varint(ByteReader& reader) {
  std::uint64_t out = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    GRAFT_TRY_ASSIGN(const std::uint8_t byte, reader.number<std::uint8_t>());
    out |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return out;
  }
  return corrupt("A number before offset ", reader.offset(), " is longer than 64 bits.");
}

Result<Field> read_field(ByteReader& reader) {
  GRAFT_TRY_ASSIGN(const std::uint64_t tag, varint(reader));
  Field out{.number = static_cast<std::uint32_t>(tag >> 3), .wire = static_cast<std::uint32_t>(tag & 7)};
  if (out.wire == 0) {
    GRAFT_TRY_ASSIGN(out.value, varint(reader));
  } else if (out.wire == 1) {
    GRAFT_TRY_ASSIGN(out.value, reader.number<std::uint64_t>());
  } else if (out.wire == 2) {
    GRAFT_TRY_ASSIGN(const std::uint64_t size, varint(reader));
    GRAFT_TRY_ASSIGN(out.bytes, reader.take(size));
  } else if (out.wire == 5) {
    GRAFT_TRY_ASSIGN(out.value, reader.number<std::uint32_t>());
  } else {
    return corrupt("A field before offset ", reader.offset(), " has the wire type ", out.wire, ", which is none.");
  }
  return out;
}

template <typename Use>
Status for_each_field(std::span<const std::byte> message, Use use) {
  ByteReader reader(message);
  while (reader.left() != 0) {
    GRAFT_TRY_ASSIGN(const Field field, read_field(reader));
    GRAFT_TRY(use(field));
  }
  return {};
}

Status read_piece(std::span<const std::byte> message, Vocabulary& out) {
  Token token;
  GRAFT_TRY(for_each_field(message, [&](const Field& field) -> Status {
              if (field.number == 1) token.text = field.text();
              if (field.number == 2) {
                const auto bits = static_cast<std::uint32_t>(field.value);
                std::memcpy(&token.score, &bits, sizeof bits);
              }
              if (field.number == 3) {
                GRAFT_TRY_ASSIGN(token.kind, token_kind(static_cast<std::int64_t>(field.value)));
              }
              return {};
            }).with_context(cat("Piece ", out.tokens.size())));
  out.tokens.push_back(std::move(token));
  return {};
}

/// Ids as the trainer wrote them; -1 for none.
struct Ids {
  std::int64_t unknown = 0;
  std::int64_t bos = 1;
  std::int64_t eos = 2;
  std::int64_t pad = -1;
};

Status read_trainer(std::span<const std::byte> message, Vocabulary& out, Ids& ids) {
  std::uint64_t model = 1;
  GRAFT_TRY(for_each_field(message, [&](const Field& field) -> Status {
    if (field.number == 3) model = field.value;
    if (field.number == 24 && field.flag()) {
      return unsupported("A tokenizer that marks spaces after words is not supported.");
    }
    if (field.number == 35) out.byte_fallback = field.flag();
    const auto id = static_cast<std::int64_t>(field.value);
    if (field.number == 40) ids.unknown = id;
    if (field.number == 41) ids.bos = id;
    if (field.number == 42) ids.eos = id;
    if (field.number == 43) ids.pad = id;
    return {};
  }));
  if (model != 1 && model != 2) {
    return unsupported("The SentencePiece model is of type ", model, "; unigram (1) and BPE (2) are supported.");
  }
  out.algorithm = model == 1 ? text::Algorithm::unigram : text::Algorithm::scored_bpe;
  return {};
}

Status read_normalizer(std::span<const std::byte> message, Vocabulary& out) {
  return for_each_field(message, [&](const Field& field) -> Status {
    if (field.number == 2) out.character_map = field.text();
    if (field.number == 3 && !field.flag()) out.space_prefix = text::SpacePrefix::none;
    if (field.number == 4) out.collapse_spaces = field.flag();
    if (field.number == 5 && !field.flag()) return unsupported("A tokenizer that keeps spaces is not supported.");
    return {};
  });
}

Status read_denormalizer(std::span<const std::byte> message) {
  return for_each_field(message, [](const Field& field) -> Status {
    if (field.number != 2 || field.bytes.empty()) return {};
    return unsupported("A tokenizer that rewrites decoded text (denormalizer_spec) is not supported.");
  });
}

Result<Vocabulary> read_model(std::span<const std::byte> model) {
  Vocabulary out;
  out.algorithm = text::Algorithm::unigram;
  out.space_prefix = text::SpacePrefix::every;
  out.collapse_spaces = true;
  Ids ids;
  GRAFT_TRY(for_each_field(model, [&](const Field& field) -> Status {
    if (field.wire != 2) return {};
    if (field.number == 1) return read_piece(field.bytes, out);
    if (field.number == 2) return read_trainer(field.bytes, out, ids);
    if (field.number == 3) return read_normalizer(field.bytes, out);
    if (field.number == 5) return read_denormalizer(field.bytes);
    return {};
  }));
  if (out.tokens.empty()) return corrupt("The file holds no pieces.");
  const auto known = [&](std::int64_t id) {
    return id >= 0 && id < static_cast<std::int64_t>(out.tokens.size()) ? static_cast<TokenId>(id) : text::kNoToken;
  };
  out.unknown = known(ids.unknown);
  out.bos = known(ids.bos);
  out.eos = known(ids.eos);
  out.pad = known(ids.pad);
  // The file does not say what is put around a text; models with a begin-of-text token expect it.
  if (out.bos != text::kNoToken) out.before.push_back(out.bos);
  return out;
}

}  // namespace

Result<Vocabulary> load_sentencepiece(std::span<const std::byte> model) {
  return read_model(model).with_context("While reading the SentencePiece model");
}

}  // namespace graft::convert
