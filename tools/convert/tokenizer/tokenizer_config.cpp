#include "tools/convert/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "tools/convert/common/known_fields.h"

namespace graft::convert {
namespace {

using text::Token;
using text::TokenId;
using text::TokenKind;
using text::Vocabulary;

constexpr KnownFields kFields = {
    R"({"bos_token": null, "eos_token": null, "pad_token": null, "mask_token": null, "unk_token": null,
        "sep_token": null, "cls_token": null, "additional_special_tokens": null, "extra_special_tokens": null,
        "added_tokens_decoder": {}, "chat_template": null, "tokenizer_class": "", "do_lower_case": true,
        "strip_accents": true, "tokenize_chinese_chars": true, "add_prefix_space": true, "add_bos_token": true,
        "add_eos_token": true, "legacy": true})",
    R"(processor_class auto_map name_or_path _name_or_path _commit_hash revision tokenizer_file vocab_file merges_file
       full_tokenizer_file special_tokens_map_file model_input_names model_max_length max_length max_len stride padding
       padding_side pad_to_multiple_of pad_token_type_id truncation truncation_side truncation_strategy return_tensors
       return_token_type_ids return_attention_mask verbose device_map low_cpu_mem_usage torch_dtype dtype errors
       from_slow use_fast is_fast backend transformers_version tokenizer_version unsloth_version model_type
       clean_up_tokenization_spaces use_default_system_prompt spaces_between_special_tokens add_special_tokens
       trim_offsets wordpieces_prefix do_basic_tokenize extra_ids language_codes language src_lang tgt_lang is_local
       local_files_only trust_remote_code use_auth_token image_token video_token audio_token boi_token eoi_token
       boa_token eoa_token vision_bos_token vision_eos_token prefix_token middle_token suffix_token eot_token fill_token
       bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id cls_token_id mask_token_id
       chat_template_jinja response_schema)",
    R"({"split_special_tokens": [false], "sp_model_kwargs": [{}], "never_split": [null, []], "remove_space": [false],
        "keep_accents": [false], "fix_mistral_regex": [false]})"};

/// Whether the library makes what is put around a text by the configuration, whatever tokenizer.json has.
bool builds_ends(const Json& config) {
  std::string_view name = string_member(config, "tokenizer_class");
  if (name.ends_with("Fast")) name.remove_suffix(4);
  return name == "LlamaTokenizer" || name == "CodeLlamaTokenizer" || name == "GemmaTokenizer" ||
         name == "CohereTokenizer";
}

/// A token in a configuration: its text, or an object with flags.
std::string_view content_of(const Json& token) {
  if (const auto* text = token.get_ptr<const std::string*>()) return *text;
  return string_member(token, "content");
}

std::map<std::string, TokenId, std::less<>> ids_of(const Vocabulary& vocabulary) {
  std::map<std::string, TokenId, std::less<>> out;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const Token& token = vocabulary.tokens[i];
    if (token.kind != TokenKind::unused) out.emplace(token.text, static_cast<TokenId>(i));
  }
  return out;
}

void set_flags(const Json& entry, bool special, Token& out) {
  out.kind = flag_member(entry, "special", special) ? TokenKind::control : TokenKind::user_defined;
  out.strip_left = flag_member(entry, "lstrip", false);
  out.strip_right = flag_member(entry, "rstrip", false);
}

/// Tokens that the configuration has and the tokenizer's file lacks: they follow, or have the id that is given.
class AddedTokens {
 public:
  AddedTokens(TokenizerSource source, Vocabulary& out) : source_(source), ids_(ids_of(out)), out_(out) {}

  Status at(const std::string& number, const Json& entry) {
    constexpr std::size_t kGap = 4096;
    std::size_t id = 0;
    const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), id);
    const std::string text(content_of(entry));
    if (fault != std::errc() || end != number.data() + number.size() || id > out_.tokens.size() + kGap) {
      return corrupt("\"added_tokens_decoder\" has the token \"", shown(number), "\", which is no id in reach.");
    }
    if (text.empty()) return corrupt("The token ", id, " of \"added_tokens_decoder\" has no content.");
    const bool known = id < out_.tokens.size() && out_.tokens[id].kind != TokenKind::unused;
    if (known && out_.tokens[id].text == text && source_ != TokenizerSource::json) {
      if (out_.tokens[id].kind != TokenKind::byte && static_cast<TokenId>(id) != out_.unknown) {
        set_flags(entry, false, out_.tokens[id]);
      }
      return {};
    }
    if (known || ids_.contains(text)) return {};  // the tokenizer's own file counts
    return add(id, text, entry, false);
  }

  Status behind(const Json& entry) {
    const std::string text(content_of(entry));
    if (text.empty() || ids_.contains(text)) return {};
    return add(out_.tokens.size(), text, entry, true);
  }

 private:
  Status add(std::size_t id, const std::string& text, const Json& entry, bool special) {
    if (id >= out_.tokens.size()) out_.tokens.resize(id + 1, Token{.kind = TokenKind::unused});
    Token& token = out_.tokens[id];
    token = Token{.text = text};
    set_flags(entry, special, token);
    token.single_word = out_.by_steps && flag_member(entry, "single_word", false);
    token.normalized = out_.by_steps && flag_member(entry, "normalized", token.kind == TokenKind::user_defined);
    token.apart = out_.by_steps;
    ids_[text] = static_cast<TokenId>(id);
    if (!flag_member(entry, "single_word", false) || out_.by_steps) return {};
    return unsupported("The field \"added_tokens_decoder\" has the token \"", shown(text), "\", which is ",
                       "found as a single word only; graft has that in a tokenizer.json.");
  }

  TokenizerSource source_;
  std::map<std::string, TokenId, std::less<>> ids_;
  Vocabulary& out_;
};

