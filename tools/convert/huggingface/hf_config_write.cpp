// A decoder as the config.json that Hugging Face's classes of its family read.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "tools/convert/decoder/decoder_compare.h"
#include "tools/convert/decoder/families.h"
#include "tools/convert/decoder/rope_scaling.h"
#include "tools/convert/huggingface/hf_config.h"
#include "tools/convert/huggingface/hf_words.h"

namespace graft::convert {
namespace {

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::silu: return "silu";
    case Activation::gelu: return "gelu";
    case Activation::gelu_tanh: return "gelu_pytorch_tanh";
    case Activation::relu: return "relu";
    case Activation::relu_squared: return "relu2";
    case Activation::tanh: return "tanh";
  }
  return "";
}

/// f32 numbers of files in their shortest form.
double plain(double x) {
  std::array<char, 32> text{};
  const auto [end, failed] = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(x));
  double out = x;
  if (failed == std::errc()) std::from_chars(text.data(), end, out);
  return out;
}

OrderedJson shortest(const std::vector<float>& numbers) {
  OrderedJson out = OrderedJson::array();
  for (const float number : numbers) out.push_back(plain(number));
  return out;
}

/// Factors of single frequencies are what Llama 3.1's rule gives, or nothing that a config.json can say. They do not
/// tell the context before the stretching, which has been a power of two.
Result<OrderedJson> scaling_of_factors(const RopeSpec& rope, std::int64_t head_dim) {
  const std::int64_t turned = rope.rotated != 0 ? rope.rotated : head_dim;
  RopeSpec bare = rope;
  bare.frequencies.clear();
  Llama3Scaling rule = {.factor = std::round(rope_frequencies(bare, head_dim).back() / rope.frequencies.back())};
  for (rule.old_context = 1 << 20; rule.old_context >= 16; rule.old_context /= 2) {
    GRAFT_TRY(scale_llama3(bare, turned, rule));
    const bool same = std::equal(bare.frequencies.begin(), bare.frequencies.end(), rope.frequencies.begin(),
                                 rope.frequencies.end(), [](float a, float b) { return std::abs(a - b) <= 1e-6f * b; });
    bare.frequencies.clear();
    if (!same) continue;
    return OrderedJson{{"rope_type", "llama3"},
                       {"factor", rule.factor},
                       {"low_freq_factor", rule.low},
                       {"high_freq_factor", rule.high},
                       {"original_max_position_embeddings", rule.old_context}};
  }
  return unsupported("config.json cannot say the factors of its rotary embedding.");
}

Result<OrderedJson> scaling_of(const RopeSpec& rope, std::int64_t head_dim) {
  const RopeScaling& s = rope.scaling;
  if (s.type.empty()) return OrderedJson(nullptr);
  if (s.type == "linear") return OrderedJson{{"rope_type", "linear"}, {"factor", s.factor}};
  if (s.type == "factors") return scaling_of_factors(rope, head_dim);
  if (s.type == "longrope") {
    return OrderedJson{{"rope_type", s.type},
                       {"short_factor", shortest(s.short_factors)},
                       {"long_factor", shortest(s.long_factors)},
                       {"original_max_position_embeddings", s.old_context},
                       {"attention_factor", rope.magnitude}};
  }
  return OrderedJson{
      {"rope_type", s.type},      {"factor", s.factor},       {"original_max_position_embeddings", s.old_context},
      {"beta_fast", s.beta_fast}, {"beta_slow", s.beta_slow}, {"attention_factor", rope.magnitude}};
}

void add_gpt2(const DecoderSpec& spec, OrderedJson& out) {
  out["n_embd"] = spec.hidden;
  out["n_head"] = spec.heads;
  out["n_inner"] = spec.ffn;
  out["n_layer"] = spec.layers.size();
  out["n_positions"] = spec.context;
  out["vocab_size"] = spec.vocabulary;
  out["layer_norm_epsilon"] = plain(spec.epsilon);
  out["activation_function"] = spec.activation == Activation::gelu_tanh ? "gelu_new" : activation_name(spec.activation);
  out["tie_word_embeddings"] = spec.tied;
}

Status add_rope(const DecoderSpec& spec, OrderedJson& out) {
  out["rope_theta"] = plain(spec.rope.theta);
  GRAFT_TRY_ASSIGN(out["rope_scaling"], scaling_of(spec.rope, spec.head_dim));
  if (spec.rope.rotated != 0) {
    out["partial_rotary_factor"] = static_cast<double>(spec.rope.rotated) / static_cast<double>(spec.head_dim);
  }
  return {};
}

bool is_gemma(const DecoderSpec& spec) { return spec.family.starts_with("gemma") && spec.family != "gemma"; }

