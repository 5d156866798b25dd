// Token sequences as data sets for next-token training.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/language/text_summary.h"
#include "runtime/model/model.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft {

/// A text as tokens. learned[i]: whether training learns to say token i (the first token of a sample is never learned:
/// nothing stands before it).
struct TokenText {
  std::vector<text::TokenId> tokens;
  std::vector<bool> learned;

  void add(const std::vector<text::TokenId>& more, bool learn);
};

/// Labels of positions that count for nothing; the loss's default ignore_index.
inline constexpr std::int32_t kNoLabel = -100;

struct TextWindows {
  std::int64_t length = 128;  ///< tokens of a sample
  /// true: all texts one after another, cut into windows; a window may hold the end of one and the start of the next,
  /// whose first token is not learned. false: one text a sample, cut to the length, or filled with `padding`, whose
  /// labels are kNoLabel; texts of which nothing that is learned fits are left out.
  bool packed = true;
  text::TokenId padding = 0;
  bool sequence_starts =
      false;  ///< a third field says where texts begin, so that they can be kept apart (with_packed_sequences)
};

/// Samples of "tokens" i32 [length] and "label" i32 [length]: at each position the next token, or kNoLabel; with
/// `sequence_starts` also "sequence_starts" i32 [length]: the index of the first token of the position's text in this
/// sample, -1 for padding. Packed windows overlap by one token, so that every token but the first is some position's
/// label, and what is left at the end and is no whole window is dropped. An error where no sample comes of it.
/// `summary` (may be null) tells what became of the texts.
Result<std::unique_ptr<data::Source>> text_source(const std::vector<TokenText>& texts, const TextWindows& windows,
                                                  TextSummary* summary = nullptr);

/// The language model with packed sequences kept apart (passes::packed_sequences). Borrows the weights of `base`, which
/// must outlive it; parameters keep their names.
Result<Model> with_packed_sequences(const Model& base);

}  // namespace graft
