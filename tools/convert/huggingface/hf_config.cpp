#include "tools/convert/huggingface/hf_config.h"

#include <cmath>

#include "tools/convert/decoder/families.h"
#include "tools/convert/decoder/rope_scaling.h"
#include "tools/convert/huggingface/hf_config_parts.h"

namespace graft::convert {

Status refuse_quantized(const Json& config) {
  if (member(config, "quantization_config") == nullptr) return {};
  return unsupported("The weights are quantized (\"quantization_config\"); GGUF files are what graft reads quantized.");
}

Result<Activation> activation_of(const Json& config) {
  for (const char* key : {"hidden_activation", "hidden_act", "activation_function"}) {
    const std::string_view name = string_member(config, key);
    if (name.empty()) continue;
    if (name == "silu" || name == "swish") return Activation::silu;
    if (name == "gelu") return Activation::gelu;
    if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
    if (name == "relu") return Activation::relu;
    return unsupported("The activation \"", shown(name), "\" is not supported.");
  }
  return corrupt("The activation (\"hidden_act\") is missing.");
}

namespace {

Result<std::vector<float>> factors_of(const Json& scaling, const char* name) {
  const Json* list = member(scaling, name);
  if (list == nullptr || !list->is_array()) return corrupt("\"", name, "\" of the rotary embedding is not a list.");
  std::vector<float> out;
  for (const Json& factor : *list) {
    if (!factor.is_number()) return corrupt("An entry of \"", name, "\" is not a number.");
    out.push_back(factor.get<float>());
  }
  return out;
}

Status read_longrope(const Json& scaling, std::int64_t turned, std::int64_t context, double old, RopeSpec& rope) {
  LongRopeScaling s = {.factor = number_member(scaling, "factor", static_cast<double>(context) / std::max(old, 1.0)),
                       .old_context = old,
                       .magnitude = number_member(scaling, "attention_factor", 0)};
  GRAFT_TRY_ASSIGN(s.short_factors, factors_of(scaling, "short_factor"));
  GRAFT_TRY_ASSIGN(s.long_factors, factors_of(scaling, "long_factor"));
  return scale_longrope(rope, turned, std::move(s));
}

/// The scaling of a rope, from "rope_scaling" or "rope_parameters". `given_old` is the old context where these do not
/// say it.
Status read_scaling(const Json& scaling, std::int64_t turned, std::int64_t context, double given_old, RopeSpec& rope,
                    std::vector<std::string>& notes) {
  std::string_view type = string_member(scaling, "rope_type");
  if (type.empty()) type = string_member(scaling, "type");
  if (type.empty() || type == "default") return {};
  const double factor = number_member(scaling, "factor", 1);
  const double old = number_member(scaling, "original_max_position_embeddings", given_old);
  if (type == "linear") return scale_linear(rope, turned, factor);
  if (type == "llama3") {
    return scale_llama3(
        rope, turned,
        {factor, number_member(scaling, "low_freq_factor", 1), number_member(scaling, "high_freq_factor", 4), old});
  }
  if (type == "yarn") {
    double magnitude = number_member(scaling, "attention_factor", 0);
    const auto part = [&](const char* name) {
      return factor <= 1 ? 1 : 0.1 * number_member(scaling, name, 0) * std::log(factor) + 1;
    };
    const bool both = number_member(scaling, "mscale", 0) != 0 && number_member(scaling, "mscale_all_dim", 0) != 0;
    if (magnitude == 0 && both) magnitude = part("mscale") / part("mscale_all_dim");
    return scale_yarn(
        rope, turned,
        {factor, old, number_member(scaling, "beta_fast", 32), number_member(scaling, "beta_slow", 1), magnitude});
  }
  if (type == "longrope" || type == "su") {
    notes.push_back(longrope_note(old));
    return read_longrope(scaling, turned, context, old, rope);
  }
  if (type == "dynamic") {
    notes.push_back(cat("Its rotary embedding is scaled beyond ", context, " positions (type dynamic); graft keeps it ",
                        "unscaled."));
    return {};
  }
  return unsupported("The rotary embedding's scaling of type \"", type,
                     "\" is not supported; default, linear, llama3, yarn and longrope are.");
}

class ConfigReader {
 public:
  explicit ConfigReader(const Json& config) : config_(config) {}
  Result<HfModel> read(std::string_view type);

