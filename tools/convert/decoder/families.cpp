#include "tools/convert/decoder/families.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace graft::convert {
namespace {

constexpr bool kNeighbours = true, kUnitNorms = true;

void modern_bert(DecoderSpec& spec) {
  spec.layer_norm = spec.fused_qkv = spec.fused_gate_up = true;
  spec.layers.front().raw = true;
  spec.encoder = EncoderSpec{.final_norm = true};
}

void nomic_bert(DecoderSpec& spec) {
  spec.layer_norm = spec.fused_qkv = spec.residual_norms = true;
  spec.before_norms = false;
  spec.encoder = EncoderSpec();
}

void gemma_embedding(DecoderSpec& spec) { spec.encoder = EncoderSpec{.embedding_norm = false, .final_norm = true}; }

void plain_feed_forward(DecoderSpec& spec, Activation activation) {
  spec.gated = false;
  spec.activation = activation;
}

void gemma(DecoderSpec& spec) {
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden));
  spec.activation = Activation::gelu_tanh;
}

void gpt_neox(DecoderSpec& spec) {
  plain_feed_forward(spec, Activation::gelu);
  spec.layer_norm = spec.fused_qkv = spec.ffn_bias = spec.parallel_norms = true;
}

void phi(DecoderSpec& spec) {
  plain_feed_forward(spec, Activation::gelu_tanh);
  spec.layer_norm = spec.parallel = spec.head_bias = true;
}

void starcoder2(DecoderSpec& spec) {
  plain_feed_forward(spec, Activation::gelu_tanh);
  spec.layer_norm = true;
}

void gptj(DecoderSpec& spec) { phi(spec); }

void opt(DecoderSpec& spec) {
  plain_feed_forward(spec, Activation::relu);
  spec.layer_norm = spec.learned_positions = true;
  spec.first_position = 2;
}

void cohere(DecoderSpec& spec) {
  spec.layer_norm = spec.parallel = true;
  spec.norm_bias = false;
}

void glm(DecoderSpec& spec) { spec.fused_gate_up = true; }

void glm4(DecoderSpec& spec) {
  glm(spec);
  spec.after_norms = true;
}

void olmo(DecoderSpec& spec) {
  spec.layer_norm = true;
  spec.norm_weight = spec.norm_bias = false;
}

void olmo3(DecoderSpec& spec) {
  spec.before_norms = false;
  spec.after_norms = spec.whole_query_key_norm = true;
}

void exaone4(DecoderSpec& spec) {
  spec.before_norms = false;
  spec.after_norms = spec.query_key_norm = true;
}

void arcee(DecoderSpec& spec) { plain_feed_forward(spec, Activation::relu_squared); }

void nemotron(DecoderSpec& spec) {
  plain_feed_forward(spec, Activation::relu_squared);
  spec.layer_norm = true;
}

void as_llama(DecoderSpec&) {}

constexpr Family decoder(std::string_view name, std::string_view class_name, const TensorNames* names,
                         bool neighbours = false) {
  return {name, class_name, name, names, neighbours};
}

constexpr Family bert(std::string_view name, std::string_view class_name, const TensorNames* names,
                      const TensorNames* alone) {
  return {name, class_name, "bert", names, false, false, name, alone, &kGgufEncoderNames};
}

constexpr std::string_view kNoGguf = {};

/// A family that is told by its choices.
constexpr Family described(std::string_view name, std::string_view class_name, std::string_view architecture,
                           const TensorNames* names, void (*choices)(DecoderSpec&)) {
  Family out = {name, class_name, architecture, names};
  out.choices = choices;
  return out;
}

constexpr Family interleaved(Family family) {
  family.interleaved = true;
  return family;
}

constexpr Family unit_norms(Family family) {
  family.unit_norms = true;
  return family;
}

constexpr Family neighbours(Family family) {
  family.neighbours = true;
  return family;
}

constexpr Family grouped(Family family) {
  family.grouped = true;
  return family;
}

constexpr Family named(Family family, const TensorNames* gguf) {
  family.gguf = gguf;
  return family;
}

