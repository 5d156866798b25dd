#include "tools/convert/language_model/decoder_text.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "runtime/language/text_model.h"
#include "runtime/text/template/template.h"
#include "runtime/text/tokenizer/tokenizer.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "runtime/text/unicode/unicode.h"
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

/// What graft does with tokenizer_config.json. Ids come from the tokenizer's own file.
constexpr KnownFields kTokenizerFields = {
    R"({"bos_token": null, "eos_token": null, "pad_token": null, "mask_token": null, "unk_token": null,
        "chat_template": null, "do_lower_case": true})",
    R"(tokenizer_class processor_class auto_map name_or_path tokenizer_file vocab_file merges_file special_tokens_map_file
       added_tokens_decoder additional_special_tokens extra_special_tokens sep_token cls_token model_input_names
       model_max_length max_length max_len stride padding padding_side pad_to_multiple_of pad_token_type_id truncation
       truncation_side truncation_strategy return_tensors verbose device_map errors legacy from_slow use_fast backend
       clean_up_tokenization_spaces use_default_system_prompt spaces_between_special_tokens sp_model_kwargs
       add_prefix_space add_bos_token add_eos_token add_special_tokens trim_offsets do_basic_tokenize never_split
       strip_accents tokenize_chinese_chars wordpieces_prefix language_codes is_local trust_remote_code
       image_token boi_token eoi_token chat_template_jinja response_schema)",
    R"({"split_special_tokens": [false]})"};
/// Fields of generation_config.json that change no token. Others are options of a generation, which graft does not keep.
constexpr std::string_view kGenerationHarmless[] = {
    "eos_token_id", "bos_token_id", "pad_token_id", "decoder_start_token_id", "_from_model_config",
    "transformers_version", "use_cache", "cache_implementation", "trust_remote_code"};

void note_generation(const Json& json, Report& report) {
  std::string names;
  for (const auto& [name, value] : json.items()) {
    if (!json.is_object() || value.is_null() || value == false) continue;
    if (std::ranges::find(kGenerationHarmless, name) != std::end(kGenerationHarmless)) continue;
    names += cat(names.empty() ? "" : ", ", shown(name));
  }
  if (names.empty()) return;
  report.notes.push_back(cat("generation_config.json asks for ", names, ": graft generates by its own options only."));
}

/// A sentence of the report on the first field that graft does not follow.
void note_fields(const Json& json, const KnownFields& known, const char* file, const char* whose, Report& report) {
  const Status status = first_unknown(json, {&known, 1}, whose);
  if (!status.ok()) report.notes.push_back(cat(file, ": ", status.message()));
}

Result<Vocabulary> load_folder_vocabulary(os::FileSystem& files, const std::string& folder, const Json& words,
                                          const DecoderSpec& spec) {
  const bool has_json = os::exists(files, folder + "/tokenizer.json") || os::exists(files, folder + "/tokenizer.model");
  if (const std::string path = folder + "/vocab.txt"; !has_json && spec.encoder && os::exists(files, path)) {
    GRAFT_TRY_ASSIGN(const std::string lines, os::read_text_file(files, path, kLargestFile));
    return load_vocab_txt(lines, flag_member(words, "do_lower_case", true));
  }
  const bool has_pair = os::exists(files, folder + "/vocab.json") && os::exists(files, folder + "/merges.txt");
  if (has_json || !has_pair) return load_vocabulary(files, folder);
  GRAFT_TRY_ASSIGN(const std::string vocab, os::read_text_file(files, folder + "/vocab.json", kLargestFile));
  GRAFT_TRY_ASSIGN(const std::string merges, os::read_text_file(files, folder + "/merges.txt", kLargestFile));
  if (spec.encoder) return load_roberta(vocab, merges);
  std::string added;
  if (const std::string path = folder + "/added_tokens.json"; os::exists(files, path)) {
    GRAFT_TRY_ASSIGN(added, os::read_text_file(files, path, kLargestFile));
  }
  const bool qwen = spec.family.starts_with("qwen");
  return load_vocab_and_merges(vocab, merges, added, {qwen ? text::Split::qwen2 : text::Split::gpt2});
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

void add_folder_text(os::FileSystem& files, const std::string& folder, const FolderText& text, const DecoderSpec& spec,
                     Model& model, Report& report) {
  add_context(spec, model);
  note_tokenizer(add_tokenizer(load_folder_vocabulary(files, folder, text.tokenizer, spec), spec, model, report), model,
                 report);
  note_fields(text.tokenizer, kTokenizerFields, "tokenizer_config.json", "a tokenizer", report);
  note_generation(text.generation, report);
  std::set<std::int64_t> stops;
  collect_ids(text.config, stops);
  collect_ids(text.generation, stops);
  add_stops(stops, model);
  add_template(kMetaChatTemplate, template_of(files, folder, text.tokenizer, "default"), model, report);
  add_template(kMetaToolTemplate, template_of(files, folder, text.tokenizer, "tool_use"), model, report);
}

void add_gguf_text(const GgufFile& file, const DecoderSpec& spec, Model& model, Report& report) {
  add_context(spec, model);
  note_tokenizer(add_tokenizer(load_gguf_vocabulary(file), spec, model, report), model, report);
  std::set<std::int64_t> stops;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
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
