// Damaged and lying files of language models: each is told in one sentence, and none may crash.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "runtime/lora/adapter.h"
#include "tests/support/expect_sentence.h"
#include "tests/support/paths.h"
#include "tests/support/files/temporary_folder.h"
#include "tools/convert/huggingface/hf_config.h"
#include "tools/convert/huggingface/safetensors.h"
#include "tools/convert/language_model/convert_decoder.h"
#include "tools/convert/language_model/decoder_source.h"
#include "tools/convert/language_model/export_model.h"
#include "tools/convert/tokenizer/base64.h"

namespace graft::convert::convert_decoder_hostile_test {
namespace {

using test::expect_sentence;

std::string seed(const std::string& name) {
  std::ifstream file(test::source_dir() + "/tests/fuzz/corpus/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

Status read(const std::string& file) {
  SourceTensors tensors;
  std::vector<std::string> skipped;
  return read_safetensors(bytes_of(file), tensors, skipped);
}

/// A safetensors file of this header and so many bytes of data.
std::string with_header(const std::string& header, std::size_t data = 16) {
  const std::uint64_t size = header.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  return out + header + std::string(data, '\0');
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string file = seed("safetensors/three");
  ASSERT_TRUE(read(file).ok()) << read(file).message();
  for (std::size_t size = 0; size < file.size(); ++size) expect_sentence(read(file.substr(0, size)), "");
}

TEST(Safetensors, EveryFlippedBitIsReadOrRefused) {
  const std::string file = seed("safetensors/three");
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string bad = file;
    bad[bit / 8] ^= static_cast<char>(1u << bit % 8);
    const Status status = read(bad);
    EXPECT_TRUE(status.ok() || status.message().ends_with('.')) << status.message();
  }
}

TEST(Safetensors, LiesAreToldApart) {
  const auto tensor = [](const char* dtype, const char* shape, const char* offsets) {
    return read(
        with_header(cat(R"({"a":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)", offsets, "}}")));
  };
  EXPECT_TRUE(tensor("F32", "[2,2]", "[0,16]").ok());
  expect_sentence(tensor("F32", "[2,2]", "[0,17]"), "do not lie within the 16 bytes");
  expect_sentence(tensor("F32", "[2,2]", "[8,4]"), "do not lie within");
  expect_sentence(tensor("F32", "[2,2]", "[0,12]"), "has 12 bytes where its shape needs 16");
  expect_sentence(tensor("F32", "[2,2]", "[0]"), "do not lie within");
  expect_sentence(tensor("F32", "[2,-2]", "[0,16]"), "is not an integer between 0");
  expect_sentence(tensor("F32", "[4611686018427387904,4611686018427387904]", "[0,16]"), "has more than");
  expect_sentence(tensor("F32", "[18446744073709551615]", "[0,16]"), "is not an integer");
  expect_sentence(tensor("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "list of at most 8");
  expect_sentence(tensor("F32", "7", "[0,16]"), "\"shape\" is not a list");
  expect_sentence(read(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                   R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})")),
                  "\"a\" appears twice");
  expect_sentence(read(with_header("[]")), "not a JSON object");
  expect_sentence(read(with_header("{\"a\":")), "not a JSON object");
  expect_sentence(read(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)), "9223372036854775807 bytes");
  const std::string deep(100000, '[');
  expect_sentence(read(with_header(deep)), "nests more than 64 deep");
}

TEST(Safetensors, AnIndexLeadsNowhereElse) {
  test::TemporaryFolder folder;
  const auto open = [&](const std::string& file) {
    std::ofstream(folder.file("model.safetensors.index.json")) << R"({"weight_map":{"a":")" << file << R"("}})";
    std::vector<std::string> skipped;
    return open_safetensors(os::system_files(), folder.path(), skipped).status();
  };
  for (const char* file : {"../a.safetensors", "/etc/passwd", "b/c", "..", ".", "", "a\\\\b"}) {
    expect_sentence(open(file), "not the name of a file in the model's folder");
  }
  expect_sentence(open("missing.safetensors"), "missing.safetensors");
  std::ofstream(folder.file("part"), std::ios::binary) << seed("safetensors/three");
  EXPECT_TRUE(open("part").ok()) << open("part").message();
}

TEST(Gguf, EveryTruncationIsRefused) {
  for (const char* name : {"gguf/llama", "gguf/gpt2", "gguf/gemma3", "gguf/blocks"}) {
    const std::string file = seed(name);
    const auto whole = convert_gguf(bytes_of(file), name);
    ASSERT_TRUE(whole.ok()) << whole.status().message();
    EXPECT_TRUE(validate(whole->model).ok());
    for (std::size_t size = 0; size + 32 < file.size(); size += 1 + size / 512) {  // padding ends the file
      expect_sentence(convert_gguf(bytes_of(file.substr(0, size)), name).status(), "");
    }
  }
}

TEST(Gguf, EveryFlippedBitIsReadOrRefused) {
  const std::string file = seed("gguf/llama");
  const std::size_t metadata = file.size() / 2;
  for (std::size_t bit = 0; bit < metadata * 8; ++bit) {
    std::string bad = file;
    bad[bit / 8] ^= static_cast<char>(1u << bit % 8);
    const auto converted = convert_gguf(bytes_of(bad), "a.gguf");
    if (converted.ok()) {
      EXPECT_TRUE(validate(converted->model).ok()) << "bit " << bit;
    } else {
      EXPECT_EQ(converted.status().message().back(), '.') << converted.status().message();
    }
  }
}

/// Writes all that a model can be written as, and reads it as whoever gets it would.
void export_everywhere(const Model& model, const std::string& what) {
  test::TemporaryFolder folder;
  os::FileSystem& files = os::system_files();
  for (const auto& written :
       {export_folder(files, folder.file("folder"), model), export_gguf(files, folder.file("a.gguf"), model),
        export_safetensors(files, folder.file("a.safetensors"), model)}) {
    if (written.ok()) continue;
    EXPECT_EQ(written.status().message().back(), '.') << what << written.status().message();
  }
  if (!os::exists(files, folder.file("a.gguf"))) return;
  const auto again = convert_gguf(files, folder.file("a.gguf"));
  if (again.ok()) return;
  EXPECT_EQ(again.status().message().back(), '.') << what << again.status().message();
}

TEST(Export, WhatAModelRemembersOfItsSourceMayBeAnything) {
  const std::string file = seed("gguf/llama");
  auto converted = convert_gguf(bytes_of(file), "a.gguf");
  ASSERT_TRUE(converted.ok());
  Model& model = converted->model;
  export_everywhere(model, "as it is: ");
  const Metadata metadata = model.metadata;
  const auto gguf = from_base64(metadata.find(kMetaSourceGguf)->second);
  ASSERT_TRUE(gguf.ok());
  for (std::size_t bit = 0; bit < gguf->size() * 8; bit += 5) {
    std::string bad = *gguf;
    bad[bit / 8] ^= static_cast<char>(1u << bit % 8);
    model.metadata.insert_or_assign(std::string(kMetaSourceGguf), to_base64(bad));
    const auto source = source_of(model);
    if (!source.ok()) {
      EXPECT_EQ(source.status().message().back(), '.') << source.status().message();
    }
    if (bit % 365 == 0) export_everywhere(model, cat("bit ", bit, ": "));
  }
  const std::pair<std::string_view, const char*> lies[] = {{kMetaHeads, "3,1"},
                                                           {kMetaHeads, "9999999999,1"},
                                                           {kMetaHeads, "-2,-1"},
                                                           {kMetaHeads, "2"},
                                                           {kMetaFamily, "gpt2"},
                                                           {kMetaFamily, "?"},
                                                           {kMetaPairs, "?"},
                                                           {kMetaSourceGguf, "?"},
                                                           {kMetaSourceNames, "bare head "},
                                                           {kMetaStop, "1,,99999999999999999999,-3"}};
  for (const auto& [key, text] : lies) {
    model.metadata = metadata;
    model.metadata.insert_or_assign(std::string(key), text);
    export_everywhere(model, cat(key, " ", text, ": "));
  }
  model.metadata = metadata;
  model.metadata.erase(model.metadata.find(kMetaSourceGguf));
  for (const char* config : {"{", "[]", "{}", R"({"model_type":"llama"})"}) {
    model.metadata.insert_or_assign(std::string(kMetaSourceConfig), config);
    export_everywhere(model, cat("config ", config, ": "));
  }
}

/// The first occurrence of `from` becomes `to`, of the same length.
std::string replaced(std::string file, const std::string& from, const std::string& to) {
  const std::size_t at = file.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(from.size(), to.size());
  return file.replace(at, from.size(), to);
}

TEST(Gguf, LiesAreToldApart) {
  const std::string file = seed("gguf/llama");
  const auto convert = [](const std::string& bad) { return convert_gguf(bytes_of(bad), "a.gguf").status(); };
  expect_sentence(convert(replaced(file, "llama", "lamas")), "architecture \"lamas\" is not supported; llama");
  expect_sentence(convert(replaced(file, "block_count", "block_kount")), "no metadata \"llama.block_count\"");
  expect_sentence(convert(replaced(file, "output_norm", "output_nerm")), "\"output_norm.weight\" is missing");
  const std::string key = "llama.embedding_length";
  std::string wide = file;
  wide[file.find(key) + key.size() + 4] = 5;  // hidden size, after its type
  expect_sentence(convert(wide), "the model's configuration asks for");
  std::string none = file;
  none[file.find(key) + key.size() + 4] = 0;
  expect_sentence(convert(none), "\"llama.embedding_length\" is 0");
  const std::string misspelled = replaced(file, "ggml.tokens", "ggml.tikens");
  expect_sentence(convert(misspelled), "\"tokenizer.ggml.tikens\"");
  // Without a usable tokenizer the model still converts, and the report says so.
  const auto mute = convert_gguf(bytes_of(misspelled), "a.gguf", {}, {"tokenizer.ggml.tikens"});
  ASSERT_TRUE(mute.ok()) << mute.status().message();
  EXPECT_FALSE(mute->model.tokenizer.has_value());
  EXPECT_NE(mute->report.text().find("The tokenizer is left out"), std::string::npos);
}

TEST(HfConfig, LiesAreToldApart) {
  const Json llama = *parse_json(seed("hf_config/llama"));
  const auto refusal = [&](const char* key, Json value) {
    Json config = llama;
    config[key] = std::move(value);
    return read_hf_config(config).status();
  };
  ASSERT_TRUE(read_hf_config(llama).ok());
  expect_sentence(refusal("model_type", "mamba"), "\"mamba\" is not supported; llama, mistral");
  expect_sentence(refusal("model_type", 7), "\"model_type\" is missing or not a string");
  expect_sentence(refusal("hidden_size", -1), "\"hidden_size\" is not an integer between 1");
  expect_sentence(refusal("hidden_size", 1e300), "\"hidden_size\" is not an integer");
  expect_sentence(refusal("num_hidden_layers", 1 << 30), "\"num_hidden_layers\" is not an integer between 1 and 1000");
  expect_sentence(refusal("hidden_act", "swoosh"), "\"swoosh\" (\"hidden_act\") is not supported");
  expect_sentence(refusal("rope_scaling", {{"type", "ntk"}}), "\"ntk\" is not supported");
  expect_sentence(refusal("rope_scaling", {{"type", "longrope"}}), "\"short_factor\" of the rotary embedding is not");
  const auto longrope = [&](Json within, Json beyond) {
    return refusal("rope_scaling",
                   {{"type", "longrope"}, {"short_factor", std::move(within)}, {"long_factor", std::move(beyond)}});
  };
  expect_sentence(longrope({1, 2}, {1}), "factors for the rotary embedding's");
  expect_sentence(longrope({1, "2"}, {1}), "An entry of \"short_factor\" is not a number");
  expect_sentence(refusal("rope_scaling", {{"type", "linear"}, {"factor", 0}}), "factor of the rotary embedding");
  expect_sentence(refusal("partial_rotary_factor", 2), "must be in (0, 1]");
  expect_sentence(refusal("quantization_config", {{"bits", 4}}), "quantized");
  expect_sentence(read_hf_config(Json::array()).status(), "\"model_type\" is missing");
  Json slid = llama;
  slid["model_type"] = "mistral";
  slid["sliding_window"] = 4;
  slid["layer_types"] = {"sliding_attention"};
  expect_sentence(read_hf_config(slid).status(), "\"layer_types\" is not a list of 2 names");
}

/// Large headers are read in time that grows as they do: with a look at all tensors for each this takes minutes.
TEST(Safetensors, ManyTensorsAreRead) {
  std::string header = "{";
  constexpr int kTensors = 100'000;
  for (int i = 0; i < kTensors; ++i) {
    header += cat(i == 0 ? "" : ",", R"("t)", i, R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})");
  }
  SourceTensors tensors;
  std::vector<std::string> skipped;
  const std::string file = with_header(header + "}");
  ASSERT_TRUE(read_safetensors(bytes_of(file), tensors, skipped).ok());
  EXPECT_EQ(tensors.by_name.size(), static_cast<std::size_t>(kTensors));
}

TEST(Gguf, TypesThatAreNotReadAreNamed) {
  std::string file = seed("gguf/llama");
  const std::string name = "token_embd.weight";
  file[file.find(name) + name.size() + 4 + 2 * 8] = 17;  // behind the rank and two dimensions
  expect_sentence(convert_gguf(bytes_of(file), "a.gguf").status(), "\"token_embd.weight\" is of the type IQ2_XS; F32, F16");
}

}  // namespace
}  // namespace graft::convert::convert_decoder_hostile_test
