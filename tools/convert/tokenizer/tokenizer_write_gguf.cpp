// The metadata keys of a vocabulary in GGUF files.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "tools/convert/tokenizer/tokenizer_load.h"
#include "tools/convert/tokenizer/tokenizer_write.h"

namespace graft::convert {
namespace {

using text::Algorithm;
using text::SpacePrefix;
using text::Token;
using text::TokenKind;
using text::Vocabulary;

/// Ranked merges as scores of the pieces that they make: the same where a piece's merges follow each other and are all
/// the ways to cut it in two, as in files that were made from SentencePiece models.
bool score_by_merges(Vocabulary& v) {
  std::unordered_map<std::string, std::size_t> groups;  // by piece, in the order of first merges
  std::unordered_map<std::string_view, bool> known;
  for (const Token& token : v.tokens) known.emplace(token.text, true);
  std::map<std::string, std::size_t> ways;
  bool same = true;
  std::string last;
  for (const auto& [left, right] : v.merges) {
    const std::string piece =
        v.tokens[static_cast<std::size_t>(left)].text + v.tokens[static_cast<std::size_t>(right)].text;
    const bool fresh = groups.emplace(piece, groups.size()).second;
    same = same && (fresh || piece == last);
    ++ways[piece];
    last = piece;
  }
  for (const auto& [piece, count] : ways) {
    std::size_t cuts = 0;
    for (std::size_t at = 1; at < piece.size(); ++at) {
      const std::string_view whole = piece;
      cuts += known.contains(whole.substr(0, at)) && known.contains(whole.substr(at));
    }
    same = same && cuts == count;
  }
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    Token& token = v.tokens[i];
    if (token.kind != TokenKind::normal) continue;
    const auto group = groups.find(token.text);
    token.score = -static_cast<float>(group != groups.end() ? group->second : groups.size() + i);
  }
  v.algorithm = Algorithm::scored_bpe;
  v.merges.clear();
  v.fuse_unknown = true;
  v.prefix_unless_spaced = false;
  if (v.space_prefix == SpacePrefix::first) v.space_prefix = SpacePrefix::every;
  return same;
}

void add_ids(const Vocabulary& v, GgufWriter& out) {
  const bool bert = v.algorithm == Algorithm::word_piece;
  const std::pair<const char*, text::TokenId> ids[] = {
      {"tokenizer.ggml.bos_token_id", v.bos},
      {"tokenizer.ggml.eos_token_id", v.eos},
      {"tokenizer.ggml.cls_token_id", bert ? v.bos : text::kNoToken},
      // Spelled so by all who read it.
      {"tokenizer.ggml.seperator_token_id", bert ? v.eos : text::kNoToken},
      {"tokenizer.ggml.unknown_token_id", v.unknown},
      {"tokenizer.ggml.padding_token_id", v.pad},
      {"tokenizer.ggml.mask_token_id", v.mask}};
  for (const auto& [key, id] : ids) {
    if (id != text::kNoToken) out.add(key, static_cast<std::uint32_t>(id));
  }
  out.add("tokenizer.ggml.add_bos_token", v.bos != text::kNoToken && v.before == std::vector{v.bos});
  out.add("tokenizer.ggml.add_eos_token", v.eos != text::kNoToken && v.after == std::vector{v.eos});
}

Status add_keys(const Vocabulary& v, GgufWriter& out) {
  const bool bytes = v.algorithm == Algorithm::byte_bpe;
  const bool bert = v.algorithm == Algorithm::word_piece;
  out.add("tokenizer.ggml.model", bytes ? "gpt2" : bert ? "bert" : v.algorithm == Algorithm::unigram ? "t5" : "llama");
  if (bytes) {
    const std::string_view pre = gguf_pre_name(v);
    if (pre.empty()) return unsupported("GGUF has no name for its pre-tokenizer.");
    out.add("tokenizer.ggml.pre", pre);
  } else {
    out.add("tokenizer.ggml.pre", "default");
  }
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> kinds;
  for (const Token& token : v.tokens) {
    texts.push_back(token.text);
    scores.push_back(token.score);
    kinds.push_back(static_cast<std::int32_t>(token.kind));
  }
  out.add("tokenizer.ggml.tokens", texts);
  if (!bytes) out.add("tokenizer.ggml.scores", std::span<const float>(scores));
  out.add("tokenizer.ggml.token_type", std::span<const std::int32_t>(kinds));
  if (bytes) out.add("tokenizer.ggml.merges", merge_lines(v));
  add_ids(v, out);
  if (bytes || bert) return {};
  out.add("tokenizer.ggml.add_space_prefix", v.space_prefix != SpacePrefix::none);
  if (v.collapse_spaces) out.add("tokenizer.ggml.remove_extra_whitespaces", true);
  if (!v.character_map.empty()) {
    out.add("tokenizer.ggml.precompiled_charsmap", std::as_bytes(std::span(v.character_map)));
  }
  return {};
}

}  // namespace

