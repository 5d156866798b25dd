#include "runtime/language/text_label_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "platform/base/text.h"
#include "runtime/language/text_forms.h"

namespace graft {

std::int64_t classes_of_text(const Graph& graph) {
  if (graph.outputs().empty() || !text_inputs_of(graph).ok()) return 0;
  const auto named = std::ranges::find(graph.outputs(), "logits", &Output::name);
  const Value& logits = graph.value(named != graph.outputs().end() ? named->value : graph.outputs()[0].value);
  const Dim& batch = graph.value(graph.inputs()[0]).shape[0];
  const bool fits = logits.dtype == DType::f32 && logits.shape.rank() == 2 && logits.shape[0] == batch &&
                    logits.shape[1].is_constant();
  return fits ? logits.shape[1].value() : 0;
}

Result<std::unique_ptr<TextLabelSource>> TextLabelSource::create(RecordFile file, TextEncoder encoder,
                                                                 TextInputs inputs, const LabelSamples& options) {
  if (options.length < 1 || options.length >= INT32_MAX) {
    return invalid("Texts of ", options.length, " tokens were asked for; 1 to 2^31 - 2 can be.");
  }
  if (options.on_long == OnLong::split) {
    return invalid("Texts with a class are not split. on-long may be cut, drop or error.");
  }
  if (!inputs.pads) {
    return unsupported(
        "The model sees what stands behind a text: it has neither causal attention nor an input for a mask, "
        "so texts of several lengths cannot be trained together.");
  }
  std::unique_ptr<TextLabelSource> made(
      new TextLabelSource(std::move(file), std::move(encoder), std::move(inputs), options));
  GRAFT_TRY(made->index());
  return made;
}

Result<std::int32_t> TextLabelSource::label_of(const json::Value& label) const {
  if (label.is_string()) {
    const auto found = std::ranges::find(options_.names, label.text());
    if (found != options_.names.end()) return static_cast<std::int32_t>(found - options_.names.begin());
    std::string names;
    for (const std::string& name : options_.names) names += cat(names.empty() ? "" : ", ", name);
    return invalid("The label \"", shown(label.text()), "\" is none of the model's classes: ",
                   names.empty() ? "these have no names, and labels are numbers" : names, ".");
  }
  if (label.kind() != json::Value::Kind::number) return invalid("The record's \"label\" is no number and no text.");
  const double number = label.number();
  if (!(number >= 0 && number < static_cast<double>(options_.classes)) || number != std::floor(number)) {
    return invalid("The label ", number, " is none of the model's ", options_.classes, " classes.");
  }
  return static_cast<std::int32_t>(number);
}

Result<TextLabelSource::Labelled> TextLabelSource::encode(std::uint64_t record) const {
  const auto made = [&]() -> Result<Labelled> {
    GRAFT_TRY_ASSIGN(const std::string text, file_.read(record));
    GRAFT_TRY_ASSIGN(const json::Value parsed, object_of(text));
    GRAFT_TRY_ASSIGN(const std::string said, text_member(parsed, "text"));
    const json::Value* const label = parsed.find("label");
    if (label == nullptr) return invalid("The record has no \"label\".");
    Labelled out;
    GRAFT_TRY_ASSIGN(out.label, label_of(*label));
    GRAFT_TRY_ASSIGN(out.tokens, encoder_.tokenizer().encode(said));
    if (out.tokens.empty()) return invalid("The record's text has no tokens.");
    return out;
  };
  return made().with_context(cat("In ", file_.name_of(record)));
}

Status TextLabelSource::index() {
  const std::uint64_t records = file_.count();
  const auto most = static_cast<std::size_t>(options_.length);
  for (std::uint64_t i = 0; i < records; ++i) {
    GRAFT_TRY_ASSIGN(const Labelled sample, encode(i));
    const std::size_t count = sample.tokens.size();
    if (count > most && options_.on_long == OnLong::error) {
      return invalid("The text in ", file_.name_of(i), " has ", count, " tokens; ", most, " fit.");
    }
    if (count > most && options_.on_long == OnLong::drop) {
      TextSummary::Dropped& dropped = summary_.dropped[TextSummary::too_long];
      if (dropped.count++ == 0) dropped.first = file_.name_of(i);
      continue;
    }
    samples_.push_back(static_cast<std::uint32_t>(i));
    summary_.tokens += std::min(count, most);
    summary_.cut += count > most ? 1 : 0;
    summary_.cut_tokens += count > most ? count - most : 0;
  }
  if (samples_.empty()) return invalid("The ", records, " records make no sample of ", most, " tokens.");
  summary_.records = records;
  summary_.samples = summary_.pieces = samples_.size();
  summary_.learned = summary_.tokens;
  summary_.length = options_.length;
  for (const TextInput& input : inputs_.inputs) {
    fields_.push_back(
        {.name = input.name, .dtype = DType::i32, .shape = Shape{options_.length}, .role = data::Role::feature});
  }
  fields_.push_back({.name = "label",
                     .dtype = DType::i32,
                     .shape = Shape(),
                     .role = data::Role::label,
                     .exact = false,
                     .classes = options_.names});
  return {};
}

Result<bool> TextLabelSource::read(std::uint64_t& position, data::SampleOut out) {
  if (position >= samples_.size()) return false;
  GRAFT_TRY_ASSIGN(const Labelled sample, encode(samples_[position]));
  for (std::size_t i = 0; i < inputs_.inputs.size(); ++i) {
    const std::span row(reinterpret_cast<std::int32_t*>(out[i]), static_cast<std::size_t>(options_.length));
    fill_text_row(inputs_.inputs[i].role, sample.tokens, row);
  }
  std::memcpy(out[inputs_.inputs.size()], &sample.label, sizeof sample.label);
  ++position;
  return true;
}

}  // namespace graft
