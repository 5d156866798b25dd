// Ids of Hugging Face's library for small tokenizers, one for each normalizer, pre-tokenizer, behavior and model:
// tokenizers.jsonl, which tokenizer_parity.js writes. The first line has models and texts, each other line a tokenizer.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/text/tokenizer/tokenizer.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "tests/support/paths.h"
#include "tools/convert/tokenizer/tokenizer_load.h"
#include "tools/convert/tokenizer/tokenizer_write.h"

namespace graft::text::parity_test {
namespace {

using nlohmann::ordered_json;

void expect_ids(Result<Vocabulary> vocabulary, const ordered_json& texts, const ordered_json& expected) {
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  const auto tokenizer = Tokenizer::make(std::move(*vocabulary));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto ids = tokenizer->encode(texts[i].get<std::string>(), {.parse_special = true});
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, expected[i].get<std::vector<TokenId>>()) << texts[i];
  }
}

TEST(TokenizerParity, SmallTokenizersGiveTheLibrarysIds) {
  std::ifstream file(test::source_dir() + "/tests/text/tokenizers.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const ordered_json shared = ordered_json::parse(line);
  const ordered_json& texts = shared["texts"];
  ASSERT_EQ(texts.size(), 12u);
  std::size_t count = 0;
  for (; std::getline(file, line); ++count) {
    const ordered_json entry = ordered_json::parse(line);
    SCOPED_TRACE(entry["name"]);
    ordered_json document = entry["parts"];
    document["model"] = shared["models"][entry["model"].get<std::string>()];
    const auto read = convert::load_tokenizer_json(document.dump());
    ASSERT_TRUE(read.ok()) << read.status().message();
    expect_ids(*read, texts, entry["ids"]);
    // As a model file keeps it, and as a tokenizer.json again.
    const std::string bytes = vocabulary_to_bytes(*read);
    expect_ids(vocabulary_from_bytes(std::as_bytes(std::span(bytes))), texts, entry["ids"]);
    const auto written = convert::tokenizer_file(*read);
    ASSERT_TRUE(written.ok()) << written.status().message();
    expect_ids(convert::load_tokenizer_json(written->contents), texts, entry["ids"]);
  }
  EXPECT_GT(count, 80u);
}

}  // namespace
}  // namespace graft::text::parity_test