 private:
  Status read_common();
  Status read_rope(const Json* parameters, RopeSpec& rope);
  Status read_ropes();
  Status read_windows();
  Status read_gemma();
  Status read_granite();
  Status read_olmo2();
  Status read_stablelm();
  Status read_falcon();
  Status read_turning_layers();  ///< of SmolLM 3
  Status read_gpt2();

  const Json& config_;
  HfModel model_;
  DecoderSpec& spec_ = model_.spec;
};

Status ConfigReader::read_common() {
  GRAFT_TRY_ASSIGN(spec_.hidden, size_of(config_, "hidden_size"));
  GRAFT_TRY_ASSIGN(spec_.heads, size_of(config_, "num_attention_heads"));
  GRAFT_TRY_ASSIGN(spec_.kv_heads, size_or(config_, "num_key_value_heads", spec_.heads));
  GRAFT_TRY_ASSIGN(spec_.head_dim, size_or(config_, "head_dim", std::max<std::int64_t>(spec_.hidden / spec_.heads, 1)));
  GRAFT_TRY_ASSIGN(spec_.ffn, size_of(config_, "intermediate_size"));
  GRAFT_TRY_ASSIGN(spec_.vocabulary, size_of(config_, "vocab_size"));
  GRAFT_TRY_ASSIGN(spec_.context, size_or(config_, "max_position_embeddings", 0));
  GRAFT_TRY_ASSIGN(const std::int64_t layers, integer_member(config_, "num_hidden_layers", 1, 1000));
  spec_.layers.resize(static_cast<std::size_t>(layers));
  spec_.epsilon = number_member(config_, "rms_norm_eps", 1e-6);
  GRAFT_TRY_ASSIGN(spec_.activation, activation_of(config_));
  spec_.tied = flag_member(config_, "tie_word_embeddings", false);
  spec_.qkv_bias = spec_.attention_output_bias = flag_member(config_, "attention_bias", false);
  spec_.ffn_bias = flag_member(config_, "mlp_bias", false);
  return {};
}

Status ConfigReader::read_rope(const Json* parameters, RopeSpec& rope) {
  const double share = number_member(config_, "partial_rotary_factor", spec_.family == "stablelm" ? 0.25 : 1);
  if (!(share > 0 && share <= 1)) return corrupt("\"partial_rotary_factor\" is ", share, "; it must be in (0, 1].");
  const auto turned = static_cast<std::int64_t>(share * static_cast<double>(spec_.head_dim));
  rope.rotated = share < 1 ? turned : 0;
  if (parameters == nullptr) return {};
  rope.theta = number_member(*parameters, "rope_theta", rope.theta);
  const double old = number_member(config_, "original_max_position_embeddings", static_cast<double>(spec_.context));
  return read_scaling(*parameters, turned, spec_.context, old, rope, spec_.notes);
}

Status ConfigReader::read_ropes() {
  spec_.rope.theta = number_member(config_, "rope_theta", 10000);
  spec_.local_rope.theta = number_member(config_, "rope_local_base_freq", 10000);
  const Json* parameters = member(config_, "rope_parameters");
  if (parameters == nullptr) parameters = member(config_, "rope_scaling");
  const Json* full = parameters != nullptr ? member(*parameters, "full_attention") : nullptr;
  const Json* local = parameters != nullptr ? member(*parameters, "sliding_attention") : nullptr;
  GRAFT_TRY(read_rope(full != nullptr ? full : parameters, spec_.rope));
  GRAFT_TRY(read_rope(local, spec_.local_rope));
  if (spec_.rope.scaling.type == "longrope") spec_.context = static_cast<std::int64_t>(spec_.rope.scaling.old_context);
  return {};
}

/// Which layers see only a window of keys.
Status ConfigReader::read_windows() {
  GRAFT_TRY_ASSIGN(const std::int64_t window, size_or(config_, "sliding_window", 0));
  if (window == 0 || !flag_member(config_, "use_sliding_window", true)) return {};
  GRAFT_TRY_ASSIGN(std::int64_t pattern, size_or(config_, "sliding_window_pattern", 0));
  if (pattern == 0) pattern = spec_.family == "gemma3" ? 6 : spec_.family == "gemma2" ? 2 : 0;
  const bool own_range = spec_.family == "qwen2" || spec_.family == "qwen3";  // from max_window_layers on
  GRAFT_TRY_ASSIGN(const std::int64_t from, size_or(config_, "max_window_layers", own_range ? kMost : 0));
  const Json* types = member(config_, "layer_types");
  if (types != nullptr && (!types->is_array() || types->size() != spec_.layers.size())) {
    return corrupt("\"layer_types\" is not a list of ", spec_.layers.size(), " names.");
  }
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    bool sliding = pattern == 0 ? !own_range || number >= from : (number + 1) % pattern != 0;
    if (types != nullptr) {
      const auto* type = (*types)[i].get_ptr<const std::string*>();
      if (type == nullptr || (*type != "sliding_attention" && *type != "full_attention")) {
        return unsupported("Layer ", i, " is of a type other than sliding_attention and full_attention.");
      }
      sliding = *type == "sliding_attention";
    }
    if (sliding) spec_.layers[i].window = window;
  }
  return {};
}

Status ConfigReader::read_gemma() {
  GRAFT_TRY(read_common());
  spec_.norm_add_unit = spec_.after_norms = true;
  spec_.query_key_norm = spec_.family == "gemma3";
  spec_.embedding_scale = std::sqrt(static_cast<double>(spec_.hidden));
  const double scalar = number_member(config_, "query_pre_attn_scalar", 0);
  if (!(scalar > 0)) return corrupt("\"query_pre_attn_scalar\" is ", scalar, "; it must be positive.");
  spec_.attention_scale = 1 / std::sqrt(scalar);
  spec_.attention_softcap = number_member(config_, "attn_logit_softcapping", 0);
  spec_.logit_softcap = number_member(config_, "final_logit_softcapping", 0);
  GRAFT_TRY(read_windows());
  for (LayerSpec& layer : spec_.layers) layer.local_rope = spec_.family == "gemma3" && layer.window != 0;
  return {};
}

Status ConfigReader::read_granite() {
  GRAFT_TRY(read_common());
  spec_.embedding_scale = number_member(config_, "embedding_multiplier", 1);
  spec_.residual_scale = number_member(config_, "residual_multiplier", 1);
  spec_.attention_scale = number_member(config_, "attention_multiplier", 1);
  spec_.logit_divisor = number_member(config_, "logits_scaling", 1);
  return {};
}

Status ConfigReader::read_olmo2() {
  GRAFT_TRY(read_common());
  spec_.epsilon = number_member(config_, "rms_norm_eps", 1e-5);
  spec_.before_norms = false;
  spec_.after_norms = spec_.whole_query_key_norm = true;
  return {};
}

Status ConfigReader::read_stablelm() {
  GRAFT_TRY(read_common());
  spec_.layer_norm = true;
  spec_.epsilon = number_member(config_, "layer_norm_eps", 1e-5);
  spec_.qkv_bias = flag_member(config_, "use_qkv_bias", false);
  spec_.attention_output_bias = spec_.ffn_bias = false;
  spec_.parallel = flag_member(config_, "use_parallel_residual", false);
  if (!flag_member(config_, "qk_layernorm", false)) return {};
  return unsupported("\"qk_layernorm\" of a StableLM is not supported.");
}

Status ConfigReader::read_falcon() {
  for (const char* name : {"alibi", "new_decoder_architecture"}) {
    if (flag_member(config_, name, false)) return unsupported("\"", name, "\" of a Falcon is not supported.");
  }
  GRAFT_TRY_ASSIGN(spec_.hidden, size_of(config_, "hidden_size"));
  GRAFT_TRY_ASSIGN(spec_.heads, size_of(config_, "num_attention_heads"));
  const bool one_key_head = flag_member(config_, "multi_query", true);
  if (!one_key_head) return unsupported("A Falcon without \"multi_query\" is not supported.");
  spec_.kv_heads = 1;
  spec_.head_dim = std::max<std::int64_t>(spec_.hidden / spec_.heads, 1);
  GRAFT_TRY_ASSIGN(spec_.ffn, size_or(config_, "ffn_hidden_size", 4 * spec_.hidden));
  GRAFT_TRY_ASSIGN(spec_.vocabulary, size_of(config_, "vocab_size"));
  GRAFT_TRY_ASSIGN(spec_.context, size_or(config_, "max_position_embeddings", 2048));
  GRAFT_TRY_ASSIGN(const std::int64_t layers, integer_member(config_, "num_hidden_layers", 1, 1000));
  spec_.layers.resize(static_cast<std::size_t>(layers));
  spec_.epsilon = number_member(config_, "layer_norm_epsilon", 1e-5);
  const std::string_view activation = string_member(config_, "activation");
  if (!activation.empty() && activation != "gelu") {
    return unsupported("The activation \"", shown(activation), "\" of a Falcon is not supported.");
  }
  spec_.activation = Activation::gelu;
  spec_.layer_norm = spec_.fused_qkv = true;
  spec_.gated = false;
  spec_.parallel = flag_member(config_, "parallel_attn", true);
  spec_.qkv_bias = spec_.attention_output_bias = spec_.ffn_bias = flag_member(config_, "bias", false);
  spec_.tied = flag_member(config_, "tie_word_embeddings", true);
  return {};
}

Status ConfigReader::read_gpt2() {
  GRAFT_TRY_ASSIGN(spec_.hidden, size_of(config_, "n_embd"));
  GRAFT_TRY_ASSIGN(spec_.heads, size_of(config_, "n_head"));
  spec_.kv_heads = spec_.heads;
  if (spec_.hidden % spec_.heads != 0) {
    return corrupt("The hidden size ", spec_.hidden, " is no multiple of the ", spec_.heads, " heads.");
  }
  spec_.head_dim = spec_.hidden / spec_.heads;
  GRAFT_TRY_ASSIGN(spec_.ffn, size_or(config_, "n_inner", 4 * spec_.hidden));
  GRAFT_TRY_ASSIGN(spec_.vocabulary, size_of(config_, "vocab_size"));
  GRAFT_TRY_ASSIGN(spec_.context, size_of(config_, "n_positions"));
  GRAFT_TRY_ASSIGN(const std::int64_t layers, integer_member(config_, "n_layer", 1, 1000));
  spec_.layers.resize(static_cast<std::size_t>(layers));
  spec_.epsilon = number_member(config_, "layer_norm_epsilon", 1e-5);
  GRAFT_TRY_ASSIGN(spec_.activation, activation_of(config_));
  spec_.tied = flag_member(config_, "tie_word_embeddings", true);
  spec_.layer_norm = spec_.fused_qkv = spec_.qkv_bias = spec_.attention_output_bias = spec_.ffn_bias = true;
  spec_.learned_positions = spec_.transposed_weights = true;
  spec_.gated = false;
  if (!flag_member(config_, "scale_attn_weights", true)) spec_.attention_scale = 1;
  if (flag_member(config_, "scale_attn_by_inverse_layer_idx", false)) {
    return unsupported("\"scale_attn_by_inverse_layer_idx\" is not supported.");
  }
  return {};
}

Result<HfModel> ConfigReader::read(std::string_view type) {
  GRAFT_TRY(refuse_quantized(config_));
  spec_.family = type;
  model_.names = find_family(type)->names;
  if (type == "gpt2") {
    GRAFT_TRY(read_gpt2());
    return std::move(model_);
  }
  if (type == "gemma2" || type == "gemma3") {
    GRAFT_TRY(read_gemma());
  } else if (type == "granite") {
    GRAFT_TRY(read_granite());
  } else if (type == "olmo2") {
    GRAFT_TRY(read_olmo2());
  } else if (type == "stablelm") {
    GRAFT_TRY(read_stablelm());
  } else if (type == "falcon") {
    GRAFT_TRY(read_falcon());
  } else {
    GRAFT_TRY(read_common());
    if (type == "qwen2") spec_.qkv_bias = true;
    if (type == "qwen3") spec_.query_key_norm = true;
    if (type == "phi3") spec_.fused_qkv = spec_.fused_gate_up = true;
    if (type != "llama" && type != "smollm3") GRAFT_TRY(read_windows());
  }
  GRAFT_TRY(read_ropes());
  if (type == "smollm3") GRAFT_TRY(read_turning_layers());
  return std::move(model_);
}

Status ConfigReader::read_turning_layers() {
  const Json* rotates = member(config_, "no_rope_layers");
  if (rotates == nullptr) {
    GRAFT_TRY_ASSIGN(const std::int64_t interval, size_or(config_, "no_rope_layer_interval", kNoRopeInterval));
    stop_turning(static_cast<std::size_t>(interval), spec_);
    return {};
  }
  if (!rotates->is_array() || rotates->size() != spec_.layers.size()) {
    return corrupt("\"no_rope_layers\" is not a list of ", spec_.layers.size(), " numbers.");
  }
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {  // despite the name, 1 stands for layers that turn
    GRAFT_TRY_ASSIGN(const std::int64_t turns, integer_value((*rotates)[i], "An entry of \"no_rope_layers\"", 0, 1));
    spec_.layers[i].rotates = turns != 0;
  }
  return {};
}

/// Files leave out options whose value is that of the first model of their family.
Result<HfModel> read_gemma2(const Json& given) {
  Json config = {{"num_attention_heads", 8},
                 {"num_key_value_heads", 4},
                 {"head_dim", 256},
                 {"vocab_size", 256000},
                 {"max_position_embeddings", 8192},
                 {"sliding_window", 4096},
                 {"query_pre_attn_scalar", 256},
                 {"hidden_activation", "gelu_pytorch_tanh"},
                 {"attn_logit_softcapping", 50.0},
                 {"final_logit_softcapping", 30.0},
                 {"tie_word_embeddings", true}};
  config.update(given);
  return ConfigReader(config).read("gemma2");
}

Result<HfModel> read_gemma3_text(const Json& given) {
  Json config = {{"num_attention_heads", 8},
                 {"num_key_value_heads", 4},
                 {"head_dim", 256},
                 {"vocab_size", 262208},
                 {"max_position_embeddings", 131072},
                 {"sliding_window", 4096},
                 {"query_pre_attn_scalar", 256},
                 {"hidden_activation", "gelu_pytorch_tanh"},
                 {"rope_theta", 1e6},
                 {"tie_word_embeddings", true}};
  config.update(given);
  return ConfigReader(config).read("gemma3");
}

}  // namespace

Result<HfModel> read_hf_config(const Json& config) {
  const std::string_view type = string_member(config, "model_type");
  if (type == "gemma3") {
    const Json* text = member(config, "text_config");
    if (text == nullptr || !text->is_object()) return corrupt("\"text_config\" is missing.");
    return read_gemma3_text(*text);
  }
  if (type == "gemma3_text") return read_gemma3_text(config);
  if (type == "gemma2") return read_gemma2(config);
  if (const Family* const family = find_family(type); family != nullptr) {
    return family->encodes() ? read_hf_encoder(config, type) : ConfigReader(config).read(type);
  }
  return unsupported("The model type \"", shown(type), "\" is not supported; ", family_names(), " are.");
}

}  // namespace graft::convert
