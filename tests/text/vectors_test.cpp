// ctest: middle
// Every tokenizer against published vectors: texts and the ids that the original tokenizers give for them.
#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>

#include "platform/os/file.h"
#include "runtime/text/tokenizer/tokenizer.h"
#include "tests/support/paths.h"
#include "tools/convert/tokenizer/tokenizer_load.h"
#include "tools/convert/tokenizer/tokenizer_write.h"

namespace graft::text::vectors_test {
namespace {

constexpr std::uint64_t kFileLimit = 64 << 20;

std::string contents(const std::string& path) {
  auto text = os::read_text_file(os::system_files(), path, kFileLimit);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : std::string();
}

std::vector<std::string> texts_of(const std::string& file) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> out;
  std::size_t begin = 0;
  for (std::size_t end; (end = file.find(separator, begin)) != std::string::npos; begin = end + separator.size()) {
    out.push_back(file.substr(begin, end - begin));
  }
  return out;
}

std::vector<std::vector<TokenId>> ids_of(const std::string& file) {
  std::vector<std::vector<TokenId>> out;
  std::istringstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    auto& ids = out.emplace_back();
    for (TokenId id; numbers >> id;) ids.push_back(id);
  }
  return out;
}

/// Encodes each text of <name>.inp and compares; where `reversible`, decodes it too, at once and id by id.
void check_vectors(const Tokenizer& tokenizer, const std::string& name, bool reversible) {
  const std::string base = test::test_data("tokenizer-llamacpp-vocabs/ggml-vocab-" + name + ".gguf");
  const auto texts = texts_of(contents(base + ".inp"));
  const auto expected = ids_of(contents(base + ".out"));
  ASSERT_EQ(texts.size(), expected.size());
  ASSERT_GT(texts.size(), 40u);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(name + ", vector " + std::to_string(i) + ": \"" + texts[i] + "\"");
    const auto ids = tokenizer.encode(texts[i], {.add_special = false});
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, expected[i]);
    const auto whole = tokenizer.decode(*ids);
    ASSERT_TRUE(whole.ok());
    if (reversible) {
      EXPECT_EQ(*whole, texts[i]);
    }
    StreamDecoder stream(tokenizer);
    std::string streamed;
    for (const TokenId id : *ids) {
      const auto more = stream.push(id);
      ASSERT_TRUE(more.ok());
      streamed += *more;
    }
    EXPECT_EQ(streamed + stream.finish(), *whole);
  }
  std::printf("%s: %zu vectors\n", name.c_str(), texts.size());
}

/// Written as the files that other programs read, and read again: the same ids.
void check_written(const Vocabulary& vocabulary, const std::string& name) {
  const auto check = [&](Result<Vocabulary> read, const std::string& how) {
    SCOPED_TRACE(how);
    ASSERT_TRUE(read.ok()) << read.status().message();
    const auto tokenizer = Tokenizer::make(std::move(*read));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    check_vectors(*tokenizer, name, true);
  };
  const auto file = convert::tokenizer_file(vocabulary);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const bool json = vocabulary.algorithm != Algorithm::scored_bpe;
  EXPECT_EQ(file->name, json ? "tokenizer.json" : "tokenizer.model");
  check(json ? convert::load_tokenizer_json(file->contents, convert::JsonForm::flags)
             : convert::load_sentencepiece(std::as_bytes(std::span(file->contents))),
        file->name);
  convert::GgufWriter writer;
  std::vector<std::string> notes;
  const Status added = convert::add_gguf_tokenizer(vocabulary, 0, writer, notes);
  ASSERT_TRUE(added.ok()) << added.message();
  const auto bytes = writer.bytes({});
  ASSERT_TRUE(bytes.ok());
  const auto gguf = convert::GgufFile::parse(std::as_bytes(std::span(*bytes)));
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  check(convert::load_gguf_vocabulary(*gguf), "GGUF");
}

void check_gguf(const std::string& name, bool reversible) {
  const std::string path = test::test_data("tokenizer-llamacpp-vocabs/ggml-vocab-" + name + ".gguf");
  if (!os::exists(os::system_files(), path)) GTEST_SKIP() << "There is no " << path << ".";
  auto vocabulary = convert::load_vocabulary(os::system_files(), path);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  auto tokenizer = Tokenizer::make(*vocabulary);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  check_vectors(*tokenizer, name, reversible);
  if (reversible) check_written(*vocabulary, name);
}

TEST(TokenizerVectors, Gpt2) { check_gguf("gpt-2", true); }
TEST(TokenizerVectors, DeepseekCoder) { check_gguf("deepseek-coder", true); }
TEST(TokenizerVectors, LlamaSentencePiece) { check_gguf("llama-spm", true); }
TEST(TokenizerVectors, BertWordPiece) { check_gguf("bert-bge", false); }

TEST(TokenizerVectors, Qwen2) {
  const std::string folder = test::test_data("tokenizer-qwen2.5");
  if (!os::exists(os::system_files(), folder + "/vocab.json")) GTEST_SKIP() << "There is no " << folder << ".";
  auto vocabulary = convert::load_vocab_and_merges(contents(folder + "/vocab.json"), contents(folder + "/merges.txt"),
                                                   contents(folder + "/added_tokens.json"), {Split::qwen2});
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  check_written(*vocabulary, "qwen2");
  auto tokenizer = Tokenizer::make(std::move(*vocabulary));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  check_vectors(*tokenizer, "qwen2", true);
  const auto plain = tokenizer->encode("<|im_start|>");
  const auto parsed = tokenizer->encode("<|im_start|>user", {.parse_special = true});
  ASSERT_TRUE(plain.ok() && parsed.ok());
  EXPECT_GT(plain->size(), 1u);
  EXPECT_EQ(parsed->front(), 151644);
}

}  // namespace
}  // namespace graft::text::vectors_test
