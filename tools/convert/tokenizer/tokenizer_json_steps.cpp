// Normalizers, pre-tokenizers, post-processors and decoders of a tokenizer.json, as steps.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/convert/tokenizer/base64.h"
#include "tools/convert/tokenizer/tokenizer_json.h"

namespace graft::convert {
namespace {

using text::Algorithm;
using text::Behavior;
using text::SpacePrefix;
using text::Step;
using text::StepKind;
using text::TokenId;
using text::Vocabulary;
using OrderedJson = nlohmann::ordered_json;

/// Calls `read` with each step: of Sequences (the list `members`), or the only one.
template <typename Read>
Status for_each_step(const Json& step, const char* members, Read read, int depth = 0) {
  if (string_member(step, "type") != "Sequence") return read(step);
  const Json* list = member(step, members);
  if (list == nullptr || !list->is_array()) return corrupt("A sequence has no list \"", members, "\".");
  constexpr int kMostDepth = 4;
  if (depth == kMostDepth) return unsupported("Sequences within sequences within sequences are not supported.");
  for (const Json& one : *list) GRAFT_TRY(for_each_step(one, members, read, depth + 1));
  return {};
}

/// "pattern": a string, or a regular expression.
Status read_pattern(const Json& step, Step& out) {
  const Json* pattern = member(step, "pattern");
  if (pattern == nullptr) return corrupt("A step has no \"pattern\".");
  out.flag_a = member(*pattern, "Regex") == nullptr;
  out.text = string_member(*pattern, out.flag_a ? "String" : "Regex");
  if (out.text.empty()) return corrupt("The pattern of a step is empty.");
  return {};
}

Status read_behavior(const Json& step, std::string_view fallback, Behavior& out) {
  constexpr std::pair<std::string_view, Behavior> kNames[] = {{"Isolated", Behavior::isolated},
                                                              {"Removed", Behavior::removed},
                                                              {"MergedWithPrevious", Behavior::merged_with_previous},
                                                              {"MergedWithNext", Behavior::merged_with_next},
                                                              {"Contiguous", Behavior::contiguous}};
  std::string_view given = string_member(step, "behavior");
  if (given.empty()) given = fallback;
  for (const auto& [name, behavior] : kNames) {
    if (name != given) continue;
    out = behavior;
    return {};
  }
  return unsupported("The split behavior \"", shown(given), "\" is not supported.");
}

Status read_metaspace(const Json& step, Step& out) {
  out.kind = StepKind::metaspace;
  out.text = string_member(step, "replacement");
  if (out.text.empty()) return corrupt("A Metaspace has no \"replacement\".");
  const std::string_view scheme = string_member(step, "prepend_scheme");
  const bool old = scheme.empty() && flag_member(step, "add_prefix_space", true);
  out.prefix = scheme == "always" || old ? SpacePrefix::every
               : scheme == "first"       ? SpacePrefix::first
                                         : SpacePrefix::none;
  out.flag_b = flag_member(step, "split", true);
  return {};
}

Status read_normalizer(const Json& json, Vocabulary& out) {
  constexpr std::pair<std::string_view, StepKind> kPlain[] = {{"NFC", StepKind::nfc},
                                                              {"NFD", StepKind::nfd},
                                                              {"NFKC", StepKind::nfkc},
                                                              {"NFKD", StepKind::nfkd},
                                                              {"Lowercase", StepKind::lower_case},
                                                              {"StripAccents", StepKind::drop_marks},
                                                              {"Nmt", StepKind::nmt},
                                                              {"ByteLevel", StepKind::byte_alphabet}};
  const std::string_view type = string_member(json, "type");
  Step step;
  for (const auto& [name, kind] : kPlain) {
    if (name != type) continue;
    out.normalizers.push_back({.kind = kind});
    return {};
  }
  if (type == "Replace") {
    step.kind = StepKind::replace;
    GRAFT_TRY(read_pattern(json, step));
    step.with = string_member(json, "content");
  } else if (type == "Prepend") {
    step = {.kind = StepKind::prepend, .text = std::string(string_member(json, "prepend"))};
  } else if (type == "Strip") {
    step = {.kind = StepKind::strip,
            .flag_a = flag_member(json, "strip_left", true),
            .flag_b = flag_member(json, "strip_right", true)};
  } else if (type == "Precompiled") {
    step.kind = StepKind::precompiled;
    GRAFT_TRY_ASSIGN(step.text,
                     from_base64(string_member(json, "precompiled_charsmap")).with_context("The character map"));
  } else if (type == "BertNormalizer") {
    const bool lower = flag_member(json, "lowercase", true);
    if (flag_member(json, "clean_text", true)) out.normalizers.push_back({.kind = StepKind::clean});
    if (flag_member(json, "handle_chinese_chars", true))
      out.normalizers.push_back({.kind = StepKind::space_ideographs});
    if (flag_member(json, "strip_accents", lower)) {
      out.normalizers.push_back({.kind = StepKind::nfd});
      out.normalizers.push_back({.kind = StepKind::drop_nonspacing});
    }
    if (lower) out.normalizers.push_back({.kind = StepKind::lower_case});
    return {};
  } else {
    return unsupported("The normalizer \"", shown(type), "\" is not supported.");
  }
  out.normalizers.push_back(std::move(step));
  return {};
}

Status read_pre_tokenizer(const Json& json, Vocabulary& out) {
  const std::string_view type = string_member(json, "type");
  Step step{.behavior = Behavior::removed};
  if (type == "Split") {
    step.kind = StepKind::split;
    GRAFT_TRY(read_pattern(json, step));
    GRAFT_TRY(read_behavior(json, "", step.behavior));
    step.flag_b = flag_member(json, "invert", false);
  } else if (type == "ByteLevel") {
    step = {.kind = StepKind::byte_level,
            .flag_a = flag_member(json, "add_prefix_space", true),
            .flag_b = flag_member(json, "use_regex", true)};
  } else if (type == "Metaspace") {
    GRAFT_TRY(read_metaspace(json, step));
  } else if (type == "Digits") {
    step.kind = StepKind::digits;
    step.behavior = flag_member(json, "individual_digits", false) ? Behavior::isolated : Behavior::contiguous;
  } else if (type == "Punctuation") {
    step.kind = StepKind::punctuation;
    GRAFT_TRY(read_behavior(json, "Isolated", step.behavior));
  } else if (type == "UnicodeScripts") {
    step = {.kind = StepKind::scripts};
  } else if (type == "Whitespace") {
    step.kind = StepKind::words;
  } else if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    step.kind = StepKind::white_space;
  } else if (type == "CharDelimiterSplit") {
    step.kind = StepKind::delimiter;
    step.text = string_member(json, "delimiter");
    if (step.text.empty()) return corrupt("A CharDelimiterSplit has no \"delimiter\".");
  } else {
    return unsupported("The pre-tokenizer \"", shown(type), "\" is not supported.");
  }
  out.pre_tokenizers.push_back(std::move(step));
  if (type == "BertPreTokenizer") out.pre_tokenizers.push_back({.kind = StepKind::punctuation});
  return {};
}

/// `space_prefix` of the vocabulary says in the end whether the first space of a text is dropped.
Status read_decoder(const Json& json, Vocabulary& out) {
  const std::string_view type = string_member(json, "type");
  Step step;
  if (type == "ByteLevel") {
    step.kind = StepKind::byte_level;
  } else if (type == "Metaspace") {
    GRAFT_TRY(read_metaspace(json, step));
    if (step.prefix != SpacePrefix::none) out.space_prefix = SpacePrefix::first;
  } else if (type == "WordPiece") {
    step = {.kind = StepKind::join_words, .flag_a = flag_member(json, "cleanup", true)};
    step.text = string_member(json, "prefix");
    out.space_prefix = SpacePrefix::first;
  } else if (type == "BPEDecoder") {
    step = {.kind = StepKind::drop_suffix, .text = std::string(string_member(json, "suffix"))};
  } else if (type == "ByteFallback") {
    step.kind = StepKind::byte_fallback;
  } else if (type == "Fuse") {
    step.kind = StepKind::fuse;
  } else if (type == "Replace") {
    step.kind = StepKind::replace;
    GRAFT_TRY(read_pattern(json, step));
    if (!step.flag_a) return unsupported("A decoder that replaces by a regular expression is not supported.");
    step.with = string_member(json, "content");
  } else if (type == "Strip") {
    const Json* stop = member(json, "stop");
    if (string_member(json, "content") != " " || (stop != nullptr && *stop != 0)) {
      return unsupported("A decoder that strips anything but a first space is not supported.");
    }
    out.space_prefix = SpacePrefix::first;
    return {};
  } else {
    return unsupported("The decoder \"", shown(type), "\" is not supported.");
  }
  out.decoders.push_back(std::move(step));
  return {};
}

Status push_id(std::vector<TokenId>& out, const Json& id, const Vocabulary& vocabulary) {
  const auto most = static_cast<std::int64_t>(vocabulary.tokens.size()) - 1;
  GRAFT_TRY_ASSIGN(const std::int64_t value, integer_value(id, "A special token's id", 0, most));
  out.push_back(static_cast<TokenId>(value));
  return {};
}

Status read_template(const Json& step, Vocabulary& out) {
  const Json* single = member(step, "single");
  const Json* specials = member(step, "special_tokens");
  if (single == nullptr || !single->is_array()) return corrupt("The template has no list \"single\".");
  std::vector<TokenId>* side = &out.before;
  for (const Json& part : *single) {
    if (member(part, "Sequence") != nullptr) side = &out.after;
    const Json* special = member(part, "SpecialToken");
    if (special == nullptr) continue;
    const std::string name(string_member(*special, "id"));
    const Json* entry = specials != nullptr ? member(*specials, name.c_str()) : nullptr;
    const Json* ids = entry != nullptr ? member(*entry, "ids") : nullptr;
    if (ids == nullptr || !ids->is_array()) return corrupt("The template's token \"", shown(name), "\" has no ids.");
    for (const Json& id : *ids) GRAFT_TRY(push_id(*side, id, out));
  }
  return {};
}

Status read_post_processor(const Json& step, Vocabulary& out) {
  const std::string_view type = string_member(step, "type");
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(step, out);
  if (type != "BertProcessing" && type != "RobertaProcessing") {
    return unsupported("The post-processor \"", shown(type), "\" is not supported.");
  }
  for (const auto& [name, side] : {std::pair{"cls", &out.before}, std::pair{"sep", &out.after}}) {
    const Json* pair = member(step, name);
    if (pair == nullptr || !pair->is_array() || pair->size() != 2) return corrupt("\"", name, "\" is not a pair.");
    GRAFT_TRY(push_id(*side, (*pair)[1], out));
  }
  return {};
}

}  // namespace

