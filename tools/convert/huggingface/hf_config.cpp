#include "tools/convert/huggingface/hf_config.h"

#include <cmath>

#include "tools/convert/decoder/families.h"
#include "tools/convert/decoder/rope_scaling.h"
#include "tools/convert/huggingface/hf_config_parts.h"
#include "tools/convert/huggingface/hf_fields.h"
#include "tools/convert/huggingface/hf_words.h"

namespace graft::convert {

Status refuse_quantized(const Json& config) {
  if (member(config, "quantization_config") == nullptr) return {};
  return unsupported("The weights are quantized (\"quantization_config\"); GGUF files are what graft reads quantized.");
}

Result<Activation> activation_of(const Json& config, const char* key) {
  const std::string_view name = string_member(config, key);
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu" || name == "gelu_python") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  if (name == "relu2") return Activation::relu_squared;
  return unsupported("The activation \"", shown(name), "\" (\"", key, "\") is not supported.");
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

/// The type of a rope's scaling, as graft calls it.
std::string_view scaling_type(const Json& scaling) {
  std::string_view type = string_member(scaling, "rope_type");
  if (type.empty()) type = string_member(scaling, "type");
  return type.empty() ? "default" : type == "su" ? "longrope" : type;
}

Result<YarnScaling> read_yarn(const Json& scaling, std::int64_t context, double old) {
  YarnScaling out = {.factor = number_member(scaling, "factor", static_cast<double>(context) / std::max(old, 1.0)),
                     .old_context = old,
                     .beta_fast = number_member(scaling, "beta_fast", 32),
                     .beta_slow = number_member(scaling, "beta_slow", 1),
                     .magnitude = number_member(scaling, "attention_factor", 0),
                     .truncate = flag_member(scaling, "truncate", true)};
  const auto part = [&](const char* name) {
    return out.factor <= 1 ? 1 : 0.1 * number_member(scaling, name, 0) * std::log(out.factor) + 1;
  };
  const bool both = number_member(scaling, "mscale", 0) != 0 && number_member(scaling, "mscale_all_dim", 0) != 0;
  if (out.magnitude == 0 && both) out.magnitude = part("mscale") / part("mscale_all_dim");
  return out;
}

/// The scaling of a rope, from "rope_scaling" or "rope_parameters", which is at `path`. `given_old` is the old context
/// where these do not say it.
Status read_scaling(const Json& scaling, std::string_view path, std::int64_t turned, std::int64_t context,
                    double given_old, RopeSpec& rope, std::vector<std::string>& notes) {
  const std::string_view type = scaling_type(scaling);
  GRAFT_TRY(check_rope_fields(scaling, type, path));
  if (type == "default") return {};
  if ((type == "linear" || type == "llama3") && member(scaling, "factor") == nullptr) {
    return corrupt("\"factor\" of \"", path, "\" is missing.");
  }
  const double factor = number_member(scaling, "factor", 1);
  const double old = number_member(scaling, "original_max_position_embeddings", given_old);
  if (type == "linear") return scale_linear(rope, turned, factor);
  if (type == "llama3") {
    return scale_llama3(
        rope, turned,
        {factor, number_member(scaling, "low_freq_factor", 1), number_member(scaling, "high_freq_factor", 4), old});
  }
  if (type == "yarn") {
    GRAFT_TRY_ASSIGN(const YarnScaling yarn, read_yarn(scaling, context, old));
    return scale_yarn(rope, turned, yarn);
  }
  if (type == "longrope") {
    notes.push_back(longrope_note(old));
    return read_longrope(scaling, turned, context, old, rope);
  }
  if (type == "dynamic") {
    notes.push_back(cat("Its rotary embedding is scaled beyond ", context, " positions (type dynamic); graft keeps it ",
                        "unscaled."));
    return {};
  }
  return unsupported("The rotary embedding's scaling of type \"", shown(type),
                     "\" is not supported; default, linear, llama3, yarn and longrope are.");
}

class ConfigReader {
 public:
  explicit ConfigReader(Json config) : config_(std::move(config)) {}
  Result<HfModel> read(std::string_view type);

 private:
  Status read_common();
  Status read_rope(const Json* parameters, const std::string& path, RopeSpec& rope);
  Status read_ropes();
  Status read_windows();
  bool slides(std::size_t layer, std::int64_t pattern, std::int64_t from) const;
  bool is_gemma3() const { return spec_.family == "gemma3" || spec_.family == "gemma-embedding"; }
  bool has_local_rope() const { return is_gemma3() || spec_.family == "modernbert"; }
  Status read_gemma();
  Status read_modern_bert();
  Status read_granite();
  Status read_olmo2();
  Status read_stablelm();
  Status read_falcon();
  Status read_turning_layers();  ///< of SmolLM 3
  Status read_gpt2();
  Status check_class();

  const Json config_;  ///< with the family's values for fields that the file lacks
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
  if (const auto choices = find_family(spec_.family)->choices; choices != nullptr) choices(spec_);
  spec_.epsilon = number_member(config_, "rms_norm_eps", 1e-6);
  GRAFT_TRY_ASSIGN(
      spec_.activation,
      activation_of(config_, member(config_, "hidden_activation") != nullptr ? "hidden_activation" : "hidden_act"));
  spec_.tied = flag_member(config_, "tie_word_embeddings", false);
  spec_.qkv_bias = spec_.attention_output_bias = flag_member(config_, "attention_bias", false);
  spec_.ffn_bias = flag_member(config_, "mlp_bias", false);
  return {};
}

Status ConfigReader::read_rope(const Json* parameters, const std::string& path, RopeSpec& rope) {
  const double whole = number_member(config_, "partial_rotary_factor", 1);
  const double share = parameters != nullptr ? number_member(*parameters, "partial_rotary_factor", whole) : whole;
  if (!(share > 0 && share <= 1)) return corrupt("\"partial_rotary_factor\" is ", share, "; it must be in (0, 1].");
  auto turned = static_cast<std::int64_t>(share * static_cast<double>(spec_.head_dim));
  if (member(config_, "rotary_dim") != nullptr) {
    GRAFT_TRY_ASSIGN(turned, integer_member(config_, "rotary_dim", 2, spec_.head_dim));
    rope.rotated = turned;
  }
  if (share < 1) rope.rotated = turned;
  if (parameters == nullptr) return {};
  rope.theta = number_member(*parameters, "rope_theta", rope.theta);
  const double old = number_member(config_, "original_max_position_embeddings", static_cast<double>(spec_.context));
  return read_scaling(*parameters, path, turned, spec_.context, old, rope, spec_.notes);
}

Status ConfigReader::read_ropes() {
  if (spec_.learned_positions) return {};
  const bool modern = spec_.family == "modernbert";
  spec_.rope.interleaved = find_family(spec_.family)->interleaved;
  spec_.rope.theta = number_member(config_, modern ? "global_rope_theta" : "rope_theta", 10000);
  spec_.local_rope.theta = number_member(config_, modern ? "local_rope_theta" : "rope_local_base_freq", 10000);
  std::string path = "rope_parameters";
  const Json* parameters = member(config_, path.c_str());
  if (parameters == nullptr) parameters = member(config_, (path = "rope_scaling").c_str());
  const Json* const scaling = member(config_, "rope_scaling");
  if (scaling != nullptr && scaling != parameters && !scaling->empty() && *scaling != *parameters) {
    return unsupported("\"rope_scaling\" and \"rope_parameters\" differ; graft reads one of them.");
  }
  const Json* full = nullptr;
  const Json* local = nullptr;
  const bool by_kind = has_local_rope() || spec_.family == "olmo3";
  if (by_kind && parameters != nullptr) {
    full = member(*parameters, "full_attention");
    local = member(*parameters, "sliding_attention");
    const std::size_t kinds = (full != nullptr ? 1 : 0) + (local != nullptr ? 1 : 0);
    if (kinds != 0 && parameters->size() != kinds) {
      return unsupported("\"", path, "\" has other members beside \"full_attention\" and \"sliding_attention\".");
    }
  }
  GRAFT_TRY(full != nullptr || local != nullptr ? read_rope(full, path + ".full_attention", spec_.rope)
                                                : read_rope(parameters, path, spec_.rope));
  if (spec_.family == "olmo3") spec_.local_rope = {.theta = spec_.rope.theta};  // which no scaling is for
  GRAFT_TRY(read_rope(local, path + ".sliding_attention", spec_.local_rope));
  if (spec_.family == "cohere" && number_member(config_, "rope_theta", 0) == 0 &&
      (parameters == nullptr || number_member(*parameters, "rope_theta", 0) == 0)) {
    return corrupt("\"rope_theta\" is missing, and versions of transformers differ in what that means for a Cohere.");
  }
  if (spec_.rope.scaling.type == "longrope") spec_.context = static_cast<std::int64_t>(spec_.rope.scaling.old_context);
  return {};
}

/// Whether a layer sees a window of keys only, where the file does not list the layers' types.
bool ConfigReader::slides(std::size_t layer, std::int64_t pattern, std::int64_t from) const {
  const auto number = static_cast<std::int64_t>(layer);
  if (pattern != 0) return (number + 1) % pattern != 0;
  if (spec_.family == "smollm3") return !spec_.layers[layer].rotates;
  return number >= from;
}

/// Which layers see only a window of keys.
Status ConfigReader::read_windows() {
  const Json* types = member(config_, "layer_types");
  if (types != nullptr && (!types->is_array() || types->size() != spec_.layers.size())) {
    return corrupt("\"layer_types\" is not a list of ", spec_.layers.size(), " names.");
  }
  for (std::size_t i = 0; types != nullptr && i < spec_.layers.size(); ++i) {
    const Json& type = (*types)[i];
    if (type == "full_attention" || (type == "sliding_attention" && config_.contains("sliding_window"))) continue;
    return unsupported("Layer ", i, " is of a type (\"layer_types\") that graft does not have in a ", spec_.family,
                       ".");
  }
  GRAFT_TRY_ASSIGN(const std::int64_t window, size_or(config_, "sliding_window", 0));
  if (window == 0 || !flag_member(config_, "use_sliding_window", true)) return {};
  GRAFT_TRY_ASSIGN(std::int64_t pattern, size_or(config_, "sliding_window_pattern", 0));
  if (spec_.family == "gemma2") pattern = 2;
  if (spec_.family == "olmo3") pattern = 4;
  if (is_gemma3() && pattern == 0) {
    GRAFT_TRY_ASSIGN(pattern, size_or(config_, "_sliding_window_pattern", 6));
  }
  const bool own_range = spec_.family == "qwen2" || spec_.family == "qwen3";
  std::int64_t from = 0;
  if (own_range && member(config_, "max_window_layers") != nullptr) {
    GRAFT_TRY_ASSIGN(from, integer_member(config_, "max_window_layers", 0, kMost));
  }
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
    const bool sliding = types != nullptr ? (*types)[i] == "sliding_attention" : slides(i, pattern, from);
    // Both ways, a window is the keys on either side together.
    if (sliding) spec_.layers[i].window = spec_.family == "gemma-embedding" ? window / 2 + 1 : window;
  }
  return {};
}

Status ConfigReader::read_gemma() {
  GRAFT_TRY(read_common());
  spec_.norm_add_unit = spec_.after_norms = true;
  spec_.query_key_norm = is_gemma3();
  spec_.embedding_scale = std::sqrt(static_cast<double>(spec_.hidden));
  const double scalar = number_member(config_, "query_pre_attn_scalar", 0);
  if (!(scalar > 0)) return corrupt("\"query_pre_attn_scalar\" is ", scalar, "; it must be positive.");
  spec_.attention_scale = 1 / std::sqrt(scalar);
  spec_.attention_softcap = number_member(config_, "attn_logit_softcapping", 0);
  spec_.logit_softcap = number_member(config_, "final_logit_softcapping", 0);
  return {};
}

Status ConfigReader::read_modern_bert() {
  GRAFT_TRY(read_common());
  spec_.epsilon = number_member(config_, "norm_eps", 1e-5);
  spec_.norm_bias = flag_member(config_, "norm_bias", false);
  GRAFT_TRY_ASSIGN(const std::int64_t interval, size_of(config_, "global_attn_every_n_layers"));
  GRAFT_TRY_ASSIGN(const std::int64_t local, size_of(config_, "local_attention"));
  const Json* const types = member(config_, "layer_types");
  if (types != nullptr && (!types->is_array() || types->size() != spec_.layers.size())) {
    return corrupt("\"layer_types\" is not a list of ", spec_.layers.size(), " names.");
  }
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
    bool sliding = static_cast<std::int64_t>(i) % interval != 0;
    if (types != nullptr) {
      sliding = (*types)[i] == "sliding_attention";
      if (!sliding && (*types)[i] != "full_attention")
        return unsupported("Layer ", i, " is of another type (\"layer_types\").");
    }
    if (sliding) spec_.layers[i].window = local / 2 + 1;
  }
  EncoderSpec& encoder = *spec_.encoder;
  encoder.dense_bias = flag_member(config_, "classifier_bias", false);
  encoder.masked_bias = flag_member(config_, "decoder_bias", true);
  const std::string_view pooling = string_member(config_, "classifier_pooling");
  if (pooling != "cls" && pooling != "mean") {
    return unsupported("\"classifier_pooling\" is \"", shown(pooling), "\"; cls and mean are supported.");
  }
  GRAFT_TRY(read_encoder_head(config_, spec_));
  encoder.mean_classes = encoder.head == EncoderHead::classes && pooling == "mean";
  GRAFT_TRY_ASSIGN(encoder.class_activation, activation_of(config_, "classifier_activation"));
  encoder.masked_activation = encoder.class_activation;
  spec_.tied = encoder.head != EncoderHead::masked || spec_.tied;
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
  return {};
}

