#include "tools/convert/gguf/gguf_decoder.h"

#include <algorithm>
#include <cmath>

#include "platform/base/checked.h"
#include "tools/convert/decoder/families.h"
#include "tools/convert/decoder/rope_scaling.h"
#include "tools/convert/gguf/gguf_fields.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kMost = INT32_MAX;

class GgufReader {
 public:
  explicit GgufReader(const GgufFile& file) : file_(file) {}
  Result<GgufModel> read();
  Result<GgufModel> read(SourceTensors tensors);

 private:
  std::string key(std::string_view name) const { return cat(arch_, ".", name); }
  Result<std::int64_t> size(std::string_view name, std::int64_t otherwise = 0) const;
  Result<double> real(std::string_view name, double otherwise) const;
  bool has(std::string_view tensor) const { return model_.tensors.find(tensor) != nullptr; }
  bool is_gemma3() const { return arch_ == "gemma3" || arch_ == "gemma-embedding"; }
  Status read_architecture();
  Status read_tensors();
  Result<GgufModel> read_model();
  Status read_sizes();
  Status read_family();
  Status read_encoder();
  Status read_windows();
  Status read_own();
  Status read_rope();
  Status read_rope_scaling(std::int64_t turned);
  Status read_rope_factors(std::int64_t turned);
  /// Out of the tensors.
  Result<std::vector<float>> take_factors(const char* name);

  const GgufFile& file_;
  std::string arch_;
  GgufModel model_;
  DecoderSpec& spec_ = model_.spec;
};

/// Without `otherwise` (0) the key must be there.
Result<std::int64_t> GgufReader::size(std::string_view name, std::int64_t otherwise) const {
  if (otherwise != 0 && !file_.has(key(name))) return otherwise;
  GRAFT_TRY_ASSIGN(const std::int64_t value, file_.integer(key(name)));
  if (value < 1 || value > kMost) return corrupt("Metadata \"", key(name), "\" is ", value, "; 1 to 2^31 - 1 can be.");
  return value;
}

Result<double> GgufReader::real(std::string_view name, double otherwise) const {
  return file_.has(key(name)) ? file_.real(key(name)) : otherwise;
}

/// Bytes of rows of whole blocks.
Result<std::uint64_t> blocks_needed(const ExpandedType& type, const std::vector<std::int64_t>& dims) {
  std::uint64_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::uint64_t>(dim);  // bytes_needed() has seen that it fits
  const std::uint64_t columns = dims.empty() ? 1 : static_cast<std::uint64_t>(dims.back());
  if (columns % type.elements == 0) return count / type.elements * type.bytes;
  return corrupt("Its rows have ", columns, " elements, no multiple of the ", type.elements, " of a ",
                 ggml_type_name(type.number), " block.");
}

Status GgufReader::read_tensors() {
  std::string expanded;  // types
  for (const GgufTensor& tensor : file_.tensors()) {
    const auto dtype = dtype_of_ggml(tensor.type);
    const ExpandedType* const expands = dtype ? nullptr : expanded_type(tensor.type);
    if (!dtype && expands == nullptr) {
      const TensorNames& names = family_of_architecture(arch_)->gguf_names();
      if (renamed(tensor.name, names, names).empty()) {
        model_.skipped.push_back(cat(tensor.name, " (", ggml_type_name(tensor.type), ")"));
        continue;
      }
      return unsupported("The tensor \"", tensor.name, "\" is of the type ", ggml_type_name(tensor.type), "; ",
                         ggml_types_read(), " are read.");
    }
    SourceTensor out;
    out.dtype = dtype.value_or(DType::f32);
    out.expanded = expands;
    out.dims.assign(tensor.dims.rbegin(), tensor.dims.rend());
    const std::string context = cat("In the tensor \"", tensor.name, "\"");
    GRAFT_TRY_ASSIGN(std::uint64_t bytes, bytes_needed(out.dims, out.dtype).with_context(context));
    if (expands != nullptr) {
      GRAFT_TRY_ASSIGN(bytes, blocks_needed(*expands, out.dims).with_context(context));
    }
    if (!in_bounds(tensor.offset, bytes, file_.data().size())) {
      return corrupt("The tensor \"", tensor.name, "\" needs ", bytes, " bytes at offset ", tensor.offset, " of ",
                     file_.data().size(), ".");
    }
    out.bytes = file_.data().subspan(tensor.offset, bytes);
    if (expands != nullptr && expanded.find(ggml_type_name(tensor.type)) == std::string::npos) {
      expanded += cat(expanded.empty() ? "" : ", ", ggml_type_name(tensor.type));
    }
    model_.tensors.by_name.emplace(tensor.name, std::move(out));
  }
  if (expanded.empty()) return {};
  spec_.notes.push_back(
      cat("Blocks of ", expanded, " became f32, since no kernel reads them; --quantize makes blocks that one reads."));
  return {};
}

