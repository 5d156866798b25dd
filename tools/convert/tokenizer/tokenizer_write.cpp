// tokenizer.json and tokenizer.model of a vocabulary.
#include "tools/convert/tokenizer/tokenizer_write.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/text/tokenizer/piece_table.h"
#include "runtime/text/tokenizer/pipeline.h"
#include "runtime/text/unicode/unicode.h"
#include "tools/convert/tokenizer/base64.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace graft::convert {
namespace {

using text::Algorithm;
using text::kSpaceMark;
using text::SpacePrefix;
using text::Split;
using text::Token;
using text::TokenId;
using text::TokenKind;
using text::Vocabulary;
using OrderedJson = nlohmann::ordered_json;

bool same_kind(TokenKind a, TokenKind b) {
  const auto plain = [](TokenKind kind) { return kind == TokenKind::unused ? TokenKind::normal : kind; };
  return plain(a) == plain(b);
}

bool same_tokens(const Vocabulary& a, const Vocabulary& b) {
  return std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(),
                    [](const Token& x, const Token& y) { return x.text == y.text && same_kind(x.kind, y.kind); });
}

bool same_strips(const Vocabulary& a, const Vocabulary& b) {
  return std::equal(
      a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(),
      [](const Token& x, const Token& y) { return x.strip_left == y.strip_left && x.strip_right == y.strip_right; });
}

bool same_scores(const Vocabulary& a, const Vocabulary& b) {
  if (a.algorithm != Algorithm::scored_bpe && a.algorithm != Algorithm::unigram) return true;
  return std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(),
                    [](const Token& x, const Token& y) { return x.score == y.score; });
}

/// As JSON spells it, in quotes. The text is UTF-8.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

Status check_spellings(const Vocabulary& vocabulary) {
  std::set<std::string_view> seen;
  for (const Token& token : vocabulary.tokens) {
    if (token.text.empty()) continue;
    if (text::valid_utf8(token.text) != token.text) return unsupported("A token is not UTF-8, which JSON cannot hold.");
    if (!seen.insert(token.text).second) return unsupported("Two tokens are spelled \"", shown(token.text), "\".");
  }
  return {};
}

OrderedJson sequence(OrderedJson steps, const char* members) {
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return steps[0];
  return {{"type", "Sequence"}, {members, std::move(steps)}};
}

/// The prefix of a normalizer, unless Metaspace adds it.
bool prepends(const Vocabulary& v) { return v.space_prefix == SpacePrefix::every && !v.prefix_unless_spaced; }

OrderedJson normalizer(const Vocabulary& v) {
  OrderedJson steps = OrderedJson::array();
  if (v.normal_form_c) steps.push_back({{"type", "NFC"}});
  if (!v.character_map.empty()) {
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(v.character_map)}});
  }
  if (v.collapse_spaces) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  if (v.algorithm == Algorithm::byte_bpe) return sequence(std::move(steps), "normalizers");
  if (prepends(v)) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  if (!v.prefix_unless_spaced) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}});
  }
  return sequence(std::move(steps), "normalizers");
}

OrderedJson pre_tokenizer(const Vocabulary& v) {
  OrderedJson steps = OrderedJson::array();
  if (v.algorithm == Algorithm::byte_bpe) {
    const bool last_is_gpt2 = !v.splits.empty() && v.splits.back() == Split::gpt2;
    for (std::size_t i = 0; i + (last_is_gpt2 ? 1 : 0) < v.splits.size(); ++i) {
      if (v.splits[i] == Split::digit) {
        steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
      } else {
        steps.push_back({{"type", "Split"},
                         {"pattern", {{"Regex", text::split_pattern(v.splits[i])}}},
                         {"behavior", "Isolated"},
                         {"invert", false}});
      }
    }
    steps.push_back({{"type", "ByteLevel"},
                     {"add_prefix_space", v.space_prefix == SpacePrefix::every},
                     {"trim_offsets", true},
                     {"use_regex", last_is_gpt2}});
  } else if (v.prefix_unless_spaced) {
    const char* scheme = v.space_prefix == SpacePrefix::none    ? "never"
                         : v.space_prefix == SpacePrefix::first ? "first"
                                                                : "always";
    steps.push_back({{"type", "Metaspace"}, {"replacement", kSpaceMark}, {"prepend_scheme", scheme}, {"split", false}});
  }
  return sequence(std::move(steps), "pretokenizers");
}

