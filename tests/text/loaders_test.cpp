// Tokenizer files: what each reader makes of real ones, and that a damaged one gives one clear sentence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "platform/os/file.h"
#include "runtime/text/tokenizer/tokenizer.h"
#include "tests/support/paths.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace graft::text::loaders_test {
namespace {

using Ids = std::vector<TokenId>;

std::string contents(const std::string& path) {
  auto text = os::read_text_file(os::system_files(), path, 64 << 20);
  return text.ok() ? *text : std::string();
}

Result<Tokenizer> loaded(const std::string& path) {
  GRAFT_TRY_ASSIGN(Vocabulary vocabulary, convert::load_vocabulary(os::system_files(), path));
  return Tokenizer::make(std::move(vocabulary));
}

#define NEED_FILE(path) \
  if (!os::exists(os::system_files(), path)) GTEST_SKIP() << "There is no " << path << "."

TEST(TokenizerJson, NeoxKeepsRunsOfSpacesAndComposes) {
  const std::string path = test::test_data("tokenizer-hf-json/gptneox20b_tokenizer.json");
  NEED_FILE(path);
  const auto tokenizer = loaded(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const std::string text = "def f():\n        return caf\xC3\xA9  # ok";
  const auto ids = tokenizer->encode(text);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*tokenizer->decode(*ids), text);
  EXPECT_NE(std::find(ids->begin(), ids->end(), tokenizer->find("        ")), ids->end());
  EXPECT_EQ(*tokenizer->encode("cafe\xCC\x81"), *tokenizer->encode("caf\xC3\xA9"));
}

TEST(TokenizerJson, OptIsGpt2WithOtherIdsAndAPrefix) {
  const std::string path = test::test_data("tokenizer-hf-json/opt_tokenizer.json");
  const std::string gpt2 = test::test_data("tokenizer-llamacpp-vocabs/ggml-vocab-gpt-2.gguf");
  NEED_FILE(path);
  NEED_FILE(gpt2);
  const auto opt = loaded(path);
  const auto original = loaded(gpt2);
  ASSERT_TRUE(opt.ok() && original.ok());
  const std::string text = "Hello, world! It's 2024\n\n  and 12345 more...";
  const auto a = opt->encode(text);
  const auto b = original->encode(text);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(a->size(), b->size() + 1);
  EXPECT_EQ(a->front(), 2);
  for (std::size_t i = 0; i < b->size(); ++i) EXPECT_EQ(opt->bytes_of((*a)[i + 1]), original->bytes_of((*b)[i]));
}

TEST(TokenizerJson, TinyStories) {
  const std::string folder = test::test_data("llm-tinystories-656k");
  NEED_FILE(folder + "/tokenizer.json");
  const auto tokenizer = loaded(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(tokenizer->vocabulary().bos, 1);
  const std::string text = "Once upon a time, there was a little girl named Lily.";
  const auto ids = tokenizer->encode(text);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->front(), 1);
  EXPECT_LT(ids->size(), 25u);
  EXPECT_EQ(*tokenizer->decode(*ids), text);
  EXPECT_TRUE(loaded(folder + "/TinyStories-656K-Q8_0.gguf").ok());
}

TEST(SentencePiece, Stories) {
  const std::string path = test::test_data("llm-stories260k/tok512.model");
  NEED_FILE(path);
  const auto tokenizer = loaded(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(tokenizer->size(), 512u);
  // The ids that the model of this tokenizer gives greedily from its begin-of-text token, and their text.
  const Ids ids{1, 403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426, 338, 401, 396, 267};
  const auto text = tokenizer->decode(ids);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "Once upon a time, there was a little girl named Lily. She loved to");
  EXPECT_EQ(*tokenizer->encode(*text), ids);
  EXPECT_EQ(*tokenizer->decode(*tokenizer->encode("caf\xC3\xA9 \xF0\x9F\x9A\x80")), "caf\xC3\xA9 \xF0\x9F\x9A\x80");
}

TEST(TokenizerJson, SmallFilesAndTheirFaults) {
  const auto message = [](const std::string& json) {
    const auto vocabulary = convert::load_tokenizer_json(json);
    return vocabulary.ok() ? std::string("none") : vocabulary.status().message();
  };
  const std::string model = R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})";
  EXPECT_EQ(message("{" + model + "}"), "none");
  const std::string reading = "While reading tokenizer.json: ";
  EXPECT_EQ(message("{"), reading + "The 1 bytes of the file are not valid JSON.");
  EXPECT_EQ(message("[]"), reading + "The file has no \"model\".");
  EXPECT_EQ(message(R"({"model":{"type":"X"}})"), reading + "The tokenizer model \"X\" is not supported.");
  EXPECT_EQ(message(R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})"),
            reading + "The id of \"a\" is not an integer between 0 and 4104.");
  EXPECT_EQ(message(R"({"model":{"type":"BPE","vocab":{"a":18446744073709551615},"merges":[]}})"),
            reading + "The id of \"a\" is not an integer between 0 and 4104.");
  EXPECT_EQ(message(R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})"),
            reading + "Tokens \"a\" and \"b\" both have id 0.");
  EXPECT_EQ(message(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})"),
            reading + "Merge 0 of the tokenizer, \"a\", is not two tokens with a space between.");
  EXPECT_EQ(message(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a c"]}})"),
            reading + "Merge 0 of the tokenizer names \"c\", which is no token.");
  EXPECT_EQ(message("{" + model + R"(,"normalizer":{"type":"Strange"}})"),
            reading + "The normalizer \"Strange\" is not supported.");
  EXPECT_EQ(message("{" + model + R"(,"pre_tokenizer":{"type":"Split","behavior":"Strange","pattern":{"Regex":"x"}}})"),
            reading + "The split behavior \"Strange\" is not supported.");
}