Status GgufReader::read_sizes() {
  GRAFT_TRY_ASSIGN(spec_.hidden, size("embedding_length"));
  GRAFT_TRY_ASSIGN(spec_.heads, size("attention.head_count"));
  GRAFT_TRY_ASSIGN(spec_.kv_heads, size("attention.head_count_kv", spec_.heads));
  GRAFT_TRY_ASSIGN(spec_.head_dim, size("attention.key_length", std::max<std::int64_t>(spec_.hidden / spec_.heads, 1)));
  GRAFT_TRY_ASSIGN(const std::int64_t value_dim, size("attention.value_length", spec_.head_dim));
  if (value_dim != spec_.head_dim) {
    return unsupported("Heads of keys have ", spec_.head_dim, " elements and those of values ", value_dim,
                       "; graft needs the same.");
  }
  GRAFT_TRY_ASSIGN(spec_.ffn, size("feed_forward_length"));
  GRAFT_TRY_ASSIGN(spec_.context, size("context_length"));
  GRAFT_TRY_ASSIGN(const std::int64_t layers, size("block_count"));
  if (layers > 1000) return corrupt("The model has ", layers, " layers; 1000 can be at most.");
  spec_.layers.resize(static_cast<std::size_t>(layers));
  const SourceTensor* embedding = model_.tensors.find("token_embd.weight");
  if (embedding == nullptr || embedding->dims.size() != 2) {
    return corrupt("There is no matrix \"token_embd.weight\" of a type that is read.");
  }
  spec_.vocabulary = embedding->dims[0];
  return {};
}

Result<std::vector<float>> GgufReader::take_factors(const char* name) {
  const SourceTensor* factors = model_.tensors.find(name);
  if (factors == nullptr) return corrupt("There is no \"", name, "\" beside the rotary embedding's other factors.");
  GRAFT_TRY_ASSIGN(const HostBuffer bytes, to_f32(*factors, name));
  const auto* numbers = reinterpret_cast<const float*>(bytes.data());
  std::vector<float> out(numbers, numbers + bytes.size() / sizeof(float));
  model_.tensors.by_name.erase(name);
  return out;
}

Status GgufReader::read_rope_factors(std::int64_t turned) {
  if (has(kRopeFactors)) {
    GRAFT_TRY_ASSIGN(const std::vector<float> factors, take_factors(kRopeFactors));
    return scale_each(spec_.rope, turned, factors);
  }
  LongRopeScaling scaling;
  GRAFT_TRY_ASSIGN(scaling.short_factors, take_factors(kShortRopeFactors));
  GRAFT_TRY_ASSIGN(scaling.long_factors, take_factors(kLongRopeFactors));
  const auto context = static_cast<double>(spec_.context);
  GRAFT_TRY_ASSIGN(scaling.old_context, real("rope.scaling.original_context_length", context));
  scaling.factor = context / std::max(scaling.old_context, 1.0);
  GRAFT_TRY_ASSIGN(scaling.magnitude, real("rope.scaling.attn_factor", 0));
  spec_.context = static_cast<std::int64_t>(std::min(scaling.old_context, context));
  spec_.notes.push_back(longrope_note(scaling.old_context));
  return scale_longrope(spec_.rope, turned, std::move(scaling));
}

