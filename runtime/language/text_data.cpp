#include "runtime/language/text_data.h"

#include <algorithm>
#include <span>

#include "runtime/lora/adapter.h"
#include "runtime/passes/packed_sequences.h"

namespace graft {
namespace {

/// All texts, one after another, and which of their positions are a sample: what a sample holds is written when it is
/// asked for, since windows of short texts are mostly padding.
class Samples {
 public:
  Samples(const std::vector<TokenText>& texts, const TextWindows& windows) : windows_(windows) {
    for (const TokenText& text : texts) {
      if (text.tokens.empty()) continue;
      const std::uint64_t start = tokens_.size();
      starts_.push_back(start);
      tokens_.insert(tokens_.end(), text.tokens.begin(), text.tokens.end());
      learned_.insert(learned_.end(), text.learned.begin(), text.learned.end());
      learned_[start] = false;
      if (!windows.packed) add(start, tokens_.size());
    }
    summary_.records = texts.size();
    summary_.length = windows.length;
    if (windows.packed) {
      const auto length = static_cast<std::uint64_t>(windows.length);
      std::uint64_t first = 0;
      for (; first + length < tokens_.size(); first += length) add(first, tokens_.size());
      if (first + 1 < tokens_.size()) summary_.rest = tokens_.size() - first - 1;
    }
    summary_.samples = summary_.pieces = samples_.size();
  }

  const TextSummary& summary() const { return summary_; }

  std::uint64_t count() const { return samples_.size(); }

  void fill(std::uint64_t index, data::SampleOut out) const {
    const auto [first, end] = samples_[index];
    const auto length = static_cast<std::size_t>(windows_.length);
    const auto field = [&](std::size_t i) { return std::span(reinterpret_cast<std::int32_t*>(out[i]), length); };
    const bool says_starts = windows_.sequence_starts;
    const auto tokens = field(0), starts = says_starts ? field(1) : std::span<std::int32_t>();
    const auto labels = field(says_starts ? 2 : 1);
    std::ranges::fill(tokens, windows_.padding);
    std::ranges::fill(starts, -1);
    std::ranges::fill(labels, kNoLabel);
    auto next = std::ranges::upper_bound(starts_, first);  // the text that begins next
    std::int32_t start = 0;
    for (std::size_t i = 0; i < length && first + i < end; ++i) {
      if (next != starts_.end() && *next == first + i) {
        start = static_cast<std::int32_t>(i);
        ++next;
      }
      tokens[i] = tokens_[first + i];
      if (says_starts) starts[i] = start;
      if (first + i + 1 < end && learned_[first + i + 1]) labels[i] = tokens_[first + i + 1];
    }
  }

 private:
  struct Sample {
    std::uint64_t first, end;  ///< positions; the next token of the last one is no label
  };

  /// Positions [first, end), of which a sample holds as many as it is long; none where none of them is learned.
  void add(std::uint64_t first, std::uint64_t end) {
    const std::uint64_t last = std::min(end, first + static_cast<std::uint64_t>(windows_.length) + 1);
    const auto at = learned_.begin();
    const auto learned = std::count(at + static_cast<std::ptrdiff_t>(std::min(first + 1, last)),
                                    at + static_cast<std::ptrdiff_t>(last), true);
    if (learned > 0) {
      samples_.push_back({first, end});
      summary_.tokens += std::min(last - first, static_cast<std::uint64_t>(windows_.length));
      summary_.learned += static_cast<std::uint64_t>(learned);
    } else {
      TextSummary::Dropped& dropped = summary_.dropped[TextSummary::nothing_fits];
      if (dropped.count++ == 0) dropped.first = cat("token ", first);
    }
    if (!windows_.packed && last < end) {
      ++summary_.cut;
      summary_.cut_tokens += end - last;
    }
  }

  TextWindows windows_;
  std::vector<text::TokenId> tokens_;
  std::vector<bool> learned_;
  std::vector<std::uint64_t> starts_;  ///< where texts begin
  std::vector<Sample> samples_;
  TextSummary summary_;
};

}  // namespace

void TokenText::add(const std::vector<text::TokenId>& more, bool learn) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  learned.insert(learned.end(), more.size(), learn);
}

Result<std::unique_ptr<data::Source>> text_source(const std::vector<TokenText>& texts, const TextWindows& windows,
                                                  TextSummary* summary) {
  if (windows.length < 1 || windows.length > INT32_MAX) {
    return invalid("Samples of ", windows.length, " tokens were asked for; 1 to 2^31 - 1 can be.");
  }
  auto samples = std::make_shared<const Samples>(texts, windows);
  if (samples->count() == 0) {
    std::size_t tokens = 0;
    for (const TokenText& text : texts) tokens += text.tokens.size();
    return invalid("The ", texts.size(), " texts of ", tokens, " tokens in all make no sample of ", windows.length,
                   " tokens with one that is to be learned.");
  }
  if (summary != nullptr) *summary = samples->summary();
  const Shape shape = {windows.length};
  std::vector<data::Field> fields = {{"tokens", DType::i32, shape, data::Role::feature}};
  if (windows.sequence_starts)
    fields.push_back({std::string(passes::kSequenceStartsInput), DType::i32, shape, data::Role::feature});
  fields.push_back({"label", DType::i32, shape, data::Role::label});
  const std::uint64_t count = samples->count();
  auto fill = [samples = std::move(samples)](std::uint64_t index, data::SampleOut out) -> Result<bool> {
    samples->fill(index, out);
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
