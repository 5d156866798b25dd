// Damaged and lying files of language models: each is told in one sentence, and none may crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "runtime/core/graph_text.h"
#include "runtime/lora/adapter.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "tools/convert/common/known_fields.h"
#include "tools/convert/decoder/decoder_compare.h"
#include "tools/convert/decoder/decoder_graph.h"
#include "tools/convert/decoder/families.h"
#include "tools/convert/gguf/gguf_decoder.h"
#include "tools/convert/huggingface/hf_config.h"
#include "tools/convert/huggingface/safetensors.h"
#include "tools/convert/language_model/convert_decoder.h"
#include "tools/convert/language_model/decoder_source.h"
#include "tools/convert/language_model/export_model.h"
#include "tools/convert/tokenizer/base64.h"

namespace graft::convert::convert_decoder_hostile_test {
namespace {

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

void expect_sentence(const Status& status, const std::string& part) {
  ASSERT_FALSE(status.ok()) << part;
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  EXPECT_EQ(status.message().back(), '.') << status.message();
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
  // Without a usable tokenizer the model still converts, and says so.
  const auto mute = convert_gguf(bytes_of(replaced(file, "ggml.tokens", "ggml.tikens")), "a.gguf");
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
  expect_sentence(refusal("hidden_act", "swoosh"), "\"swoosh\" is not supported");
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

// ---- Fields of configurations: each changes the model, is refused by its name, or cannot matter.

/// What a test says of these itself: training, provenance, what is not computed here.
constexpr std::string_view kCannotMatter[] = {
    "torch_dtype",   "dtype",         "transformers_version", "_name_or_path",
    "use_cache",          "bos_token_id",  "eos_token_id",  "pad_token_id",         "initializer_range",
    "attention_dropout",  "resid_pdrop",   "embd_pdrop",    "attn_pdrop",           "hidden_dropout",
    "pretraining_tp",     "auto_map",      "n_ctx",         "num_kv_heads",         "hidden_dropout_prob",
    "classifier_dropout", "label2id",      "dropout",       "qa_dropout",           "sinusoidal_pos_embds",
    "summary_type",       "vision_config", "cache_implementation", "attention_probs_dropout_prob"};
/// What shows in the model's text or in its limits and not in its graph.
constexpr std::string_view kElsewhere[] = {"max_position_embeddings", "id2label",
                                             "original_max_position_embeddings", "long_factor"};

/// Realistic configurations with every field that their families have.
std::vector<Json> whole_configs() {
  const char* const kCommon = R"({"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 4,
    "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 37, "max_position_embeddings": 64,
    "rope_theta": 5000.0, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false, "head_dim": 8,
    "torch_dtype": "float32", "transformers_version": "4.57.0", "_name_or_path": "x", "use_cache": true,
    "bos_token_id": 1, "eos_token_id": [2], "pad_token_id": 0, "initializer_range": 0.02, "attention_dropout": 0.1})";
  const char* const kEncoder = R"({"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 16, "vocab_size": 11, "max_position_embeddings": 16, "type_vocab_size": 2,
    "layer_norm_eps": 1e-6, "hidden_act": "gelu", "id2label": {"0": "bad", "1": "good"},
    "label2id": {"bad": 0, "good": 1}, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "position_embedding_type": "absolute", "is_decoder": false, "classifier_dropout": 0.2})";
  const char* const kYarn = R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2500,
    "beta_fast": 48.0, "beta_slow": 1.0, "truncate": true})";
  const std::pair<const char*, std::string> own[] = {
      {kCommon, cat(R"({"model_type": "llama", "attention_bias": true, "mlp_bias": true, "pretraining_tp": 1,
                        "rope_scaling": )", kYarn, "}")},
      {kCommon, R"({"model_type": "llama", "attention_bias": false, "mlp_bias": false, "rope_scaling":
         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}})"},
      {kCommon, R"({"model_type": "mistral", "sliding_window": 5})"},
      {kCommon, cat(R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 5,
                        "max_window_layers": 2, "rope_parameters": )", kYarn, "}")},
      {kCommon, R"({"model_type": "qwen3", "use_sliding_window": true, "sliding_window": 5, "attention_bias": true,
         "layer_types": ["full_attention", "full_attention", "sliding_attention", "sliding_attention"]})"},
      {kCommon, R"({"model_type": "smollm3", "use_sliding_window": true, "sliding_window": 5, "attention_bias": false,
         "mlp_bias": false, "no_rope_layer_interval": 2, "pretraining_tp": 2})"},
      {kCommon, R"({"model_type": "smollm3", "no_rope_layers": [1, 1, 0, 0]})"},
      {kCommon, R"({"model_type": "granite", "embedding_multiplier": 3.0, "residual_multiplier": 0.4,
         "attention_multiplier": 0.25, "logits_scaling": 2.0, "attention_bias": true, "mlp_bias": true})"},
      {kCommon, R"({"model_type": "olmo2", "attention_bias": true})"},
      {kCommon, R"({"model_type": "stablelm", "rms_norm_eps": null, "layer_norm_eps": 1e-6, "use_qkv_bias": true,
         "use_parallel_residual": true, "partial_rotary_factor": 0.5, "qk_layernorm": false, "hidden_dropout": 0.1})"},
      {kCommon, R"({"model_type": "gemma2", "sliding_window": 4, "query_pre_attn_scalar": 4,
         "hidden_act": null, "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 2.0,
         "final_logit_softcapping": 3.0, "attention_bias": true, "cache_implementation": "hybrid"})"},
      {kCommon, R"({"model_type": "gemma3_text", "sliding_window": 4, "sliding_window_pattern": 2,
         "rope_local_base_freq": 500.0, "query_pre_attn_scalar": 4, "hidden_act": null,
         "hidden_activation": "gelu_pytorch_tanh", "rope_scaling": {"rope_type": "linear", "factor": 2.0},
         "use_bidirectional_attention": false, "attention_bias": true})"},
      {kCommon, R"({"model_type": "phi3", "sliding_window": 5, "partial_rotary_factor": 0.75, "resid_pdrop": 0.1,
         "embd_pdrop": 0.1, "original_max_position_embeddings": 32, "rope_scaling": {"type": "longrope",
          "short_factor": [1.0, 1.25, 1.5], "long_factor": [1.0, 2.0, 8.0], "attention_factor": 1.2}})"},
      {"{}", R"({"model_type": "falcon", "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
         "vocab_size": 37, "layer_norm_epsilon": 1e-6, "multi_query": true, "parallel_attn": true, "bias": false,
         "alibi": false, "new_decoder_architecture": false, "rope_theta": 5000.0, "tie_word_embeddings": true,
         "max_position_embeddings": 16, "ffn_hidden_size": 40, "activation": "gelu", "num_kv_heads": 6,
         "hidden_dropout": 0.1})"},
      {"{}", R"({"model_type": "gpt2", "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 32, "n_ctx": 32,
         "n_inner": 40, "vocab_size": 37, "layer_norm_epsilon": 1e-6, "activation_function": "gelu_new",
         "scale_attn_weights": true, "scale_attn_by_inverse_layer_idx": false, "tie_word_embeddings": true,
         "resid_pdrop": 0.1, "summary_type": "cls_index"})"},
      {kEncoder, R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"]})"},
      {kEncoder, R"({"model_type": "electra", "embedding_size": 4, "type_vocab_size": 2})"},
      {"{}", R"({"model_type": "distilbert", "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16,
         "vocab_size": 11, "max_position_embeddings": 16, "activation": "gelu", "dropout": 0.1,
         "sinusoidal_pos_embds": false, "qa_dropout": 0.1})"},
  };
  std::vector<Json> out;
  for (const auto& [common, fields] : own) {
    out.push_back(*parse_json(common));
    out.back().update(*parse_json(fields));
  }
  return out;
}

