// A decoder as metadata of GGUF files.
#include <algorithm>

#include "tools/convert/decoder/decoder_compare.h"
#include "tools/convert/decoder/families.h"
#include "tools/convert/decoder/rope_scaling.h"
#include "tools/convert/gguf/gguf_decoder.h"
#include "tools/convert/gguf/gguf_fields.h"

namespace graft::convert {
namespace {

class Keys {
 public:
  Keys(std::string_view architecture, GgufWriter& out) : architecture_(architecture), out_(out) {}
  void size(std::string_view name, std::int64_t value) { out_.add(key(name), static_cast<std::uint32_t>(value)); }
  void real(std::string_view name, double value) { out_.add(key(name), static_cast<float>(value)); }
  void text(std::string_view name, std::string_view value) { out_.add(key(name), value); }

 private:
  std::string key(std::string_view name) const { return cat(architecture_, ".", name); }
  std::string_view architecture_;
  GgufWriter& out_;
};

void write_rope(const DecoderSpec& spec, Keys& keys) {
  keys.size("rope.dimension_count", spec.rope.rotated != 0 ? spec.rope.rotated : spec.head_dim);
  keys.real("rope.freq_base", spec.rope.theta);
  const RopeScaling& scaling = spec.rope.scaling;
  if (scaling.type == "longrope") {
    keys.size("rope.scaling.original_context_length", static_cast<std::int64_t>(scaling.old_context));
    keys.real("rope.scaling.attn_factor", spec.rope.magnitude);
  }
  if (scaling.type != "linear" && scaling.type != "yarn") return;
  keys.text("rope.scaling.type", scaling.type);
  keys.real("rope.scaling.factor", scaling.factor);
  if (scaling.old_context > 0) {
    keys.size("rope.scaling.original_context_length", static_cast<std::int64_t>(scaling.old_context));
  }
}

}  // namespace

std::string_view gguf_architecture(std::string_view family) {
  const Family* const found = find_family(family);
  return found != nullptr ? found->architecture : std::string_view();
}

bool gguf_pairs_neighbours(std::string_view architecture) {
  const Family* const found = family_of_architecture(architecture);
  return found != nullptr && found->neighbours;
}

std::vector<RopeFactors> gguf_rope_factors(const DecoderSpec& spec) {
  const RopeScaling& scaling = spec.rope.scaling;
  if (scaling.type == "longrope" && spec.family == "phi3") {
    return {{kLongRopeFactors, scaling.long_factors}, {kShortRopeFactors, scaling.short_factors}};
  }
  const bool single = scaling.type == "llama3" || scaling.type == "factors";
  if (!single || !gguf_pairs_neighbours(gguf_architecture(spec.family))) return {};
  RopeSpec bare = spec.rope;
  bare.frequencies.clear();
  const std::vector<double> plain = rope_frequencies(bare, spec.head_dim);
  std::vector<float> out(plain.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(plain[i] / spec.rope.frequencies[i]);
  return {{kRopeFactors, std::move(out)}};
}

Status write_gguf_decoder(const DecoderSpec& spec, GgufWriter& out) {
  const std::string_view architecture = gguf_architecture(spec.family);
  if (architecture.empty()) return unsupported("GGUF files of the family \"", spec.family, "\" cannot be written.");
  if (spec.encoder && spec.encoder->embedding_width != 0) {
    return unsupported("GGUF cannot say that embeddings are narrower than layers.");
  }
  GRAFT_TRY(check_gguf_can_say(spec, architecture));
  out.add("general.architecture", architecture);
  Keys keys(architecture, out);
  constexpr std::int64_t kUnknownContext = 2048;  // the key must be there
  keys.size("context_length", spec.context > 0 ? whole_context(spec) : kUnknownContext);
  keys.size("embedding_length", spec.hidden);
  keys.size("block_count", static_cast<std::int64_t>(spec.layers.size()));
  keys.size("feed_forward_length", spec.ffn);
  keys.size("attention.head_count", spec.heads);
  keys.size("attention.head_count_kv", spec.kv_heads);
  keys.size("attention.key_length", spec.head_dim);
  keys.size("attention.value_length", spec.head_dim);
  keys.real(spec.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", spec.epsilon);
  keys.size("vocab_size", spec.vocabulary);
  if (spec.encoder) out.add(cat(architecture, ".attention.causal"), false);
  if (spec.encoder && spec.encoder->token_types != 0) {
    out.add("tokenizer.ggml.token_type_count", static_cast<std::uint32_t>(spec.encoder->token_types));
  }
  if (spec.learned_positions) return {};
  write_rope(spec, keys);
  const auto window =
      std::find_if(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& layer) { return layer.window != 0; });
  if (window != spec.layers.end() && gguf_windows(architecture).applied) {
    keys.size("attention.sliding_window", spec.encoder ? 2 * (window->window - 1) : window->window);
    if (gguf_windows(architecture).local_base) keys.real("rope.freq_base_swa", spec.local_rope.theta);
  }
  if (spec.attention_softcap != 0) keys.real("attn_logit_softcapping", spec.attention_softcap);
  if (spec.logit_softcap != 0) keys.real("final_logit_softcapping", spec.logit_softcap);
  if (spec.family == "stablelm") out.add(cat(architecture, ".use_parallel_residual"), spec.parallel);
  if (spec.family == "falcon") keys.text("tensor_data_layout", "jploski");
  if (spec.family == "gpt_neox") out.add(cat(architecture, ".use_parallel_residual"), spec.parallel);
  if (spec.family == "cohere" || spec.family == "cohere2") keys.real("logit_scale", 1 / spec.logit_divisor);
  if (spec.family != "granite" && spec.family != "minicpm") return {};
  keys.real("embedding_scale", spec.embedding_scale);
  keys.real("residual_scale", spec.residual_scale);
  if (spec.family == "granite") keys.real("attention.scale", spec.attention_scale);
  keys.real("logit_scale", spec.logit_divisor);
  return {};
}

}  // namespace graft::convert
