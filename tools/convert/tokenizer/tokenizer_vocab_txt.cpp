// The files of older encoders, which have no tokenizer.json: said as one, and read as that.
#include "tools/convert/common/json_access.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace graft::convert {
namespace {

/// Special tokens that the vocabulary has, as entries of "added_tokens".
Json special_tokens(const Json& vocabulary, std::initializer_list<const char*> names) {
  Json out = Json::array();
  for (const char* name : names) {
    const Json* id = member(vocabulary, name);
    if (id != nullptr) out.push_back({{"id", *id}, {"content", name}, {"special", true}});
  }
  return out;
}

/// {"sep": [TOKEN, ID], "cls": [TOKEN, ID]}; not_found where the vocabulary lacks one.
Result<Json> around(const Json& vocabulary, const char* type, const char* begin, const char* end) {
  const Json *first = member(vocabulary, begin), *last = member(vocabulary, end);
  if (first == nullptr || last == nullptr) {
    return error(Code::not_found, "The vocabulary has no \"", first == nullptr ? begin : end, "\".");
  }
  return Json{{"type", type}, {"sep", {end, *last}}, {"cls", {begin, *first}}};
}

}  // namespace

Result<text::Vocabulary> load_vocab_txt(std::string_view lines, const Json& config) {
  Json vocabulary = Json::object();
  std::int64_t id = 0;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    std::string_view line = lines.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!vocabulary.emplace(std::string(line), id).second) {
      return corrupt("Line ", id + 1, " of vocab.txt holds a token for the second time.");
    }
    ++id;
    begin = end + 1;
  }
  GRAFT_TRY_ASSIGN(const Json processor,
                   around(vocabulary, "BertProcessing", "[CLS]", "[SEP]").with_context("vocab.txt"));
  const Json* accents = member(config, "strip_accents");
  const Json file = {{"added_tokens", special_tokens(vocabulary, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})},
                     {"normalizer",
                      {{"type", "BertNormalizer"},
                       {"clean_text", true},
                       {"handle_chinese_chars", flag_member(config, "tokenize_chinese_chars", true)},
                       {"strip_accents", accents != nullptr ? *accents : Json()},
                       {"lowercase", flag_member(config, "do_lower_case", true)}}},
                     {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                     {"post_processor", processor},
                     {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                     {"model",
                      {{"type", "WordPiece"},
                       {"unk_token", "[UNK]"},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 100},
                       {"vocab", vocabulary}}}};
  return load_tokenizer_json(file.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Result<text::Vocabulary> load_roberta(std::string_view vocab_json, std::string_view merges_txt) {
  GRAFT_TRY_ASSIGN(const Json vocabulary, parse_json(vocab_json).with_context("While reading vocab.json"));
  GRAFT_TRY_ASSIGN(Json processor, around(vocabulary, "RobertaProcessing", "<s>", "</s>").with_context("vocab.json"));
  processor["trim_offsets"] = true;
  processor["add_prefix_space"] = false;
  Json merges = Json::array();
  for (std::size_t begin = 0; begin < merges_txt.size();) {
    const std::size_t end = std::min(merges_txt.find('\n', begin), merges_txt.size());
    std::string_view line = merges_txt.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !(begin == 0 && line.starts_with("#version"))) merges.push_back(std::string(line));
    begin = end + 1;
  }
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  const Json file = {{"added_tokens", special_tokens(vocabulary, {"<s>", "<pad>", "</s>", "<unk>", "<mask>"})},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", processor},
                     {"decoder", byte_level},
                     {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
  return load_tokenizer_json(file.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace graft::convert
