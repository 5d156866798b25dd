#include "tools/convert/huggingface/hf_fields.h"

#include <algorithm>
#include <iterator>

#include "tools/convert/decoder/families.h"

namespace graft::convert {
namespace {

/// Training, provenance, generation and outputs: what no number of the model depends on.
constexpr std::string_view kHarmless = R"(
  architectures model_type torch_dtype dtype transformers_version _name_or_path _commit_hash name_or_path revision
  auto_map tokenizer_class prefix finetuning_task task_specific_params problem_type unsloth_version unsloth_fixed
  use_cache return_dict output_hidden_states output_attentions output_scores return_dict_in_generate torchscript
  use_bfloat16 tf_legacy_loss output_past keys_to_ignore_at_inference chunk_size_feed_forward gradient_checkpointing
  attn_implementation _attn_implementation _attn_implementation_internal _attn_implementation_autoset experts_implementation
  use_flash_attn use_flash_attention use_flash_attention_2 _flash_attn_2_enabled cache_implementation
  initializer_range initializer_factor init_std init_method attention_dropout hidden_dropout dropout resid_pdrop
  embd_pdrop attn_pdrop residual_dropout embedding_dropout classifier_dropout neftune_noise_alpha label_smoothing
  id2label label2id num_labels _num_labels classifier_pooling xla_device eos_token_ids
  bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id cls_token_id mask_token_id decoder_start_token_id
  max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature
  top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
  bad_words_ids num_return_sequences forced_bos_token_id forced_eos_token_id remove_invalid_values
  exponential_decay_length_penalty suppress_tokens begin_suppress_tokens model_max_length seq_length
  sentence_transformers sbert_ce_default_activation_function transformers.js_config is_decoder language license)";
/// What every model of transformers may say.
constexpr KnownFields kShared = {
    R"({"quantization_config": null})", kHarmless,
    R"({"is_causal": [true], "use_bidirectional_attention": [false], "is_encoder_decoder": [false],
        "add_cross_attention": [false], "tie_encoder_decoder": [false], "pruned_heads": [{}]})"};
constexpr KnownFields kSharedOfEncoders = {
    R"({"quantization_config": null})", kHarmless,
    R"({"is_decoder": [false], "is_causal": [false], "is_encoder_decoder": [false], "add_cross_attention": [false],
        "tie_encoder_decoder": [false], "pruned_heads": [{}]})"};

struct FamilyFields {
  std::string_view family;
  KnownFields own;
};

/// Sizes and the rotary embedding of all decoders but Falcon and GPT-2.
constexpr KnownFields kDecoder = {R"({"hidden_size": null, "intermediate_size": null, "num_hidden_layers": null,
  "num_attention_heads": null, "num_key_value_heads": null, "head_dim": null, "vocab_size": null,
  "max_position_embeddings": null, "rope_theta": 10000, "rope_scaling": {}, "rope_parameters": {},
  "partial_rotary_factor": 1, "original_max_position_embeddings": null, "layer_types": []})"};