void add_windows(const DecoderSpec& spec, OrderedJson& out) {
  const auto sliding =
      std::find_if(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& layer) { return layer.window != 0; });
  if (sliding == spec.layers.end()) return;
  const bool both_ways = spec.encoder.has_value();
  out["sliding_window"] = both_ways ? 2 * (sliding->window - 1) : sliding->window;
  if (both_ways) out["use_bidirectional_attention"] = true;
  OrderedJson types = OrderedJson::array();
  for (const LayerSpec& layer : spec.layers) {
    types.push_back(layer.window != 0 ? "sliding_attention" : "full_attention");
  }
  out["layer_types"] = std::move(types);
}

Status add_falcon(const DecoderSpec& spec, OrderedJson& out) {
  out["hidden_size"] = spec.hidden;
  out["ffn_hidden_size"] = spec.ffn;
  out["num_hidden_layers"] = spec.layers.size();
  out["num_attention_heads"] = spec.heads;
  out["vocab_size"] = spec.vocabulary;
  if (spec.context > 0) out["max_position_embeddings"] = spec.context;
  out["layer_norm_epsilon"] = plain(spec.epsilon);
  out["activation"] = activation_name(spec.activation);
  out["multi_query"] = true;
  out["alibi"] = out["new_decoder_architecture"] = false;
  out["parallel_attn"] = spec.parallel;
  out["bias"] = spec.ffn_bias;
  out["tie_word_embeddings"] = spec.tied;
  return add_rope(spec, out);
}

/// What one family alone has.
void add_own(const DecoderSpec& spec, OrderedJson& out) {
  if (spec.family == "smollm3") {
    for (const LayerSpec& layer : spec.layers) out["no_rope_layers"].push_back(layer.rotates ? 1 : 0);
  }
  if (spec.family == "granite") {
    out["embedding_multiplier"] = plain(spec.embedding_scale);
    out["residual_multiplier"] = plain(spec.residual_scale);
    out["attention_multiplier"] =
        plain(spec.attention_scale != 0 ? spec.attention_scale : 1 / std::sqrt(static_cast<double>(spec.head_dim)));
    out["logits_scaling"] = plain(spec.logit_divisor);
  }
  if (spec.family == "stablelm") {
    out["layer_norm_eps"] = plain(spec.epsilon);
    out["use_qkv_bias"] = spec.qkv_bias;
    out["use_parallel_residual"] = spec.parallel;
  }
  if (!is_gemma(spec)) return;
  const double scale = spec.attention_scale;
  out["query_pre_attn_scalar"] = scale > 0 ? std::round(1 / (scale * scale)) : static_cast<double>(spec.head_dim);
  if (spec.family != "gemma2") out["rope_local_base_freq"] = plain(spec.local_rope.theta);
  const std::pair<const char*, double> caps[] = {{"attn_logit_softcapping", spec.attention_softcap},
                                                 {"final_logit_softcapping", spec.logit_softcap}};
  for (const auto& [key, cap] : caps) out[key] = cap != 0 ? OrderedJson(plain(cap)) : OrderedJson(nullptr);
}

Status add_modern_bert(const DecoderSpec& spec, OrderedJson& out) {
  out["hidden_size"] = spec.hidden;
  out["intermediate_size"] = spec.ffn;
  out["num_hidden_layers"] = spec.layers.size();
  out["num_attention_heads"] = spec.heads;
  out["vocab_size"] = spec.vocabulary;
  out["max_position_embeddings"] = spec.context;
  out["hidden_activation"] = activation_name(spec.activation);
  out["norm_eps"] = plain(spec.epsilon);
  out["norm_bias"] = spec.norm_bias;
  out["attention_bias"] = spec.attention_output_bias;
  out["mlp_bias"] = spec.ffn_bias;
  const auto local = std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.window != 0; });
  if (local != spec.layers.end()) out["local_attention"] = 2 * (local->window - 1);
  out["global_attn_every_n_layers"] = 3;
  out["global_rope_theta"] = plain(spec.rope.theta);
  out["local_rope_theta"] = plain(spec.local_rope.theta);
  return {};
}

