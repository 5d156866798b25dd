// The steps of a tokenizer.json as the flags of a vocabulary, which is how SentencePiece and GGUF files say the same.
#include <algorithm>

#include "runtime/text/tokenizer/piece_table.h"
#include "runtime/text/tokenizer/pipeline.h"
#include "tools/convert/tokenizer/base64.h"
#include "tools/convert/tokenizer/tokenizer_json.h"

namespace graft::convert {
namespace {

using text::Algorithm;
using text::kSpaceMark;
using text::SpacePrefix;
using text::Split;
using text::StepKind;
using text::Vocabulary;

/// Calls `read` with each step: of a Sequence (the list `members`), or the only one.
template <typename Read>
Status for_each_flagged(const Json& step, const char* members, Read read) {
  if (string_member(step, "type") != "Sequence") return read(step);
  const Json* list = member(step, members);
  if (list == nullptr || !list->is_array()) return corrupt("A sequence has no list \"", members, "\".");
  for (const Json& one : *list) GRAFT_TRY(read(one));
  return {};
}

Status flag_replace(const Json& step, Vocabulary& out) {
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

Status flag_normalizer(const Json& step, Vocabulary& out) {
  const std::string_view type = string_member(step, "type");
  if (type == "NFC") {
    out.normal_form_c = true;
  } else if (type == "Replace") {
    return flag_replace(step, out);
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

Status flag_split(const Json& step, Vocabulary& out) {
  const Json* pattern = member(step, "pattern");
  // Gemma's: its normalizer leaves no space.
  if (out.algorithm == Algorithm::char_bpe && pattern != nullptr && string_member(*pattern, "String") == " ") return {};
  const std::string_view regex = pattern != nullptr ? string_member(*pattern, "Regex") : std::string_view();
  if (string_member(step, "behavior") != "Isolated" || flag_member(step, "invert", false)) {
    // GPT-4's family writes Removed and invert, which keeps the matches alone: the same where everything matches.
    if (string_member(step, "behavior") != "Removed" || !flag_member(step, "invert", false)) {
      return unsupported("A split that does not isolate its matches is not supported.");
    }
  }
  if (const auto known = text::known_split(regex)) {
    out.splits.push_back(*known);
    return {};
  }
  return unsupported("The pre-tokenizer's pattern \"", shown(regex), "\" is not known.");
}

Status flag_metaspace(const Json& step, Vocabulary& out) {
  if (string_member(step, "replacement") != kSpaceMark) {
    return unsupported("A Metaspace other than U+2581 is not supported.");
  }
  const std::string_view scheme = string_member(step, "prepend_scheme");
  const bool prefix = scheme.empty() ? flag_member(step, "add_prefix_space", true) : scheme != "never";
  out.space_prefix = !prefix ? SpacePrefix::none : scheme == "first" ? SpacePrefix::first : SpacePrefix::every;
  out.prefix_unless_spaced = true;
  return {};
}

Status flag_pre_tokenizer(const Json& step, Vocabulary& out) {
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
  if (type == "Split") return flag_split(step, out);
  if (type == "Metaspace") return flag_metaspace(step, out);
  if (type == "Digits" && flag_member(step, "individual_digits", false)) {
    out.splits.push_back(Split::digit);
    return {};
  }
  if (type == "BertPreTokenizer" && out.algorithm == Algorithm::word_piece) return {};
  return unsupported("The pre-tokenizer \"", shown(type), "\" is not supported here.");
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Whether the flags of `flagged` do to every text what the steps of `stepped` do. Only for the two common forms: bytes
/// that are cut by known patterns, and ranked merges whose spaces are marked by normalizers.
bool same_meaning(const Vocabulary& stepped, const Vocabulary& flagged) {
  const auto& normal = stepped.normalizers;
  const auto& cuts = stepped.pre_tokenizers;
  // To flags the unknown token is one that a text may spell out.
  if (stepped.unknown != text::kNoToken) {
    const text::TokenKind kind = stepped.tokens[static_cast<std::size_t>(stepped.unknown)].kind;
    if (kind == text::TokenKind::normal) return false;
  }
  for (const text::Token& token : stepped.tokens) {
    if (token.single_word) return false;
    // Special tokens are found as they are spelled, in templates above all; a normalizer that puts something before a
    // text would hide them.
    const bool marking = flagged.algorithm == Algorithm::char_bpe && token.kind != text::TokenKind::user_defined;
    if (token.normalized && !marking && !normal.empty() &&
        !(flagged.normal_form_c && normal.size() == 1 && is_ascii(token.text))) {
      return false;
    }
  }
  if (flagged.algorithm == Algorithm::byte_bpe) {
    const bool prefix = !cuts.empty() && cuts.back().flag_a && cuts.back().kind == StepKind::byte_level;
    const bool decodes =
        stepped.decoders.empty() || (stepped.decoders.size() == 1 && stepped.decoders[0].kind == StepKind::byte_level);
    const bool plain = std::ranges::all_of(cuts, [](const text::Step& step) {
      return step.behavior == text::Behavior::isolated && !(step.kind == StepKind::split && step.flag_b);
    });
    return stepped.algorithm == Algorithm::byte_bpe && plain && decodes && (!prefix || cuts.size() == 1);
  }
  const bool cuts_nothing = std::ranges::all_of(cuts, [](const text::Step& step) {
    return step.kind == StepKind::split && step.flag_a && step.text == " ";  // the normalizer leaves no space
  });
  if (flagged.algorithm != Algorithm::char_bpe || stepped.algorithm != Algorithm::char_bpe || !cuts_nothing)
    return false;
  if (normal.empty() || normal.size() > 2 || flagged.collapse_spaces || flagged.normal_form_c) return false;
  const bool marks = normal.back().kind == StepKind::replace && normal.back().flag_a;
  const bool prefix = normal.size() == 2 && normal.front().kind == StepKind::prepend;
  return marks && (prefix || normal.size() == 1) &&
         (stepped.decoders.empty() || (stepped.space_prefix != SpacePrefix::none) == prefix);
}

}  // namespace

Status read_json_flags(const Json& document, Vocabulary& out) {
  if (const Json* step = member(document, "normalizer")) {
    GRAFT_TRY(for_each_flagged(*step, "normalizers", [&](const Json& one) { return flag_normalizer(one, out); }));
  }
  if (const Json* step = member(document, "pre_tokenizer")) {
    GRAFT_TRY(for_each_flagged(*step, "pretokenizers", [&](const Json& one) { return flag_pre_tokenizer(one, out); }));
  }
  if (out.algorithm == Algorithm::word_level || !out.inner_prefix.empty() || !out.end_suffix.empty()) {
    return unsupported("Only steps can say this tokenizer.");
  }
  return {};
}

bool flags_suffice(const Vocabulary& stepped, const Vocabulary& flagged) { return same_meaning(stepped, flagged); }

}  // namespace graft::convert
