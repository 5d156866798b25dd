// The config.json of BERT and its kin.
#include <algorithm>
#include <array>

#include "tools/convert/decoder/families.h"
#include "tools/convert/huggingface/hf_config_parts.h"
#include "tools/convert/huggingface/hf_fields.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kMostClasses = 1 << 20;

/// DistilBERT's words for what the others have.
Json in_common_words(const Json& given) {
  Json config = given;
  constexpr std::array<std::array<const char*, 2>, 6> kWords = {{{"dim", "hidden_size"},
                                                                 {"n_heads", "num_attention_heads"},
                                                                 {"n_layers", "num_hidden_layers"},
                                                                 {"hidden_dim", "intermediate_size"},
                                                                 {"activation", "hidden_act"},
                                                                 {"dropout", "hidden_dropout_prob"}}};
  for (const auto& [theirs, common] : kWords) {
    if (member(given, theirs) != nullptr) config[common] = given[theirs];
  }
  config["type_vocab_size"] = 0;
  config["layer_norm_eps"] = 1e-12;
  return config;
}

/// The names of "id2label", in the order of their numbers; empty where these are not 0, 1, 2, ...
std::vector<std::string> class_names(const Json& config) {
  const Json* names = member(config, "id2label");
  if (names == nullptr || !names->is_object()) return {};
  std::vector<std::string> out;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const std::string_view name = string_member(*names, std::to_string(i).c_str());
    if (name.empty()) return {};
    out.emplace_back(name);
  }
  return out;
}

Status read_classes(const Json& config, EncoderSpec& encoder) {
  const Json* names = member(config, "id2label");
  const auto named = names != nullptr && names->is_object() ? static_cast<std::int64_t>(names->size()) : 2;
  encoder.classes = named;
  if (names == nullptr && member(config, "num_labels") != nullptr) {
    GRAFT_TRY_ASSIGN(encoder.classes, integer_member(config, "num_labels", 1, kMostClasses));
  }
  if (encoder.classes < 1 || encoder.classes > kMostClasses) {
    return corrupt("\"id2label\" names ", encoder.classes, " classes; 1 to ", kMostClasses, " can be.");
  }
  encoder.class_names = class_names(config);
  return {};
}

}  // namespace

std::string left_out_note(std::string_view class_name) {
  return cat("It is of the class ", shown(class_name), ", whose head is left out: the hidden states remain.");
}

Status read_encoder_head(const Json& config, DecoderSpec& spec) {
  EncoderSpec& encoder = *spec.encoder;
  const std::string_view name = class_of(config);
  encoder.pooled_classes = false;
  if (name.ends_with("ForSequenceClassification")) {
    encoder.head = EncoderHead::classes;
    encoder.pooled_classes = spec.family == "bert";
    encoder.class_activation = spec.family == "distilbert" ? Activation::relu
                               : spec.family == "electra"  ? Activation::gelu
                                                           : Activation::tanh;
    return read_classes(config, encoder);
  }
  if (name.ends_with("ForTokenClassification")) {
    encoder.head = EncoderHead::token_classes;
    return read_classes(config, encoder);
  }
  const bool has_masked = spec.family != "electra";
  if (has_masked && (name.ends_with("ForMaskedLM") || name.ends_with("ForPreTraining"))) {
    encoder.head = EncoderHead::masked;
    const bool own = spec.family == "bert" || spec.family == "distilbert";
    encoder.masked_activation = own ? spec.activation : Activation::gelu;
    spec.tied = flag_member(config, "tie_word_embeddings", true);
  } else if (name.find("For") != std::string_view::npos) {
    spec.notes.push_back(left_out_note(name));
  }
  return {};
}

namespace {

Status read_positions(const Json& config, DecoderSpec& spec) {
  GRAFT_TRY_ASSIGN(const std::int64_t rows, size_or(config, "max_position_embeddings", 512));
  const bool shifted = spec.family != "bert" && spec.family != "distilbert" && spec.family != "electra";
  if (shifted) {  // positions count from behind the padding's row
    std::int64_t padding = 1;
    if (member(config, "pad_token_id") != nullptr) {
      GRAFT_TRY_ASSIGN(padding, integer_member(config, "pad_token_id", 0, kMost - 1));
    }
    spec.first_position = padding + 1;
  }
  spec.context = rows - spec.first_position;
  if (spec.context >= 1) return {};
  return corrupt("\"max_position_embeddings\" is ", rows, "; positions begin at ", spec.first_position, ".");
}

}  // namespace

Result<HfModel> read_hf_encoder(const Json& given, std::string_view type) {
  GRAFT_TRY(refuse_quantized(given));
  GRAFT_TRY_ASSIGN(Json config, family_fields(given, type));
  if (type == "distilbert") config = in_common_words(config);
  HfModel model;
  model.names = find_family(type)->names;
  DecoderSpec& spec = model.spec;
  spec.family = type;
  EncoderSpec& encoder = spec.encoder.emplace();
  GRAFT_TRY_ASSIGN(spec.hidden, size_of(config, "hidden_size"));
  GRAFT_TRY_ASSIGN(spec.heads, size_of(config, "num_attention_heads"));
  if (spec.hidden % spec.heads != 0) {
    return corrupt("The hidden size ", spec.hidden, " is no multiple of the ", spec.heads, " heads.");
  }
  spec.kv_heads = spec.heads;
  spec.head_dim = spec.hidden / spec.heads;
  GRAFT_TRY_ASSIGN(spec.ffn, size_of(config, "intermediate_size"));
  GRAFT_TRY_ASSIGN(spec.vocabulary, size_of(config, "vocab_size"));
  GRAFT_TRY_ASSIGN(const std::int64_t layers, integer_member(config, "num_hidden_layers", 1, 1000));
  spec.layers.resize(static_cast<std::size_t>(layers));
  spec.epsilon = number_member(config, "layer_norm_eps", 1e-12);
  GRAFT_TRY_ASSIGN(spec.activation, activation_of(config, "hidden_act"));
  spec.layer_norm = spec.learned_positions = true;
  spec.qkv_bias = spec.attention_output_bias = spec.ffn_bias = true;
  spec.gated = spec.before_norms = false;
  spec.residual_norms = true;
  spec.tied = true;
  if (type != "distilbert") {
    GRAFT_TRY_ASSIGN(encoder.token_types, size_or(config, "type_vocab_size", 2));
  }
  GRAFT_TRY_ASSIGN(const std::int64_t width, size_or(config, "embedding_size", spec.hidden));
  if (width != spec.hidden && type == "electra") encoder.embedding_width = width;
  GRAFT_TRY(read_positions(config, spec));
  GRAFT_TRY(read_encoder_head(config, spec));
  return model;
}

}  // namespace graft::convert
