#include "runtime/language/text_record_source.h"

#include <algorithm>
#include <span>

#include "runtime/passes/packed_sequences.h"

namespace graft {

Result<TokenText> TextStore::encode(std::uint64_t record) const {
  GRAFT_TRY_ASSIGN(const std::string json, file_.read(record));
  auto text = encoder_.record(json);
  if (!text.ok()) return std::move(text).status().with_context(cat("In ", file_.name_of(record)));
  if (text->tokens.size() <= UINT32_MAX) return text;
  return unsupported("The record in ", file_.name_of(record), " has ", text->tokens.size(), " tokens.");
}

void TextStore::keep(const TokenText& text) {
  is_full_ = is_full_ || (tokens_.size() + text.tokens.size()) * sizeof(text::TokenId) > kept_bytes_;
  if (is_full_) return;
  tokens_.insert(tokens_.end(), text.tokens.begin(), text.tokens.end());
  learned_.insert(learned_.end(), text.learned.begin(), text.learned.end());
  ends_.push_back(tokens_.size());
}

Status TextStore::read(const TextPiece& piece, TokenText& out) const {
  const auto take = [&](const auto& tokens, const auto& learned, std::uint64_t start) {
    const auto first = static_cast<std::ptrdiff_t>(start + piece.first);
    const auto end = first + static_cast<std::ptrdiff_t>(piece.count);
    out.tokens.assign(tokens.begin() + first, tokens.begin() + end);
    out.learned.assign(learned.begin() + first, learned.begin() + end);
    out.learned[0] = false;
  };
  if (piece.record < ends_.size()) {
    take(tokens_, learned_, piece.record == 0 ? 0 : ends_[piece.record - 1]);
    return {};
  }
  GRAFT_TRY_ASSIGN(const TokenText text, encode(piece.record));
  if (text.tokens.size() < std::uint64_t{piece.first} + piece.count) {
    return corrupt("The data file has changed: ", file_.name_of(piece.record), " is shorter than it was.");
  }
  take(text.tokens, text.learned, 0);
  return {};
}

Result<std::unique_ptr<TextRecordSource>> TextRecordSource::create(RecordFile file, TextEncoder encoder,
                                                                   const RecordSamples& options) {
  if (options.length < 1 || options.length >= INT32_MAX) {
    return invalid("Samples of ", options.length, " tokens were asked for; 1 to 2^31 - 2 can be.");
  }
  std::unique_ptr<TextRecordSource> made(
      new TextRecordSource(TextStore(std::move(file), std::move(encoder), options.kept_bytes), options));
  GRAFT_TRY(made->index());
  return made;
}

void TextRecordSource::drop(TextSummary::Reason reason, std::uint64_t record) {
  TextSummary::Dropped& dropped = summary_.dropped[reason];
  if (dropped.count++ == 0) dropped.first = store_.file().name_of(record);
}

/// Whether anything of it is learned; then it is counted.
bool TextRecordSource::add_piece(TextPiece piece, const TokenText& text, std::vector<TextPiece>& pieces) {
  const auto first = text.learned.begin() + piece.first;
  const auto learned = static_cast<std::uint64_t>(std::count(first + 1, first + piece.count, true));
  if (learned == 0) return false;
  pieces.push_back(piece);
  summary_.tokens += piece.places();
  summary_.learned += learned;
  return true;
}

Status TextRecordSource::add(std::uint64_t record, const TokenText& text, std::vector<TextPiece>& pieces) {
  const auto size = static_cast<std::uint32_t>(text.tokens.size());
  const auto number = static_cast<std::uint32_t>(record), most = static_cast<std::uint32_t>(options_.length) + 1;
  if (size < 2) return drop(TextSummary::too_short, record), ok_status();
  if (size <= most) {
    if (!add_piece({number, 0, size}, text, pieces)) drop(TextSummary::not_learned, record);
    return {};
  }
  OnLong what = options_.on_long;
  const bool whole = std::find(text.learned.begin(), text.learned.end(), false) == text.learned.end();
  if (what == OnLong::by_kind) what = whole ? OnLong::split : OnLong::cut;
  if (what == OnLong::error) {
    return invalid("The text in ", store_.file().name_of(record), " has ", size, " tokens; samples hold ",
                   options_.length, " and the label of the last.");
  }
  if (what == OnLong::drop) return drop(TextSummary::too_long, record), ok_status();
  const bool any = std::find(text.learned.begin() + 1, text.learned.end(), true) != text.learned.end();
  if (what == OnLong::cut) {
    if (add_piece({number, 0, most}, text, pieces)) {
      ++summary_.cut;
      summary_.cut_tokens += size - most;
    } else {
      drop(any ? TextSummary::nothing_fits : TextSummary::not_learned, record);
    }
    return {};
  }
  bool added = false;
  // The last token of a part is the first of the next: every one but the first is learned from those before it.
  for (std::uint32_t first = 0; first + 1 < size; first += most - 1) {
    added = add_piece({number, first, std::min(most, size - first)}, text, pieces) || added;
  }
  if (!added) return drop(TextSummary::not_learned, record), ok_status();
  ++summary_.split;
  return {};
}

Status TextRecordSource::index() {
  std::vector<TextPiece> pieces;
  std::uint64_t tokens = 0;
  const std::uint64_t records = store_.file().count();
  for (std::uint64_t i = 0; i < records; ++i) {
    GRAFT_TRY_ASSIGN(const TokenText text, store_.encode(i));
    store_.keep(text);
    tokens += text.tokens.size();
    GRAFT_TRY(add(i, text, pieces));
  }
  if (pieces.empty()) {
    return invalid("The ", records, " texts of ", tokens, " tokens in all make no sample of ", options_.length,
                   " tokens with one that is to be learned.");
  }
  if (pieces.size() >= UINT32_MAX) return unsupported("The file makes more than 2^32 samples.");
  summary_.records = records;
  summary_.pieces = pieces.size();
  summary_.length = options_.length;
  layout_ = TextLayout(std::move(pieces), static_cast<std::uint32_t>(options_.length), options_.packed);
  summary_.samples = layout_.samples();
  summary_.packed = layout_.packs();
  const Shape shape = {options_.length};
  fields_.push_back({"tokens", DType::i32, shape, data::Role::feature});
  if (options_.sequence_starts || layout_.packs())
    fields_.push_back({std::string(passes::kSequenceStartsInput), DType::i32, shape, data::Role::feature});
  fields_.push_back({"label", DType::i32, shape, data::Role::label});
  return {};
}

Result<bool> TextRecordSource::read(std::uint64_t& position, data::SampleOut out) {
  if (position >= layout_.samples()) return false;
  const auto length = static_cast<std::size_t>(options_.length);
  const auto field = [&](std::size_t i) { return std::span(reinterpret_cast<std::int32_t*>(out[i]), length); };
  const bool says_starts = fields_.size() == 3;
  const auto tokens = field(0), starts = says_starts ? field(1) : std::span<std::int32_t>();
  const auto labels = field(fields_.size() - 1);
  std::ranges::fill(tokens, store_.encoder().padding());
  std::ranges::fill(starts, -1);
  std::ranges::fill(labels, kNoLabel);
  std::size_t at = 0;
  TokenText text;
  for (std::uint64_t p = 0; p < layout_.size(position); ++p) {
    const TextPiece& piece = layout_.piece(position, p);
    GRAFT_TRY(store_.read(piece, text));
    const std::size_t begin = at;
    for (std::uint32_t i = 0; i < piece.places(); ++i, ++at) {
      tokens[at] = text.tokens[i];
      if (text.learned[i + 1]) labels[at] = text.tokens[i + 1];
      if (says_starts) starts[at] = static_cast<std::int32_t>(begin);
    }
  }
  ++position;
  return true;
}

}  // namespace graft
