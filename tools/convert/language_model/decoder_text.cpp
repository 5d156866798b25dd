#include "tools/convert/language_model/decoder_text.h"

#include <set>

#include "runtime/language/text_model.h"
#include "runtime/text/template/template.h"
#include "runtime/text/tokenizer/tokenizer.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "runtime/text/unicode/unicode.h"
#include "tools/convert/tokenizer/tokenizer_config.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace graft::convert {
namespace {

using text::Vocabulary;

constexpr std::uint64_t kLargestFile = std::uint64_t{64} << 20;

/// Keeps the vocabulary where a tokenizer can be made of it.
Status add_tokenizer(Result<Vocabulary> loaded, const DecoderSpec& spec, Model& model, Report& report) {
  if (!loaded.ok()) return std::move(loaded).status();
  const std::string format = text::vocabulary_format(*loaded);
  std::string bytes = text::vocabulary_to_bytes(*loaded);
  GRAFT_TRY_ASSIGN(const text::Tokenizer tokenizer, text::Tokenizer::make(std::move(*loaded)));
  if (tokenizer.size() > static_cast<std::size_t>(spec.vocabulary)) {
    report.notes.push_back(cat("The tokenizer has ", tokenizer.size(), " tokens, the model knows the first ",
                               spec.vocabulary, " of them."));
  }
  model.tokenizer = TokenizerData{format, std::move(bytes)};
  return {};
}

/// What is wrong with the tokenizer goes with the model, too: whoever misses it there learns why.
void note_tokenizer(const Status& status, Model& model, Report& report) {
  if (status.ok()) return;
  report.notes.push_back(cat("The tokenizer is left out: ", status.message()));
  report.tokenizer_fault = status.message();
  set_metadata(model, kMetaTokenizerFault, status.message());
}

/// Keeps a template; says so where it cannot be run.
void add_template(std::string_view key, std::string_view jinja, Model& model, Report& report) {
  set_metadata(model, key, jinja);
  const auto kept = model.metadata.find(key);
  if (kept == model.metadata.end()) return;
  if (const auto program = text::jinja::Template::parse(kept->second); !program.ok()) {
    report.notes.push_back(cat(program.status().message(), " Conversations need a format by name."));
  }
}

void add_stops(const std::set<std::int64_t>& ids, Model& model) {
  std::string out;
  for (const std::int64_t id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
  set_metadata(model, kMetaStop, out);
}

void add_context(const DecoderSpec& spec, Model& model) {
  if (spec.context > 0) model.metadata[std::string(kMetaContext)] = std::to_string(spec.context);
}

/// "eos_token_id": one id or several.
void collect_ids(const Json& config, std::set<std::int64_t>& out) {
  const Json* value = member(config, "eos_token_id");
  if (value == nullptr) return;
  for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
    const auto number = integer_value(id, "eos_token_id", 0, INT32_MAX);
    if (number.ok()) out.insert(*number);
  }
}

/// A file of the folder as JSON; null where it is not there or not JSON.
Json optional_json(os::FileSystem& files, const std::string& path) {
  if (!os::exists(files, path)) return {};
  const auto text = os::read_text_file(files, path, kLargestFile);
  if (!text.ok()) return {};
  auto json = parse_json(*text);
  return json.ok() ? std::move(*json) : Json();
}

/// The template of that name: of a file, or in "chat_template", which is a program or a list of several with names.
std::string template_of(os::FileSystem& files, const std::string& folder, const Json& tokenizer_config,
                        std::string_view name) {
  const std::string file =
      name == "default" ? "/chat_template.jinja" : cat("/additional_chat_templates/", name, ".jinja");
  if (os::exists(files, folder + file)) {
    auto text = os::read_text_file(files, folder + file, kLargestFile);
    if (text.ok()) return std::move(*text);
  }
  const Json* value = member(tokenizer_config, "chat_template");
  if (value == nullptr) return {};
  if (!value->is_array()) {
    return name == "default" ? std::string(string_member(tokenizer_config, "chat_template")) : std::string();
  }
  for (const Json& entry : *value) {
    if (string_member(entry, "name") == name) return std::string(string_member(entry, "template"));
  }
  return {};
}

/// What changes a generated text and is no option of graft: only a value that leaves the text as it is.
constexpr std::string_view kGenerationFixed = R"({"num_beams": [1], "num_beam_groups": [1], "penalty_alpha": [0],
  "dola_layers": [null], "min_length": [0], "min_new_tokens": [0], "typical_p": [1], "epsilon_cutoff": [0],
  "eta_cutoff": [0], "no_repeat_ngram_size": [0], "encoder_no_repeat_ngram_size": [0],
  "encoder_repetition_penalty": [1], "exponential_decay_length_penalty": [null], "bad_words_ids": [null, []],
  "force_words_ids": [null, []], "constraints": [null, []], "forced_bos_token_id": [null],
  "forced_eos_token_id": [null], "forced_decoder_ids": [null, []], "suppress_tokens": [null, []],
  "begin_suppress_tokens": [null, []], "sequence_bias": [null, {}, []], "guidance_scale": [1, null],
  "watermarking_config": [null], "token_healing": [false]})";
