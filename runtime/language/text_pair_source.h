// Samples of two texts each, for losses of preferences (runtime/train/step/loss_preference.cpp).
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/language/text_encoder.h"
#include "runtime/language/text_records.h"
#include "runtime/language/text_summary.h"

namespace graft {

/// What the records are.
enum class Preference : std::uint8_t {
  none,
  pairs,     ///< {"prompt", "chosen", "rejected"}
  labelled,  ///< {"prompt", "completion", "label"}: the second text is the next record's completion
  groups,    ///< {"query", "positive", "negatives"}: TextGroupSource
};

struct PairSamples {
  std::int64_t length = 128;  ///< tokens of a text: half a sample
  Preference preference = Preference::pairs;
  OnLong on_long = OnLong::by_kind;  ///< cut by default; texts are not split
};

/// "tokens", "sequence_starts" and "label", i32 [2 length], and "reference" f32 [2], zeros, or for labelled records f32
/// [3], the last of which is 1 where the text is wanted and -1 where not. A text's prompt is not learned. Records are
/// read and encoded whenever they are asked for; 8 bytes each stay in memory.
class TextPairSource final : public data::Source {
 public:
  /// Reads and encodes every record once. Errors name the record; none where a sample comes of any.
  static Result<std::unique_ptr<TextPairSource>> create(RecordFile file, TextEncoder encoder,
                                                        const PairSamples& options);

  const std::vector<data::Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return samples_.size(); }
  Result<bool> read(std::uint64_t& position, data::SampleOut out) override;
  const TextSummary& summary() const { return summary_; }

 private:
  TextPairSource(RecordFile file, TextEncoder encoder, const PairSamples& options)
      : file_(std::move(file)), encoder_(std::move(encoder)), options_(options) {}
  Status index();
  Result<TextPair> encode(std::uint64_t record) const;
  Status add(std::uint64_t record, const TextPair& pair);
  void drop(TextSummary::Reason reason, std::uint64_t record);

  RecordFile file_;
  TextEncoder encoder_;
  PairSamples options_;
  std::vector<std::uint32_t> samples_;  ///< records
  std::vector<bool> wanted_;            ///< by record, where they are labelled
  TextSummary summary_;
  std::vector<data::Field> fields_;
};

}  // namespace graft