constexpr FamilyFields kFamilies[] = {
    {"llama",
     {R"({"hidden_act": "silu", "rms_norm_eps": 1e-6,
        "rope_theta": 10000, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false})",
      "pretraining_tp max_sequence_length is_llama_config"}},
    {"mistral",
     {R"({"num_key_value_heads": 8, "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "rope_theta": 10000, "tie_word_embeddings": false, "sliding_window": 4096, "use_sliding_window": true})",
      "max_window_layers"}},
    {"qwen2",
     {R"({"num_key_value_heads": 32, "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "rope_theta": 10000, "tie_word_embeddings": false, "use_sliding_window": false, "sliding_window": 4096,
        "max_window_layers": 28})",
      "attention_bias"}},
    {"qwen3", {R"({"num_key_value_heads": 32, "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "head_dim": 128, "rope_theta": 10000, "tie_word_embeddings": false, "attention_bias": false,
        "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28})"}},
    {"smollm3",
     {R"({"num_key_value_heads": 4, "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "rope_theta": 2000000, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
        "use_sliding_window": false, "sliding_window": null, "no_rope_layers": [], "no_rope_layer_interval": 4})",
      "max_window_layers pretraining_tp"}},
    {"granite", {R"({"hidden_act": "silu", "rms_norm_eps": 1e-6,
        "rope_theta": 10000, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
        "embedding_multiplier": 1, "residual_multiplier": 1, "attention_multiplier": 1, "logits_scaling": 1})"}},
    {"olmo2", {R"({"hidden_act": "silu", "rms_norm_eps": 1e-5,
        "rope_theta": 10000, "tie_word_embeddings": false, "attention_bias": false})"}},
    {"stablelm",
     {R"({"num_key_value_heads": 32, "hidden_act": "silu", "layer_norm_eps": 1e-5,
        "rope_theta": 10000, "partial_rotary_factor": 0.25, "tie_word_embeddings": false, "use_qkv_bias": false,
        "use_parallel_residual": false})",
      "rms_norm_eps", R"({"qk_layernorm": [false]})"}},
    {"gemma2",
     {R"({"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "vocab_size": 256000, "max_position_embeddings": 8192, "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6, "rope_theta": 10000, "tie_word_embeddings": true, "attention_bias": false,
        "sliding_window": 4096, "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50,
        "final_logit_softcapping": 30})",
      "hidden_act sliding_window_size", R"({"sliding_window_pattern": [2]})"}},
    {"gemma3",
     {R"({"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "vocab_size": 262208, "max_position_embeddings": 131072, "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_local_base_freq": 10000, "tie_word_embeddings": true,
        "attention_bias": false, "sliding_window": 4096, "sliding_window_pattern": null,
        "_sliding_window_pattern": null, "query_pre_attn_scalar": 256, "attn_logit_softcapping": null,
        "final_logit_softcapping": null})",
      "hidden_act"}},
    {"modernbert",
     {R"({"hidden_size": null, "intermediate_size": null, "num_hidden_layers": null, "num_attention_heads": null,
        "vocab_size": null, "max_position_embeddings": 8192, "hidden_activation": "gelu", "norm_eps": 1e-5,
        "norm_bias": false, "attention_bias": false, "mlp_bias": false, "decoder_bias": true,
        "classifier_pooling": "cls", "classifier_bias": false, "classifier_activation": "gelu", "local_attention": 128,
        "global_attn_every_n_layers": 3, "global_rope_theta": 160000, "local_rope_theta": 10000, "rope_scaling": {},
        "rope_parameters": {}, "layer_types": [], "tie_word_embeddings": true, "id2label": null, "num_labels": null})",
      R"(initializer_cutoff_factor mlp_dropout deterministic_flash_attn sparse_prediction sparse_pred_ignore_index
         reference_compile repad_logits_with_grad position_embedding_type layer_norm_eps)"}},
    {"nomic_bert",
     {R"({"n_embd": null, "n_head": null, "n_layer": null, "n_inner": null, "n_positions": 8192, "vocab_size": null,
        "layer_norm_epsilon": 1e-12, "rotary_emb_base": 10000, "rotary_emb_fraction": 1, "rotary_scaling_factor": null,
        "max_trained_positions": 2048, "activation_function": "swiglu", "qkv_proj_bias": true, "mlp_fc1_bias": true,
        "mlp_fc2_bias": true, "type_vocab_size": 2, "pad_vocab_size_multiple": 1})",
      R"(dense_seq_output fused_bias_fc fused_dropout_add_ln parallel_block_tied_norm reorder_and_upcast_attn
         use_xentropy n_ctx summary_type summary_use_proj summary_activation summary_proj_to_labels
         summary_first_dropout tie_word_embeddings)",
      R"({"prenorm": [false], "parallel_block": [false], "use_rms_norm": [false], "causal": [false],
          "rotary_emb_interleaved": [false], "scale_attn_weights": [true], "scale_attn_by_inverse_layer_idx": [false]})"}},
    {"phi3",
     {R"({"hidden_act": "silu", "rms_norm_eps": 1e-5,
        "rope_theta": 10000, "tie_word_embeddings": false, "original_max_position_embeddings": 4096,
        "sliding_window": null})",
      {},
      R"({"attention_bias": [false], "mlp_bias": [false], "lm_head_bias": [false], "full_attn_mod": [1],
          "interpolate_factor": [1]})"}},
    {"falcon",
     {R"({"hidden_size": null, "num_hidden_layers": null, "num_attention_heads": null, "ffn_hidden_size": null,
          "vocab_size": null, "max_position_embeddings": 2048, "rope_theta": 10000, "rope_scaling": {},
          "rope_parameters": {}, "layer_norm_epsilon": 1e-5, "parallel_attn": true, "bias": false,
          "tie_word_embeddings": true})",
      "num_kv_heads",
      R"({"alibi": [false], "new_decoder_architecture": [false], "multi_query": [true], "activation": ["gelu"],
          "num_ln_in_parallel_attn": [1], "apply_residual_connection_post_layernorm": [false]})"}},
    {"gpt2",
     {R"({"n_embd": null, "n_head": null, "n_layer": null, "n_inner": null, "n_positions": null, "vocab_size": null,
          "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "tie_word_embeddings": true,
          "scale_attn_weights": true})",
      R"(n_ctx reorder_and_upcast_attn summary_type summary_use_proj summary_activation summary_proj_to_labels
         summary_first_dropout n_special predict_special_tokens)",
      R"({"scale_attn_by_inverse_layer_idx": [false]})"}},
    {"gemma", {R"({"num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "vocab_size": 256000,
        "max_position_embeddings": 8192, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": null,
        "rms_norm_eps": 1e-6, "rope_theta": 10000, "tie_word_embeddings": true, "attention_bias": false})"}},
    {"gpt_neox",
     {R"({"hidden_size": null, "intermediate_size": null, "num_hidden_layers": null, "num_attention_heads": null,
        "vocab_size": null, "max_position_embeddings": 2048, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
        "rotary_pct": 0.25, "rotary_emb_base": 10000, "rope_scaling": {}, "rope_parameters": {},
        "use_parallel_residual": true, "attention_bias": true, "tie_word_embeddings": false})"}},
    {"phi",
     {R"({"hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "rope_theta": 10000, "partial_rotary_factor": 0.5,
        "tie_word_embeddings": false})",
      {},
      R"({"qk_layernorm": [false]})"}},
    {"starcoder2",
     {R"({"num_key_value_heads": 2, "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "rope_theta": 10000,
        "sliding_window": null, "use_bias": true, "tie_word_embeddings": true})",
      "mlp_type", R"({"norm_type": ["layer_norm"]})"}},
    {"gptj",
     {R"({"n_embd": null, "n_head": null, "n_layer": null, "n_inner": null, "n_positions": 2048, "vocab_size": null,
        "rotary_dim": 64, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
        "tie_word_embeddings": false})",
      R"(n_ctx rotary summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout)",
      R"({"scale_attn_weights": [true]})"}},
    {"opt",
     {R"({"hidden_size": null, "num_attention_heads": null, "num_hidden_layers": null, "ffn_dim": null,
        "vocab_size": null, "max_position_embeddings": 2048, "activation_function": "relu", "enable_bias": true,
        "word_embed_proj_dim": null, "tie_word_embeddings": true})",
      "layerdrop activation_dropout",
      R"({"do_layer_norm_before": [true], "layer_norm_elementwise_affine": [true], "_remove_final_layer_norm": [false]})"}},
    {"cohere",
     {R"({"hidden_act": "silu", "layer_norm_eps": 1e-5, "logit_scale": 0.0625, "attention_bias": false,
        "tie_word_embeddings": true, "rope_theta": null})",
      {},
      R"({"use_qk_norm": [false]})"}},
    {"cohere2",
     {R"({"hidden_act": "silu", "layer_norm_eps": 1e-5, "logit_scale": 0.0625, "attention_bias": false,
        "tie_word_embeddings": true, "rope_theta": 10000, "sliding_window": 4096, "sliding_window_pattern": 4})",
      "use_embedding_sharing use_parallel_embedding",
      R"({"use_qk_norm": [false], "rotary_pct": [1], "use_gated_activation": [true], "use_parallel_block": [true],
          "order_of_interleaved_layers": ["local_attn_first"], "position_embedding_type": ["rope_gptj"],
          "layer_switch": [4]})"}},
    {"glm", {R"({"num_key_value_heads": 2, "head_dim": 128, "hidden_act": "silu", "rms_norm_eps": 1.5625e-7,
        "rope_theta": 10000, "partial_rotary_factor": 0.5, "attention_bias": false, "tie_word_embeddings": false})"}},
    {"glm4", {R"({"num_key_value_heads": 2, "head_dim": 128, "hidden_act": "silu", "rms_norm_eps": 1.5625e-7,
        "rope_theta": 10000, "partial_rotary_factor": 0.5, "attention_bias": true, "tie_word_embeddings": false})"}},
    {"olmo",
     {R"({"hidden_act": "silu", "rope_theta": 10000, "attention_bias": false, "tie_word_embeddings": false})",
      "pretraining_tp"}},
    {"olmo3", {R"({"hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 500000, "attention_bias": false,
        "sliding_window": 4096, "tie_word_embeddings": false})"}},
    {"exaone4", {R"({"num_key_value_heads": 32, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000,
        "sliding_window": 4096, "sliding_window_pattern": 4, "tie_word_embeddings": false})"}},
    {"seed_oss",
     {R"({"num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000,
        "attention_bias": true, "attention_out_bias": false, "mlp_bias": false, "tie_word_embeddings": false})",
      "pretraining_tp"}},
    {"arcee",
     {R"({"hidden_act": "relu2", "rms_norm_eps": 1e-5, "rope_theta": 10000, "attention_bias": false,
        "mlp_bias": false, "tie_word_embeddings": false})",
      "pretraining_tp"}},
    {"ministral3",
     {R"({"num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1000000,
        "sliding_window": null, "tie_word_embeddings": false})"}},
    {"ernie4_5",
     {R"({"num_key_value_heads": 2, "head_dim": 128, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "rope_theta": 500000, "use_bias": false, "tie_word_embeddings": true})",
      "pretraining_tp"}},
    {"nemotron", {R"({"hidden_act": "relu2", "norm_eps": 1e-5, "rope_theta": 10000, "partial_rotary_factor": 0.5,
        "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false})"}},
    {"minicpm",
     {R"({"hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000, "scale_emb": 1, "scale_depth": 1,
        "dim_model_base": 1, "attention_bias": false, "tie_word_embeddings": true})",
      "pretraining_tp"}},
    {"distilbert",
     {R"({"dim": null, "n_heads": null, "n_layers": null, "hidden_dim": null, "vocab_size": null,
          "max_position_embeddings": 512, "activation": "gelu", "id2label": null, "num_labels": null,
          "tie_word_embeddings": true})",
      "qa_dropout seq_classif_dropout sinusoidal_pos_embds tie_weights_"}},
};

