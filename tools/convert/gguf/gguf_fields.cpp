#include "tools/convert/gguf/gguf_fields.h"

#include <algorithm>
#include <iterator>

namespace graft::convert {
namespace {

constexpr KnownFields kAll = {
    R"({"context_length": 1, "embedding_length": 1, "block_count": 1, "feed_forward_length": 1,
        "attention.head_count": 1, "attention.head_count_kv": 1, "attention.key_length": 1,
        "attention.value_length": 1})",
    "vocab_size attention.layer_norm_epsilon attention.layer_norm_rms_epsilon rope.scaling.finetuned",
    R"({"pooling_type": [0, 1, 2, 3]})"};
constexpr KnownFields kRotary = {
    R"({"rope.dimension_count": 1, "rope.freq_base": 1, "rope.scaling.type": "", "rope.scaling.factor": 1,
        "rope.scale_linear": 1, "rope.scaling.original_context_length": 1, "rope.scaling.attn_factor": 1,
        "rope.scaling.yarn_beta_fast": 1, "rope.scaling.yarn_beta_slow": 1})",
    {},
    R"({"attention.causal": [true]})"};

/// The tokenizer's keys. The harmless ones are for pairs of texts and for filling in, which graft does not do.
constexpr KnownFields kTokenizer = {
    R"({"model": null, "pre": null, "tokens": null, "scores": null, "token_type": null, "merges": null,
        "precompiled_charsmap": null, "bos_token_id": null, "eos_token_id": null, "eot_token_id": null,
        "eom_token_id": null,
        "unknown_token_id": null, "padding_token_id": null, "mask_token_id": null, "cls_token_id": null,
        "seperator_token_id": null, "add_bos_token": null, "add_eos_token": null, "add_space_prefix": null,
        "remove_extra_whitespaces": null})",
    R"(token_type_count separator_token_id add_sep_token fim_pre_token_id fim_suf_token_id fim_mid_token_id
       fim_pad_token_id fim_rep_token_id fim_sep_token_id prefix_token_id suffix_token_id middle_token_id)"};

/// One architecture: its own keys, and what llama.cpp reads of it.
struct Architecture {
  std::string_view name;
  KnownFields own;
  bool qkv_bias = false;
  bool output_bias = false;
  bool ffn_bias = false;
  bool own_head_size = false;  ///< another one than embedding_length / head_count
  bool partial_rotary = false;
  std::int64_t windows = 0;   ///< layers of a group, one of which has no window; 0: windows are not read
  bool global_first = false;  ///< that layer is the first of its group, not the last
  bool norm_bias = true;      ///< of LayerNorm
};

constexpr bool kYes = true, kNo = false;

constexpr Architecture kArchitectures[] = {
    {"llama", {R"({"attention.sliding_window": 1})", "tensor_data_layout"}, kYes, kYes, kYes, kYes},
    {"qwen2", {}, kYes},
    {"qwen3", {}, kNo, kNo, kNo, kYes},
    {"smollm3", {}, kNo, kNo, kNo, kYes},
    {"granite",
     {R"({"embedding_scale": 1, "residual_scale": 1, "attention.scale": 1, "logit_scale": 1})"},
     kYes,
     kYes,
     kYes,
     kYes},
    {"olmo2",
     {R"({"attention.sliding_window": 1})", {}, R"({"attention.sliding_window_pattern": [4]})"},
     kNo,
     kNo,
     kNo,
     kNo,
     kNo,
     4},
    {"olmo", {}},
    {"gemma", {}, kNo, kNo, kNo, kYes},
    {"gptneox", {R"({"use_parallel_residual": true})"}, kYes, kYes, kYes, kNo, kYes},
    {"phi2", {}, kYes, kYes, kYes, kNo, kYes},
    {"starcoder2", {}, kYes, kYes, kYes},
    {"command-r", {R"({"logit_scale": 1})"}, kNo, kNo, kNo, kNo, kNo, 0, kNo, kNo},
    {"cohere2",
     {R"({"logit_scale": 1, "attention.sliding_window": 1})", {}, R"({"attention.sliding_window_pattern": [4]})"},
     kNo,
     kNo,
     kNo,
     kNo,
     kNo,
     4,
     kNo,
     kNo},
    {"glm4", {}, kYes, kNo, kNo, kYes, kYes},
    {"seed_oss", {}, kYes, kNo, kNo, kYes},
    {"arcee", {}, kNo, kNo, kNo, kYes},
    {"ernie4_5", {}, kNo, kNo, kNo, kYes},
    {"nemotron", {}, kYes, kYes, kYes, kNo, kYes},
    {"minicpm", {R"({"embedding_scale": 1, "residual_scale": 1, "logit_scale": 1})"}, kNo, kNo, kNo, kYes},
    {"stablelm", {"{}", "use_parallel_residual"}, kYes, kNo, kNo, kNo, kYes},
    {"gemma2",
     {R"({"attention.sliding_window": 1, "attn_logit_softcapping": 1, "final_logit_softcapping": 1})",
      {},
      R"({"attention.sliding_window_pattern": [2]})"},
     kNo,
     kNo,
     kNo,
     kYes,
     kYes,
     2},
    {"gemma3",
     {R"({"attention.sliding_window": 1, "attn_logit_softcapping": 1, "final_logit_softcapping": 1,
          "rope.freq_base_swa": 1})",
      "mm.tokens_per_image", R"({"attention.sliding_window_pattern": [6]})"},
     kNo,
     kNo,
     kNo,
     kYes,
     kYes,
     6},
    {"gemma-embedding",
     {R"({"attention.sliding_window": 1, "rope.freq_base_swa": 1})",
      {},
      R"({"attention.sliding_window_pattern": [6], "attention.causal": [false]})"},
     kNo,
     kNo,
     kNo,
     kYes,
     kYes,
     6},
    {"nomic-bert", {"{}", {}, R"({"attention.causal": [false]})"}, kNo, kNo, kNo},
    {"modern-bert",
     {R"({"attention.sliding_window": 1, "rope.freq_base_swa": 1})",
      {},
      R"({"attention.sliding_window_pattern": [3], "attention.causal": [false], "hidden_activation": ["gelu"]})"},
     kNo,
     kNo,
     kNo,
     kNo,
     kNo,
     3,
     kYes,
     kNo},
    {"phi3", {R"({"attention.sliding_window": 1})"}, kNo, kNo, kNo, kNo, kYes},
    {"falcon", {"{}", {}, R"({"tensor_data_layout": ["jploski"]})"}},
    {"gpt2", {"{}", "rope.dimension_count rope.freq_base"}, kYes, kYes, kYes},
    {"bert", {"{}", "rope.dimension_count rope.freq_base", R"({"attention.causal": [false]})"}, kYes, kYes, kYes},
};

