// Vocabularies from the metadata of GGUF files.
#include <algorithm>
#include <array>

#include "runtime/text/tokenizer/pipeline.h"
#include "tools/convert/tokenizer/gguf_pre_tokenizers.h"
#include "tools/convert/tokenizer/tokenizer_load.h"
#include "tools/convert/tokenizer/vocabulary_parts.h"

namespace graft::convert {
namespace {

using text::Algorithm;
using text::Split;
using text::TokenId;
using text::Vocabulary;

Result<const PreTokenizer*> pre_tokenizer_of(const GgufFile& file) {
  std::string_view name = "gpt-2";
  if (file.has("tokenizer.ggml.pre")) {
    GRAFT_TRY_ASSIGN(name, file.text("tokenizer.ggml.pre"));
  }
  if (const PreTokenizer* known = gguf_pre_tokenizer(name)) return known;
  return unsupported("The pre-tokenizer \"", shown(name), "\" of the GGUF file is not known.");
}

/// By flags where all patterns have scanners of their own, otherwise by steps.
void cut_by(const PreTokenizer& pre, Vocabulary& out) {
  for (const std::string_view pattern : pre.patterns) {
    const auto known = text::known_split(pattern);
    out.by_steps = out.by_steps || !known;
    if (known) out.splits.push_back(*known);
    out.pre_tokenizers.push_back({.kind = text::StepKind::split, .text = std::string(pattern)});
  }
  if (!out.by_steps) {
    out.pre_tokenizers.clear();
    return;
  }
  out.splits.clear();
  out.pre_tokenizers.push_back({.kind = text::StepKind::byte_level});
  out.decoders.push_back({.kind = text::StepKind::byte_level});
}

Status read_tokens(const GgufFile& file, Vocabulary& out) {
  GRAFT_TRY_ASSIGN(const auto texts, file.texts("tokenizer.ggml.tokens"));
  out.tokens.resize(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) out.tokens[i].text = texts[i];
  if (file.has("tokenizer.ggml.scores")) {
    GRAFT_TRY_ASSIGN(const auto scores, file.reals("tokenizer.ggml.scores"));
    if (scores.size() != texts.size()) {
      return corrupt("The GGUF file has ", texts.size(), " tokens, but ", scores.size(), " scores.");
    }
    for (std::size_t i = 0; i < scores.size(); ++i) out.tokens[i].score = scores[i];
  }
  if (!file.has("tokenizer.ggml.token_type")) return {};
  GRAFT_TRY_ASSIGN(const auto kinds, file.integers("tokenizer.ggml.token_type"));
  if (kinds.size() != texts.size()) {
    return corrupt("The GGUF file has ", texts.size(), " tokens, but ", kinds.size(), " token types.");
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    GRAFT_TRY_ASSIGN(out.tokens[i].kind, token_kind(kinds[i]).with_context(cat("Token ", i)));
  }
  return {};
}

Status read_id(const GgufFile& file, const char* name, std::size_t count, TokenId& out) {
  const std::string key = cat("tokenizer.ggml.", name, "_token_id");
  if (!file.has(key)) return {};
  GRAFT_TRY_ASSIGN(const std::int64_t id, file.integer(key));
  if (id == 0xFFFFFFFF) return {};  // how some writers say "none"
  if (id < 0 || static_cast<std::uint64_t>(id) >= count) {
    return corrupt("Metadata \"", shown(key), "\" is ", id, ", but there are ", count, " tokens.");
  }
  out = static_cast<TokenId>(id);
  return {};
}

Status read_flag(const GgufFile& file, const char* name, bool& out) {
  const std::string key = cat("tokenizer.ggml.", name);
  if (!file.has(key)) return {};
  GRAFT_TRY_ASSIGN(out, file.flag(key));
  return {};
}

/// Sets the algorithm and what goes with it; `add_bos` and `add_eos` get that family's defaults.
Status read_family(const GgufFile& file, Vocabulary& out, bool& add_bos, bool& add_eos) {
  GRAFT_TRY_ASSIGN(const std::string_view model, file.text("tokenizer.ggml.model"));
  if (model == "gpt2") {
    out.algorithm = Algorithm::byte_bpe;
    GRAFT_TRY_ASSIGN(const PreTokenizer* pre, pre_tokenizer_of(file));
    cut_by(*pre, out);
    GRAFT_TRY_ASSIGN(const auto merges, file.texts("tokenizer.ggml.merges"));
    GRAFT_TRY_ASSIGN(out.merges, parse_merges(out, merges));
    out.ignore_merges = add_bos = pre->whole_words;
  } else if (model == "llama" || model == "t5") {
    out.algorithm = model == "t5" ? Algorithm::unigram : Algorithm::scored_bpe;
    out.byte_fallback = true;
    out.space_prefix = text::SpacePrefix::every;
    add_bos = model == "llama";
    add_eos = model == "t5";
    bool prefix = true;
    GRAFT_TRY(read_flag(file, "add_space_prefix", prefix));
    if (!prefix) out.space_prefix = text::SpacePrefix::none;
    GRAFT_TRY(read_flag(file, "remove_extra_whitespaces", out.collapse_spaces));
    if (const GgufValue* map = file.find("tokenizer.ggml.precompiled_charsmap")) {
      out.character_map.assign(reinterpret_cast<const char*>(map->bytes.data()), map->bytes.size());
    }
  } else if (model == "bert") {
    out.algorithm = Algorithm::word_piece;
    out.lower_case = out.strip_accents = true;
    add_bos = add_eos = true;
  } else {
    return unsupported("The tokenizer model \"", shown(model), "\" of the GGUF file is not known.");
  }
  return {};
}

Result<Vocabulary> read_vocabulary(const GgufFile& file) {
  Vocabulary out;
  GRAFT_TRY(read_tokens(file, out));
  bool add_bos = false;
  bool add_eos = false;
  GRAFT_TRY(read_family(file, out, add_bos, add_eos));
  GRAFT_TRY(read_flag(file, "add_bos_token", add_bos));
  GRAFT_TRY(read_flag(file, "add_eos_token", add_eos));
  const std::size_t count = out.tokens.size();
  const bool bert = out.algorithm == Algorithm::word_piece;
  const std::pair<const char*, TokenId*> ids[] = {
      {"bos", &out.bos},         {bert ? "cls" : "bos", &out.bos},
      {"eos", &out.eos},         {bert ? "seperator" : "eos", &out.eos},  // spelled so in files
      {"unknown", &out.unknown}, {"padding", &out.pad},
      {"mask", &out.mask}};
  for (const auto& [name, id] : ids) GRAFT_TRY(read_id(file, name, count, *id));
  if (add_bos && out.bos != text::kNoToken) out.before.push_back(out.bos);
  if (add_eos && out.eos != text::kNoToken) out.after.push_back(out.eos);
  return out;
}

}  // namespace

std::string_view gguf_pre_name(const Vocabulary& vocabulary, bool* exact) {
  using text::Behavior;
  using text::StepKind;
  // Falcon's steps go on once the bytes are spelled.
  const bool spelled = vocabulary.algorithm == Algorithm::char_bpe && !vocabulary.byte_fallback &&
                       vocabulary.inner_prefix.empty() && vocabulary.end_suffix.empty() &&
                       std::ranges::count(vocabulary.pre_tokenizers, StepKind::byte_level, &text::Step::kind) == 1;
  if ((vocabulary.algorithm != Algorithm::byte_bpe && !spelled) || !vocabulary.normalizers.empty()) return {};
  std::vector<std::string_view> patterns;
  std::vector<std::string> escaped;
  escaped.reserve(vocabulary.pre_tokenizers.size());
  for (const Split split : vocabulary.splits) patterns.push_back(text::split_pattern(split));
  for (const text::Step& step : vocabulary.pre_tokenizers) {
    // Removed and inverted keeps the matches alone: the same where everything matches, as in GPT-4's family.
    const bool isolates = step.flag_b ? step.behavior == Behavior::removed : step.behavior == Behavior::isolated;
    if (step.kind == StepKind::byte_level) {
      if (step.flag_a) return {};
      if (step.flag_b) patterns.push_back(text::split_pattern(Split::gpt2));
    } else if (step.kind == StepKind::digits) {
      patterns.push_back(step.behavior == Behavior::isolated ? text::split_pattern(Split::digit) : kNumbers);
    } else if (step.kind == StepKind::punctuation && step.behavior == Behavior::contiguous) {
      patterns.push_back(kPunctuation);
    } else if (step.kind == StepKind::split && !step.flag_a && isolates) {
      std::string& pattern = escaped.emplace_back();
      for (const char c : step.text) {
        if (c == '\r' || c == '\n') {
          pattern += c == '\r' ? "\\r" : "\\n";
        } else {
          pattern += c;
        }
      }
      patterns.push_back(pattern);
    } else {
      return {};
    }
  }
  return gguf_pre_name_of(patterns, vocabulary.ignore_merges, exact);
}

Result<Vocabulary> load_gguf_vocabulary(const GgufFile& file) {
  return read_vocabulary(file).with_context("While reading the tokenizer of the GGUF file");
}

}  // namespace graft::convert
