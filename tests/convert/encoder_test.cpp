// Encoders' descriptions: what config.json files say, what is refused, and names with and without the encoder's module.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <span>

#include "runtime/language/text_inputs.h"
#include "tests/support/paths.h"
#include "tools/convert/decoder/families.h"
#include "tools/convert/huggingface/hf_config.h"
#include "tools/convert/language_model/convert_decoder.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace graft::convert::convert_encoder_test {
namespace {

Json bert() {
  std::ifstream file(test::source_dir() + "/tests/fuzz/corpus/hf_config/bert", std::ios::binary);
  EXPECT_TRUE(file.good());
  auto json = parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
  EXPECT_TRUE(json.ok());
  return *json;
}

Result<HfModel> with(const char* key, Json value) {
  Json config = bert();
  config[key] = std::move(value);
  return read_hf_config(config);
}

void expect_refused(const Result<HfModel>& read, const std::string& part) {
  ASSERT_FALSE(read.ok()) << part;
  EXPECT_NE(read.status().message().find(part), std::string::npos) << read.status().message();
  EXPECT_EQ(read.status().message().back(), '.') << read.status().message();
}

TEST(EncoderConfig, HeadsAndPositionsFollowTheClassAndTheFamily) {
  const auto read = read_hf_config(bert());
  ASSERT_TRUE(read.ok()) << read.status().message();
  const EncoderSpec& encoder = *read->spec.encoder;
  EXPECT_EQ(encoder.head, EncoderHead::classes);
  EXPECT_TRUE(encoder.pooled_classes);
  EXPECT_EQ(encoder.class_names, (std::vector<std::string>{"bad", "good"}));
  EXPECT_EQ(read->spec.context, 16);

  Json roberta = bert();
  roberta.update({{"model_type", "roberta"}, {"pad_token_id", 1}, {"architectures", {"RobertaForMaskedLM"}}});
  const auto shifted = read_hf_config(roberta);
  ASSERT_TRUE(shifted.ok()) << shifted.status().message();
  EXPECT_EQ(shifted->spec.first_position, 2);
  EXPECT_EQ(shifted->spec.context, 14);
  EXPECT_EQ(shifted->spec.encoder->head, EncoderHead::masked);

  const auto questions = with("architectures", {"BertForQuestionAnswering"});
  ASSERT_TRUE(questions.ok());
  EXPECT_EQ(questions->spec.encoder->head, EncoderHead::none);
  ASSERT_EQ(questions->spec.notes.size(), 1u);
  EXPECT_NE(questions->spec.notes[0].find("BertForQuestionAnswering, whose head is left out"), std::string::npos);
}

TEST(EncoderConfig, LiesAreToldApart) {
  expect_refused(with("position_embedding_type", "relative_key"), "\"position_embedding_type\" is \"relative_key\"");
  expect_refused(with("is_decoder", true), "\"is_decoder\" is true; the family \"bert\" of graft has false there");
  expect_refused(with("hidden_size", 9), "is no multiple of the 2 heads");
  expect_refused(with("hidden_size", "8"), "\"hidden_size\" is not an integer");
  expect_refused(with("num_hidden_layers", 0), "\"num_hidden_layers\" is not an integer between 1 and 1000");
  expect_refused(with("type_vocab_size", -2), "\"type_vocab_size\" is not an integer");
  expect_refused(with("hidden_act", "swoosh"), "\"swoosh\" (\"hidden_act\") is not supported");
  expect_refused(with("id2label", Json::object()), "names 0 classes");
  expect_refused(with("quantization_config", {{"bits", 4}}), "quantized");
  Json roberta = bert();
  roberta.update({{"model_type", "roberta"}, {"pad_token_id", 20}});
  expect_refused(read_hf_config(roberta), "\"max_position_embeddings\" is 16; positions begin at 21");
  // Names that are none, or of the wrong numbers, are left out; the classes remain.
  const auto odd = with("id2label", {{"0", "bad"}, {"7", "good"}});
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->spec.encoder->classes, 2);
  EXPECT_TRUE(odd->spec.encoder->class_names.empty());
}

