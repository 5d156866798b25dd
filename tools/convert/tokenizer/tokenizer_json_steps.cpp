// Normalizers, pre-tokenizers and post-processors of a tokenizer.json.
#include <algorithm>

#include "runtime/text/piece_table.h"
#include "tools/convert/tokenizer/base64.h"
#include "tools/convert/tokenizer/tokenizer_json.h"

namespace graft::convert {
namespace {

using text::Algorithm;
using text::kSpaceMark;
using text::SpacePrefix;
using text::Split;
using text::TokenId;
using text::Vocabulary;

struct KnownPattern {
  std::string_view pattern;
  Split split;
};

/// The regular expressions that models write into their files, and the scanner for each.
constexpr KnownPattern kPatterns[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Split::llama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Split::qwen2},
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Split::gpt2},
    {R"(\p{N})", Split::digit},
    {"[\r\n]", Split::line_break},
    {R"([\r\n])", Split::line_break},
    {R"(\s?\p{L}+)", Split::spaced_letters},
    {R"(\s?\p{P}+)", Split::spaced_punctuation},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+", Split::cjk},
};

/// Calls `read` with each step: of a Sequence (the list `members`), or the only one.
template <typename Read>
Status for_each_step(const Json& step, const char* members, Read read) {
  if (string_member(step, "type") != "Sequence") return read(step);
  const Json* list = member(step, members);
  if (list == nullptr || !list->is_array()) return corrupt("A sequence has no list \"", members, "\".");
  for (const Json& one : *list) GRAFT_TRY(read(one));
  return {};
}

Status read_replace(const Json& step, Vocabulary& out) {
  const Json* pattern = member(step, "pattern");
  const std::string_view content = string_member(step, "content");
  const std::string_view literal = pattern != nullptr ? string_member(*pattern, "String") : std::string_view();
  const std::string_view regex = pattern != nullptr ? string_member(*pattern, "Regex") : std::string_view();
  if (literal == " " && content == kSpaceMark) return {};  // the encoders for such vocabularies do so anyway
  if (regex == " {2,}" && (content == " " || content == kSpaceMark)) {
    out.collapse_spaces = true;
    return {};
  }
  return unsupported("The normalizer that replaces \"", literal.empty() ? regex : literal, "\" by \"", content,
                     "\" is not supported.");
}

Status read_normalizer(const Json& step, Vocabulary& out) {
  const std::string_view type = string_member(step, "type");
  if (type == "NFC") {
    out.normal_form_c = true;
  } else if (type == "Replace") {
    return read_replace(step, out);
  } else if (type == "Prepend" && string_member(step, "prepend") == kSpaceMark) {
    out.space_prefix = SpacePrefix::every;
  } else if (type == "Precompiled") {
    GRAFT_TRY_ASSIGN(out.character_map,
                     from_base64(string_member(step, "precompiled_charsmap")).with_context("The character map"));
  } else if (type == "BertNormalizer" && out.algorithm == Algorithm::word_piece) {
    out.lower_case = flag_member(step, "lowercase", true);
    out.strip_accents = flag_member(step, "strip_accents", out.lower_case);
  } else {
    return unsupported("The normalizer \"", shown(type), "\" is not supported.");
  }
  return {};
}

Status read_split(const Json& step, Vocabulary& out) {
  const Json* pattern = member(step, "pattern");
  const std::string_view regex = pattern != nullptr ? string_member(*pattern, "Regex") : std::string_view();
  if (string_member(step, "behavior") != "Isolated" || flag_member(step, "invert", false)) {
    // GPT-4's family writes Removed and invert, which keeps the matches alone: the same where everything matches.
    if (string_member(step, "behavior") != "Removed" || !flag_member(step, "invert", false)) {
      return unsupported("A split that does not isolate its matches is not supported.");
    }
  }
  for (const KnownPattern& known : kPatterns) {
    if (known.pattern != regex) continue;
    out.splits.push_back(known.split);
    return {};
  }
  return unsupported("The pre-tokenizer's pattern \"", shown(regex), "\" is not known.");
}

Status read_metaspace(const Json& step, Vocabulary& out) {
  if (string_member(step, "replacement") != kSpaceMark) {
    return unsupported("A Metaspace other than U+2581 is not supported.");
  }
  const std::string_view scheme = string_member(step, "prepend_scheme");
  const bool prefix = scheme.empty() ? flag_member(step, "add_prefix_space", true) : scheme != "never";
  out.space_prefix = !prefix ? SpacePrefix::none : scheme == "first" ? SpacePrefix::first : SpacePrefix::every;
  out.prefix_unless_spaced = true;
  return {};
}

Status read_pre_tokenizer(const Json& step, Vocabulary& out) {
  const std::string_view type = string_member(step, "type");
  if (type == "ByteLevel" && out.algorithm == Algorithm::char_bpe) {
    out.algorithm = Algorithm::byte_bpe;
    if (flag_member(step, "use_regex", true)) out.splits.push_back(Split::gpt2);
    if (flag_member(step, "add_prefix_space", false)) {
      out.space_prefix = SpacePrefix::every;
      out.prefix_unless_spaced = true;
    }
    return {};
  }
  if (type == "Split") return read_split(step, out);
  if (type == "Metaspace") return read_metaspace(step, out);
  if (type == "Digits" && flag_member(step, "individual_digits", false)) {
    out.splits.push_back(Split::digit);
    return {};
  }
  if (type == "BertPreTokenizer" && out.algorithm == Algorithm::word_piece) return {};
  return unsupported("The pre-tokenizer \"", shown(type), "\" is not supported here.");
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

std::string_view split_pattern(Split split) {
  for (const KnownPattern& known : kPatterns) {
    if (known.split == split) return known.pattern;
  }
  return {};
}

Status read_json_steps(const Json& document, Vocabulary& out) {
  if (const Json* step = member(document, "normalizer")) {
    GRAFT_TRY(for_each_step(*step, "normalizers", [&](const Json& one) { return read_normalizer(one, out); }));
  }
  if (const Json* step = member(document, "pre_tokenizer")) {
    GRAFT_TRY(for_each_step(*step, "pretokenizers", [&](const Json& one) { return read_pre_tokenizer(one, out); }));
  }
  if (const Json* step = member(document, "post_processor")) {
    GRAFT_TRY(for_each_step(*step, "processors", [&](const Json& one) { return read_post_processor(one, out); }));
  }
  return {};
}

}  // namespace graft::convert
