// The model and the tokens of a tokenizer.json; tokenizer_json_steps.cpp reads what happens before and after the model.
#include <algorithm>

#include "tools/convert/common/json_access.h"
#include "tools/convert/tokenizer/tokenizer_json.h"
#include "tools/convert/tokenizer/tokenizer_load.h"
#include "tools/convert/tokenizer/vocabulary_parts.h"

namespace graft::convert {
namespace {

using text::Algorithm;
using text::Token;
using text::TokenId;
using text::TokenKind;
using text::Vocabulary;

/// Ids take room up to the largest: it is at most eight times the number of tokens, and 4096 for small vocabularies
/// whose added tokens stand apart.
std::int64_t largest_id(std::size_t tokens) {
  constexpr std::size_t kFactor = 8, kApart = 4096, kLimit = (1 << 24) - 1;
  return static_cast<std::int64_t>(std::min(kFactor * std::min(tokens, kLimit) + kApart, kLimit));
}

/// Makes room for `id`; ids that nothing names stay unused tokens without text.
Token& token_at(Vocabulary& vocabulary, std::int64_t id) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= vocabulary.tokens.size()) vocabulary.tokens.resize(index + 1, Token{.kind = TokenKind::unused});
  return vocabulary.tokens[index];
}

Status read_vocab_object(const Json& vocab, Vocabulary& out) {
  if (!vocab.is_object()) return corrupt("The vocabulary is not an object of tokens and ids.");
  const std::int64_t largest = largest_id(out.tokens.size() + vocab.size());
  for (const auto& [spelled, number] : vocab.items()) {
    GRAFT_TRY_ASSIGN(const std::int64_t id,
                     integer_value(number, cat("The id of \"", shown(spelled), '"'), 0, largest));
    Token& token = token_at(out, id);
    if (!token.text.empty())
      return corrupt("Tokens \"", shown(token.text), "\" and \"", shown(spelled), "\" both have id ", id, ".");
    token.text = spelled;
    token.kind = TokenKind::normal;
  }
  return {};
}

Status read_merges(const Json& model, Vocabulary& out) {
  const Json* merges = member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return corrupt("The BPE model has no list of merges.");
  std::vector<std::string_view> lines;
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (const Json& merge : *merges) {
    if (const auto* line = merge.get_ptr<const std::string*>()) {
      lines.emplace_back(*line);
      continue;
    }
    const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!pair) return corrupt("Merge ", lines.size() + pairs.size(), " is neither a string nor a pair of strings.");
    pairs.emplace_back(*merge[0].get_ptr<const std::string*>(), *merge[1].get_ptr<const std::string*>());
  }
  if (!lines.empty() && !pairs.empty()) return corrupt("The merges are partly strings and partly pairs.");
  if (pairs.empty()) {
    GRAFT_TRY_ASSIGN(out.merges, parse_merges(out, lines));
  } else {
    GRAFT_TRY_ASSIGN(out.merges, parse_merges(out, pairs));
  }
  return {};
}

Status read_unknown(const Json& model, Vocabulary& out) {
  const std::string_view spelled = string_member(model, "unk_token");
  if (spelled.empty()) return {};
  const auto found =
      std::find_if(out.tokens.begin(), out.tokens.end(), [&](const Token& token) { return token.text == spelled; });
  if (found == out.tokens.end()) return corrupt("The unknown token \"", shown(spelled), "\" is not in the vocabulary.");
  out.unknown = static_cast<TokenId>(found - out.tokens.begin());
  return {};
}

Status read_bpe(const Json& model, Vocabulary& out) {
  out.algorithm = Algorithm::char_bpe;  // byte_bpe once a step of pre-tokenization says so
  out.inner_prefix = string_member(model, "continuing_subword_prefix");
  out.end_suffix = string_member(model, "end_of_word_suffix");
  const Json* vocab = member(model, "vocab");
  if (vocab == nullptr) return corrupt("The model has no vocabulary.");
  GRAFT_TRY(read_vocab_object(*vocab, out));
  GRAFT_TRY(read_merges(model, out));
  out.fuse_unknown = flag_member(model, "fuse_unk", false);
  out.byte_fallback = flag_member(model, "byte_fallback", false);
  out.ignore_merges = flag_member(model, "ignore_merges", false);
  return read_unknown(model, out);
}