namespace {

/// What GGUF can say of a vocabulary that works by steps: the same where its pre-tokenizer has a name there, otherwise
/// the nearest that flags can say.
Result<Vocabulary> for_gguf(const Vocabulary& v, std::vector<std::string>& notes) {
  if (!v.by_steps) return v;
  if (!gguf_pre_name(v).empty()) {
    Vocabulary out = v;
    out.algorithm = Algorithm::byte_bpe;
    return out;
  }
  GRAFT_TRY_ASSIGN(const TokenizerFile file, tokenizer_file(v));
  GRAFT_TRY_ASSIGN(Vocabulary out, load_tokenizer_json(file.contents, JsonForm::flags));
  out.bos = v.bos;
  out.eos = v.eos;
  out.pad = v.pad;
  out.mask = v.mask;
  notes.push_back("The steps of the tokenizer are said as GGUF says them: some texts may be cut otherwise.");
  return out;
}

}  // namespace

Status add_gguf_tokenizer(const Vocabulary& full, std::size_t rows, GgufWriter& out, std::vector<std::string>& notes) {
  GRAFT_TRY_ASSIGN(const Vocabulary vocabulary, for_gguf(full, notes));
  Vocabulary given = vocabulary;
  if (given.algorithm == Algorithm::word_piece) {
    if (!given.lower_case || !given.strip_accents) {
      return unsupported("GGUF cannot say of a WordPiece tokenizer that it keeps capitals or accents.");
    }
    // Of BERT the tokens around a text are those that begin and end one.
    if (given.bos == text::kNoToken && given.before.size() == 1) given.bos = given.before[0];
    if (given.eos == text::kNoToken && given.after.size() == 1) given.eos = given.after[0];
  }
  const bool exact = given.algorithm != Algorithm::char_bpe || score_by_merges(given);
  bool same_cuts = true;
  const bool is_named = !gguf_pre_name(given, &same_cuts).empty();
  if (given.tokens.size() < rows) {
    notes.push_back(cat("The embedding has ", rows, " rows and the tokenizer ", given.tokens.size(),
                        " tokens; those that are missing are called [PAD", given.tokens.size(), "] and so on."));
  }
  while (given.tokens.size() < rows) {
    given.tokens.push_back({.text = cat("[PAD", given.tokens.size(), "]"), .kind = TokenKind::unused});
  }
  GgufWriter alone;
  GRAFT_TRY(add_keys(given, alone));
  GRAFT_TRY_ASSIGN(const std::string bytes, alone.bytes({}));
  GRAFT_TRY_ASSIGN(const GgufFile file, GgufFile::parse(std::as_bytes(std::span(bytes))));
  GRAFT_TRY_ASSIGN(const Vocabulary read, load_gguf_vocabulary(file));
  for (const std::string& part : vocabulary_differences(given, read)) {
    if (part == "the pre-tokenizer" && is_named) continue;  // another spelling
    if (part == "the algorithm" || part == "the tokens" || part == "the merges" || part == "the pre-tokenizer") {
      return unsupported("GGUF cannot say ", part, " of this tokenizer.");
    }
    notes.push_back(cat("Of the tokenizer, GGUF cannot say ", part, "."));
  }
  if (!same_cuts)
    notes.push_back("llama.cpp cuts or merges some texts of this family otherwise, such as numbers after a space.");
  if (!exact) {
    notes.push_back("The tokenizer merges by rank, which GGUF has for bytes alone: some texts may be cut otherwise.");
  }
  return add_keys(given, out);
}

}  // namespace graft::convert