/// The graph and the numbers that it is made with.
std::string described(const HfModel& model) {
  Model out;
  const SourceTensors none;
  WeightOptions shapes;
  shapes.shapes_only = true;
  DecoderWeights weights(none, *model.names, *model.names, out, shapes);
  const Status built = build_decoder(model.spec, weights, out.graph);
  std::string text = built.ok() ? graph_text(out.graph) : built.message();
  for (const Value& value : out.graph.values()) text += cat(value.name, value.shape.text(), "\n");
  for (const RopeSpec* rope : {&model.spec.rope, &model.spec.local_rope}) {
    for (const double frequency : rope_frequencies(*rope, model.spec.head_dim)) text += cat(frequency, " ");
  }
  return text;
}

Json changed(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) return value.get<int>() == 1 ? 2 : value.get<int>() / 2;
  if (value.is_number()) return value.get<double>() * 0.5;
  if (value.is_string()) return value == "silu" || value == "gelu" ? "relu" : "another";
  Json out = value;
  for (Json& part : out) {
    part = part == "full_attention" ? Json("sliding_attention") : changed(part);
    break;
  }
  return out;
}

bool is_in(std::span<const std::string_view> names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// Calls `check(name, config)` with each field changed, also of nested objects.
void for_each_change(const Json& config, const std::function<void(const std::string&, const Json&)>& check) {
  for (const auto& [name, value] : config.items()) {
    if (name == "model_type" || value.is_null()) continue;
    Json other = config;
    if (value.is_object() && name.starts_with("rope")) {
      for (const auto& [inner, number] : value.items()) {
        other[name] = value;
        other[name][inner] = changed(number);
        check(inner, other);
      }
      continue;
    }
    other[name] = changed(value);
    check(name, other);
  }
}

TEST(ConfigFields, EachChangesTheModelOrIsRefusedOrCannotMatter) {
  for (const Json& config : whole_configs()) {
    const auto whole = read_hf_config(config);
    ASSERT_TRUE(whole.ok()) << config << whole.status().message();
    const std::string as_is = described(*whole);
    for_each_change(config, [&](const std::string& name, const Json& other) {
      const auto read = read_hf_config(other);
      if (!read.ok()) {
        EXPECT_FALSE(is_in(kCannotMatter, name)) << other << read.status().message();
        EXPECT_EQ(read.status().message().back(), '.') << read.status().message();
        return;
      }
      const bool same = described(*read) == as_is;
      if (is_in(kElsewhere, name)) return;
      EXPECT_EQ(same, is_in(kCannotMatter, name)) << name << " of " << other;
    });
  }
}

TEST(ConfigFields, WhatNobodyKnowsIsRefusedByName) {
  for (const Json& config : whole_configs()) {
    for (const Json& nothing : {Json(), Json(false), Json::array(), Json("")}) {
      Json harmless = config;
      harmless["attention_sinks"] = nothing;
      EXPECT_TRUE(read_hf_config(harmless).ok()) << harmless;
    }
    Json unknown = config;
    unknown["attention_sinks"] = 4;
    expect_sentence(read_hf_config(unknown).status(), "\"attention_sinks\" is 4, and graft does not know");
    for (const char* name : {"add_cross_attention", "is_encoder_decoder"}) {
      Json other = config;
      other[name] = true;
      expect_sentence(read_hf_config(other).status(), cat("\"", name, "\" is true"));
    }
  }
  const auto refused = [](std::size_t of, const char* name, Json value, const std::string& part) {
    Json config = whole_configs()[of];
    config[name] = std::move(value);
    expect_sentence(read_hf_config(config).status(), part);
  };
  refused(11, "use_bidirectional_attention", true, "\"use_bidirectional_attention\" is true; the family \"gemma3\" of");
  refused(3, "is_causal", false, "\"is_causal\" is false");
  refused(3, "rope_theta", "10000", "\"rope_theta\" is \"10000\"; it must be a finite number");
  refused(3, "architectures", {"Qwen2ForSequenceClassification"}, "whose head graft does not have");
  refused(2, "rope_scaling", {{"rope_type", "default"}, {"mrope_section", {1, 1}}}, "\"rope_scaling.mrope_section\" is [1,1]");
  refused(2, "rope_scaling", {{"rope_type", "linear"}}, "\"factor\" of \"rope_scaling\" is missing");
}

TEST(ConfigFields, WhatIsIgnoredSaysNothing) {
  Json config = whole_configs()[2];
  config["attention_sinks"] = 4;
  config["rope_scaling"] = {{"rope_type", "default"}, {"mrope_section", {1, 1}}};
  std::vector<std::string> found;
  const IgnoredFields ignored = {"attention_sinks", "rope_scaling.mrope_section", "sliding_window"};
  clear_fields(config, ignored, found);
  EXPECT_EQ(found, ignored);
  const auto read = read_hf_config(config);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->spec.layers[0].window, 0);
  expect_sentence(check_found({"rope_scaling.other"}, found), "\"rope_scaling.other\"");
}

