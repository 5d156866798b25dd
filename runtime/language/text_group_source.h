// Samples of a query, the text that it belongs to and texts that it does not, for the loss info_nce.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/language/text_encoder.h"
#include "runtime/language/text_inputs.h"
#include "runtime/language/text_records.h"
#include "runtime/language/text_summary.h"
#include "runtime/language/text_vectors.h"

namespace graft {

struct GroupSamples {
  std::int64_t length = 128;  ///< tokens of a text
  Pooling pooling = Pooling::mean;
  OnLong on_long = OnLong::by_kind;  ///< cut by default; texts are not split
};

/// Records {"query" or "anchor", "positive", "negative" or "negatives"}. Fields: each input of the model, i32
/// [texts, length], and TextGroups::field(). Samples have as many texts as the record with the most; those that a
/// record does not have are padding. Records are read and encoded whenever they are asked for; 4 bytes each stay in
/// memory.
class TextGroupSource final : public data::Source {
 public:
  static constexpr std::size_t kMostTexts = 256;

  /// Reads and encodes every record once. Errors name the record; none where a sample comes of any.
  static Result<std::unique_ptr<TextGroupSource>> create(RecordFile file, TextEncoder encoder, TextInputs inputs,
                                                         const GroupSamples& options);

  const std::vector<data::Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return samples_.size(); }
  Result<bool> read(std::uint64_t& position, data::SampleOut out) override;
  /// The texts of a sample as their tokens, cut as they are trained on.
  Result<TextGroup> texts_of(std::uint64_t sample) const;
  const TextSummary& summary() const { return summary_; }

 private:
  TextGroupSource(RecordFile file, TextEncoder encoder, TextInputs inputs, const GroupSamples& options)
      : file_(std::move(file)), encoder_(std::move(encoder)), inputs_(std::move(inputs)), options_(options) {}
  Status index();
  Result<TextGroup> encode(std::uint64_t record) const;
  Status add(std::uint64_t record, const TextGroup& group);

  RecordFile file_;
  TextEncoder encoder_;
  TextInputs inputs_;
  GroupSamples options_;
  TextGroups groups_;
  std::vector<std::uint32_t> samples_;  ///< records
  TextSummary summary_;
  std::vector<data::Field> fields_;
};

}  // namespace graft