Status GgufReader::read_rope() {
  GRAFT_TRY_ASSIGN(spec_.rope.theta, real("rope.freq_base", 10000));
  GRAFT_TRY_ASSIGN(const std::int64_t turned, size("rope.dimension_count", spec_.head_dim));
  if (turned > spec_.head_dim) return corrupt(turned, " elements of a head of ", spec_.head_dim, " turn.");
  spec_.rope.rotated = turned == spec_.head_dim ? 0 : turned;
  if (has(kRopeFactors) || has(kLongRopeFactors) || has(kShortRopeFactors)) GRAFT_TRY(read_rope_factors(turned));
  GRAFT_TRY(read_rope_scaling(turned));
  if (spec_.rope.scaling.type == "longrope") return {};  // which has it
  GRAFT_TRY_ASSIGN(const double magnitude, real("rope.scaling.attn_factor", 1));
  if (!(magnitude > 0)) return corrupt("Metadata \"", key("rope.scaling.attn_factor"), "\" is not above 0.");
  spec_.rope.magnitude *= magnitude;
  return {};
}

/// As llama.cpp has it: a file that does not say the type means linear, and a factor of 0 is none.
Status GgufReader::read_rope_scaling(std::int64_t turned) {
  std::string_view type = "linear";
  if (file_.has(key("rope.scaling.type"))) {
    GRAFT_TRY_ASSIGN(type, file_.text(key("rope.scaling.type")));
  }
  GRAFT_TRY_ASSIGN(const double old_key, real("rope.scale_linear", 1));
  GRAFT_TRY_ASSIGN(const double factor, real("rope.scaling.factor", old_key));
  if (type == "none" || factor == 0 || (factor == 1 && type != "yarn")) return {};
  if (type == "linear") return scale_linear(spec_.rope, turned, factor);
  if (type != "yarn") {
    return unsupported("The rotary embedding's scaling of type \"", shown(type), "\" is not supported.");
  }
  YarnScaling yarn = {.factor = factor};
  GRAFT_TRY_ASSIGN(yarn.old_context, real("rope.scaling.original_context_length", static_cast<double>(spec_.context)));
  GRAFT_TRY_ASSIGN(yarn.beta_fast, real("rope.scaling.yarn_beta_fast", yarn.beta_fast));
  GRAFT_TRY_ASSIGN(yarn.beta_slow, real("rope.scaling.yarn_beta_slow", yarn.beta_slow));
  return scale_yarn(spec_.rope, turned, yarn);
}

Status GgufReader::read_family() {
  const Family& family = *family_of_architecture(arch_);
  spec_.family = family.name;
  if (family.choices != nullptr) family.choices(spec_);
  if (arch_ == "bert") return read_encoder();
  spec_.tied = !has("output.weight");
  spec_.qkv_bias = has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias");
  spec_.attention_output_bias = has("blk.0.attn_output.bias");
  spec_.ffn_bias = has("blk.0.ffn_down.bias");
  const bool query_norm = has("blk.0.attn_q_norm.weight");
  (arch_ == "olmo2" ? spec_.whole_query_key_norm : spec_.query_key_norm) = query_norm;
  model_.own_names = family.encodes() ? family.alone : family.names;
  if (arch_ == "gpt2") {
    spec_.layer_norm = spec_.fused_qkv = spec_.learned_positions = true;
    spec_.gated = false;
    spec_.activation = Activation::gelu_tanh;
    GRAFT_TRY_ASSIGN(spec_.epsilon, real("attention.layer_norm_epsilon", 1e-5));
    return {};
  }
  if (arch_ == "stablelm" || arch_ == "falcon") spec_.layer_norm = true;
  GRAFT_TRY_ASSIGN(spec_.epsilon,
                   real(spec_.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 1e-5));
  GRAFT_TRY(read_rope());
  // Writers of this architecture order rows of queries and keys so that neighbours turn together.
  spec_.rope.interleaved = family.neighbours || family.interleaved;
  if (arch_ == "smollm3") stop_turning(kNoRopeInterval, spec_);
  if (arch_ == "phi3") spec_.fused_qkv = spec_.fused_gate_up = true;
  GRAFT_TRY(read_windows());
  return read_own();
}

