// Samples of a text and its class, for models that give a text's classes.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/language/text_encoder.h"
#include "runtime/language/text_inputs.h"
#include "runtime/language/text_records.h"
#include "runtime/language/text_summary.h"

namespace graft {

/// How many classes the model's output "logits", or its first one, gives for a text: f32 [batch, classes], of a model
/// that takes texts (text_inputs_of()). 0: it is another.
std::int64_t classes_of_text(const Graph& graph);

struct LabelSamples {
  std::int64_t length = 128;
  OnLong on_long = OnLong::by_kind;  ///< cut by default; texts are not split
  std::int64_t classes = 0;
  std::vector<std::string> names = {};  ///< of the classes; empty: labels are numbers
};

/// Records {"text", "label"}, a label being a class's number or name. Fields: each input of the model, i32 [length],
/// and "label" i32 []. Records are read and encoded whenever they are asked for; 4 bytes each stay in memory.
class TextLabelSource final : public data::Source {
 public:
  /// Reads and encodes every record once. Errors name the record; none where a sample comes of any.
  static Result<std::unique_ptr<TextLabelSource>> create(RecordFile file, TextEncoder encoder, TextInputs inputs,
                                                         const LabelSamples& options);

  const std::vector<data::Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return samples_.size(); }
  Result<bool> read(std::uint64_t& position, data::SampleOut out) override;
  const TextSummary& summary() const { return summary_; }

 private:
  struct Labelled {
    std::vector<text::TokenId> tokens;
    std::int32_t label = 0;
  };
  TextLabelSource(RecordFile file, TextEncoder encoder, TextInputs inputs, const LabelSamples& options)
      : file_(std::move(file)), encoder_(std::move(encoder)), inputs_(std::move(inputs)), options_(options) {}
  Status index();
  Result<Labelled> encode(std::uint64_t record) const;
  Result<std::int32_t> label_of(const json::Value& label) const;

  RecordFile file_;
  TextEncoder encoder_;
  TextInputs inputs_;
  LabelSamples options_;
  std::vector<std::uint32_t> samples_;  ///< records
  TextSummary summary_;
  std::vector<data::Field> fields_;
};

}  // namespace graft
