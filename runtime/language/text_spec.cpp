#include "runtime/language/text_spec.h"

#include <algorithm>

#include "runtime/data/spec_reader.h"
#include "runtime/language/text_data.h"
#include "runtime/language/text_group_source.h"
#include "runtime/language/text_label_source.h"
#include "runtime/language/text_model.h"
#include "runtime/language/text_record_source.h"
#include "runtime/passes/packed_sequences.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace graft {
namespace {

constexpr std::int64_t kDefaultLength = 128;
constexpr std::string_view kTextSpecOptions[] = {"tokenizer", "chat", "pack", "learn", "on-long", "skip", "count"};

std::string option_of(const data::Spec& spec, std::string_view name) {
  const auto found = spec.options.find(name);
  return found == spec.options.end() ? std::string() : found->second;
}

Status check_text_options(const data::Spec& spec) {
  if (spec.arguments.size() != 1) return invalid("A data set of this kind is written ", spec.kind, ":FILE.");
  for (const auto& [name, value] : spec.options) {
    if (std::ranges::find(kTextSpecOptions, name) != std::end(kTextSpecOptions)) continue;
    return invalid("\"", spec.kind, ":\" data sets have no option \"", name,
                   "\"; they have tokenizer, chat, pack, learn, on-long, skip and count.");
  }
  if (const std::string learn = option_of(spec, "learn"); !learn.empty() && learn != "all")
    return invalid("Option learn=", learn, " of a data set must be all.");
  const std::string pack = option_of(spec, "pack");
  if (!pack.empty() && pack != "yes" && pack != "no" && pack != "mixed")
    return invalid("Option pack=", pack, " must be yes, no or mixed.");
  if (spec.options.contains("on-long") && (spec.kind == "text" || pack == "mixed")) {
    return invalid("Option on-long has no place where texts stand one after another: they are cut into windows.");
  }
  return {};
}

Result<text::Tokenizer> tokenizer_for(const data::Spec& spec, const Model& model, const TextOptions& options) {
  if (options.words != nullptr) return text::Tokenizer::make(*options.words);
  if (const auto path = spec.options.find("tokenizer"); path != spec.options.end()) {
    if (!options.load)
      return unsupported("A tokenizer of other formats is read by graft convert alone; give the model one.");
    GRAFT_TRY_ASSIGN(text::Vocabulary words, options.load(path->second));
    return text::Tokenizer::make(std::move(words));
  }
  return tokenizer_of(model);
}

/// A file of plain text may hold many, each with the token that ends it.
std::vector<TokenText> split_at_ends(const TokenText& all, text::TokenId eos) {
  std::vector<TokenText> texts(1);
  for (const text::TokenId token : all.tokens) {
    texts.back().add({token}, true);
    if (token == eos) texts.emplace_back();
  }
  std::erase_if(texts, [](const TokenText& text) { return text.tokens.empty(); });
  return texts;
}

/// Records [skip, skip + count) alone.
Status take_part(const data::Spec& spec, RecordFile& file) {
  GRAFT_TRY_ASSIGN(const auto skip, data::whole_option(spec, "skip"));
  GRAFT_TRY_ASSIGN(const auto count, data::whole_option(spec, "count"));
  if (!skip && !count) return {};
  const std::uint64_t size = file.count(), first = skip.value_or(0);
  if (first >= size) return invalid("Option skip=", first, " leaves nothing of a file of ", size, " records.");
  if (count == 0U) {
    return invalid("Option count=0 must be 1 to ", size - first, ", the records that there are",
                   first > 0 ? cat(" after the first ", first) : "", ".");
  }
  file.keep(first, std::min(count.value_or(size - first), size - first));
  return {};
}

/// Why the model cannot keep sequences apart; empty: it can.
std::string why_not_packed(const Model& model) {
  const auto masked = with_packed_sequences(model);
  return masked.ok() ? std::string() : masked.status().message();
}

/// The tokens of a sample with a label of its own behind each text's last one.
Result<std::vector<ShownToken>> shown_sample(data::Source& source, std::uint64_t index,
                                             const text::Tokenizer& tokenizer) {
  const std::size_t fields = source.fields().size();
  const auto label = static_cast<std::size_t>(std::ranges::find(source.fields(), "label", &data::Field::name) -
                                              source.fields().begin());
  const auto length = static_cast<std::size_t>(source.fields().front().shape.elements());
  std::vector<std::vector<std::int32_t>> read(fields, std::vector<std::int32_t>(length));
  std::vector<std::byte*> places;
  places.reserve(fields);
  for (auto& field : read) places.push_back(reinterpret_cast<std::byte*>(field.data()));
  GRAFT_TRY_ASSIGN(const bool more, source.read(index, places));
  std::vector<ShownToken> out;
  if (!more) return out;
  const auto &tokens = read.front(), &labels = read[label];
  const bool says_starts = source.fields()[1].name == passes::kSequenceStartsInput;
  const auto start_at = [&](std::size_t i) { return says_starts ? read[1][i] : 0; };
  const auto add = [&](text::TokenId token, bool learned, bool begins) -> Status {
    ShownToken shown{.text = {}, .learned = learned, .begins = begins};
    GRAFT_TRY_ASSIGN(shown.text, tokenizer.decode(std::span(&token, 1), {.skip_control = false, .at_start = begins}));
    out.push_back(std::move(shown));
    return {};
  };
  std::size_t end = length;  // of what is no padding
  while (end > 0 && labels[end - 1] == kNoLabel && (start_at(end - 1) < 0 || tokens[end - 1] == tokens.back())) --end;
  for (std::size_t i = 0; i < end; ++i) {
    if (start_at(i) < 0) continue;  // padding
    const bool begins = i == 0 || start_at(i) != start_at(i - 1);
    GRAFT_TRY(add(tokens[i], !begins && labels[i - 1] != kNoLabel, begins));
    const bool ends = i + 1 == end || start_at(i + 1) != start_at(i);
    if (ends && labels[i] != kNoLabel) GRAFT_TRY(add(labels[i], true, false));
  }
  return out;
}

/// All texts one after another, in windows.
Result<TextSet> in_windows(const std::vector<TokenText>& texts, const TextWindows& windows) {
  TextSet set;
  GRAFT_TRY_ASSIGN(set.source, text_source(texts, windows, &set.summary));
  return set;
}

Result<TextSet> open_plain(const data::Spec& spec, const TextEncoder& encoder, TextWindows windows,
                           os::FileSystem& files) {
  const std::string pack = option_of(spec, "pack");
  GRAFT_TRY_ASSIGN(const std::string text, read_text(spec.arguments[0], {.files = &files}));
  GRAFT_TRY_ASSIGN(const TokenText all, encoder.plain(text));
  const auto texts = split_at_ends(all, encoder.tokenizer().vocabulary().eos);
  windows.packed = pack != "no";
  windows.sequence_starts = windows.sequence_starts || (pack != "no" && pack != "mixed" && texts.size() > 1);
  GRAFT_TRY_ASSIGN(TextSet set, in_windows(texts, windows));
  GRAFT_TRY_ASSIGN(set.source, data::part_of(std::move(set.source), spec));
  return set;
}

/// As pack=mixed has it.
Result<TextSet> open_mixed(const RecordFile& file, const TextEncoder& encoder, const TextWindows& windows) {
  std::vector<TokenText> texts;
  std::uint64_t tokens = 0;
  for (std::uint64_t i = 0; i < file.count(); ++i) {
    GRAFT_TRY_ASSIGN(const std::string json, file.read(i));
    auto text = encoder.record(json);
    if (!text.ok()) return std::move(text).status().with_context(cat("In ", file.name_of(i)));
    tokens += text->tokens.size();
    if (tokens > kLargestText) {
      return unsupported("pack=mixed takes files of ", kLargestText, " tokens at most; pack=yes takes any.");
    }
    texts.push_back(std::move(*text));
  }
  return in_windows(texts, windows);
}

Result<TextSet> open_records(const data::Spec& spec, const Model& model, TextEncoder encoder,
                             const TextWindows& windows, const TextOptions& options, os::FileSystem& files) {
  GRAFT_TRY_ASSIGN(RecordFile file, RecordFile::open(spec.arguments[0], {.files = &files}));
  GRAFT_TRY(take_part(spec, file));
  const std::string pack = option_of(spec, "pack"), on_long = option_of(spec, "on-long");
  if (pack == "mixed") return open_mixed(file, encoder, windows);
  RecordSamples samples{.length = windows.length,
                        .packed = pack != "no",
                        .sequence_starts = windows.sequence_starts,
                        .on_long = options.on_long,
                        .kept_bytes = options.kept_bytes};
  if (!on_long.empty()) {
    GRAFT_TRY_ASSIGN(samples.on_long, parse_on_long(on_long));
  }
  const std::string why = pack.empty() ? why_not_packed(model) : std::string();
  samples.packed = samples.packed && why.empty();
  GRAFT_TRY_ASSIGN(auto source, TextRecordSource::create(std::move(file), std::move(encoder), samples));
  TextSet set;
  set.summary = source->summary();
  set.summary.unpacked = why;
  set.source = std::move(source);
  return set;
}

Result<TextSet> open_pairs(const data::Spec& spec, TextEncoder encoder, const TextOptions& options,
                           os::FileSystem& files) {
  if (spec.kind != "jsonl") return invalid("Preferences are records of a jsonl: data set.");
  if (!option_of(spec, "pack").empty()) return invalid("Option pack has no place here: a sample is a pair of texts.");
  GRAFT_TRY_ASSIGN(RecordFile file, RecordFile::open(spec.arguments[0], {.files = &files}));
  GRAFT_TRY(take_part(spec, file));
  PairSamples samples{.length = options.length == 0 ? kDefaultLength : options.length,
                      .preference = options.preference,
                      .on_long = options.on_long};
  if (const std::string on_long = option_of(spec, "on-long"); !on_long.empty()) {
    GRAFT_TRY_ASSIGN(samples.on_long, parse_on_long(on_long));
  }
  GRAFT_TRY_ASSIGN(auto source, TextPairSource::create(std::move(file), std::move(encoder), samples));
  TextSet set;
  set.summary = source->summary();
  set.source = std::move(source);
  return set;
}

Status show_groups(const TextGroupSource& source, std::uint64_t count, const text::Tokenizer& words, TextSet& set) {
  for (std::uint64_t i = 0; i < std::min(count, source.size().value_or(0)); ++i) {
    GRAFT_TRY_ASSIGN(const TextGroup group, source.texts_of(i));
    std::vector<ShownToken>& shown = set.shown.emplace_back();
    for (const auto& text : group) {
      for (std::size_t k = 0; k < text.size(); ++k) {
        ShownToken token{.text = {}, .learned = true, .begins = k == 0};
        GRAFT_TRY_ASSIGN(token.text,
                         words.decode(std::span(text).subspan(k, 1), {.skip_control = false, .at_start = k == 0}));
        shown.push_back(std::move(token));
      }
    }
  }
  return {};
}

std::int64_t usual_length(const Model& model) {
  return std::min<std::int64_t>(kDefaultLength, context_of(model).value_or(kDefaultLength));
}

/// The option on-long; and whether the model takes texts of that length.
Status take_length(const data::Spec& spec, const Model& model, std::int64_t length, OnLong& on_long) {
  if (const std::string given = option_of(spec, "on-long"); !given.empty()) {
    GRAFT_TRY_ASSIGN(on_long, parse_on_long(given));
  }
  const auto most = context_of(model);
  if (!most || length <= *most) return {};
  return invalid("Texts of ", length, " tokens were asked for; the model was made for ", *most, ".");
}

Result<TextSet> open_groups(const data::Spec& spec, const Model& model, TextEncoder encoder, const TextOptions& options,
                            const std::optional<text::Tokenizer>& words, os::FileSystem& files) {
  if (spec.kind != "jsonl") return invalid("Texts for info_nce are records of a jsonl: data set.");
  for (const char* name : {"pack", "chat", "learn"}) {
    if (!option_of(spec, name).empty()) {
      return invalid("Option ", name, " has no place here: a sample is a query and texts that it is compared with.");
    }
  }
  GRAFT_TRY_ASSIGN(RecordFile file, RecordFile::open(spec.arguments[0], {.files = &files}));
  GRAFT_TRY(take_part(spec, file));
  GRAFT_TRY_ASSIGN(TextInputs inputs, text_inputs_of(model.graph));
  GroupSamples samples{.length = options.length == 0 ? usual_length(model) : options.length,
                       .pooling = options.pooling.value_or(pooling_of(model.metadata).value_or(Pooling::mean)),
                       .on_long = options.on_long};
  GRAFT_TRY(take_length(spec, model, samples.length, samples.on_long));
  GRAFT_TRY_ASSIGN(auto source,
                   TextGroupSource::create(std::move(file), std::move(encoder), std::move(inputs), samples));
  TextSet set;
  set.summary = source->summary();
  if (words) GRAFT_TRY(show_groups(*source, options.show, *words, set));
  set.source = std::move(source);
  return set;
}

/// Of a model that gives a text's classes.
Result<TextSet> open_labelled(const data::Spec& spec, const Model& model, std::int64_t classes, TextEncoder encoder,
                              const TextOptions& options, os::FileSystem& files) {
  for (const char* name : {"pack", "chat", "learn"}) {
    if (!option_of(spec, name).empty()) {
      return invalid("Option ", name, " has no place here: a sample is a text and its class, which the model gives.");
    }
  }
  if (options.show > 0) return invalid("Samples of a text and its class are not shown: nothing in them is to be said.");
  GRAFT_TRY_ASSIGN(RecordFile file, RecordFile::open(spec.arguments[0], {.files = &files}));
  GRAFT_TRY(take_part(spec, file));
  GRAFT_TRY_ASSIGN(TextInputs inputs, text_inputs_of(model.graph));
  LabelSamples samples{.length = options.length == 0 ? usual_length(model) : options.length,
                       .on_long = options.on_long,
                       .classes = classes,
                       .names = classes_of(model)};
  if (samples.names.size() != static_cast<std::size_t>(classes)) samples.names.clear();
  GRAFT_TRY(take_length(spec, model, samples.length, samples.on_long));
  GRAFT_TRY_ASSIGN(auto source,
                   TextLabelSource::create(std::move(file), std::move(encoder), std::move(inputs), samples));
  TextSet set;
  set.summary = source->summary();
  set.source = std::move(source);
  return set;
}

Result<TextSet> open_text(const data::Spec& spec, const Model& model, const TextOptions& options,
                          os::FileSystem& files) {
  GRAFT_TRY(check_text_options(spec));
  GRAFT_TRY_ASSIGN(text::Tokenizer tokenizer, tokenizer_for(spec, model, options));
  TextEncoder encoder(model.metadata, std::move(tokenizer),
                      {.chat = option_of(spec, "chat"), .learn_all = option_of(spec, "learn") == "all"});
  const TextWindows windows{.length = options.length == 0 ? kDefaultLength : options.length,
                            .padding = encoder.padding(),
                            .sequence_starts = options.sequence_starts};
  std::optional<text::Tokenizer> words;  // a source of records keeps the encoder with its own
  if (options.show > 0) {
    GRAFT_TRY_ASSIGN(words, tokenizer_for(spec, model, options));
  }
  if (options.preference == Preference::groups) {
    return open_groups(spec, model, std::move(encoder), options, words, files);
  }
  const bool pairs = options.preference != Preference::none;
  if (const std::int64_t classes = classes_of_text(model.graph); !pairs && spec.kind == "jsonl" && classes > 0) {
    return open_labelled(spec, model, classes, std::move(encoder), options, files);
  }
  auto set = pairs                 ? open_pairs(spec, std::move(encoder), options, files)
             : spec.kind == "text" ? open_plain(spec, encoder, windows, files)
                                   : open_records(spec, model, std::move(encoder), windows, options, files);
  GRAFT_TRY(set.status());
  for (std::uint64_t i = 0; i < std::min(options.show, set->source->size().value_or(0)); ++i) {
    GRAFT_TRY_ASSIGN(auto shown, shown_sample(*set->source, i, *words));
    set->shown.push_back(std::move(shown));
  }
  return set;
}

}  // namespace

Result<OnLong> parse_on_long(std::string_view text) {
  constexpr std::pair<std::string_view, OnLong> kNames[] = {
      {"cut", OnLong::cut}, {"drop", OnLong::drop}, {"error", OnLong::error}, {"split", OnLong::split}};
  for (const auto& [name, what] : kNames) {
    if (name == text) return what;
  }
  return invalid("on-long=", text, " must be cut, drop, error or split.");
}

Result<TextSet> open_text_set(std::string_view text, const Model& model, const TextOptions& options,
                              os::FileSystem& files) {
  GRAFT_TRY_ASSIGN(const data::Spec spec, data::parse_spec(text));
  return open_text(spec, model, options, files).with_context(cat("While opening data set \"", text, "\""));
}

Result<std::unique_ptr<data::Source>> open_text_spec(std::string_view text, const Model& model,
                                                     const TextOptions& options, os::FileSystem& files) {
  GRAFT_TRY_ASSIGN(TextSet set, open_text_set(text, model, options, files));
  return std::move(set.source);
}

}  // namespace graft