/// The file holds no head, says nothing of the activation, and its positions begin with the first row.
Status GgufReader::read_encoder() {
  EncoderSpec& encoder = spec_.encoder.emplace();
  const SourceTensor* const positions = model_.tensors.find("position_embd.weight");
  if (positions == nullptr || positions->dims.size() != 2) {
    return unsupported("There is no matrix \"position_embd.weight\": learned positions are supported.");
  }
  spec_.context = positions->dims[0];
  const SourceTensor* const types = model_.tensors.find("token_types.weight");
  if (types != nullptr && types->dims.size() == 2) encoder.token_types = types->dims[0];
  if (types == nullptr) spec_.family = "distilbert";  // whose files bear the other's name
  if (has("blk.0.attn_qkv.weight") || has("blk.0.ffn_gate.weight")) {
    return unsupported("It has queries, keys and values in one matrix, or a gate, which no BERT has.");
  }
  spec_.layer_norm = spec_.learned_positions = true;
  spec_.qkv_bias = spec_.attention_output_bias = spec_.ffn_bias = true;
  spec_.gated = spec_.before_norms = false;
  spec_.residual_norms = true;
  spec_.tied = true;
  spec_.activation = Activation::gelu;
  GRAFT_TRY_ASSIGN(spec_.epsilon, real("attention.layer_norm_epsilon", 1e-12));
  model_.own_names = find_family(spec_.family)->alone;
  return {};
}

Status GgufReader::read_windows() {
  const GgufWindows windows = gguf_windows(arch_);
  if (!windows.key) return {};
  // llama.cpp's converter writes 0 if a Phi-4 has no window.
  const std::string name = key("attention.sliding_window");
  std::int64_t window = 0;
  if (file_.has(name)) {
    GRAFT_TRY_ASSIGN(window, file_.integer(name));
  }
  if (window != 0) {
    GRAFT_TRY_ASSIGN(window, size("attention.sliding_window"));
  }
  if (spec_.encoder && window != 0) window = window / 2 + 1;      // both ways, it is the keys on either side together
  if (arch_ == "llama" && window != 0) spec_.family = "mistral";  // whose files bear the other's name
  if (arch_ == "olmo2" && window != 0) {
    spec_.family = "olmo3";
    spec_.local_rope = {.theta = spec_.rope.theta};  // which no scaling is for
  }
  const bool local_rope = windows.local_base || spec_.family == "olmo3";
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
    if (!windows.slides(i)) continue;
    spec_.layers[i].window = window;
    spec_.layers[i].local_rope = local_rope;
  }
  if (!windows.local_base) return {};
  GRAFT_TRY_ASSIGN(spec_.local_rope.theta, real("rope.freq_base_swa", 10000));
  return {};
}