constexpr std::string_view kEncoder = R"({"hidden_size": null, "num_hidden_layers": null, "num_attention_heads": null,
  "intermediate_size": null, "vocab_size": null, "hidden_act": "gelu", "max_position_embeddings": 512,
  "type_vocab_size": 2, "layer_norm_eps": 1e-12, "id2label": null, "num_labels": null, "tie_word_embeddings": true,
  "pad_token_id": null})";
constexpr std::string_view kElectra = R"({"hidden_size": null, "num_hidden_layers": null, "num_attention_heads": null,
  "intermediate_size": null, "vocab_size": null, "hidden_act": "gelu", "max_position_embeddings": 512,
  "type_vocab_size": 2, "layer_norm_eps": 1e-12, "id2label": null, "num_labels": null, "embedding_size": 128})";
constexpr std::string_view kEncoderHarmless = R"(hidden_dropout_prob attention_probs_dropout_prob pooler_fc_size
  pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head summary_type summary_use_proj
  summary_activation summary_last_dropout)";
/// What is tied is a head of masked tokens, which graft leaves out of an ELECTRA.
constexpr std::string_view kElectraHarmless = R"(hidden_dropout_prob attention_probs_dropout_prob tie_word_embeddings
  summary_type summary_use_proj summary_activation summary_last_dropout)";