OrderedJson decoder(const Vocabulary& v) {
  if (v.algorithm == Algorithm::byte_bpe) {
    return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  }
  OrderedJson steps = OrderedJson::array();
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}});
  if (v.byte_fallback) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (v.space_prefix != SpacePrefix::none) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return sequence(std::move(steps), "decoders");
}

OrderedJson post_processor(const Vocabulary& v) {
  if (v.before.empty() && v.after.empty()) return nullptr;
  OrderedJson single = OrderedJson::array();
  OrderedJson pair = OrderedJson::array();
  OrderedJson tokens = OrderedJson::object();
  const auto add = [&](TokenId id, OrderedJson& list, int type) {
    const std::string& spelled = v.tokens[static_cast<std::size_t>(id)].text;
    list.push_back({{"SpecialToken", {{"id", spelled}, {"type_id", type}}}});
    tokens[spelled] = {{"id", spelled}, {"ids", {id}}, {"tokens", {spelled}}};
  };
  const auto text_between = [&](OrderedJson& list, const char* name, int type) {
    for (const TokenId id : v.before) add(id, list, type);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    for (const TokenId id : v.after) add(id, list, type);
  };
  text_between(single, "A", 0);
  text_between(pair, "A", 0);
  text_between(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

OrderedJson added_tokens(const Vocabulary& v) {
  OrderedJson out = OrderedJson::array();
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const Token& token = v.tokens[i];
    const bool special = token.kind == TokenKind::control || token.kind == TokenKind::unknown;
    if (!special && token.kind != TokenKind::user_defined) continue;
    out.push_back({{"id", i},
                   {"content", token.text},
                   {"single_word", token.single_word},
                   {"lstrip", token.strip_left},
                   {"rstrip", token.strip_right},
                   {"normalized", token.normalized},
                   {"special", special}});
  }
  return out;
}

/// Vocabulary and merges by hand: an ordered object of a hundred thousand members would be searched at each of them.
std::string vocabulary_members(const Vocabulary& v) {
  std::string out = v.algorithm == Algorithm::unigram ? "\"vocab\":[" : "\"vocab\":{";
  bool first = true;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (v.tokens[i].apart) continue;
    if (v.algorithm == Algorithm::unigram) {
      out += cat(first ? "" : ",", "[", quoted(v.tokens[i].text), ",", nlohmann::json(v.tokens[i].score).dump(), "]");
    } else if (!v.tokens[i].text.empty()) {
      out += cat(first ? "" : ",", quoted(v.tokens[i].text), ":", i);
    } else {
      continue;
    }
    first = false;
  }
  if (v.algorithm == Algorithm::unigram) return out + "]";
  if (v.algorithm == Algorithm::word_piece || v.algorithm == Algorithm::word_level) return out + "}";
  out += "},\"merges\":[";
  for (std::size_t i = 0; i < v.merges.size(); ++i) {
    const auto& [left, right] = v.merges[i];
    out += cat(i == 0 ? "" : ",", "[", quoted(v.tokens[static_cast<std::size_t>(left)].text), ",",
               quoted(v.tokens[static_cast<std::size_t>(right)].text), "]");
  }
  return out + "]";
}