constexpr const char* kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

Status add_tokens(const Json& config, TokenizerSource source, Vocabulary& out) {
  const Json* listed = member(config, "added_tokens_decoder");
  const Json* more = member(config, "additional_special_tokens");
  const Json* extra = member(config, "extra_special_tokens");
  AddedTokens added(source, out);
  if (listed != nullptr && listed->is_object()) {
    std::map<std::size_t, std::pair<std::string, const Json*>> sorted;  // by id, which is how they are added
    for (const auto& [number, entry] : listed->items()) {
      std::size_t id = 0;
      std::from_chars(number.data(), number.data() + number.size(), id);
      sorted[id] = {number, &entry};
    }
    for (const auto& [id, entry] : sorted) GRAFT_TRY(added.at(entry.first, *entry.second));
  }
  for (const char* name : kNamed) {
    if (const Json* value = member(config, name)) GRAFT_TRY(added.behind(*value));
  }
  for (const Json* several : {more, extra}) {
    if (several == nullptr || !several->is_structured()) continue;
    for (const Json& value : *several) GRAFT_TRY(added.behind(value));
  }
  return {};
}

void name_tokens(const Json& config, Vocabulary& out) {
  const std::pair<const char*, TokenId*> named[] = {
      {"bos_token", &out.bos}, {"eos_token", &out.eos}, {"pad_token", &out.pad}, {"mask_token", &out.mask}};
  const auto ids = ids_of(out);
  for (const auto& [name, id] : named) {
    const Json* value = member(config, name);
    const auto found = value == nullptr ? ids.end() : ids.find(content_of(*value));
    if (found != ids.end()) *id = found->second;
  }
}