TEST(TokenizerJson, ModelsWithoutATypeAreKnownByTheirMembers) {
  const auto algorithm = [](const std::string& model) {
    const auto vocabulary = convert::load_tokenizer_json("{\"model\":{" + model + "}}");
    return vocabulary.ok() ? std::string(algorithm_name(vocabulary->algorithm)) : vocabulary.status().message();
  };
  const std::string words = R"("unk_token":"a","vocab":{"a":0,"b":1})";
  EXPECT_EQ(algorithm(words + R"(,"merges":[])"), "char_bpe");
  EXPECT_EQ(algorithm(words + R"(,"continuing_subword_prefix":"##","max_input_chars_per_word":100)"), "word_piece");
  EXPECT_EQ(algorithm(words + R"(,"continuing_subword_prefix":"##")"), "word_level");
  EXPECT_EQ(algorithm(R"("vocab":[["a",-1]])"), "unigram");
  EXPECT_NE(algorithm(R"("vocab":{"a":0})").find("its members are those of none"), std::string::npos);
}

/// Their own pre-tokenizers as their files spell them.
TEST(TokenizerJson, GgufNamesTheFamiliesPreTokenizers) {
  const auto name = [](const std::string& steps, bool* exact) {
    const auto vocabulary = convert::load_tokenizer_json(
        R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"pre_tokenizer":)"
        R"({"type":"Sequence","pretokenizers":[)" +
        steps + "]}}");
    EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().message();
    return vocabulary.ok() ? std::string(convert::gguf_pre_name(*vocabulary, exact)) : std::string();
  };
  const auto split = [](const std::string& pattern, const std::string& how) {
    return R"({"type":"Split","pattern":{"Regex":")" + pattern + R"("},)" + how + "},";
  };
  const std::string bytes = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  const std::string isolated = R"("behavior":"Isolated","invert":false)";
  bool exact = false;
  // gpt-oss keeps the matches alone.
  const std::string o200k =
      R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
  EXPECT_EQ(name(split(o200k, R"("behavior":"Removed","invert":true)") + bytes, &exact), "gpt-4o");
  EXPECT_TRUE(exact);
  // DeepSeek-V3's file has line ends in its pattern.
  const std::string deepseek =
      R"([!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*)"
      R"(|\\s*[\r\n]+|\\s+(?!\\S)|\\s+)";
  EXPECT_EQ(name(split(R"(\\p{N}{1,3})", isolated) + split("[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", isolated) +
                     split(deepseek, isolated) + bytes,
                 &exact),
            "deepseek-v3");
  EXPECT_TRUE(exact);
  // llama.cpp lacks a step of Falcon's.
  std::string digits = split("[0-9][0-9][0-9]", isolated);
  digits.pop_back();
  EXPECT_EQ(name(R"({"type":"Punctuation","behavior":"Contiguous"},{"type":"ByteLevel","add_prefix_space":false,)"
                 R"("use_regex":true},{"type":"Digits","individual_digits":false},)" +
                     digits,
                 &exact),
            "falcon");
  EXPECT_FALSE(exact);
}

TEST(TokenizerJson, UnigramAndWordPiece) {
  auto unigram = convert::load_tokenizer_json(
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["\u2581a",-1],["b",-2]]},)"
      R"("pre_tokenizer":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always"}})");
  ASSERT_TRUE(unigram.ok()) << unigram.status().message();
  const auto one = Tokenizer::make(std::move(*unigram));
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(*one->encode("ab a"), (Ids{1, 2, 1}));
  auto words = convert::load_tokenizer_json(
      R"({"added_tokens":[{"id":0,"content":"[UNK]","special":true},{"id":3,"content":"[SEP]","special":true}],)"
      R"("normalizer":{"type":"BertNormalizer","lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},)"
      R"("post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[SEP]",3]},)"
      R"("model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
      R"("vocab":{"[UNK]":0,"play":1,"##ing":2,"[SEP]":3}}})");
  ASSERT_TRUE(words.ok()) << words.status().message();
  const auto two = Tokenizer::make(std::move(*words));
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(*two->encode("Playing ing"), (Ids{3, 1, 2, 0, 3}));
}