OrderedJson model_head(const Vocabulary& v) {
  if (v.algorithm == Algorithm::unigram) {
    OrderedJson out = {{"type", "Unigram"}, {"unk_id", nullptr}, {"byte_fallback", v.byte_fallback}};
    if (v.unknown != text::kNoToken) out["unk_id"] = v.unknown;
    return out;
  }
  if (v.algorithm == Algorithm::word_piece || v.algorithm == Algorithm::word_level) {
    OrderedJson out = {{"type", v.algorithm == Algorithm::word_level ? "WordLevel" : "WordPiece"}, {"unk_token", ""}};
    if (v.unknown != text::kNoToken) out["unk_token"] = v.tokens[static_cast<std::size_t>(v.unknown)].text;
    if (v.algorithm == Algorithm::word_level) return out;
    out["continuing_subword_prefix"] = v.inner_prefix;
    out["max_input_chars_per_word"] = v.longest_word;
    return out;
  }
  const auto or_null = [](const std::string& text) { return text.empty() ? OrderedJson(nullptr) : OrderedJson(text); };
  OrderedJson out = {{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", nullptr},
                     {"continuing_subword_prefix", or_null(v.inner_prefix)},
                     {"end_of_word_suffix", or_null(v.end_suffix)},
                     {"fuse_unk", v.fuse_unknown},
                     {"byte_fallback", v.byte_fallback},
                     {"ignore_merges", v.ignore_merges}};
  if (v.unknown != text::kNoToken) out["unk_token"] = v.tokens[static_cast<std::size_t>(v.unknown)].text;
  return out;
}

/// `outer` with `inner` members put before its last brace.
std::string with_members(std::string outer, const std::string& inner) {
  outer.pop_back();
  return outer + "," + inner + "}";
}

/// The four parts around the model: as the source had them, or as flags say them.
OrderedJson parts_around(const Vocabulary& v) {
  if (v.by_steps && !v.source_json.empty()) {
    OrderedJson source = OrderedJson::parse(v.source_json, nullptr, false);
    if (source.is_object()) return source;
  }
  return {{"normalizer", normalizer(v)},
          {"pre_tokenizer", pre_tokenizer(v)},
          {"post_processor", post_processor(v)},
          {"decoder", decoder(v)}};
}

Result<std::string> tokenizer_json(const Vocabulary& v) {
  GRAFT_TRY(check_spellings(v));
  OrderedJson document = {
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added_tokens(v)}};
  document.update(parts_around(v));
  const std::string model = with_members(model_head(v).dump(), vocabulary_members(v));
  return with_members(document.dump(), "\"model\":" + model);
}

// The wire format of protobuf: a tag of number and type, then a varint (0), counted bytes (2) or four bytes (5).
void put_varint(std::string& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) out += static_cast<char>((number & 0x7F) | 0x80);
  out += static_cast<char>(number);
}

void put_number(std::string& out, std::uint32_t field, std::int64_t number) {
  put_varint(out, field << 3);
  put_varint(out, static_cast<std::uint64_t>(number));
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string sentencepiece(const Vocabulary& v) {
  std::string out;
  for (const Token& token : v.tokens) {
    std::string piece;
    put_bytes(piece, 1, token.text);
    put_varint(piece, 2 << 3 | 5);
    piece.append(reinterpret_cast<const char*>(&token.score), sizeof token.score);
    if (token.kind != TokenKind::normal) put_number(piece, 3, static_cast<std::int64_t>(token.kind));
    put_bytes(out, 1, piece);
  }
  std::string trainer;
  put_number(trainer, 3, v.algorithm == Algorithm::unigram ? 1 : 2);
  put_number(trainer, 4, static_cast<std::int64_t>(v.tokens.size()));
  put_number(trainer, 35, v.byte_fallback ? 1 : 0);
  put_number(trainer, 40, v.unknown);
  put_number(trainer, 41, v.bos);
  put_number(trainer, 42, v.eos);
  put_number(trainer, 43, v.pad);
  put_bytes(out, 2, trainer);
  std::string normalizer_spec;
  put_bytes(normalizer_spec, 1, v.character_map.empty() ? "identity" : "user_defined");
  put_bytes(normalizer_spec, 2, v.character_map);
  put_number(normalizer_spec, 3, v.space_prefix == SpacePrefix::none ? 0 : 1);
  put_number(normalizer_spec, 4, v.collapse_spaces ? 1 : 0);
  put_number(normalizer_spec, 5, 1);
  put_bytes(out, 3, normalizer_spec);
  return out;
}

/// The ids that tokenizer_config.json tells are not part of the file.
void take_named_ids(const Vocabulary& from, Vocabulary& to) {
  to.bos = from.bos;
  to.eos = from.eos;
  to.pad = from.pad;
  to.mask = from.mask;
}

}  // namespace