/// What one architecture alone has.
Status GgufReader::read_own() {
  if (arch_ == "olmo2") {
    spec_.before_norms = false;
    spec_.after_norms = true;
  }
  if (arch_ == "stablelm") {
    if (spec_.query_key_norm) return unsupported("Norms of queries and keys of a StableLM are not supported.");
    spec_.parallel = !has("blk.0.ffn_norm.weight");
  }
  if (arch_ == "falcon") {
    spec_.fused_qkv = spec_.parallel = true;
    spec_.gated = false;
    spec_.activation = Activation::gelu;
    if (has("blk.0.attn_norm_2.weight")) return unsupported("A Falcon with two norms in each layer is not supported.");
  }
  if (arch_ == "gptneox") {
    spec_.parallel = !file_.has(key("use_parallel_residual"));
    if (!spec_.parallel) {
      GRAFT_TRY_ASSIGN(spec_.parallel, file_.flag(key("use_parallel_residual")));
    }
    spec_.parallel_norms = spec_.parallel;
  }
  if (arch_ == "phi2") spec_.fused_qkv = has("blk.0.attn_qkv.weight");
  if (arch_ == "command-r" || arch_ == "cohere2") {
    GRAFT_TRY_ASSIGN(const double scale, real("logit_scale", 1));
    spec_.logit_divisor = 1 / scale;
  }
  if (arch_ == "cohere2") {
    for (LayerSpec& layer : spec_.layers) layer.rotates = layer.window != 0;
  }
  if (arch_ == "granite" || arch_ == "minicpm") {
    GRAFT_TRY_ASSIGN(spec_.embedding_scale, real("embedding_scale", 1));
    GRAFT_TRY_ASSIGN(spec_.residual_scale, real("residual_scale", 1));
    if (arch_ == "granite") {
      GRAFT_TRY_ASSIGN(spec_.attention_scale, real("attention.scale", 0));
    }
    GRAFT_TRY_ASSIGN(spec_.logit_divisor, real("logit_scale", 1));
  }
  if (const SourceTensor* const types = model_.tensors.find("token_types.weight");
      spec_.encoder && types != nullptr && types->dims.size() == 2) {
    spec_.encoder->token_types = types->dims[0];
  }
  if (arch_ == "modern-bert") {
    spec_.activation = Activation::gelu;
    spec_.norm_bias = has("output_norm.bias");
  }
  if (arch_ != "gemma2" && !is_gemma3()) return {};
  spec_.after_norms = true;  // whose weights have 1 added already
  spec_.activation = Activation::gelu_tanh;
  spec_.embedding_scale = std::sqrt(static_cast<double>(spec_.hidden));
  // The largest of its models is the one that scales by another number; files do not tell.
  const std::size_t largest = arch_ == "gemma3" ? 62 : 46;
  const std::int64_t scaled =
      !spec_.encoder && spec_.layers.size() == largest ? spec_.hidden / spec_.heads : spec_.head_dim;
  spec_.attention_scale = 1 / std::sqrt(static_cast<double>(scaled));
  GRAFT_TRY_ASSIGN(spec_.attention_softcap, real("attn_logit_softcapping", arch_ == "gemma2" ? 50 : 0));
  GRAFT_TRY_ASSIGN(spec_.logit_softcap, real("final_logit_softcapping", arch_ == "gemma2" ? 30 : 0));
  return {};
}

Result<GgufModel> GgufReader::read() {
  GRAFT_TRY(read_architecture());
  GRAFT_TRY(read_tensors());
  return read_model();
}

Result<GgufModel> GgufReader::read(SourceTensors tensors) {
  GRAFT_TRY(read_architecture());
  model_.tensors = std::move(tensors);
  return read_model();
}

Status GgufReader::read_architecture() {
  GRAFT_TRY_ASSIGN(arch_, file_.text("general.architecture"));
  if (family_of_architecture(arch_) == nullptr) {
    return unsupported("The architecture \"", shown(arch_), "\" is not supported; ", family_names(), " are.");
  }
  return {};
}

Result<GgufModel> GgufReader::read_model() {
  GRAFT_TRY(read_sizes());
  GRAFT_TRY(check_gguf_keys(file_, arch_));
  GRAFT_TRY(read_family());
  return std::move(model_);
}

}  // namespace

Result<GgufModel> read_gguf_decoder(const GgufFile& file) { return GgufReader(file).read(); }

Result<GgufModel> read_gguf_decoder(const GgufFile& metadata, SourceTensors tensors) {
  return GgufReader(metadata).read(std::move(tensors));
}

}  // namespace graft::convert