constexpr std::string_view kEncoderFixed = R"({"position_embedding_type": ["absolute"], "directionality": ["bidi"],
  "pooler_type": ["first_token_transform"]})";

struct RopeFields {
  std::string_view type;
  KnownFields own;
};
constexpr KnownFields kRope = {R"({"rope_type": "", "type": "", "rope_theta": 1, "partial_rotary_factor": 1})",
                               "finetuned"};
constexpr RopeFields kRopes[] = {
    {"default", {"{}", "original_max_position_embeddings", R"({"factor": [1]})"}},
    {"linear", {R"({"factor": 1})", "original_max_position_embeddings"}},
    {"dynamic", {R"({"factor": 1})", "original_max_position_embeddings"}},
    {"llama3",
     {R"({"factor": 1, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 1})"}},
    {"yarn",
     {R"({"factor": 1, "original_max_position_embeddings": 1, "beta_fast": 32, "beta_slow": 1, "attention_factor": 1,
          "mscale": 1, "mscale_all_dim": 1, "truncate": true})"}},
    {"longrope", {R"({"factor": 1, "original_max_position_embeddings": 1, "attention_factor": 1, "short_factor": [],
          "long_factor": []})"}},
};

constexpr KnownFields kAroundText = {
    R"({"text_config": {}})",
    R"(vision_config audio_config mm_tokens_per_image boi_token_index eoi_token_index image_token_index boi_token_id
       eoi_token_id image_token_id projector_hidden_act multimodal_projector_bias spatial_merge_size vision_feature_layer tie_word_embeddings hidden_size)"};

