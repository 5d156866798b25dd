#include "runtime/language/text_pair_source.h"

#include <algorithm>
#include <span>

#include "runtime/passes/packed_sequences.h"
#include "runtime/train/step/loss_terms.h"

namespace graft {
namespace {

/// Tokens of the first `most` that are learned; the first never is.
std::uint64_t count_learned(const TokenText& text, std::size_t most) {
  const auto end = static_cast<std::ptrdiff_t>(std::min(text.tokens.size(), most));
  if (end < 2) return 0;
  return static_cast<std::uint64_t>(std::count(text.learned.begin() + 1, text.learned.begin() + end, true));
}

}  // namespace

Result<std::unique_ptr<TextPairSource>> TextPairSource::create(RecordFile file, TextEncoder encoder,
                                                               const PairSamples& options) {
  if (options.length < 1 || options.length >= INT32_MAX / 2) {
    return invalid("Texts of ", options.length, " tokens were asked for; 1 to 2^30 - 2 can be.");
  }
  if (options.on_long == OnLong::split) {
    return invalid("Texts of preferences are not split: each is judged as a whole. on-long may be cut, drop or error.");
  }
  std::unique_ptr<TextPairSource> made(new TextPairSource(std::move(file), std::move(encoder), options));
  GRAFT_TRY(made->index());
  return made;
}

Result<TextPair> TextPairSource::encode(std::uint64_t record) const {
  GRAFT_TRY_ASSIGN(const std::string json, file_.read(record));
  if (options_.preference == Preference::pairs) {
    return encoder_.pair(json).with_context(cat("In ", file_.name_of(record)));
  }
  GRAFT_TRY_ASSIGN(const std::string next, file_.read((record + 1) % file_.count()));
  return encoder_.labelled(json, next).with_context(cat("In ", file_.name_of(record)));
}

void TextPairSource::drop(TextSummary::Reason reason, std::uint64_t record) {
  TextSummary::Dropped& dropped = summary_.dropped[reason];
  if (dropped.count++ == 0) dropped.first = file_.name_of(record);
}

Status TextPairSource::add(std::uint64_t record, const TextPair& pair) {
  const std::size_t most = static_cast<std::size_t>(options_.length) + 1;
  const std::size_t longest = std::max(pair[0].tokens.size(), pair[1].tokens.size());
  if (longest > most && options_.on_long == OnLong::error) {
    return invalid("A text in ", file_.name_of(record), " has ", longest, " tokens; a half of a sample holds ",
                   options_.length, " and the label of the last.");
  }
  if (longest > most && options_.on_long == OnLong::drop) return drop(TextSummary::too_long, record), ok_status();
  std::uint64_t tokens = 0, learned = 0, cut = 0;
  for (const TokenText& text : pair) {
    const std::uint64_t here = count_learned(text, most);
    if (here == 0) {
      const bool none = count_learned(text, text.tokens.size()) == 0;
      return drop(none ? TextSummary::not_learned : TextSummary::nothing_fits, record), ok_status();
    }
    learned += here;
    tokens += std::min(text.tokens.size(), most) - 1;
    if (text.tokens.size() > most) cut += text.tokens.size() - most;
  }
  samples_.push_back(static_cast<std::uint32_t>(record));
  summary_.tokens += tokens;
  summary_.learned += learned;
  summary_.cut += cut > 0 ? 1 : 0;
  summary_.cut_tokens += cut;
  return {};
}

Status TextPairSource::index() {
  const std::uint64_t records = file_.count();
  const bool labelled = options_.preference == Preference::labelled;
  if (labelled && records == 1) return invalid("One record has no other to be compared with.");
  for (std::uint64_t i = 0; i < records; ++i) {
    GRAFT_TRY_ASSIGN(const TextPair pair, encode(i));
    if (labelled) {
      GRAFT_TRY_ASSIGN(const std::string json, file_.read(i));
      auto wanted = TextEncoder::label_of(json);
      if (!wanted.ok()) return std::move(wanted).status().with_context(cat("In ", file_.name_of(i)));
      wanted_.push_back(*wanted);
    }
    GRAFT_TRY(add(i, pair));
  }
  if (samples_.empty()) {
    return invalid("The ", records, " records make no sample of two texts of ", options_.length,
                   " tokens with any that are to be learned.");
  }
  summary_.records = records;
  summary_.samples = samples_.size();
  summary_.pieces = 2 * samples_.size();
  summary_.length = 2 * options_.length;
  const Shape shape = {2 * options_.length};
  fields_ = {
      {"tokens", DType::i32, shape, data::Role::feature},
      {std::string(passes::kSequenceStartsInput), DType::i32, shape, data::Role::feature},
      {"label", DType::i32, shape, data::Role::label},
      {std::string(train::kReferenceField), DType::f32, Shape{std::int64_t{labelled ? 3 : 2}}, data::Role::label}};
  return {};
}

Result<bool> TextPairSource::read(std::uint64_t& position, data::SampleOut out) {
  if (position >= samples_.size()) return false;
  const std::uint32_t record = samples_[position];
  GRAFT_TRY_ASSIGN(const TextPair pair, encode(record));
  const auto length = static_cast<std::size_t>(options_.length);
  const auto field = [&](std::size_t i) { return std::span(reinterpret_cast<std::int32_t*>(out[i]), 2 * length); };
  const auto tokens = field(0), starts = field(1), labels = field(2);
  std::ranges::fill(tokens, encoder_.padding());
  std::ranges::fill(starts, -1);
  std::ranges::fill(labels, kNoLabel);
  for (std::size_t side = 0; side < pair.size(); ++side) {
    const TokenText& text = pair[side];
    if (text.tokens.empty()) return corrupt("The data file has changed: ", file_.name_of(record), " is another.");
    const std::size_t begin = side * length;
    for (std::size_t i = 0; i < std::min(text.tokens.size() - 1, length); ++i) {
      tokens[begin + i] = text.tokens[i];
      starts[begin + i] = static_cast<std::int32_t>(begin);
      if (text.learned[i + 1]) labels[begin + i] = text.tokens[i + 1];
    }
  }
  const bool labelled = options_.preference == Preference::labelled;
  const std::span reference(reinterpret_cast<float*>(out[3]), labelled ? 3 : 2);
  std::ranges::fill(reference, 0.0F);
  if (labelled) reference[2] = wanted_[record] ? 1.0F : -1.0F;
  ++position;
  return true;
}

}  // namespace graft
