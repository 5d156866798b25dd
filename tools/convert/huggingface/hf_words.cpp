#include "tools/convert/huggingface/hf_words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "tools/convert/decoder/families.h"
#include "tools/convert/huggingface/hf_config_parts.h"
#include "tools/convert/huggingface/hf_fields.h"

namespace graft::convert {
namespace {

struct Word {
  std::string_view family, own, common;
};
constexpr Word kWords[] = {
    {"gpt_neox", "layer_norm_eps", "rms_norm_eps"},
    {"gpt_neox", "rotary_pct", "partial_rotary_factor"},
    {"gpt_neox", "rotary_emb_base", "rope_theta"},
    {"phi", "layer_norm_eps", "rms_norm_eps"},
    {"starcoder2", "norm_epsilon", "rms_norm_eps"},
    {"starcoder2", "use_bias", "attention_bias"},
    {"starcoder2", "use_bias", "mlp_bias"},
    {"gptj", "n_embd", "hidden_size"},
    {"gptj", "n_head", "num_attention_heads"},
    {"gptj", "n_layer", "num_hidden_layers"},
    {"gptj", "n_inner", "intermediate_size"},
    {"gptj", "n_positions", "max_position_embeddings"},
    {"gptj", "layer_norm_epsilon", "rms_norm_eps"},
    {"gptj", "activation_function", "hidden_act"},
    {"opt", "ffn_dim", "intermediate_size"},
    {"opt", "activation_function", "hidden_act"},
    {"opt", "enable_bias", "attention_bias"},
    {"opt", "enable_bias", "mlp_bias"},
    {"cohere", "layer_norm_eps", "rms_norm_eps"},
    {"cohere2", "layer_norm_eps", "rms_norm_eps"},
    {"ernie4_5", "use_bias", "attention_bias"},
    {"ernie4_5", "use_bias", "mlp_bias"},
    {"nemotron", "norm_eps", "rms_norm_eps"},
    {"nomic_bert", "n_embd", "hidden_size"},
    {"nomic_bert", "n_head", "num_attention_heads"},
    {"nomic_bert", "n_layer", "num_hidden_layers"},
    {"nomic_bert", "n_inner", "intermediate_size"},
    {"nomic_bert", "n_positions", "max_position_embeddings"},
    {"nomic_bert", "layer_norm_epsilon", "rms_norm_eps"},
    {"nomic_bert", "rotary_emb_base", "rope_theta"},
    {"nomic_bert", "rotary_emb_fraction", "partial_rotary_factor"},
    {"nomic_bert", "activation_function", "hidden_act"},
    {"nomic_bert", "qkv_proj_bias", "attention_bias"},
    {"nomic_bert", "mlp_fc1_bias", "mlp_bias"},
    {"nomic_bert", "mlp_fc2_bias", "mlp_bias"},
};

Status read_gemma_activation(const Json& config, DecoderSpec& spec) {
  if (member(config, "hidden_activation") == nullptr && string_member(config, "hidden_act") == "gelu") {
    spec.activation = Activation::gelu_tanh;
    spec.notes.emplace_back(
        "Its \"hidden_act\" is \"gelu\", without \"hidden_activation\": old files of Gemma mean "
        "gelu_pytorch_tanh, which graft computes.");
  }
  return {};
}

/// Its words for a gate and its activation.
constexpr std::array<std::array<const char*, 2>, 2> kGated = {{{"swiglu", "silu"}, {"geglu", "gelu"}}};

constexpr const char* kRopeKeys[] = {"rope_parameters", "rope_scaling"};
constexpr const char* kGrowth = "llama_4_scaling_beta";  // of queries, with positions beyond the rope's old context

Status read_ministral3(const Json& config, DecoderSpec& spec) {
  if (number_member(config, kGrowth, 0) == 0) return {};
  for (const char* key : kRopeKeys) {
    const Json* const rope = member(config, key);
    if (rope == nullptr || member(*rope, "original_max_position_embeddings") == nullptr) continue;
    GRAFT_TRY_ASSIGN(const std::int64_t old, size_of(*rope, "original_max_position_embeddings"));
    spec.context = std::min(spec.context, old);
    spec.notes.push_back(
        cat("Its queries grow beyond ", old, " positions (\"", kGrowth, "\"); graft keeps to those within."));
    return {};
  }
  return corrupt("\"", kGrowth, "\" is there and \"original_max_position_embeddings\" is not.");
}

Status read_nomic_bert(const Json& config, DecoderSpec& spec) {
  if (flag_member(config, "mlp_fc1_bias", false) != flag_member(config, "mlp_fc2_bias", false)) {
    return unsupported("\"mlp_fc1_bias\" and \"mlp_fc2_bias\" differ; graft has biases of both or of none.");
  }
  GRAFT_TRY_ASSIGN(spec.encoder->token_types, size_of(config, "type_vocab_size"));
  GRAFT_TRY_ASSIGN(const std::int64_t multiple, size_or(config, "pad_vocab_size_multiple", 1));
  spec.vocabulary = (spec.vocabulary + multiple - 1) / multiple * multiple;
  const double factor = number_member(config, "rotary_scaling_factor", 1);
  if (factor != 1) {
    GRAFT_TRY_ASSIGN(const std::int64_t trained, size_or(config, "max_trained_positions", 2048));
    spec.context = std::min(spec.context, trained);
    spec.notes.push_back(cat("Its rotary embedding is scaled beyond ", trained,
                             " positions (\"rotary_scaling_factor\"); graft keeps to those within."));
  }
  const std::string_view name = class_of(config);
  if (name.find("For") != std::string_view::npos) spec.notes.push_back(left_out_note(name));
  spec.tied = true;
  return {};
}

Status read_minicpm(const Json& config, DecoderSpec& spec) {
  spec.embedding_scale = number_member(config, "scale_emb", 1);
  spec.residual_scale = number_member(config, "scale_depth", 1) / std::sqrt(static_cast<double>(spec.layers.size()));
  const double base = number_member(config, "dim_model_base", 1);
  if (!(base > 0)) return corrupt("\"dim_model_base\" is ", base, "; it must be positive.");
  spec.logit_divisor = static_cast<double>(spec.hidden) / base;
  return {};
}

Status read_cohere(const Json& config, DecoderSpec& spec) {
  const double scale = number_member(config, "logit_scale", 0.0625);
  if (!(std::isfinite(scale) && scale != 0)) return corrupt("\"logit_scale\" is ", scale, "; it must not be 0.");
  spec.logit_divisor = 1 / scale;
  return {};
}

Status read_opt(const Json& config, DecoderSpec& spec) {
  spec.epsilon = 1e-5;  // which no field says
  GRAFT_TRY_ASSIGN(const std::int64_t width, size_or(config, "word_embed_proj_dim", spec.hidden));
  if (width == spec.hidden) return {};
  return unsupported("\"word_embed_proj_dim\" is ", width, " where layers have ", spec.hidden,
                     ": an OPT whose embeddings are narrower is not supported.");
}

}  // namespace

Json in_common_words(const Json& config, std::string_view family) {
  Json out = config;
  for (const Word& word : kWords) {
    if (word.family != family) continue;
    const auto own = config.find(std::string(word.own));
    if (own != config.end()) out[std::string(word.common)] = *own;
  }
  if (family == "nomic_bert") {
    const std::string given(string_member(out, "activation_function"));
    out["hidden_act"] = cat("ungated ", given);  // which is none that graft has
    for (const auto& [own, common] : kGated) {
      if (given == own) out["hidden_act"] = common;
    }
  }
  for (const char* key : kRopeKeys) {
    if (family != "ministral3" || !out.contains(key) || !out[key].is_object() || !out[key].contains(kGrowth)) continue;
    out[kGrowth] = out[key][kGrowth];
    out[key].erase(kGrowth);
  }
  // Four times as wide, where the file does not say.
  if (family == "gptj" && member(out, "intermediate_size") == nullptr && out.contains("hidden_size") &&
      out["hidden_size"].is_number_integer()) {
    const auto width = out["hidden_size"].get<std::int64_t>();
    if (width > 0 && width <= kMost / 4) out["intermediate_size"] = 4 * width;
  }
  return out;
}

OrderedJson in_own_words(const OrderedJson& config, const DecoderSpec& spec) {
  OrderedJson out = OrderedJson::object();
  for (const auto& [name, value] : config.items()) {
    std::string own = name;
    for (const Word& word : kWords) {
      if (word.family == spec.family && word.common == name) own = word.own;
    }
    if (has_field(spec.family, own)) out[own] = value;
  }
  if (spec.family != "nomic_bert") return out;
  for (const auto& [own, common] : kGated) {
    if (config.value("hidden_act", "") == common) out["activation_function"] = own;
  }
  out["mlp_fc1_bias"] = out["mlp_fc2_bias"] = spec.ffn_bias;
  out["type_vocab_size"] = spec.encoder->token_types;
  out["pad_vocab_size_multiple"] = 1;
  return out;
}

Status read_own_fields(const Json& config, DecoderSpec& spec) {
  const std::string_view family = spec.family;
  if (family == "gpt_neox") {
    spec.parallel = flag_member(config, "use_parallel_residual", true);
    spec.parallel_norms = spec.parallel;
    spec.ffn_bias = true;
  }
  if (family == "phi") spec.qkv_bias = spec.attention_output_bias = spec.ffn_bias = true;
  if (family == "gptj") spec.ffn_bias = true;
  if (family == "olmo") spec.epsilon = 1e-5;  // which no field says
  if (family == "glm" || family == "glm4") spec.attention_output_bias = false;
  if (family == "seed_oss") spec.attention_output_bias = flag_member(config, "attention_out_bias", false);
  if (family == "gemma") return read_gemma_activation(config, spec);
  if (family == "ministral3") return read_ministral3(config, spec);
  if (family == "nomic_bert") return read_nomic_bert(config, spec);
  if (family == "minicpm") return read_minicpm(config, spec);
  if (family == "cohere" || family == "cohere2") return read_cohere(config, spec);
  return family == "opt" ? read_opt(config, spec) : Status();
}

void settle_layers(DecoderSpec& spec) {
  const bool windows = std::ranges::any_of(spec.layers, [](const LayerSpec& layer) { return layer.window != 0; });
  for (LayerSpec& layer : spec.layers) {
    // Only layers with a window turn.
    if (spec.family == "cohere2" || (spec.family == "exaone4" && windows)) layer.rotates = layer.window != 0;
    if (spec.family == "olmo3") layer.local_rope = layer.window != 0;  // without scaling
  }
}

}  // namespace graft::convert