/// A reader on damaged copies: cut at several lengths, and with bits flipped. It must come back, with a sentence where
/// it fails; a file that is still well-formed must make a tokenizer or fail to, and encode.
template <typename Load>
void check_damaged(const std::string& good, std::size_t head, int flips, Load load) {
  const auto attempt = [&](const std::string& bytes) {
    Result<Vocabulary> vocabulary = load(bytes);
    if (!vocabulary.ok()) {
      EXPECT_FALSE(vocabulary.status().message().empty());
      EXPECT_EQ(vocabulary.status().message().back(), '.');
      return false;
    }
    const auto tokenizer = Tokenizer::make(std::move(*vocabulary));
    if (tokenizer.ok()) (void)tokenizer->encode("Hello w\xC3\xB6rld 123 <s>", {.parse_special = true});
    return true;
  };
  ASSERT_TRUE(attempt(good));
  for (std::size_t part = 0; part < 16; ++part) EXPECT_FALSE(attempt(good.substr(0, good.size() * part / 16)));
  std::mt19937 random(11);
  for (int i = 0; i < flips; ++i) {
    std::string bad = good;
    bad[random() % (i % 2 == 0 ? head : bad.size())] ^= static_cast<char>(1u << random() % 8);
    attempt(bad);
  }
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A GGUF file with a small SentencePiece vocabulary, written by hand.
std::string small_gguf() {
  std::string out = "GGUF";
  const auto number = [&](auto value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto text = [&](const std::string& value) {
    number(std::uint64_t{value.size()});
    out += value;
  };
  const auto array = [&](const std::string& key, std::uint32_t type) {
    text(key);
    number(std::uint32_t{9});
    number(type);
    number(std::uint64_t{3});
  };
  number(std::uint32_t{3});
  number(std::uint64_t{0});
  number(std::uint64_t{5});
  text("tokenizer.ggml.model");
  number(std::uint32_t{8});
  text("llama");
  array("tokenizer.ggml.tokens", 8);
  for (const char* token : {"<unk>", "\xE2\x96\x81", "a"}) text(token);
  array("tokenizer.ggml.scores", 6);
  for (const float score : {0.0f, -1.0f, -2.0f}) number(score);
  array("tokenizer.ggml.token_type", 5);
  for (const std::int32_t kind : {2, 1, 1}) number(kind);
  text("tokenizer.ggml.unknown_token_id");
  number(std::uint32_t{4});
  number(std::uint32_t{0});
  return out;
}

Result<Vocabulary> from_gguf(const std::string& bytes) {
  GRAFT_TRY_ASSIGN(const convert::GgufFile file, convert::GgufFile::parse(bytes_of(bytes)));
  return convert::load_gguf_vocabulary(file);
}

TEST(DamagedTokenizers, Gguf) {
  const std::string good = small_gguf();
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(from_gguf(good.substr(0, size)).ok()) << size;
  check_damaged(good, good.size(), 4000, from_gguf);
  std::string bad = good;
  const std::uint64_t huge = ~std::uint64_t{0};
  std::memcpy(bad.data() + 16, &huge, 8);
  EXPECT_EQ(from_gguf(bad).status().message(),
            cat("The file promises ", huge, " metadata entries, but only ", good.size() - 24, " bytes follow."));
  bad = good;
  std::memcpy(bad.data() + 8, &huge, 8);
  EXPECT_EQ(from_gguf(bad).status().message(),
            cat("The file promises ", huge, " tensors, but only ", good.size() - 24, " bytes follow."));
  EXPECT_EQ(from_gguf("GGUX0000").status().message(), "This is no GGUF file: it does not begin with \"GGUF\".");
}

TEST(DamagedTokenizers, SentencePiece) {
  const std::string path = test::test_data("llm-stories260k/tok512.model");
  NEED_FILE(path);
  const std::string good = contents(path);
  const auto load = [](const std::string& bytes) { return convert::load_sentencepiece(bytes_of(bytes)); };
  ASSERT_TRUE(load(good).ok());
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    // A message may end after any whole field, so that some cuts are well-formed.
    std::string bad = i % 3 == 0 ? good.substr(0, random() % good.size()) : good;
    if (!bad.empty() && i % 3 != 0) bad[random() % bad.size()] ^= static_cast<char>(1u << random() % 8);
    auto vocabulary = load(bad);
    if (!vocabulary.ok()) {
      ++refused;
      EXPECT_EQ(vocabulary.status().message().back(), '.');
      continue;
    }
    const auto tokenizer = Tokenizer::make(std::move(*vocabulary));
    if (tokenizer.ok()) (void)tokenizer->encode("Once upon a time");
  }
  EXPECT_GT(refused, 100);
  // A denormalizer_spec with a map of characters, and without one.
  const auto rewrites = load(good + std::string("\x2a\x03\x12\x01x", 5));
  EXPECT_EQ(rewrites.status().message(),
            "While reading the SentencePiece model: A tokenizer that rewrites decoded text (denormalizer_spec) is not "
            "supported.");
  EXPECT_TRUE(load(good + std::string("\x2a\x02\x12\x00", 4)).ok());
}

TEST(DamagedTokenizers, Json) {
  const std::string path = test::test_data("llm-tinystories-656k/tokenizer.json");
  NEED_FILE(path);
  check_damaged(contents(path), 3000, 60, [](const std::string& bytes) { return convert::load_tokenizer_json(bytes); });
}

}  // namespace
}  // namespace graft::text::loaders_test