/// The metadata of a model's GGUF file, where `change` of a key is another number, flag or text.
std::string with_changed_key(const GgufFile& file, std::string_view change) {
  GgufWriter out;
  for (const std::string_view key : file.keys()) {
    const GgufValue& value = *file.find(key);
    if (key != change) {
      out.add(key, value);
    } else if (value.type == GgufType::string) {
      out.add(key, "another");
    } else if (value.type == GgufType::boolean) {
      out.add(key, !*file.flag(key));
    } else if (value.type == GgufType::f32) {
      out.add(key, static_cast<float>(*file.real(key) * 0.5));
    } else {
      const auto number = static_cast<std::uint32_t>(*file.integer(key));
      out.add(key, number == 1 ? 2 : number / 2);
    }
  }
  return *out.bytes({});
}

/// The tensors that a GGUF file of the model has, without contents.
SourceTensors shapes_of_gguf(const HfModel& model, const TensorNames& names) {
  Model built;
  const SourceTensors none;
  WeightOptions shapes;
  shapes.shapes_only = true;
  DecoderWeights weights(none, *model.names, *model.names, built, shapes);
  EXPECT_TRUE(build_decoder(model.spec, weights, built.graph).ok());
  SourceTensors out;
  for (const Value& value : built.graph.values()) {
    const std::string name = renamed(value.name, *model.names, names);
    if (!name.empty() && value.shape.is_constant()) out.by_name[name].dims = value.shape.values();
  }
  return out;
}