Status ConfigReader::read_falcon() {
  GRAFT_TRY_ASSIGN(spec_.hidden, size_of(config_, "hidden_size"));
  GRAFT_TRY_ASSIGN(spec_.heads, size_of(config_, "num_attention_heads"));
  spec_.kv_heads = 1;
  spec_.head_dim = std::max<std::int64_t>(spec_.hidden / spec_.heads, 1);
  GRAFT_TRY_ASSIGN(spec_.ffn, size_or(config_, "ffn_hidden_size", 4 * spec_.hidden));
  GRAFT_TRY_ASSIGN(spec_.vocabulary, size_of(config_, "vocab_size"));
  GRAFT_TRY_ASSIGN(spec_.context, size_or(config_, "max_position_embeddings", 2048));
  GRAFT_TRY_ASSIGN(const std::int64_t layers, integer_member(config_, "num_hidden_layers", 1, 1000));
  spec_.layers.resize(static_cast<std::size_t>(layers));
  spec_.epsilon = number_member(config_, "layer_norm_epsilon", 1e-5);
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
  GRAFT_TRY_ASSIGN(spec_.activation, activation_of(config_, "activation_function"));
  spec_.tied = flag_member(config_, "tie_word_embeddings", true);
  spec_.layer_norm = spec_.fused_qkv = spec_.qkv_bias = spec_.attention_output_bias = spec_.ffn_bias = true;
  spec_.learned_positions = spec_.transposed_weights = true;
  spec_.gated = false;
  if (!flag_member(config_, "scale_attn_weights", true)) spec_.attention_scale = 1;
  return {};
}

