#include "tools/convert/decoder/families.h"

#include <algorithm>
#include <iterator>

namespace graft::convert {
namespace {

constexpr bool kNeighbours = true, kUnitNorms = true;

const Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", "llama", &kLlamaNames, kNeighbours},
    {"mistral", "MistralForCausalLM", "llama", &kLlamaNames, kNeighbours},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", &kLlamaNames},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", &kLlamaNames},
    {"smollm3", "SmolLM3ForCausalLM", "smollm3", &kLlamaNames, kNeighbours},
    {"granite", "GraniteForCausalLM", "granite", &kLlamaNames, kNeighbours},
    {"olmo2", "Olmo2ForCausalLM", "olmo2", &kGemmaNames},
    {"stablelm", "StableLmForCausalLM", "stablelm", &kLlamaNames},
    {"gemma2", "Gemma2ForCausalLM", "gemma2", &kGemmaNames, false, kUnitNorms},
    {"gemma3", "Gemma3ForCausalLM", "gemma3", &kGemmaNames, false, kUnitNorms, "gemma3_text"},
    {"phi3", "Phi3ForCausalLM", "phi3", &kLlamaNames},
    {"falcon", "FalconForCausalLM", "falcon", &kFalconNames},
    {"gpt2", "GPT2LMHeadModel", "gpt2", &kGpt2Names},
    {"bert", "BertModel", "bert", &kBertNames, false, false, "bert", &kBertAloneNames},
    {"roberta", "RobertaModel", "bert", &kRobertaNames, false, false, "roberta", &kBertAloneNames},
    {"xlm-roberta", "XLMRobertaModel", "bert", &kRobertaNames, false, false, "xlm-roberta", &kBertAloneNames},
    {"camembert", "CamembertModel", "bert", &kRobertaNames, false, false, "camembert", &kBertAloneNames},
    {"distilbert", "DistilBertModel", "bert", &kDistilBertNames, false, false, "distilbert", &kDistilBertAloneNames},
    {"electra", "ElectraModel", "bert", &kElectraNames, false, false, "electra", &kElectraAloneNames},
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
  return where([&](const Family& family) { return family.architecture == architecture; });
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
