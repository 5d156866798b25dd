#include "runtime/session/text_data.h"

#include <algorithm>
#include <cstring>

#include "runtime/lora/adapter.h"
#include "runtime/passes/packed_sequences.h"

namespace graft {
namespace {

using Words = std::vector<std::int32_t>;

/// Fields of all samples, sample after sample.
struct Samples {
  Words tokens;
  Words sequence_starts;  ///< only where they are asked for
  Words labels;
  std::uint64_t count = 0;
};

/// Positions [first, first + length) of a text, filled up where it ends; nothing where none of them is learned.
/// `begins` says where texts begin in it, besides its start.
void add_sample(const TokenText& text, const std::vector<bool>& begins, std::size_t first, const TextWindows& windows,
                Samples& samples) {
  const auto length = static_cast<std::size_t>(windows.length);
  Words tokens(length, windows.padding);
  Words sequence_starts(length, -1);
  Words labels(length, kNoLabel);
  bool any = false;
  std::int32_t start = 0;
  for (std::size_t i = 0; i < length && first + i < text.tokens.size(); ++i) {
    if (!begins.empty() && begins[first + i]) start = static_cast<std::int32_t>(i);
    tokens[i] = text.tokens[first + i];
    sequence_starts[i] = start;
    if (first + i + 1 >= text.tokens.size() || !text.learned[first + i + 1]) continue;
    labels[i] = text.tokens[first + i + 1];
    any = true;
  }
  if (!any) return;
  samples.tokens.insert(samples.tokens.end(), tokens.begin(), tokens.end());
  if (windows.sequence_starts)
    samples.sequence_starts.insert(samples.sequence_starts.end(), sequence_starts.begin(), sequence_starts.end());
  samples.labels.insert(samples.labels.end(), labels.begin(), labels.end());
  ++samples.count;
}

Samples make_samples(const std::vector<TokenText>& texts, const TextWindows& windows) {
  Samples samples;
  if (!windows.packed) {
    for (const TokenText& text : texts) add_sample(text, {}, 0, windows, samples);
    return samples;
  }
  TokenText all;
  std::vector<bool> begins;
  for (const TokenText& text : texts) {
    if (text.tokens.empty()) continue;
    const std::size_t start = all.tokens.size();
    all.tokens.insert(all.tokens.end(), text.tokens.begin(), text.tokens.end());
    all.learned.insert(all.learned.end(), text.learned.begin(), text.learned.end());
    all.learned[start] = false;
    begins.resize(all.tokens.size(), false);
    begins[start] = true;
  }
  const auto length = static_cast<std::size_t>(windows.length);
  for (std::size_t first = 0; first + length < all.tokens.size(); first += length) {
    add_sample(all, begins, first, windows, samples);
  }
  return samples;
}

}  // namespace

void TokenText::add(const std::vector<text::TokenId>& more, bool learn) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  learned.insert(learned.end(), more.size(), learn);
}

Result<std::unique_ptr<data::Source>> text_source(const std::vector<TokenText>& texts, const TextWindows& windows) {
  if (windows.length < 1 || windows.length > INT32_MAX) {
    return invalid("Samples of ", windows.length, " tokens were asked for; 1 to 2^31 - 1 can be.");
  }
  Samples samples = make_samples(texts, windows);
  if (samples.count == 0) {
    std::size_t tokens = 0;
    for (const TokenText& text : texts) tokens += text.tokens.size();
    return invalid("The ", texts.size(), " texts of ", tokens, " tokens in all make no sample of ", windows.length,
                   " tokens with one that is to be learned.");
  }
  const Shape shape = {windows.length};
  const std::uint64_t count = samples.count;
  std::vector<data::Field> fields = {{"tokens", DType::i32, shape, data::Role::feature}};
  if (windows.sequence_starts)
    fields.push_back({std::string(passes::kSequenceStartsInput), DType::i32, shape, data::Role::feature});
  fields.push_back({"label", DType::i32, shape, data::Role::label});
  auto fill = [samples = std::move(samples), bytes = static_cast<std::size_t>(windows.length) * sizeof(std::int32_t)](
                  std::uint64_t index, data::SampleOut out) -> Result<bool> {
    std::size_t field = 0;
    for (const Words* words : {&samples.tokens, &samples.sequence_starts, &samples.labels}) {
      if (words->empty()) continue;
      const auto* from = reinterpret_cast<const std::byte*>(words->data()) + static_cast<std::size_t>(index) * bytes;
      std::memcpy(out[field++], from, bytes);
    }
    return true;
  };
  return data::from_generator(std::move(fields), std::move(fill), count);
}

Result<Model> with_packed_sequences(const Model& base) {
  Model model;
  GRAFT_TRY_ASSIGN(model.graph, passes::packed_sequences(base.graph));
  GRAFT_TRY(borrow_rest(base, model));
  return model;
}

}  // namespace graft
