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

const TensorNames kGptNeoXNames = [] {
  TensorNames names = kFalconNames;
  names.embedding = "gpt_neox.embed_in";
  names.layer = "gpt_neox.layers.";
  names.query_key_value = "attention.query_key_value";
  names.attention_output = "attention.dense";
  names.final_norm = "gpt_neox.final_layer_norm";
  names.head = "embed_out";
  return names;
}();

const TensorNames kPhiNames = [] {
  TensorNames names = kLlamaNames;
  names.attention_output = "self_attn.dense";
  names.gate = names.gate_up = "";
  names.up = "mlp.fc1";
  names.down = "mlp.fc2";
  names.final_norm = "model.final_layernorm";
  return names;
}();

const TensorNames kStarcoderNames = [] {
  TensorNames names = kLlamaNames;
  names.gate = names.gate_up = "";
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  return names;
}();

const TensorNames kGptJNames = [] {
  TensorNames names = kGpt2Names;
  names.positions = names.query_key_value = names.ffn_norm = "";
  names.query = "attn.q_proj";
  names.key = "attn.k_proj";
  names.value = "attn.v_proj";
  names.attention_output = "attn.out_proj";
  names.up = "mlp.fc_in";
  names.down = "mlp.fc_out";
  return names;
}();

const TensorNames kOptNames = [] {
  TensorNames names = kLlamaNames;
  names.embedding = "model.decoder.embed_tokens";
  names.positions = "model.decoder.embed_positions";
  names.layer = "model.decoder.layers.";
  names.attention_norm = "self_attn_layer_norm";
  names.attention_output = "self_attn.out_proj";
  names.ffn_norm = "final_layer_norm";
  names.gate = names.gate_up = "";
  names.up = "fc1";
  names.down = "fc2";
  names.final_norm = "model.decoder.final_layer_norm";
  return names;
}();

const TensorNames kGlmNames = [] {
  TensorNames names = kLlamaNames;
  names.gate = names.up = "";
  names.after_attention_norm = "post_self_attn_layernorm";
  names.after_ffn_norm = "post_mlp_layernorm";
  return names;
}();

const TensorNames kBertNames = {.embedding = "bert.embeddings.word_embeddings",
                                .positions = "bert.embeddings.position_embeddings",
                                .layer = "bert.encoder.layer.",
                                .attention_norm = "",
                                .query = "attention.self.query",
                                .key = "attention.self.key",
                                .value = "attention.self.value",
                                .query_key_value = "",
                                .attention_output = "attention.output.dense",
                                .query_norm = "",
                                .key_norm = "",
                                .after_attention_norm = "attention.output.LayerNorm",
                                .ffn_norm = "",
                                .gate = "",
                                .up = "intermediate.dense",
                                .gate_up = "",
                                .down = "output.dense",
                                .after_ffn_norm = "output.LayerNorm",
                                .final_norm = "",
                                .head = "cls.predictions.decoder",
                                .token_types = "bert.embeddings.token_type_embeddings",
                                .embedding_norm = "bert.embeddings.LayerNorm",
                                .pooler = "bert.pooler.dense",
                                .class_head = "classifier",
                                .token_class_head = "classifier",
                                .masked_dense = "cls.predictions.transform.dense",
                                .masked_norm = "cls.predictions.transform.LayerNorm",
                                .masked_bias = "cls.predictions"};

const TensorNames kRobertaNames = [] {
  TensorNames names = kBertNames;
  names.embedding = "roberta.embeddings.word_embeddings";
  names.positions = "roberta.embeddings.position_embeddings";
  names.token_types = "roberta.embeddings.token_type_embeddings";
  names.embedding_norm = "roberta.embeddings.LayerNorm";
  names.layer = "roberta.encoder.layer.";
  names.pooler = "roberta.pooler.dense";
  names.class_dense = "classifier.dense";
  names.class_head = "classifier.out_proj";
  names.masked_dense = "lm_head.dense";
  names.masked_norm = "lm_head.layer_norm";
  names.masked_bias = "lm_head";
  names.head = "lm_head.decoder";
  return names;
}();

const TensorNames kElectraNames = [] {
  TensorNames names = kBertNames;
  names.embedding = "electra.embeddings.word_embeddings";
  names.positions = "electra.embeddings.position_embeddings";
  names.token_types = "electra.embeddings.token_type_embeddings";
  names.embedding_norm = "electra.embeddings.LayerNorm";
  names.embedding_projection = "electra.embeddings_project";
  names.layer = "electra.encoder.layer.";
  names.pooler = "";
  names.class_dense = "classifier.dense";
  names.class_head = "classifier.out_proj";
  names.masked_dense = names.masked_norm = names.masked_bias = "";
  names.head = "";
  return names;
}();