Result<HfModel> ConfigReader::read(std::string_view type) {
  spec_.family = type;
  const Family& family = *find_family(type);
  if (!family.encodes()) GRAFT_TRY(check_class());
  model_.names = family.names;
  if (type == "gpt2") {
    GRAFT_TRY(read_gpt2());
    return std::move(model_);
  }
  if (type == "gemma2" || is_gemma3()) {
    GRAFT_TRY(read_gemma());
    const std::string_view name = class_of(config_);
    if (family.encodes() && name.find("For") != std::string_view::npos) spec_.notes.push_back(left_out_note(name));
  } else if (type == "modernbert") {
    GRAFT_TRY(read_modern_bert());
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
    if (type == "smollm3") GRAFT_TRY(read_turning_layers());
    if (family.choices != nullptr) {
      spec_.norm_add_unit = family.unit_norms;
      spec_.grouped_qkv = family.grouped;
      GRAFT_TRY(read_own_fields(config_, spec_));
    }
  }
  if (type != "modernbert") GRAFT_TRY(read_windows());
  if (has_local_rope()) {
    for (LayerSpec& layer : spec_.layers) layer.local_rope = layer.window != 0;
  }
  settle_layers(spec_);
  GRAFT_TRY(read_ropes());
  return std::move(model_);
}