const Architecture& architecture_of(std::string_view name) {
  const auto* const found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == std::end(kArchitectures) ? kArchitectures[0] : *found;
}

Json as_json(const GgufFile& file, const std::string& key) {
  const GgufValue& value = *file.find(key);
  if (value.type == GgufType::string) return std::string(value.text.front());
  if (value.type == GgufType::array) return Json::array({cat(value.count, " values")});
  if (const auto flag = file.flag(key); flag.ok()) return *flag;
  if (const auto number = file.integer(key); number.ok()) return *number;
  const auto real = file.real(key);
  return real.ok() ? Json(*real) : Json("a number above 63 bits");
}

}  // namespace

Status check_gguf_keys(const GgufFile& file, std::string_view architecture) {
  const Architecture& known = architecture_of(architecture);
  Json own = Json::object();
  Json general = Json::object();
  Json tokenizer = Json::object();
  constexpr std::string_view kOfTokenizer = "tokenizer.ggml.";
  const std::string prefix = cat(architecture, ".");
  for (const std::string_view key : file.keys()) {
    if (key.starts_with(prefix)) own[std::string(key.substr(prefix.size()))] = as_json(file, std::string(key));
    if (key.starts_with(kOfTokenizer)) {
      tokenizer[std::string(key.substr(kOfTokenizer.size()))] = as_json(file, std::string(key));
    }
    if (key == "general.type" || key == "split.count") general[std::string(key)] = as_json(file, std::string(key));
  }
  const KnownFields of_files = {"{}", {}, R"({"general.type": ["model"], "split.count": [1, 0]})"};
  GRAFT_TRY(check_fields(general, {&of_files, 1}, "a model"));
  GRAFT_TRY(check_fields(tokenizer, {&kTokenizer, 1}, "a tokenizer", "tokenizer.ggml", true));
  std::vector<KnownFields> lists = {known.own, kAll};
  if (architecture != "gpt2" && architecture != "bert") lists.push_back(kRotary);
  return check_fields(own, lists, cat("the architecture \"", architecture, '"'), architecture, true);
}

GgufWindows gguf_windows(std::string_view architecture) {
  const Architecture& known = architecture_of(architecture);
  const bool key = known.own.applied.find("\"attention.sliding_window\"") != std::string_view::npos;
  const bool base = known.own.applied.find("\"rope.freq_base_swa\"") != std::string_view::npos;
  return {key, known.windows != 0, base, static_cast<std::size_t>(known.windows), known.global_first};
}

Status check_gguf_can_say(const DecoderSpec& spec, std::string_view architecture) {
  const Architecture& reader = architecture_of(architecture);
  const bool head_size = spec.head_dim * spec.heads != spec.hidden;
  const std::pair<bool, std::string> parts[] = {
      {spec.qkv_bias && !reader.qkv_bias, "biases of queries, keys and values"},
      {spec.attention_output_bias && !reader.output_bias, "a bias of the attention's output"},
      {spec.ffn_bias && !reader.ffn_bias, "biases of the feed-forward part"},
      {head_size && !reader.own_head_size,
       cat("heads of ", spec.head_dim, " elements where ", spec.heads, " heads share ", spec.hidden)},
      {reader.ffn_bias && !spec.gated && !spec.encoder && !(spec.ffn_bias && spec.qkv_bias) &&
           architecture != "nemotron",
       "an attention or a feed-forward part without biases"},
      {spec.layer_norm && spec.norm_bias && !reader.norm_bias, "biases of norms"},
      {spec.rope.rotated != 0 && !reader.partial_rotary, "heads that turn in part"},
      {architecture == "gemma2" && !spec.tied, "a matrix of the head"},
      {architecture == "gemma3" && spec.attention_softcap != 0, "a soft cap of attention"},
      {spec.rope.scaling.type == "yarn" && !spec.rope.scaling.truncate, "YaRN with \"truncate\": false"},
  };
  for (const auto& [missing, what] : parts) {
    if (!missing) continue;
    return unsupported("llama.cpp does not read ", what, " of the architecture \"", architecture,
                       "\"; export the model as a Hugging Face folder.");
  }
  return {};
}

}  // namespace graft::convert