/// The template of what is put around a text, in the form of tokenizer.json.
void remember_ends(Vocabulary& out) {
  if (out.source_json.empty()) return;
  OrderedJson source = OrderedJson::parse(out.source_json, nullptr, /*allow_exceptions=*/false);
  OrderedJson single = OrderedJson::array(), specials = OrderedJson::object();
  const auto put = [&](const std::vector<TokenId>& side) {
    for (const TokenId id : side) {
      const std::string& text = out.tokens[static_cast<std::size_t>(id)].text;
      single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
      specials[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
    }
  };
  put(out.before);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  put(out.after);
  OrderedJson pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  source["post_processor"] = {
      {"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
  out.source_json = source.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Status apply_ends(const Json& config, TokenizerSource source, Vocabulary& out) {
  const struct {
    const char* field;
    TokenId id;
    std::vector<TokenId>& side;
    bool first;
  } ends[] = {{"add_bos_token", out.bos, out.before, true}, {"add_eos_token", out.eos, out.after, false}};
  bool changed = false;
  for (const auto& [field, id, side, first] : ends) {
    const Json* flag = member(config, field);
    if (flag == nullptr || !flag->is_boolean()) continue;
    const bool wanted = flag->get<bool>();
    const bool is = id != text::kNoToken && std::ranges::find(side, id) != side.end();
    if (wanted == is) continue;
    if (wanted && id == text::kNoToken) {
      return unsupported("The field \"", field, "\" is true, and the tokenizer has no such token.");
    }
    if (source == TokenizerSource::json && !builds_ends(config)) {
      return unsupported("The field \"", field, "\" is ", wanted ? "true" : "false", ", and tokenizer.json puts ",
                         is ? "" : "no ", "\"", shown(out.tokens[static_cast<std::size_t>(id)].text), "\" ",
                         first ? "before" : "behind", " a text.");
    }
    std::erase(side, id);
    if (wanted) side.insert(first ? side.begin() : side.end(), id);
    changed = true;
  }
  if (changed) remember_ends(out);
  return {};
}

bool puts_space(const Vocabulary& vocabulary) {
  if (!vocabulary.by_steps) return vocabulary.space_prefix != text::SpacePrefix::none;
  const auto puts = [](const text::Step& step) {
    return step.kind == text::StepKind::prepend ||
           (step.kind == text::StepKind::metaspace && step.prefix != text::SpacePrefix::none) ||
           (step.kind == text::StepKind::byte_level && step.flag_a);
  };
  return std::ranges::any_of(vocabulary.normalizers, puts) || std::ranges::any_of(vocabulary.pre_tokenizers, puts);
}

/// apply_tokenizer_config() has set what a ByteLevel does. The library makes Llama's tokenizer from other files then.
Status check_prefix(const Json& config, TokenizerSource source, const Vocabulary& vocabulary) {
  const Json* flag = member(config, "add_prefix_space");
  if (flag == nullptr || !flag->is_boolean() || flag->get<bool>() == puts_space(vocabulary)) return {};
  if (source == TokenizerSource::json && !builds_ends(config)) return {};  // without effect in the library
  return unsupported("The field \"add_prefix_space\" is ", flag->get<bool>() ? "true" : "false",
                     ", and the tokenizer's file puts ", flag->get<bool>() ? "no" : "a", " space before a text.");
}

/// The id that the model of a tokenizer.json gives a text, or null.
Json id_in_model(const Json& document, const std::string& text) {
  const Json* model = member(document, "model");
  const Json* vocab = model == nullptr ? nullptr : member(*model, "vocab");
  if (vocab == nullptr) return {};
  if (vocab->is_object()) return vocab->value(text, Json());
  if (!vocab->is_array()) return {};
  for (std::size_t i = 0; i < vocab->size(); ++i) {
    const Json& piece = (*vocab)[i];
    if (piece.is_array() && !piece.empty() && piece[0] == text) return i;
  }
  return {};
}

/// The library adds the tokens of the configuration to those of tokenizer.json. If a token is in both, its flags here
/// count. One that was special stays so.
void merge_added_tokens(const Json& config, Json& document) {
  const Json* listed = member(config, "added_tokens_decoder");
  if (listed == nullptr || !listed->is_object()) return;
  if (member(document, "added_tokens") == nullptr) document["added_tokens"] = Json::array();
  Json& added = document["added_tokens"];
  if (!added.is_array()) return;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < added.size(); ++i) places.emplace(string_member(added[i], "content"), i);
  for (const auto& [number, entry] : listed->items()) {
    const std::string text(content_of(entry));
    if (text.empty()) continue;
    auto place = places.find(text);
    if (place == places.end()) {
      Json id = id_in_model(document, text);
      if (!id.is_number_integer()) continue;  // a new token
      place = places.emplace(text, added.size()).first;
      added.push_back({{"id", std::move(id)}, {"content", text}});
    }
    Json& token = added[place->second];
    const bool special = flag_member(entry, "special", false);
    token["special"] = special || flag_member(token, "special", false);
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) token[flag] = flag_member(entry, flag, false);
    token["normalized"] = flag_member(entry, "normalized", !special);
  }
}

}  // namespace

Status check_tokenizer_config(const Json& config) { return check_fields(config, {&kFields, 1}, "a tokenizer"); }

void apply_tokenizer_config(const Json& config, Json& document) {
  const auto set = [&](const char* part, const char* type, const char* field, const char* there) {
    const Json* value = member(config, field);
    const auto step = document.find(part);
    if (value == nullptr || !value->is_boolean() || step == document.end()) return;
    if (string_member(*step, "type") == type) (*step)[there] = *value;
  };
  if (!document.is_object()) return;
  merge_added_tokens(config, document);
  set("pre_tokenizer", "ByteLevel", "add_prefix_space", "add_prefix_space");
  if (string_member(config, "tokenizer_class") == "PreTrainedTokenizerFast") return;
  set("normalizer", "BertNormalizer", "do_lower_case", "lowercase");
  set("normalizer", "BertNormalizer", "strip_accents", "strip_accents");
  set("normalizer", "BertNormalizer", "tokenize_chinese_chars", "handle_chinese_chars");
}

Status apply_tokenizer_config(const Json& config, TokenizerSource source, Vocabulary& out) {
  if (!config.is_object()) return {};
  if (source == TokenizerSource::sentencepiece && !flag_member(config, "legacy", true) &&
      out.space_prefix == text::SpacePrefix::every) {
    out.space_prefix = text::SpacePrefix::first;
  }
  GRAFT_TRY(add_tokens(config, source, out));
  name_tokens(config, out);
  const auto hinted = [](Status status) {
    if (status.code() != Code::unsupported) return status;
    return unsupported(status.message(), " Name it among the ignored fields to convert without it.");
  };
  GRAFT_TRY(hinted(apply_ends(config, source, out)));
  return hinted(check_prefix(config, source, out));
}

}  // namespace graft::convert
