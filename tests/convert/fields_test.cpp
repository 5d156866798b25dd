// Fields of configurations and keys of GGUF files: each changes the model, is refused by its name, or cannot matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "runtime/core/graph_text.h"
#include "tests/support/expect_sentence.h"
#include "tools/convert/common/known_fields.h"
#include "tools/convert/decoder/decoder_compare.h"
#include "tools/convert/decoder/decoder_graph.h"
#include "tools/convert/decoder/families.h"
#include "tools/convert/gguf/gguf_decoder.h"
#include "tools/convert/huggingface/hf_config.h"

namespace graft::convert::convert_fields_test {
namespace {

using test::expect_sentence;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// What a test says of these itself: training, provenance, what is not computed here.
constexpr std::string_view kCannotMatter[] = {"torch_dtype",
                                              "dtype",
                                              "transformers_version",
                                              "_name_or_path",
                                              "use_cache",
                                              "bos_token_id",
                                              "eos_token_id",
                                              "pad_token_id",
                                              "initializer_range",
                                              "attention_dropout",
                                              "resid_pdrop",
                                              "embd_pdrop",
                                              "attn_pdrop",
                                              "hidden_dropout",
                                              "pretraining_tp",
                                              "auto_map",
                                              "n_ctx",
                                              "num_kv_heads",
                                              "hidden_dropout_prob",
                                              "classifier_dropout",
                                              "label2id",
                                              "dropout",
                                              "qa_dropout",
                                              "sinusoidal_pos_embds",
                                              "residual_dropout",
                                              "summary_type",
                                              "vision_config",
                                              "cache_implementation",
                                              "attention_probs_dropout_prob"};
/// What shows in the model's text or in its limits and not in its graph.
constexpr std::string_view kElsewhere[] = {"max_position_embeddings", "n_positions", "id2label",
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
  const char* const kModern = R"({"model_type": "modernbert", "hidden_size": 24, "num_hidden_layers": 3,
    "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 11, "max_position_embeddings": 16,
    "norm_eps": 1e-6, "norm_bias": false, "attention_bias": false, "mlp_bias": false, "hidden_activation": "gelu",
    "classifier_bias": false, "classifier_activation": "gelu", "local_attention": 4, "classifier_dropout": 0.1})";
  const char* const kYarn = R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2500,
    "beta_fast": 48.0, "beta_slow": 1.0, "truncate": true})";
  const std::pair<const char*, std::string> own[] = {
      {kCommon, cat(R"({"model_type": "llama", "attention_bias": true, "mlp_bias": true, "pretraining_tp": 1,
                        "rope_scaling": )",
                    kYarn, "}")},
      {kCommon, R"({"model_type": "llama", "attention_bias": false, "mlp_bias": false, "rope_scaling":
         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}})"},
      {kCommon, R"({"model_type": "mistral", "sliding_window": 5, "use_sliding_window": true})"},
      {kCommon, cat(R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 5,
                        "max_window_layers": 2, "rope_parameters": )",
                    kYarn, "}")},
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
      {kEncoder, R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "tie_word_embeddings": true})"},
      {kEncoder, R"({"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "tie_word_embeddings": false})"},
      {kEncoder, R"({"model_type": "xlm-roberta", "architectures": ["XLMRobertaForTokenClassification"]})"},
      {kEncoder, R"({"model_type": "camembert"})"},
      {kEncoder, R"({"model_type": "electra", "embedding_size": 4, "type_vocab_size": 2})"},
      {"{}", R"({"model_type": "distilbert", "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16,
         "vocab_size": 11, "max_position_embeddings": 16, "activation": "gelu", "dropout": 0.1,
         "sinusoidal_pos_embds": false, "qa_dropout": 0.1})"},
      {kModern, R"({"architectures": ["ModernBertForMaskedLM"], "decoder_bias": true, "tie_word_embeddings": true,
         "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0})"},
      {kModern, R"({"architectures": ["ModernBertForSequenceClassification"], "classifier_pooling": "mean",
         "id2label": {"0": "bad", "1": "good"}, "rope_parameters": {"full_attention": {"rope_theta": 5000.0},
          "sliding_attention": {"rope_theta": 500.0}}, "layer_types": ["full_attention", "sliding_attention",
          "sliding_attention"]})"},
      {kCommon, R"({"model_type": "gemma3_text", "sliding_window": 4, "sliding_window_pattern": 6,
         "rope_local_base_freq": 500.0, "query_pre_attn_scalar": 4, "hidden_act": null, "tie_word_embeddings": null,
         "hidden_activation": "gelu_pytorch_tanh", "use_bidirectional_attention": true, "attention_bias": true})"},
      {"{}", R"({"model_type": "nomic_bert", "n_embd": 24, "n_head": 3, "n_layer": 2, "n_inner": 20, "n_positions": 64,
         "vocab_size": 37, "layer_norm_epsilon": 1e-6, "rotary_emb_base": 100.0, "rotary_emb_fraction": 0.5,
         "activation_function": "swiglu", "qkv_proj_bias": false, "mlp_fc1_bias": false, "mlp_fc2_bias": false,
         "type_vocab_size": 2, "pad_vocab_size_multiple": 8, "prenorm": false, "causal": false,
         "rotary_emb_interleaved": false, "use_rms_norm": false, "scale_attn_weights": true})"},
      {kCommon, R"({"model_type": "gemma", "hidden_act": "gelu_pytorch_tanh", "attention_bias": true})"},
      {"{}", R"({"model_type": "gpt_neox", "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
         "num_attention_heads": 3, "vocab_size": 37, "max_position_embeddings": 64, "hidden_act": "gelu",
         "layer_norm_eps": 1e-6, "rotary_pct": 0.5, "rotary_emb_base": 500.0, "use_parallel_residual": true,
         "attention_bias": true, "tie_word_embeddings": false, "rope_scaling": {"type": "linear", "factor": 2.0}})"},
      {kCommon, R"({"model_type": "phi", "rms_norm_eps": null, "layer_norm_eps": 1e-6, "hidden_act": "gelu",
         "partial_rotary_factor": 0.5, "qk_layernorm": false, "resid_pdrop": 0.1})"},
      {kCommon, R"({"model_type": "starcoder2", "rms_norm_eps": null, "norm_epsilon": 1e-6, "use_bias": true,
         "sliding_window": 5, "residual_dropout": 0.1, "norm_type": "layer_norm"})"},
      {"{}", R"({"model_type": "gptj", "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 32, "n_inner": 40,
         "rotary_dim": 4, "vocab_size": 37, "layer_norm_epsilon": 1e-6, "activation_function": "gelu_new",
         "scale_attn_weights": true, "tie_word_embeddings": false, "n_ctx": 32})"},
      {"{}",
       R"({"model_type": "opt", "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "ffn_dim": 40,
         "vocab_size": 37, "max_position_embeddings": 16, "activation_function": "gelu", "enable_bias": true,
         "do_layer_norm_before": true, "word_embed_proj_dim": 24, "tie_word_embeddings": true})"},
      {kCommon, R"({"model_type": "cohere", "rms_norm_eps": null, "layer_norm_eps": 1e-6, "logit_scale": 0.25,
         "use_qk_norm": false, "attention_bias": true})"},
      {kCommon, R"({"model_type": "cohere2", "rms_norm_eps": null, "layer_norm_eps": 1e-6, "logit_scale": 0.25,
         "sliding_window": 5, "sliding_window_pattern": 4, "rotary_pct": 1.0, "attention_bias": true})"},
      {kCommon, R"({"model_type": "glm", "partial_rotary_factor": 0.5, "attention_bias": true})"},
      {kCommon, R"({"model_type": "glm4", "partial_rotary_factor": 0.5, "attention_bias": true})"},
      {kCommon, R"({"model_type": "olmo", "rms_norm_eps": null, "attention_bias": true, "pretraining_tp": 1})"},
      {kCommon,
       cat(R"({"model_type": "olmo3", "sliding_window": 5, "attention_bias": true, "rope_scaling": )", kYarn, "}")},
      {kCommon, R"({"model_type": "exaone4", "sliding_window": 5, "sliding_window_pattern": 2})"},
      {kCommon, R"({"model_type": "seed_oss", "attention_bias": true, "attention_out_bias": true, "mlp_bias": false,
         "residual_dropout": 0.1})"},
      {kCommon, R"({"model_type": "arcee", "hidden_act": "silu", "attention_bias": true, "mlp_bias": true})"},
      {kCommon, R"({"model_type": "ministral3", "sliding_window": 5, "rope_theta": null, "rope_parameters": {
         "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 2500,
         "beta_fast": 48.0, "beta_slow": 1.0}})"},
      {kCommon, R"({"model_type": "ernie4_5", "use_bias": true})"},
      {kCommon, R"({"model_type": "nemotron", "rms_norm_eps": null, "norm_eps": 1e-6, "partial_rotary_factor": 0.5,
         "attention_bias": true, "mlp_bias": true})"},
      {kCommon, R"({"model_type": "minicpm", "scale_emb": 12.0, "scale_depth": 1.4, "dim_model_base": 6.0,
         "attention_bias": true})"},
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
  refused(10, "use_bidirectional_attention", true, "\"use_bidirectional_attention\" is true; the family \"gemma2\" of");
  refused(3, "is_causal", false, "\"is_causal\" is false");
  refused(3, "rope_theta", "10000", "\"rope_theta\" is \"10000\"; it must be a finite number");
  refused(3, "architectures", {"Qwen2ForSequenceClassification"}, "whose head graft does not have");
  refused(2, "rope_scaling", {{"rope_type", "default"}, {"mrope_section", {1, 1}}},
          "\"rope_scaling.mrope_section\" is [1,1]");
  refused(2, "rope_scaling", {{"rope_type", "linear"}}, "\"factor\" of \"rope_scaling\" is missing");
}