KnownFields fields_of(std::string_view family) {
  const auto* const found = std::ranges::find(kFamilies, family, &FamilyFields::family);
  if (found != std::end(kFamilies)) return found->own;
  if (family == "electra") return {kElectra, kElectraHarmless, kEncoderFixed};
  return {kEncoder, kEncoderHarmless, kEncoderFixed};
}

constexpr KnownFields kBothWays = {R"({"use_bidirectional_attention": true})"};

/// All parts of a family's list, its own first.
std::vector<KnownFields> parts_of(std::string_view family) {
  if (family == "gemma-embedding") return {fields_of("gemma3"), kDecoder, kBothWays, kSharedOfEncoders};
  if (find_family(family)->encodes()) return {fields_of(family), kSharedOfEncoders};
  if (family == "gpt2" || family == "falcon" || family == "gpt_neox" || family == "gptj" || family == "opt")
    return {fields_of(family), kShared};
  return {fields_of(family), kDecoder, kShared};
}

std::string whose(std::string_view name) { return cat("the family \"", name, '"'); }

}  // namespace

Result<Json> family_fields(const Json& given, std::string_view family, std::string_view path) {
  const std::vector<KnownFields> known = parts_of(family);
  GRAFT_TRY(check_fields(given, known, whose(family), path));
  return with_defaults(given, known.front());
}

bool has_field(std::string_view family, std::string_view name) {
  Json object = Json::object();
  object[std::string(name)] = 1.5;  // of any value but none: what no list knows
  return first_unknown(object, parts_of(family), {}).code() != Code::unsupported;
}

Status check_outer_fields(const Json& given, std::string_view family) {
  const KnownFields known[] = {kAroundText, kShared};
  return check_fields(given, known, whose(family));
}

Status check_rope_fields(const Json& scaling, std::string_view type, std::string_view path) {
  const auto* const own = std::ranges::find(kRopes, type, &RopeFields::type);
  if (own == std::end(kRopes)) return {};  // refused by its name
  const KnownFields known[] = {own->own, kRope};
  return check_fields(scaling, known, cat("a rotary embedding of the type \"", type, '"'), path);
}

}  // namespace graft::convert