const TensorNames kDistilBertNames = [] {
  TensorNames names = kBertNames;
  names.embedding = "distilbert.embeddings.word_embeddings";
  names.positions = "distilbert.embeddings.position_embeddings";
  names.token_types = "";
  names.embedding_norm = "distilbert.embeddings.LayerNorm";
  names.layer = "distilbert.transformer.layer.";
  names.query = "attention.q_lin";
  names.key = "attention.k_lin";
  names.value = "attention.v_lin";
  names.attention_output = "attention.out_lin";
  names.after_attention_norm = "sa_layer_norm";
  names.up = "ffn.lin1";
  names.down = "ffn.lin2";
  names.after_ffn_norm = "output_layer_norm";
  names.pooler = "";
  names.class_dense = "pre_classifier";
  names.masked_dense = "vocab_transform";
  names.masked_norm = "vocab_layer_norm";
  names.masked_bias = "vocab_projector";
  names.head = "vocab_projector";
  return names;
}();

const TensorNames kNomicBertNames = [] {
  TensorNames names = kBertNames;
  names.positions = "";
  names.embedding_norm = "bert.emb_ln";
  names.layer = "bert.encoder.layers.";
  names.query = names.key = names.value = "";
  names.query_key_value = "attn.Wqkv";
  names.attention_output = "attn.out_proj";
  names.after_attention_norm = "norm1";
  names.up = "mlp.fc11";
  names.gate = "mlp.fc12";
  names.down = "mlp.fc2";
  names.after_ffn_norm = "norm2";
  names.pooler = names.class_head = names.token_class_head = "";
  names.masked_dense = names.masked_norm = names.masked_bias = names.head = "";
  return names;
}();

const TensorNames kModernBertNames = [] {
  TensorNames names = kLlamaNames;
  names.embedding = "model.embeddings.tok_embeddings";
  names.embedding_norm = "model.embeddings.norm";
  names.attention_norm = "attn_norm";
  names.query = names.key = names.value = names.query_norm = names.key_norm = "";
  names.query_key_value = "attn.Wqkv";
  names.attention_output = "attn.Wo";
  names.ffn_norm = "mlp_norm";
  names.gate = names.up = "";
  names.gate_up = "mlp.Wi";
  names.down = "mlp.Wo";
  names.final_norm = "model.final_norm";
  names.class_dense = names.masked_dense = "head.dense";
  names.class_norm = names.masked_norm = "head.norm";
  names.class_head = names.token_class_head = "classifier";
  names.masked_bias = names.head = "decoder";
  return names;
}();

namespace {

/// Names of a folder that holds the encoder alone, which has no module of its own there.
TensorNames alone(TensorNames names) {
  const std::string_view prefix = names.embedding.substr(0, names.embedding.find('.') + 1);
  for (const auto member :
       {&TensorNames::embedding, &TensorNames::positions, &TensorNames::token_types, &TensorNames::embedding_norm,
        &TensorNames::embedding_projection, &TensorNames::layer, &TensorNames::pooler, &TensorNames::final_norm}) {
    std::string_view& name = names.*member;
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  return names;
}

}  // namespace

const TensorNames kBertAloneNames = alone(kBertNames);  // also RoBERTa's, whose heads it has none of
const TensorNames kElectraAloneNames = alone(kElectraNames);
const TensorNames kDistilBertAloneNames = alone(kDistilBertNames);
const TensorNames kModernBertAloneNames = alone(kModernBertNames);
const TensorNames kNomicBertAloneNames = alone(kNomicBertNames);
const TensorNames kGemmaAloneNames = alone(kGemmaNames);

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

const TensorNames kGgufSeedNames = [] {
  TensorNames names = kGgufNames;
  names.after_attention_norm = "";
  names.ffn_norm = "post_attention_norm";
  return names;
}();

const TensorNames kGgufEncoderNames = [] {
  TensorNames names = kGgufNames;
  names.after_attention_norm = "attn_output_norm";
  names.after_ffn_norm = "layer_output_norm";
  names.token_types = "token_types";
  names.embedding_norm = "token_embd_norm";
  names.head = "";
  return names;
}();

namespace {

using Member = std::string_view TensorNames::*;

constexpr Member kOutside[] = {&TensorNames::embedding,
                               &TensorNames::positions,
                               &TensorNames::final_norm,
                               &TensorNames::head,
                               &TensorNames::token_types,
                               &TensorNames::embedding_norm,
                               &TensorNames::embedding_projection,
                               &TensorNames::pooler,
                               &TensorNames::class_dense,
                               &TensorNames::class_norm,
                               &TensorNames::class_head,
                               &TensorNames::token_class_head,
                               &TensorNames::masked_dense,
                               &TensorNames::masked_norm,
                               &TensorNames::masked_bias};
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

/// The module of `from` that `name` is, as `to` calls it; one name may be of several modules, which `to` does not all
/// have.
template <std::size_t N>
std::string_view module_in(std::string_view name, const Member (&members)[N], const TensorNames& from,
                           const TensorNames& to) {
  for (const Member member : members) {
    if (!name.empty() && from.*member == name && !(to.*member).empty()) return to.*member;
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
