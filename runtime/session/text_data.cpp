#include "runtime/session/text_data.h"

#include <algorithm>
#include <cstring>

namespace graft {
namespace {

using Words = std::vector<std::int32_t>;

/// Tokens and labels of all samples, sample after sample.
struct Samples {
  Words tokens;
  Words labels;
  std::uint64_t count = 0;
};

/// Positions [first, first + length) of a text, filled up where it ends; false where none of them is learned.
bool add_sample(const TokenText& text, std::size_t first, const TextWindows& windows, Samples& samples) {
  const auto length = static_cast<std::size_t>(windows.length);
  Words tokens(length, windows.padding);
  Words labels(length, kNoLabel);
  bool any = false;
  for (std::size_t i = 0; i < length && first + i < text.tokens.size(); ++i) {
    tokens[i] = text.tokens[first + i];
    if (first + i + 1 >= text.tokens.size() || !text.learned[first + i + 1]) continue;
    labels[i] = text.tokens[first + i + 1];
    any = true;
  }
  if (!any) return false;
  samples.tokens.insert(samples.tokens.end(), tokens.begin(), tokens.end());
  samples.labels.insert(samples.labels.end(), labels.begin(), labels.end());
  ++samples.count;
  return true;
}

Samples make_samples(const std::vector<TokenText>& texts, const TextWindows& windows) {
  Samples samples;
  if (!windows.packed) {
    for (const TokenText& text : texts) add_sample(text, 0, windows, samples);
    return samples;
  }
  TokenText all;
  for (const TokenText& text : texts) {
    all.tokens.insert(all.tokens.end(), text.tokens.begin(), text.tokens.end());
    all.learned.insert(all.learned.end(), text.learned.begin(), text.learned.end());
  }
  const auto length = static_cast<std::size_t>(windows.length);
  for (std::size_t first = 0; first + length < all.tokens.size(); first += length) {
    add_sample(all, first, windows, samples);
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
  auto fill = [samples = std::move(samples), bytes = static_cast<std::size_t>(windows.length) * sizeof(std::int32_t)](
                  std::uint64_t index, data::SampleOut out) -> Result<bool> {
    const std::size_t at = static_cast<std::size_t>(index) * bytes;
    std::memcpy(out[0], reinterpret_cast<const std::byte*>(samples.tokens.data()) + at, bytes);
    std::memcpy(out[1], reinterpret_cast<const std::byte*>(samples.labels.data()) + at, bytes);
    return true;
  };
  return data::from_generator(
      {{"tokens", DType::i32, shape, data::Role::feature}, {"label", DType::i32, shape, data::Role::label}},
      std::move(fill), count);
}

}  // namespace graft