/// A BERT's or a DistilBERT's, which GGUF files are read as.
void add_encoder(const DecoderSpec& spec, OrderedJson& out) {
  if (spec.family == "distilbert") {
    out["dim"] = spec.hidden;
    out["hidden_dim"] = spec.ffn;
    out["n_layers"] = spec.layers.size();
    out["n_heads"] = spec.heads;
    out["vocab_size"] = spec.vocabulary;
    out["max_position_embeddings"] = spec.context;
    out["activation"] = activation_name(spec.activation);
    return;
  }
  out["hidden_size"] = spec.hidden;
  out["intermediate_size"] = spec.ffn;
  out["num_hidden_layers"] = spec.layers.size();
  out["num_attention_heads"] = spec.heads;
  out["vocab_size"] = spec.vocabulary;
  out["max_position_embeddings"] = spec.context;
  out["type_vocab_size"] = spec.encoder->token_types;
  out["hidden_act"] = activation_name(spec.activation);
  out["layer_norm_eps"] = plain(spec.epsilon);
  out["position_embedding_type"] = "absolute";
}

/// What families with choices may say more; those that do not have a field leave it out.
void add_described(const DecoderSpec& spec, OrderedJson& out) {
  out["rms_norm_eps"] = plain(spec.epsilon);
  out["attention_bias"] = spec.qkv_bias;
  out["attention_out_bias"] = spec.attention_output_bias;
  out["mlp_bias"] = spec.ffn_bias;
  out["use_parallel_residual"] = spec.parallel;
  out["logit_scale"] = plain(1 / spec.logit_divisor);
  out["scale_emb"] = plain(spec.embedding_scale);
  out["scale_depth"] = plain(spec.residual_scale * std::sqrt(static_cast<double>(spec.layers.size())));
  out["dim_model_base"] = plain(static_cast<double>(spec.hidden) / spec.logit_divisor);
  out["rotary_dim"] = spec.rope.rotated != 0 ? spec.rope.rotated : spec.head_dim;
  if (spec.rope.rotated == 0) out["partial_rotary_factor"] = 1.0;
  // Windows must be said not to be there where the family has them otherwise.
  if (!out.contains("sliding_window")) out["sliding_window"] = nullptr;
}

Status add_common(const DecoderSpec& spec, OrderedJson& out) {
  out["hidden_size"] = spec.hidden;
  out["intermediate_size"] = spec.ffn;
  out["num_hidden_layers"] = spec.layers.size();
  out["num_attention_heads"] = spec.heads;
  out["num_key_value_heads"] = spec.kv_heads;
  out["head_dim"] = spec.head_dim;
  out["vocab_size"] = spec.vocabulary;
  if (spec.context > 0) out["max_position_embeddings"] = whole_context(spec);
  const bool gemma = is_gemma(spec);
  out[gemma ? "hidden_activation" : "hidden_act"] = activation_name(spec.activation);
  if (!spec.layer_norm) out["rms_norm_eps"] = plain(spec.epsilon);
  out["tie_word_embeddings"] = spec.tied;
  const bool mlp_bias = spec.family == "llama" || spec.family == "granite" || spec.family == "smollm3";
  if (mlp_bias || gemma || spec.family == "qwen3" || spec.family == "olmo2") {
    out["attention_bias"] = spec.attention_output_bias;
    if (mlp_bias) out["mlp_bias"] = spec.ffn_bias;
  }
  GRAFT_TRY(add_rope(spec, out));
  add_windows(spec, out);
  add_own(spec, out);
  return {};
}

}  // namespace

Result<OrderedJson> write_hf_config(const DecoderSpec& spec) {
  const Family* const family = find_family(spec.family);
  if (family == nullptr) {
    return unsupported("A config.json of the family \"", spec.family, "\" cannot be written.");
  }
  if (spec.family == "stablelm" && spec.head_dim * spec.heads != spec.hidden) {
    return unsupported("transformers has no StableLM whose ", spec.heads, " heads of ", spec.head_dim, " are not ",
                       spec.hidden, " together.");
  }
  OrderedJson out = {{"architectures", {family->class_name}}, {"model_type", family->model_type}};
  if (spec.family == "modernbert") {
    GRAFT_TRY(add_modern_bert(spec, out));
  } else if (spec.encoder && family->choices == nullptr) {
    add_encoder(spec, out);
  } else if (family->choices != nullptr) {
    OrderedJson common = out;
    GRAFT_TRY(add_common(spec, common));
    add_described(spec, common);
    out = in_own_words(common, spec);
  } else if (spec.family == "gpt2") {
    add_gpt2(spec, out);
  } else if (spec.family == "falcon") {
    GRAFT_TRY(add_falcon(spec, out));
  } else {
    GRAFT_TRY(add_common(spec, out));
  }
  GRAFT_TRY_ASSIGN(const HfModel read, read_hf_config(Json(out)).with_context("The config.json that was made"));
  const auto differences = decoder_differences(spec, read.spec);
  if (!differences.empty()) return unsupported("config.json cannot say ", differences.front(), " of this model.");
  return out;
}

}  // namespace graft::convert