const Family kFamilies[] = {
    decoder("llama", "LlamaForCausalLM", &kLlamaNames, kNeighbours),
    {"mistral", "MistralForCausalLM", "llama", &kLlamaNames, kNeighbours},
    decoder("qwen2", "Qwen2ForCausalLM", &kLlamaNames),
    decoder("qwen3", "Qwen3ForCausalLM", &kLlamaNames),
    decoder("smollm3", "SmolLM3ForCausalLM", &kLlamaNames, kNeighbours),
    decoder("granite", "GraniteForCausalLM", &kLlamaNames, kNeighbours),
    decoder("olmo2", "Olmo2ForCausalLM", &kGemmaNames),
    decoder("stablelm", "StableLmForCausalLM", &kLlamaNames),
    {"gemma2", "Gemma2ForCausalLM", "gemma2", &kGemmaNames, false, kUnitNorms},
    {"gemma3", "Gemma3ForCausalLM", "gemma3", &kGemmaNames, false, kUnitNorms, "gemma3_text"},
    decoder("phi3", "Phi3ForCausalLM", &kLlamaNames),
    decoder("falcon", "FalconForCausalLM", &kFalconNames),
    decoder("gpt2", "GPT2LMHeadModel", &kGpt2Names),
    unit_norms(described("gemma", "GemmaForCausalLM", "gemma", &kLlamaNames, gemma)),
    grouped(described("gpt_neox", "GPTNeoXForCausalLM", "gptneox", &kGptNeoXNames, gpt_neox)),
    described("phi", "PhiForCausalLM", "phi2", &kPhiNames, phi),
    described("starcoder2", "Starcoder2ForCausalLM", "starcoder2", &kStarcoderNames, starcoder2),
    interleaved(described("gptj", "GPTJForCausalLM", kNoGguf, &kGptJNames, gptj)),
    described("opt", "OPTForCausalLM", kNoGguf, &kOptNames, opt),
    interleaved(described("cohere", "CohereForCausalLM", "command-r", &kLlamaNames, cohere)),
    interleaved(described("cohere2", "Cohere2ForCausalLM", "cohere2", &kLlamaNames, cohere)),
    interleaved(described("glm", "GlmForCausalLM", kNoGguf, &kGlmNames, glm)),
    interleaved(described("glm4", "Glm4ForCausalLM", "glm4", &kGlmNames, glm4)),
    neighbours(described("olmo", "OlmoForCausalLM", "olmo", &kLlamaNames, olmo)),
    described("olmo3", "Olmo3ForCausalLM", "olmo2", &kGemmaNames, olmo3),
    described("exaone4", "Exaone4ForCausalLM", kNoGguf, &kGemmaNames, exaone4),
    named(described("seed_oss", "SeedOssForCausalLM", "seed_oss", &kLlamaNames, as_llama), &kGgufSeedNames),
    neighbours(described("arcee", "ArceeForCausalLM", "arcee", &kLlamaNames, arcee)),
    described("ministral3", "Ministral3ForCausalLM", kNoGguf, &kLlamaNames, as_llama),
    interleaved(described("ernie4_5", "Ernie4_5ForCausalLM", "ernie4_5", &kLlamaNames, as_llama)),
    unit_norms(described("nemotron", "NemotronForCausalLM", "nemotron", &kLlamaNames, nemotron)),
    neighbours(described("minicpm", "MiniCPMForCausalLM", "minicpm", &kLlamaNames, as_llama)),
    bert("bert", "BertModel", &kBertNames, &kBertAloneNames),
    bert("roberta", "RobertaModel", &kRobertaNames, &kBertAloneNames),
    bert("xlm-roberta", "XLMRobertaModel", &kRobertaNames, &kBertAloneNames),
    bert("camembert", "CamembertModel", &kRobertaNames, &kBertAloneNames),
    bert("distilbert", "DistilBertModel", &kDistilBertNames, &kDistilBertAloneNames),
    bert("electra", "ElectraModel", &kElectraNames, &kElectraAloneNames),
    {"modernbert", "ModernBertModel", "modern-bert", &kModernBertNames, false, false, "modernbert",
     &kModernBertAloneNames, &kGgufEncoderNames, modern_bert},
    {"nomic_bert", "NomicBertModel", "nomic-bert", &kNomicBertNames, false, false, "nomic_bert", &kNomicBertAloneNames,
     &kGgufEncoderNames, nomic_bert},
    {"gemma-embedding", "Gemma3TextModel", "gemma-embedding", &kGemmaNames, false, kUnitNorms, "gemma3_text",
     &kGemmaAloneNames, &kGgufNames, gemma_embedding},
};

const Family* where(auto matches) {
  const auto* const found = std::find_if(std::begin(kFamilies), std::end(kFamilies), matches);
  return found == std::end(kFamilies) ? nullptr : found;
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view name) {
  return where([&](const Family& family) { return family.name == name; });
}

const Family* family_of_architecture(std::string_view architecture) {
  return where([&](const Family& family) { return !architecture.empty() && family.architecture == architecture; });
}

std::string family_names() {
  std::string out;
  for (const Family& family : kFamilies) {
    if (!out.empty()) out += &family == &kFamilies[std::size(kFamilies) - 1] ? " and " : ", ";
    out += family.name;
  }
  return out;
}

}  // namespace graft::convert