Status ConfigReader::read_turning_layers() {
  const Json* rotates = member(config_, "no_rope_layers");
  if (rotates == nullptr) {
    GRAFT_TRY_ASSIGN(const std::int64_t interval, size_or(config_, "no_rope_layer_interval", kNoRopeInterval));
    stop_turning(static_cast<std::size_t>(interval), spec_);
    return {};
  }
  if (!rotates->is_array() || rotates->size() < spec_.layers.size()) {
    return corrupt("\"no_rope_layers\" is not a list of ", spec_.layers.size(), " numbers.");
  }
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {  // despite the name, 1 stands for layers that turn
    GRAFT_TRY_ASSIGN(const std::int64_t turns, integer_value((*rotates)[i], "An entry of \"no_rope_layers\"", 0, 1));
    spec_.layers[i].rotates = turns != 0;
  }
  return {};
}

/// Decoders have the head of a language model; a folder of the base class has none.
Status ConfigReader::check_class() {
  const std::string_view name = class_of(config_);
  const std::size_t at = name.find("For");
  const std::string_view head = at == std::string_view::npos ? std::string_view() : name.substr(at);
  if (head.empty() || head == "ForCausalLM" || head == "ForConditionalGeneration") return {};
  return unsupported(
      "The class in \"architectures\" is ", shown(name),
      ", whose head graft does not have; name \"architectures\" among the ignored fields to convert it as "
      "a language model.");
}

