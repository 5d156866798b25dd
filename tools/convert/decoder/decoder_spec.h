// What a language model is made of: families differ in this data, not in code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft::convert {

/// How a rotary embedding was stretched, for exports.
struct RopeScaling {
  std::string type;  ///< "linear", "llama3", "yarn", "longrope", "factors" (one for each frequency); empty: not at all
  double factor = 1;
  double low = 1, high = 4;              ///< llama3
  double old_context = 0;                ///< llama3, yarn, longrope
  double beta_fast = 32, beta_slow = 1;  ///< yarn
  bool truncate = true;                  ///< yarn
  std::vector<float> short_factors;      ///< longrope: within the old context; these are what graft turns by
  std::vector<float> long_factors;       ///< longrope: beyond it
};

/// Rotary embedding of one kind of layer.
struct RopeSpec {
  double theta = 10000;
  std::int64_t rotated = 0;  ///< elements of a head that turn; 0: all
  bool interleaved = false;  ///< pairs (2i, 2i + 1) instead of (i, i + half)
  double magnitude = 1;
  std::vector<float> frequencies;  ///< of a scaled one, rotated / 2 of them; empty: theta^(-2i / rotated)
  RopeScaling scaling;
};

enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu, relu_squared, tanh };

struct LayerSpec {
  std::int64_t window = 0;  ///< keys that a query sees at most; 0: all
  bool local_rope = false;  ///< turns by DecoderSpec::local_rope
  bool rotates = true;      ///< false: no positions in this layer
  bool raw = false;         ///< attention reads the layer's input without a norm
};

/// Names of tensors without ".weight" and ".bias". Those of a layer follow TensorNames::layer, its number and a dot.
struct TensorNames {
  std::string_view embedding;
  std::string_view positions;  ///< learned ones
  std::string_view layer;
  std::string_view attention_norm;
  std::string_view query, key, value;
  std::string_view query_key_value;  ///< in one tensor
  std::string_view attention_output;
  std::string_view query_norm, key_norm;
  std::string_view after_attention_norm;  ///< before the residual is added
  std::string_view ffn_norm;
  std::string_view gate, up;
  std::string_view gate_up;  ///< in one tensor
  std::string_view down;
  std::string_view after_ffn_norm;
  std::string_view final_norm;
  std::string_view head;
  // Of encoders.
  std::string_view token_types = {};
  std::string_view embedding_norm = {};
  std::string_view embedding_projection = {};  ///< where embeddings are narrower than layers
  std::string_view pooler = {};
  std::string_view class_dense = {};  ///< before the classes of a text
  std::string_view class_norm = {};   ///< after class_dense's activation, which then tokens have too
  std::string_view class_head = {};
  std::string_view token_class_head = {};
  std::string_view masked_dense = {}, masked_norm = {};  ///< before the vocabulary of a masked language model
  std::string_view masked_bias = {};                     ///< of its logits
};
// Of Hugging Face; which family has which: families.h.
extern const TensorNames kLlamaNames;
extern const TensorNames kGemmaNames;
extern const TensorNames kFalconNames;
extern const TensorNames kGpt2Names;
extern const TensorNames kGptNeoXNames;
extern const TensorNames kPhiNames;
extern const TensorNames kStarcoderNames;
extern const TensorNames kGptJNames;
extern const TensorNames kOptNames;
extern const TensorNames kGlmNames;
extern const TensorNames kBertNames;
extern const TensorNames kRobertaNames;
extern const TensorNames kDistilBertNames;
extern const TensorNames kElectraNames;
extern const TensorNames kModernBertNames;
extern const TensorNames kNomicBertNames;
extern const TensorNames kBertAloneNames;
extern const TensorNames kDistilBertAloneNames;
extern const TensorNames kElectraAloneNames;
extern const TensorNames kModernBertAloneNames;
extern const TensorNames kNomicBertAloneNames;
extern const TensorNames kGemmaAloneNames;
extern const TensorNames kGgufNames;
extern const TensorNames kGgufEncoderNames;  // which have no heads
extern const TensorNames kGgufSeedNames;

/// A tensor's name in another table: "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight". The end of the name
/// (from ".weight", ".bias" or ".lora_" on) stays. Empty where `from` has no such name.
std::string renamed(std::string_view name, const TensorNames& from, const TensorNames& to);

/// What gives an encoder's logits.
enum class EncoderHead : std::uint8_t { none, classes, token_classes, masked };

/// What a model has that sees texts both ways.
struct EncoderSpec {
  std::int64_t token_types = 0;      ///< rows of their table; 1: the same for all tokens
  std::int64_t embedding_width = 0;  ///< 0: as the layers'
  bool embedding_norm = true;
  bool final_norm = false;
  EncoderHead head = EncoderHead::none;
  std::int64_t classes = 0;
  bool pooled_classes = false;                      ///< the head of classes reads what the pooler gives
  bool mean_classes = false;                        ///< or the mean of all tokens; otherwise the first token
  bool dense_bias = true;                           ///< of TensorNames::class_dense and masked_dense
  bool masked_bias = true;                          ///< of a masked language model's logits
  Activation class_activation = Activation::tanh;   ///< behind TensorNames::class_dense
  Activation masked_activation = Activation::gelu;  ///< behind TensorNames::masked_dense
  std::vector<std::string> class_names;
};

struct DecoderSpec {
  std::string family;  ///< "llama", "gemma3", ...
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;  ///< positions that the model was made for; 0: unknown
  std::vector<LayerSpec> layers;

  bool layer_norm = false;  ///< else RMS norm
  double epsilon = 1e-5;
  bool norm_weight = true;            ///< norms have weights
  bool norm_bias = true;              ///< of LayerNorm
  bool norm_add_unit = false;         ///< norms multiply by 1 + weight
  bool before_norms = true;           ///< of what attention and feed-forward read
  bool after_norms = false;           ///< of what they give, before the residual is added
  bool residual_norms = false;        ///< of the sum with the residual
  bool query_key_norm = false;        ///< per head
  bool whole_query_key_norm = false;  ///< of all heads together
  bool fused_qkv = false;
  bool grouped_qkv = false;  ///< its rows: of each head of keys its queries, its key, its value; else all queries first
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool parallel = false;        ///< feed-forward reads what attention reads, and both are added at once
  bool parallel_norms = false;  ///< each of the two has a norm of its own
  bool gated = true;            ///< feed-forward: down(activation(gate(x)) * up(x)), else down(activation(up(x)))
  bool fused_gate_up = false;
  bool ffn_bias = false;
  Activation activation = Activation::silu;
  bool transposed_weights = false;  ///< layers' matrices are [in, out] (GPT-2's Conv1D)
  bool learned_positions = false;
  std::int64_t first_position = 0;  ///< row of the positions' table that the first token takes
  bool tied = false;                ///< the head's matrix is the embedding's
  bool head_bias = false;           ///< of a decoder's logits
  double embedding_scale = 1;
  double residual_scale = 1;   ///< of what attention and feed-forward give
  double attention_scale = 0;  ///< 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;
  double logit_divisor = 1;
  double logit_softcap = 0;
  RopeSpec rope;
  RopeSpec local_rope;

  std::optional<EncoderSpec> encoder;

  std::vector<std::string> notes;  ///< what a user should know
};

/// SmolLM 3: each so many-th layer has no positions. GGUF files do not say so and mean this number.
inline constexpr std::size_t kNoRopeInterval = 4;
void stop_turning(std::size_t interval, DecoderSpec& spec);

}  // namespace graft::convert