std::vector<std::string> vocabulary_differences(const Vocabulary& a, const Vocabulary& b) {
  const std::pair<bool, const char*> parts[] = {
      {a.algorithm == b.algorithm, "the algorithm"},
      {same_tokens(a, b), "the tokens"},
      {same_scores(a, b), "the scores"},
      {a.merges == b.merges, "the merges"},
      {a.splits == b.splits && a.by_steps == b.by_steps && a.pre_tokenizers == b.pre_tokenizers, "the pre-tokenizer"},
      {a.normalizers == b.normalizers, "the normalizer"},
      {a.inner_prefix == b.inner_prefix && a.end_suffix == b.end_suffix, "what marks the parts of words"},
      {a.before == b.before && a.after == b.after, "what is put around a text"},
      {a.bos == b.bos && a.eos == b.eos, "the first and last token of a text"},
      {a.unknown == b.unknown, "the unknown token"},
      {a.pad == b.pad && a.mask == b.mask, "the padding and mask tokens"},
      {a.space_prefix == b.space_prefix && a.prefix_unless_spaced == b.prefix_unless_spaced, "the prefix of a text"},
      {a.normal_form_c == b.normal_form_c, "the normal form NFC"},
      {a.character_map == b.character_map, "the character map"},
      {a.collapse_spaces == b.collapse_spaces, "that spaces are joined"},
      {a.ignore_merges == b.ignore_merges, "that whole words are not merged from bytes"},
      {a.byte_fallback == b.byte_fallback, "that unknown characters become bytes"},
      {a.fuse_unknown == b.fuse_unknown, "that unknown characters are joined"},
      {same_strips(a, b), "white space around special tokens"}};
  std::vector<std::string> out;
  for (const auto& [same, name] : parts) {
    if (!same) out.emplace_back(name);
  }
  return out;
}

std::vector<std::string> merge_lines(const Vocabulary& vocabulary) {
  std::vector<std::string> out;
  out.reserve(vocabulary.merges.size());
  for (const auto& [left, right] : vocabulary.merges) {
    out.push_back(cat(vocabulary.tokens[static_cast<std::size_t>(left)].text, " ",
                      vocabulary.tokens[static_cast<std::size_t>(right)].text));
  }
  return out;
}

Result<TokenizerFile> tokenizer_file(const Vocabulary& vocabulary) {
  TokenizerFile out;
  Vocabulary read;
  if (vocabulary.algorithm == Algorithm::scored_bpe) {
    out = {"tokenizer.model", sentencepiece(vocabulary)};
    GRAFT_TRY_ASSIGN(read, load_sentencepiece(std::as_bytes(std::span(out.contents))));
  } else if (vocabulary.algorithm == Algorithm::word_piece && !vocabulary.by_steps) {
    return unsupported("A tokenizer of type word_piece cannot be written.");
  } else {
    GRAFT_TRY_ASSIGN(std::string json, tokenizer_json(vocabulary));
    out = {"tokenizer.json", std::move(json)};
    GRAFT_TRY_ASSIGN(read, load_tokenizer_json(out.contents, vocabulary.by_steps ? JsonForm::exact : JsonForm::flags));
  }
  take_named_ids(vocabulary, read);
  const auto differences = vocabulary_differences(vocabulary, read);
  if (differences.empty()) return out;
  return unsupported(out.name, " cannot say ", differences.front(), " of this tokenizer.");
}

}  // namespace graft::convert
