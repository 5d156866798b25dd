// Vocabularies from the metadata of GGUF files.
#include <algorithm>
#include <array>
#include <optional>

#include "tools/convert/tokenizer/tokenizer_load.h"
#include "tools/convert/tokenizer/vocabulary_parts.h"

namespace graft::convert {
namespace {

using text::Algorithm;
using text::Split;
using text::TokenId;
using text::Vocabulary;

struct PreName {
  std::string_view name;
  std::vector<Split> splits;
};

/// The names of "tokenizer.ggml.pre" that graft knows.
const std::vector<PreName>& pre_names() {
  static const std::vector<Split> gpt2{Split::gpt2}, llama3{Split::llama3}, qwen2{Split::qwen2},
      digits{Split::digit, Split::gpt2},
      deepseek_coder{Split::line_break, Split::spaced_letters, Split::spaced_punctuation, Split::cjk, Split::digit};
  static const std::vector<PreName> names{
      {"gpt-2", gpt2},       {"gpt2", gpt2},        {"mpt", gpt2},
      {"olmo", gpt2},        {"phi-2", gpt2},       {"jais", gpt2},
      {"roberta-bpe", gpt2}, {"jina-v2-en", gpt2},  {"llama-bpe", llama3},
      {"llama3", llama3},    {"llama-v3", llama3},  {"smaug-bpe", llama3},
      {"qwen2", qwen2},      {"stablelm2", qwen2},  {"deepseek-r1-qwen", qwen2},
      {"starcoder", digits}, {"refact", digits},    {"command-r", digits},
      {"smollm", digits},    {"codeshell", digits}, {"deepseek-coder", deepseek_coder}};
  return names;
}

Result<std::vector<Split>> splits_of(const GgufFile& file) {
  if (!file.has("tokenizer.ggml.pre")) return std::vector<Split>{Split::gpt2};
  GRAFT_TRY_ASSIGN(const std::string_view name, file.text("tokenizer.ggml.pre"));
  for (const PreName& known : pre_names()) {
    if (known.name == name) return known.splits;
  }
  return unsupported("The pre-tokenizer \"", shown(name), "\" of the GGUF file is not known.");
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
    GRAFT_TRY_ASSIGN(out.splits, splits_of(file));
    GRAFT_TRY_ASSIGN(const auto merges, file.texts("tokenizer.ggml.merges"));
    GRAFT_TRY_ASSIGN(out.merges, parse_merges(out, merges));
    out.ignore_merges = out.splits.front() == Split::llama3;
    add_bos = out.ignore_merges;
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

std::string_view gguf_pre_name(std::span<const Split> splits) {
  for (const PreName& known : pre_names()) {
    if (std::ranges::equal(known.splits, splits)) return known.name;
  }
  return {};
}

Result<Vocabulary> load_gguf_vocabulary(const GgufFile& file) {
  return read_vocabulary(file).with_context("While reading the tokenizer of the GGUF file");
}

}  // namespace graft::convert