Status read_json_steps(const Json& document, Vocabulary& out) {
  const auto each = [&](const char* name, const char* members, auto read) -> Status {
    const Json* step = member(document, name);
    if (step == nullptr) return {};
    return for_each_step(*step, members, [&](const Json& one) { return read(one, out); });
  };
  GRAFT_TRY(each("normalizer", "normalizers", read_normalizer));
  GRAFT_TRY(each("pre_tokenizer", "pretokenizers", read_pre_tokenizer));
  GRAFT_TRY(each("decoder", "decoders", read_decoder));
  for (const auto* list : {&out.normalizers, &out.pre_tokenizers, &out.decoders}) {
    if (list->size() > text::kMostSteps) return unsupported("The tokenizer has too many steps.");
  }
  OrderedJson source = OrderedJson::object();
  for (const char* name : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const Json* step = member(document, name);
    source[name] = step != nullptr ? OrderedJson(*step) : OrderedJson(nullptr);
  }
  out.source_json = source.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  out.by_steps = true;
  // What spells bytes last of all leaves them as they are, and the model works on bytes.
  const bool bytes = !out.pre_tokenizers.empty() && out.pre_tokenizers.back().kind == StepKind::byte_level;
  const auto spells = [](const Step& step) {
    return step.kind == StepKind::byte_level || step.kind == StepKind::byte_alphabet;
  };
  const bool once =
      std::ranges::count_if(out.pre_tokenizers, spells) == 1 && std::ranges::none_of(out.normalizers, spells);
  if (out.algorithm == Algorithm::char_bpe && bytes && once && out.inner_prefix.empty() && out.end_suffix.empty() &&
      !out.byte_fallback) {
    out.algorithm = Algorithm::byte_bpe;
  }
  return {};
}

Status read_json_post_processor(const Json& document, Vocabulary& out) {
  const Json* step = member(document, "post_processor");
  if (step == nullptr) return {};
  return for_each_step(*step, "processors", [&](const Json& one) { return read_post_processor(one, out); });
}

}  // namespace graft::convert