constexpr std::string_view kGenerationHarmless = R"(eos_token_id bos_token_id pad_token_id decoder_start_token_id
  _from_model_config transformers_version use_cache cache_implementation cache_config trust_remote_code
  return_dict_in_generate output_scores output_logits output_attentions output_hidden_states return_legacy_cache
  remove_invalid_values renormalize_logits low_memory length_penalty diversity_penalty early_stopping
  num_assistant_tokens num_assistant_tokens_schedule is_assistant assistant_confidence_threshold
  assistant_early_exit assistant_lookbehind target_lookbehind prompt_lookup_num_tokens max_matching_ngram_size
  disable_compile compile_config prefill_chunk_size)";
/// Options that graft has, by its own names: the report tells of them.
constexpr std::string_view kGenerationOptions = R"({"do_sample": null, "temperature": null, "top_k": null,
  "top_p": null, "min_p": null, "top_h": null, "repetition_penalty": null, "max_length": null, "max_new_tokens": null,
  "max_time": null, "stop_strings": null, "num_return_sequences": null, "chat_format": null, "max_window_size": null,
  "user_token_id": null, "assistant_token_id": null})";

void note_generation(const Json& json, Report& report) {
  const Json options = Json::parse(kGenerationOptions);
  std::string names;
  for (const auto& [name, value] : json.items()) {
    if (!json.is_object() || value.is_null() || value == false || !options.contains(name)) continue;
    names += cat(names.empty() ? "" : ", ", shown(name));
  }
  if (names.empty()) return;
  report.notes.push_back(cat("generation_config.json asks for ", names, ": graft generates by its own options only."));
}

/// Without generation_config.json, Hugging Face's library takes these of config.json.
Status check_generation(const FolderText& text) {
  const bool has_file = text.generation.is_object();
  Json given = has_file ? text.generation : Json::object();
  const Json fixed = Json::parse(kGenerationFixed);
  for (const auto& [name, value] : fixed.items()) {
    if (const Json* own = has_file ? nullptr : member(text.config, name.c_str())) given[name] = *own;
  }
  const KnownFields known = {kGenerationOptions, kGenerationHarmless, kGenerationFixed};
  return check_fields(given, {&known, 1}, "a generation", {}, true)
      .with_context(has_file ? "generation_config.json" : "config.json");
}

/// Hugging Face's library takes spaces before punctuation out of decoded text.
void note_clean_up(const FolderText& text, const DecoderSpec& spec, Report& report) {
  if (spec.encoder || !flag_member(text.tokenizer, "clean_up_tokenization_spaces", false)) return;
  report.notes.push_back(
      "tokenizer_config.json asks for clean_up_tokenization_spaces: graft writes the spaces that the tokens have.");
}