std::string seed_of_gguf() {
  std::ifstream file(test::source_dir() + "/tests/fuzz/corpus/gguf/bert", std::ios::binary);
  EXPECT_TRUE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<ConvertedDecoder> convert(const std::string& file) {
  return convert_gguf(std::as_bytes(std::span(file)), "bert.gguf");
}

TEST(EncoderGguf, EveryTruncationAndManyFlippedBitsAreReadOrRefused) {
  const std::string file = seed_of_gguf();
  const auto whole = convert(file);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole->model.graph.outputs()[0].name, "last_hidden_state");
  EXPECT_EQ(pooling_of(whole->model.metadata), Pooling::cls);
  EXPECT_TRUE(whole->model.tokenizer.has_value()) << whole->report.text();
  for (std::size_t size = 0; size < file.size(); size += 7) {
    const auto cut = convert(file.substr(0, size));
    EXPECT_TRUE(cut.ok() || cut.status().message().ends_with('.')) << cut.status().message();
  }
  EXPECT_FALSE(convert(file.substr(0, file.size() - 64)).ok());
  constexpr std::size_t kStep = 11;  // no multiple of a byte
  for (std::size_t bit = 0; bit < file.size() * 8; bit += kStep) {
    std::string bad = file;
    bad[bit / 8] ^= static_cast<char>(1u << bit % 8);
    const auto read = convert(bad);
    EXPECT_TRUE(read.ok() || read.status().message().ends_with('.')) << read.status().message();
  }
}

TEST(EncoderGguf, LiesAreToldApart) {
  const std::string file = seed_of_gguf();
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& part) {
    std::string bad = file;
    const std::size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bad.replace(at, from.size(), to);
    const auto read = convert(bad);
    ASSERT_FALSE(read.ok()) << part;
    EXPECT_NE(read.status().message().find(part), std::string::npos) << read.status().message();
  };
  refused("position_embd", "position_ombd", "learned positions are supported");
  refused("token_embd_norm.bias", "token_embd_nerm.bias", "\"token_embd_norm.bias\" is missing");
  refused("blk.0.attn_output_norm.weight", "blk.0.attn_output_narm.weight", "attn_output_norm");
  refused("bert.block_count", "bert.block_kount", "no metadata \"bert.block_count\"");
}

TEST(EncoderVocabulary, OldFilesAreReadOrRefused) {
  const auto refused = [](const Result<text::Vocabulary>& read, const std::string& part) {
    ASSERT_FALSE(read.ok()) << part;
    EXPECT_NE(read.status().message().find(part), std::string::npos) << read.status().message();
    EXPECT_EQ(read.status().message().back(), '.') << read.status().message();
  };
  const auto good = load_vocab_txt("[PAD]\r\n[UNK]\n[CLS]\n[SEP]\na\n##b", Json());
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(good->tokens.size(), 6u);
  refused(load_vocab_txt("[UNK]\n[CLS]\n[SEP]\na\na\n", Json()),
          "Line 5 of vocab.txt holds a token for the second time");
  refused(load_vocab_txt("[UNK]\n[SEP]\na\n", Json()), "no \"[CLS]\"");
  refused(load_vocab_txt("[CLS]\n[SEP]\na\n", Json()), "[UNK]");
  refused(load_vocab_txt("", Json()), "no \"[CLS]\"");
  refused(load_roberta("{", ""), "vocab.json");
  refused(load_roberta(R"({"<s>": 0, "a": 1})", ""), "no \"</s>\"");
  refused(load_roberta(R"({"<s>": 0, "</s>": 1, "a": 2})", "a b"), "Merge 0");
}

TEST(EncoderNames, HaveTheEncodersModuleOrNot) {
  const Family& family = *find_family("distilbert");
  EXPECT_EQ(renamed("distilbert.transformer.layer.3.ffn.lin1.bias", *family.names, *family.alone),
            "transformer.layer.3.ffn.lin1.bias");
  EXPECT_EQ(renamed("pre_classifier.weight", *family.names, *family.alone), "pre_classifier.weight");
  EXPECT_EQ(renamed("embeddings.LayerNorm.weight", *find_family("bert")->alone, *find_family("roberta")->names),
            "roberta.embeddings.LayerNorm.weight");
  EXPECT_EQ(renamed("embeddings.position_ids", *find_family("bert")->alone, *find_family("bert")->names), "");
}

}  // namespace
}  // namespace graft::convert::convert_encoder_test
