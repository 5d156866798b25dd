#include "runtime/language/text_group_source.h"

#include <algorithm>
#include <span>

namespace graft {

Result<std::unique_ptr<TextGroupSource>> TextGroupSource::create(RecordFile file, TextEncoder encoder,
                                                                 TextInputs inputs, const GroupSamples& options) {
  if (options.length < 1 || options.length >= INT32_MAX / static_cast<std::int64_t>(kMostTexts)) {
    return invalid("Texts of ", options.length, " tokens were asked for; 1 to 8,388,606 can be.");
  }
  if (options.on_long == OnLong::split) {
    return invalid("Texts of info_nce are not split: each has one vector. on-long may be cut, drop or error.");
  }
  std::unique_ptr<TextGroupSource> made(
      new TextGroupSource(std::move(file), std::move(encoder), std::move(inputs), options));
  GRAFT_TRY(made->index());
  return made;
}

Result<TextGroup> TextGroupSource::encode(std::uint64_t record) const {
  GRAFT_TRY_ASSIGN(const std::string json, file_.read(record));
  return encoder_.group(json).with_context(cat("In ", file_.name_of(record)));
}

Status TextGroupSource::add(std::uint64_t record, const TextGroup& group) {
  if (group.size() > kMostTexts) {
    return invalid("The record has ", group.size() - 2, " negatives; ", kMostTexts - 2, " are possible.");
  }
  const auto most = static_cast<std::size_t>(options_.length);
  std::size_t longest = 0;
  std::uint64_t tokens = 0, cut = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::size_t count = group[i].size();
    if (count == 0) return invalid("Text ", i, " of the record has no tokens.");
    longest = std::max(longest, count);
    tokens += std::min(count, most);
    cut += count > most ? count - most : 0;
  }
  if (longest > most && options_.on_long == OnLong::error) {
    return invalid("A text of the record has ", longest, " tokens; ", most, " fit.");
  }
  if (longest > most && options_.on_long == OnLong::drop) {
    TextSummary::Dropped& dropped = summary_.dropped[TextSummary::too_long];
    if (dropped.count++ == 0) dropped.first = file_.name_of(record);
    return {};
  }
  samples_.push_back(static_cast<std::uint32_t>(record));
  groups_.texts = std::max(groups_.texts, static_cast<std::int64_t>(group.size()));
  summary_.tokens += tokens;
  summary_.pieces += group.size();
  summary_.cut += cut > 0 ? 1 : 0;
  summary_.cut_tokens += cut;
  return {};
}

Status TextGroupSource::index() {
  const std::uint64_t records = file_.count();
  for (std::uint64_t i = 0; i < records; ++i) {
    GRAFT_TRY_ASSIGN(const TextGroup group, encode(i));
    GRAFT_TRY(add(i, group).with_context(cat("In ", file_.name_of(i))));
  }
  if (samples_.empty()) {
    return invalid("The ", records, " records make no sample of texts of ", options_.length, " tokens.");
  }
  groups_.length = options_.length;
  groups_.pooling = options_.pooling;
  summary_.records = records;
  summary_.samples = samples_.size();
  summary_.learned = summary_.tokens;
  summary_.length = groups_.texts * options_.length;
  const Shape shape = {groups_.texts, options_.length};
  for (const TextInput& input : inputs_.inputs) {
    fields_.push_back({.name = input.name, .dtype = DType::i32, .shape = shape, .role = data::Role::feature});
  }
  fields_.push_back(
      {.name = groups_.field(), .dtype = DType::f32, .shape = shape, .role = data::Role::feature, .exact = true});
  return {};
}

Result<TextGroup> TextGroupSource::texts_of(std::uint64_t sample) const {
  GRAFT_TRY_ASSIGN(TextGroup group, encode(samples_[sample]));
  for (auto& text : group) text.resize(std::min(text.size(), static_cast<std::size_t>(options_.length)));
  return group;
}

Result<bool> TextGroupSource::read(std::uint64_t& position, data::SampleOut out) {
  if (position >= samples_.size()) return false;
  GRAFT_TRY_ASSIGN(const TextGroup group, encode(samples_[position]));
  const auto texts = static_cast<std::size_t>(groups_.texts), length = static_cast<std::size_t>(options_.length);
  const bool complete = std::ranges::none_of(group, [](const auto& text) { return text.empty(); });
  if (group.size() > texts || !complete) {
    return corrupt("The data file has changed: ", file_.name_of(samples_[position]), " is another.");
  }
  const auto text_at = [&](std::size_t i) {
    return i < group.size() ? std::span<const text::TokenId>(group[i]) : std::span<const text::TokenId>();
  };
  for (std::size_t f = 0; f < inputs_.inputs.size(); ++f) {
    const std::span numbers(reinterpret_cast<std::int32_t*>(out[f]), texts * length);
    for (std::size_t i = 0; i < texts; ++i) {
      fill_text_row(inputs_.inputs[f].role, text_at(i), numbers.subspan(i * length, length));
    }
  }
  const std::span weights(reinterpret_cast<float*>(out[inputs_.inputs.size()]), texts * length);
  for (std::size_t i = 0; i < texts; ++i) {
    fill_pooling_row(groups_.pooling, text_at(i).size(), weights.subspan(i * length, length));
  }
  ++position;
  return true;
}

}  // namespace graft