TEST(ConfigFields, AMistralOfTextAndImagesIsItsTextPart) {
  Json inner = {{"model_type", "ministral3"},
                {"hidden_size", 24},
                {"intermediate_size", 40},
                {"num_hidden_layers", 2},
                {"num_attention_heads", 6},
                {"num_key_value_heads", 2},
                {"head_dim", 8},
                {"vocab_size", 37},
                {"max_position_embeddings", 64},
                {"rope_parameters",
                 {{"rope_type", "yarn"},
                  {"rope_theta", 500.0},
                  {"factor", 4.0},
                  {"original_max_position_embeddings", 16},
                  {"llama_4_scaling_beta", 0.1}}}};
  Json config = {{"model_type", "mistral3"},
                 {"architectures", {"Mistral3ForConditionalGeneration"}},
                 {"vision_config", {{"hidden_size", 8}}},
                 {"spatial_merge_size", 2}};
  config["text_config"] = inner;
  const auto read = read_hf_config(config);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->spec.family, "ministral3");
  EXPECT_EQ(read->spec.context, 16);
  EXPECT_NE(read->spec.notes.back().find("grow beyond 16 positions"), std::string::npos);
  inner["rope_parameters"].erase("original_max_position_embeddings");
  config["text_config"] = inner;
  expect_sentence(read_hf_config(config).status(), "\"original_max_position_embeddings\" is not.");
  config["text_config"]["model_type"] = "pixtral";
  expect_sentence(read_hf_config(config).status(), "is of the type \"pixtral\"");
}