TEST(GgufFields, EachChangesTheModelOrIsRefusedOrCannotMatter) {
  constexpr std::string_view kHarmless[] = {"context_length", "vocab_size", "use_parallel_residual"};
  std::size_t written = 0;
  for (Json config : whole_configs()) {
    if (config.contains("rms_norm_eps")) config.update({{"num_attention_heads", 2}, {"head_dim", 12}});
    if (config["model_type"] == "gemma3_text") config["num_hidden_layers"] = 7;  // of which the sixth sees all
    const auto read = read_hf_config(config);
    if (!read.ok() || read->spec.encoder) continue;
    GgufWriter writer;
    if (!write_gguf_decoder(read->spec, writer).ok()) continue;
    ++written;
    const std::string bytes = *writer.bytes({});
    const auto file = GgufFile::parse(bytes_of(bytes));
    ASSERT_TRUE(file.ok());
    const TensorNames& names = find_family(read->spec.family)->gguf_names();
    const auto as_is = read_gguf_decoder(*file, shapes_of_gguf(*read, names));
    ASSERT_TRUE(as_is.ok()) << as_is.status().message();
    for (const std::string_view key : file->keys()) {
      const std::string other = with_changed_key(*file, key);
      const auto parsed = GgufFile::parse(bytes_of(other));
      const auto changed = read_gguf_decoder(*parsed, shapes_of_gguf(*read, names));
      if (!changed.ok()) continue;
      const bool harmless = is_in(kHarmless, std::string(key.substr(key.rfind('.') + 1)));
      EXPECT_EQ(decoder_differences(as_is->spec, changed->spec).empty(), harmless) << key << " of " << config;
    }
    GgufWriter unknown;
    for (const std::string_view key : file->keys()) unknown.add(key, *file->find(key));
    unknown.add(cat(gguf_architecture(read->spec.family), ".attention.clamp_kqv"), 8.0f);
    const std::string clamped = *unknown.bytes({});
    expect_sentence(read_gguf_decoder(*GgufFile::parse(bytes_of(clamped)), shapes_of_gguf(*read, names)).status(),
                    "attention.clamp_kqv\" is 8.0, and graft does not know");
  }
  EXPECT_GT(written, 5u);
}

TEST(GgufFields, WhatLlamaCppDoesNotReadIsRefusedByName) {
  const auto write = [](const char* family, const Json& fields) {
    Json config = whole_configs()[2];
    config.update({{"model_type", family}, {"sliding_window", nullptr}});
    config.update(fields);
    const auto read = read_hf_config(config);
    EXPECT_TRUE(read.ok()) << read.status().message();
    GgufWriter out;
    return write_gguf_decoder(read->spec, out);
  };
  expect_sentence(write("qwen3", {{"attention_bias", true}}), "biases of queries, keys and values");
  expect_sentence(write("phi3", {{"head_dim", 8}}), "heads of 8 elements where 6 heads share 24");
  EXPECT_TRUE(write("llama", {{"attention_bias", true}, {"mlp_bias", true}}).ok());
  expect_sentence(write("llama", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}, {"truncate", false}}}}),
                  "YaRN with \"truncate\": false");
}

TEST(Gguf, TypesThatAreNotReadAreNamed) {
  std::string file = seed("gguf/llama");
  const std::string name = "token_embd.weight";
  file[file.find(name) + name.size() + 4 + 2 * 8] = 17;  // behind the rank and two dimensions
  expect_sentence(convert_gguf(bytes_of(file), "a.gguf").status(), "\"token_embd.weight\" is of the type IQ2_XS; F32, F16");
}

}  // namespace
}  // namespace graft::convert::convert_decoder_hostile_test