Status read_unigram(const Json& model, Vocabulary& out) {
  out.algorithm = Algorithm::unigram;
  const Json* vocab = member(model, "vocab");
  if (vocab == nullptr || !vocab->is_array()) return corrupt("The Unigram model has no list of pieces.");
  for (const Json& entry : *vocab) {
    const bool pair = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!pair) return corrupt("Piece ", out.tokens.size(), " of the Unigram model is not a string and a score.");
    out.tokens.push_back({.text = *entry[0].get_ptr<const std::string*>(), .score = entry[1].get<float>()});
  }
  out.byte_fallback = flag_member(model, "byte_fallback", false);
  if (member(model, "unk_id") == nullptr) return {};
  GRAFT_TRY_ASSIGN(const std::int64_t id,
                   integer_member(model, "unk_id", 0, static_cast<std::int64_t>(out.tokens.size()) - 1));
  out.unknown = static_cast<TokenId>(id);
  return {};
}

Status read_word_piece(const Json& model, Vocabulary& out) {
  out.algorithm = Algorithm::word_piece;
  const Json* vocab = member(model, "vocab");
  if (vocab == nullptr) return corrupt("The model has no vocabulary.");
  GRAFT_TRY(read_vocab_object(*vocab, out));
  if (member(model, "max_input_chars_per_word") != nullptr) {
    GRAFT_TRY_ASSIGN(const std::int64_t most, integer_member(model, "max_input_chars_per_word", 0, UINT32_MAX));
    out.longest_word = static_cast<std::uint32_t>(most);
  }
  const Json* prefix = member(model, "continuing_subword_prefix");
  out.inner_prefix = prefix != nullptr ? string_member(model, "continuing_subword_prefix") : "##";
  GRAFT_TRY(read_unknown(model, out));
  return {};
}

Status read_word_level(const Json& model, Vocabulary& out) {
  out.algorithm = Algorithm::word_level;
  const Json* vocab = member(model, "vocab");
  if (vocab == nullptr) return corrupt("The model has no vocabulary.");
  GRAFT_TRY(read_vocab_object(*vocab, out));
  return read_unknown(model, out);
}

Status read_added(const Json& added, Vocabulary& out) {
  if (!added.is_array()) return corrupt("\"added_tokens\" is not a list.");
  const std::int64_t largest = largest_id(out.tokens.size() + added.size());
  for (const Json& entry : added) {
    GRAFT_TRY_ASSIGN(const std::int64_t id, integer_member(entry, "id", 0, largest));
    Token& token = token_at(out, id);
    token.apart = token.kind == TokenKind::unused;
    token.text = string_member(entry, "content");
    if (token.text.empty()) return corrupt("Added token ", id, " has no content.");
    token.kind = flag_member(entry, "special", false) ? TokenKind::control : TokenKind::user_defined;
    token.strip_left = flag_member(entry, "lstrip", false);
    token.strip_right = flag_member(entry, "rstrip", false);
    token.single_word = flag_member(entry, "single_word", false);
    token.normalized = flag_member(entry, "normalized", token.kind == TokenKind::user_defined);
  }
  return {};
}

/// <0xNN> where the model falls back on bytes.
void finish_bytes(Vocabulary& out) {
  for (Token& token : out.tokens) {
    if (token.kind == TokenKind::normal && out.byte_fallback && token.text.size() == 6 &&
        token.text.starts_with("<0x")) {
      token.kind = TokenKind::byte;
    }
  }
}

/// The forms that go without steps: pieces as SentencePiece and GGUF spell them, and the unknown token's kind.
void finish_flagged(Vocabulary& out) {
  for (Token& token : out.tokens) {
    token.single_word = token.normalized = token.apart = false;
    if (token.kind != TokenKind::normal || out.algorithm != Algorithm::word_piece) continue;
    token.text = token.text.starts_with("##") ? token.text.substr(2) : "\xE2\x96\x81" + token.text;
  }
  if (out.algorithm == Algorithm::word_piece) out.inner_prefix.clear();
  if (out.unknown != text::kNoToken) out.tokens[static_cast<std::size_t>(out.unknown)].kind = TokenKind::unknown;
}

