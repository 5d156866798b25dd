#include "tools/convert/decoder/decoder_spec.h"

#include <algorithm>

namespace graft::convert {

const TensorNames kLlamaNames = {.embedding = "model.embed_tokens",
                                 .positions = "",
                                 .layer = "model.layers.",
                                 .attention_norm = "input_layernorm",
                                 .query = "self_attn.q_proj",
                                 .key = "self_attn.k_proj",
                                 .value = "self_attn.v_proj",
                                 .query_key_value = "self_attn.qkv_proj",
                                 .attention_output = "self_attn.o_proj",
                                 .query_norm = "self_attn.q_norm",
                                 .key_norm = "self_attn.k_norm",
                                 .after_attention_norm = "",
                                 .ffn_norm = "post_attention_layernorm",
                                 .gate = "mlp.gate_proj",
                                 .up = "mlp.up_proj",
                                 .gate_up = "mlp.gate_up_proj",
                                 .down = "mlp.down_proj",
                                 .after_ffn_norm = "",
                                 .final_norm = "model.norm",
                                 .head = "lm_head"};

const TensorNames kGemmaNames = [] {
  TensorNames names = kLlamaNames;
  names.after_attention_norm = "post_attention_layernorm";
  names.ffn_norm = "pre_feedforward_layernorm";
  names.after_ffn_norm = "post_feedforward_layernorm";
  return names;
}();

const TensorNames kGpt2Names = {.embedding = "transformer.wte",
                                .positions = "transformer.wpe",
                                .layer = "transformer.h.",
                                .attention_norm = "ln_1",
                                .query = "",
                                .key = "",
                                .value = "",
                                .query_key_value = "attn.c_attn",
                                .attention_output = "attn.c_proj",
                                .query_norm = "",
                                .key_norm = "",
                                .after_attention_norm = "",
                                .ffn_norm = "ln_2",
                                .gate = "",
                                .up = "mlp.c_fc",
                                .gate_up = "",
                                .down = "mlp.c_proj",
                                .after_ffn_norm = "",
                                .final_norm = "transformer.ln_f",
                                .head = "lm_head"};

const TensorNames kFalconNames = [] {
  TensorNames names = kGpt2Names;
  names.embedding = "transformer.word_embeddings";
  names.positions = "";
  names.attention_norm = "input_layernorm";
  names.query_key_value = "self_attention.query_key_value";
  names.attention_output = "self_attention.dense";
  names.ffn_norm = "post_attention_layernorm";
  names.up = "mlp.dense_h_to_4h";
  names.down = "mlp.dense_4h_to_h";
  return names;
}();

const TensorNames kGgufNames = {.embedding = "token_embd",
                                .positions = "position_embd",
                                .layer = "blk.",
                                .attention_norm = "attn_norm",
                                .query = "attn_q",
                                .key = "attn_k",
                                .value = "attn_v",
                                .query_key_value = "attn_qkv",
                                .attention_output = "attn_output",
                                .query_norm = "attn_q_norm",
                                .key_norm = "attn_k_norm",
                                .after_attention_norm = "post_attention_norm",
                                .ffn_norm = "ffn_norm",
                                .gate = "ffn_gate",
                                .up = "ffn_up",
                                .gate_up = "ffn_up",
                                .down = "ffn_down",
                                .after_ffn_norm = "post_ffw_norm",
                                .final_norm = "output_norm",
                                .head = "output"};

namespace {

using Member = std::string_view TensorNames::*;

constexpr Member kOutside[] = {&TensorNames::embedding, &TensorNames::positions, &TensorNames::final_norm,
                               &TensorNames::head};
constexpr Member kInside[] = {&TensorNames::attention_norm,
                              &TensorNames::query,
                              &TensorNames::key,
                              &TensorNames::value,
                              &TensorNames::query_norm,
                              &TensorNames::query_key_value,
                              &TensorNames::key_norm,
                              &TensorNames::gate,
                              &TensorNames::attention_output,
                              &TensorNames::up,
                              &TensorNames::gate_up,
                              &TensorNames::after_attention_norm,
                              &TensorNames::down,
                              &TensorNames::ffn_norm,
                              &TensorNames::after_ffn_norm};

/// The module of `from` that `name` is, as `to` calls it.
template <std::size_t N>
std::string_view module_in(std::string_view name, const Member (&members)[N], const TensorNames& from,
                           const TensorNames& to) {
  for (const Member member : members) {
    if (!name.empty() && from.*member == name) return to.*member;
  }
  return {};
}

}  // namespace

std::string renamed(std::string_view name, const TensorNames& from, const TensorNames& to) {
  std::size_t end = name.size();
  for (const std::string_view ending : {".weight", ".bias", ".lora_"}) end = std::min(end, name.find(ending));
  const std::string_view module = name.substr(0, end);
  const std::string_view ending = name.substr(end);
  if (module.starts_with(from.layer)) {
    const std::string_view rest = module.substr(from.layer.size());
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view number = rest.substr(0, dot);
    const bool digits = std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    const std::string_view found = module_in(rest.substr(std::min(dot + 1, rest.size())), kInside, from, to);
    if (number.empty() || !digits || found.empty()) return {};
    return std::string(to.layer) + std::string(number) + "." + std::string(found) + std::string(ending);
  }
  const std::string_view found = module_in(module, kOutside, from, to);
  return found.empty() ? std::string() : std::string(found) + std::string(ending);
}

}  // namespace graft::convert
