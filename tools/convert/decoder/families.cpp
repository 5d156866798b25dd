#include "tools/convert/decoder/families.h"

#include <algorithm>
#include <iterator>

namespace graft::convert {
namespace {

constexpr bool kNeighbours = true, kUnitNorms = true;

void modern_bert(DecoderSpec& spec) {
  spec.layer_norm = spec.fused_qkv = spec.fused_gate_up = true;
  spec.layers.front().raw = true;
  spec.encoder = EncoderSpec{.final_norm = true};
}

void gemma_embedding(DecoderSpec& spec) { spec.encoder = EncoderSpec{.embedding_norm = false, .final_norm = true}; }

constexpr Family decoder(std::string_view name, std::string_view class_name, const TensorNames* names,
                         bool neighbours = false) {
  return {name, class_name, name, names, neighbours};
}

constexpr Family bert(std::string_view name, std::string_view class_name, const TensorNames* names,
                      const TensorNames* alone) {
  return {name, class_name, "bert", names, false, false, name, alone, &kGgufEncoderNames};
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
    bert("bert", "BertModel", &kBertNames, &kBertAloneNames),
    bert("roberta", "RobertaModel", &kRobertaNames, &kBertAloneNames),
    bert("xlm-roberta", "XLMRobertaModel", &kRobertaNames, &kBertAloneNames),
    bert("camembert", "CamembertModel", &kRobertaNames, &kBertAloneNames),
    bert("distilbert", "DistilBertModel", &kDistilBertNames, &kDistilBertAloneNames),
    bert("electra", "ElectraModel", &kElectraNames, &kElectraAloneNames),
    {"modernbert", "ModernBertModel", "modern-bert", &kModernBertNames, false, false, "modernbert",
     &kModernBertAloneNames, &kGgufEncoderNames, modern_bert},
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