Result<HfModel> read_decoder(const Json& given, std::string_view family, std::string_view path = {}) {
  GRAFT_TRY(refuse_quantized(given));
  GRAFT_TRY_ASSIGN(Json config, family_fields(given, family, path));
  return ConfigReader(in_common_words(config, family)).read(family);
}

}  // namespace

std::string_view class_of(const Json& config) {
  const Json* list = member(config, "architectures");
  if (list == nullptr || !list->is_array() || list->empty()) return {};
  const auto* first = list->front().get_ptr<const std::string*>();
  return first != nullptr ? std::string_view(*first) : std::string_view();
}

Result<HfModel> read_hf_config(const Json& config) {
  const std::string_view type = string_member(config, "model_type");
  if (type.empty()) return corrupt("\"model_type\" is missing or not a string; ", family_names(), " are supported.");
  if (type == "gemma3" || type == "mistral3") {
    const Json* text = member(config, "text_config");
    if (text == nullptr || !text->is_object()) return corrupt("\"text_config\" is missing.");
    GRAFT_TRY(refuse_quantized(config));
    GRAFT_TRY(check_outer_fields(config, type));
    if (type == "gemma3") return read_decoder(*text, "gemma3", "text_config");
    const std::string_view inner = string_member(*text, "model_type");
    if (inner == "mistral" || inner == "ministral3") return read_decoder(*text, inner, "text_config");
    return unsupported("The text part of a mistral3 is of the type \"", shown(inner),
                       "\"; mistral and ministral3 are supported.");
  }
  if (type == "gemma3_text") {
    return read_decoder(config,
                        flag_member(config, "use_bidirectional_attention", false) ? "gemma-embedding" : "gemma3");
  }
  if (const Family* const family = find_family(type); family != nullptr) {
    const bool bert = family->encodes() && family->choices == nullptr;
    return bert ? read_hf_encoder(config, type) : read_decoder(config, type);
  }
  return unsupported("The model type \"", shown(type), "\" is not supported; ", family_names(), " are.");
}

}  // namespace graft::convert