TEST(ConfigFields, AnElectraTiesNothingThatGraftHas) {
  const std::vector<Json> configs = whole_configs();
  const Json electra =
      *std::ranges::find_if(configs, [](const Json& config) { return config["model_type"] == "electra"; });
  const std::string as_is = described(*read_hf_config(electra));
  for (const bool tied : {false, true}) {
    Json config = electra;
    config["tie_word_embeddings"] = tied;
    const auto read = read_hf_config(config);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(described(*read), as_is);
  }
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
  constexpr std::string_view kHarmless[] = {"context_length", "vocab_size"};
  std::size_t written = 0;
  for (Json config : whole_configs()) {
    if (config.contains("rms_norm_eps")) config.update({{"num_attention_heads", 2}, {"head_dim", 12}});
    if (config["model_type"] == "gemma3_text") config["num_hidden_layers"] = 7;  // of which the sixth sees all
    auto read = read_hf_config(config);
    GgufWriter tried;
    if (read.ok() && !write_gguf_decoder(read->spec, tried).ok()) {  // biases that llama.cpp does not read
      for (const char* name : {"attention_bias", "attention_out_bias", "use_bias"}) {
        if (config.contains(name)) config[name] = false;
      }
      read = read_hf_config(config);
    }
    if (!read.ok() || (read->spec.encoder && read->spec.learned_positions)) continue;
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
      const bool harmless = is_in(kHarmless, std::string(key.substr(key.rfind('.') + 1))) ||
                            key == "stablelm.use_parallel_residual";  // tensors tell it
      EXPECT_EQ(decoder_differences(as_is->spec, changed->spec).empty(), harmless) << key << " of " << config;
    }
    const auto refused_with = [&](const std::string& key, float value, const std::string& part) {
      GgufWriter unknown;
      for (const std::string_view known : file->keys()) unknown.add(known, *file->find(known));
      unknown.add(key, value);
      const std::string other = *unknown.bytes({});
      expect_sentence(read_gguf_decoder(*GgufFile::parse(bytes_of(other)), shapes_of_gguf(*read, names)).status(),
                      part);
    };
    refused_with(cat(gguf_architecture(read->spec.family), ".attention.clamp_kqv"), 8.0f,
                 "attention.clamp_kqv\" is 8.0, and graft does not know");
    refused_with("tokenizer.ggml.shout", 2.0f, "\"tokenizer.ggml.shout\" is 2.0, and graft does not know");
  }
  EXPECT_GE(written, 26u);
}

TEST(GgufFields, WhatLlamaCppDoesNotReadIsRefusedByName) {
  const auto write = [](const char* family, const Json& fields) {
    Json config = whole_configs()[2];
    config.update({{"model_type", family}, {"sliding_window", nullptr}, {"use_sliding_window", nullptr}});
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

}  // namespace
}  // namespace graft::convert::convert_fields_test