/// `by_config`: an error is of what tokenizer_config.json asks.
Result<Vocabulary> vocabulary_in(os::FileSystem& files, const std::string& folder, const Json& words,
                                 const DecoderSpec& spec, bool& by_config) {
  const bool has_json = os::exists(files, folder + "/tokenizer.json") || os::exists(files, folder + "/tokenizer.model");
  if (const std::string path = folder + "/vocab.txt"; !has_json && spec.encoder && os::exists(files, path)) {
    GRAFT_TRY_ASSIGN(const std::string lines, os::read_text_file(files, path, kLargestFile));
    return load_vocab_txt(lines, words);
  }
  const bool has_pair = os::exists(files, folder + "/vocab.json") && os::exists(files, folder + "/merges.txt");
  if (has_json || !has_pair) return load_folder_vocabulary(files, folder, words, by_config);
  GRAFT_TRY_ASSIGN(const std::string vocab, os::read_text_file(files, folder + "/vocab.json", kLargestFile));
  GRAFT_TRY_ASSIGN(const std::string merges, os::read_text_file(files, folder + "/merges.txt", kLargestFile));
  Vocabulary out;
  if (spec.encoder) {
    GRAFT_TRY_ASSIGN(out, load_roberta(vocab, merges));
  } else {
    std::string added;
    if (const std::string path = folder + "/added_tokens.json"; os::exists(files, path)) {
      GRAFT_TRY_ASSIGN(added, os::read_text_file(files, path, kLargestFile));
    }
    const bool qwen = spec.family.starts_with("qwen");
    GRAFT_TRY_ASSIGN(out, load_vocab_and_merges(vocab, merges, added, {qwen ? text::Split::qwen2 : text::Split::gpt2}));
  }
  Status applied = apply_tokenizer_config(words, TokenizerSource::pair, out);
  by_config = !applied.ok();
  GRAFT_TRY(std::move(applied).with_context("tokenizer_config.json"));
  return out;
}

}  // namespace

void set_metadata(Model& model, std::string_view key, std::string_view given) {
  std::string value = text::valid_utf8(given);
  std::erase_if(value, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 0x7f || (byte < 0x20 && c != '\n' && c != '\t');
  });
  if (!value.empty()) model.metadata[std::string(key)] = std::move(value);
}

FolderText read_folder_text(os::FileSystem& files, const std::string& folder, Json config, const IgnoredFields& ignored,
                            std::vector<std::string>& found) {
  FolderText out = {std::move(config), optional_json(files, folder + "/tokenizer_config.json"),
                    optional_json(files, folder + "/generation_config.json")};
  clear_fields(out.tokenizer, ignored, found);
  clear_fields(out.generation, ignored, found);
  return out;
}

Status add_folder_text(os::FileSystem& files, const std::string& folder, const FolderText& text,
                       const DecoderSpec& spec, Model& model, Report& report) {
  add_context(spec, model);
  GRAFT_TRY(check_tokenizer_config(text.tokenizer).with_context("tokenizer_config.json"));
  if (!spec.encoder) GRAFT_TRY(check_generation(text));
  bool by_config = false;
  Result<Vocabulary> loaded = vocabulary_in(files, folder, text.tokenizer, spec, by_config);
  if (by_config) return std::move(loaded).status();
  note_tokenizer(add_tokenizer(std::move(loaded), spec, model, report), model, report);
  if (model.tokenizer) note_clean_up(text, spec, report);
  note_generation(text.generation, report);
  std::set<std::int64_t> stops;
  collect_ids(text.config, stops);
  collect_ids(text.generation, stops);
  add_stops(stops, model);
  add_template(kMetaChatTemplate, template_of(files, folder, text.tokenizer, "default"), model, report);
  add_template(kMetaToolTemplate, template_of(files, folder, text.tokenizer, "tool_use"), model, report);
  return {};
}

void add_gguf_text(const GgufFile& file, const DecoderSpec& spec, Model& model, Report& report) {
  add_context(spec, model);
  note_tokenizer(add_tokenizer(load_gguf_vocabulary(file), spec, model, report), model, report);
  std::set<std::int64_t> stops;
  for (const char* name : {"eos", "eot", "eom"}) {
    const std::string key = cat("tokenizer.ggml.", name, "_token_id");
    const auto id = file.integer(key);
    if (id.ok() && *id >= 0 && *id < spec.vocabulary) stops.insert(*id);
  }
  add_stops(stops, model);
  for (const auto& [key, name] : {std::pair(kMetaChatTemplate, "tokenizer.chat_template"),
                                  std::pair(kMetaToolTemplate, "tokenizer.chat_template.tool_use")}) {
    if (const auto jinja = file.text(name); jinja.ok()) add_template(key, *jinja, model, report);
  }
}

}  // namespace graft::convert