/// The model of a file that does not name it, as Hugging Face's library finds it: the first one whose members are
/// there.
Result<std::string_view> untyped_model(const Json& model) {
  const auto has = [&](std::initializer_list<const char*> names) {
    return std::ranges::all_of(names, [&](const char* name) { return member(model, name) != nullptr; });
  };
  const Json* vocab = member(model, "vocab");
  const bool by_id = vocab != nullptr && vocab->is_object();
  if (by_id && has({"merges"})) return std::string_view("BPE");
  if (by_id && has({"unk_token", "continuing_subword_prefix", "max_input_chars_per_word"}))
    return std::string_view("WordPiece");
  if (by_id && has({"unk_token"})) return std::string_view("WordLevel");
  if (vocab != nullptr && vocab->is_array()) return std::string_view("Unigram");
  return corrupt("The model has no \"type\", and its members are those of none: BPE has \"vocab\" and \"merges\", ",
                 "WordPiece \"vocab\", \"unk_token\", \"continuing_subword_prefix\" and \"max_input_chars_per_word\", ",
                 "WordLevel \"vocab\" and \"unk_token\", Unigram a list \"vocab\".");
}

Result<Vocabulary> read_document(const Json& document, JsonForm form) {
  const Json* model = member(document, "model");
  if (model == nullptr) return corrupt("The file has no \"model\".");
  std::string_view type = string_member(*model, "type");
  if (member(*model, "type") == nullptr) {  // older files leave it out
    GRAFT_TRY_ASSIGN(type, untyped_model(*model));
  }
  Vocabulary out;
  if (type == "BPE") {
    GRAFT_TRY(read_bpe(*model, out));
  } else if (type == "Unigram") {
    GRAFT_TRY(read_unigram(*model, out));
  } else if (type == "WordPiece") {
    GRAFT_TRY(read_word_piece(*model, out));
  } else if (type == "WordLevel") {
    GRAFT_TRY(read_word_level(*model, out));
  } else {
    return unsupported("The tokenizer model \"", shown(type), "\" is not supported.");
  }
  if (const Json* added = member(document, "added_tokens")) GRAFT_TRY(read_added(*added, out));
  finish_bytes(out);
  GRAFT_TRY(read_json_post_processor(document, out));
  Vocabulary stepped = out;
  const Status by_steps = read_json_steps(document, stepped);
  const bool hashes = out.algorithm != Algorithm::word_piece || out.inner_prefix == "##";
  if (out.algorithm == Algorithm::word_piece && hashes) out.inner_prefix.clear();
  const Status by_flags = hashes ? read_json_flags(document, out) : by_steps;
  if (by_flags.ok() && hashes && (form == JsonForm::flags || (by_steps.ok() && flags_suffice(stepped, out)))) {
    finish_flagged(out);
    return out;
  }
  if (form == JsonForm::flags) return by_flags;
  if (!by_steps.ok()) return by_steps;
  return stepped;
}

}  // namespace

Result<Vocabulary> load_tokenizer_json(std::string_view json, JsonForm form) {
  GRAFT_TRY_ASSIGN(const Json document, parse_json(json).with_context("While reading tokenizer.json"));
  return load_tokenizer_document(document, form);
}

Result<Vocabulary> load_tokenizer_document(const Json& document, JsonForm form) {
  return read_document(document, form).with_context("While reading tokenizer.json");
}

Result<Vocabulary> load_vocab_and_merges(std::string_view vocab_json, std::string_view merges_txt,
                                         std::string_view added_tokens_json, std::vector<text::Split> splits) {
  Vocabulary out;
  out.algorithm = Algorithm::byte_bpe;
  out.splits = std::move(splits);
  GRAFT_TRY_ASSIGN(const Json vocab, parse_json(vocab_json).with_context("While reading vocab.json"));
  GRAFT_TRY(read_vocab_object(vocab, out).with_context("While reading vocab.json"));
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin < merges_txt.size();) {
    const std::size_t end = std::min(merges_txt.find('\n', begin), merges_txt.size());
    std::string_view line = merges_txt.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !(begin == 0 && line.starts_with("#version"))) lines.push_back(line);
    begin = end + 1;
  }
  GRAFT_TRY_ASSIGN(out.merges, parse_merges(out, lines).with_context("While reading merges.txt"));
  if (added_tokens_json.empty()) return out;
  GRAFT_TRY_ASSIGN(const Json added, parse_json(added_tokens_json).with_context("While reading added_tokens.json"));
  const std::size_t before = out.tokens.size();
  GRAFT_TRY(read_vocab_object(added, out).with_context("While reading added_tokens.json"));
  for (std::size_t i = before; i < out.tokens.size(); ++i) out.tokens[i].kind = TokenKind::control;
  return out;
}

}  // namespace graft::convert
