#include "tests/support/letter_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "runtime/passes/bind.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "tools/convert/decoder/decoder_graph.h"

namespace graft::test {
namespace {

constexpr std::int64_t kTokens = 17;

/// Every tensor that the description asks for, under the names of the Llama family.
class RandomTensors {
 public:
  explicit RandomTensors(std::uint64_t seed) : random_(seed) {}

  void add(const std::string& name, std::vector<std::int64_t> dims) {
    convert::SourceTensor tensor;
    tensor.dims = std::move(dims);
    std::vector<float>& data = data_.emplace_back(tensor.elements());
    const float centre = tensor.dims.size() == 1 ? 1.0F : 0.0F;  // norms
    for (float& number : data) number = centre + std::uniform_real_distribution<float>(-0.5F, 0.5F)(random_);
    tensor.bytes = std::as_bytes(std::span(data));
    tensors.by_name[name + ".weight"] = tensor;
  }

  convert::SourceTensors tensors;

 private:
  std::mt19937_64 random_;
  std::vector<std::vector<float>> data_;
};

text::Vocabulary letters() {
  text::Vocabulary out;
  for (int i = 0; i < kTokens - 1; ++i) out.tokens.push_back({.text = std::string(1, static_cast<char>('a' + i))});
  out.eos = static_cast<text::TokenId>(out.tokens.size());
  out.tokens.push_back({.text = "<end>", .kind = text::TokenKind::control});
  return out;
}

}  // namespace

Model letter_model(const LetterModel& options) {
  convert::DecoderSpec spec;
  spec.hidden = 16;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = options.head_dim;
  spec.ffn = 24;
  spec.vocabulary = kTokens;
  spec.context = 48;
  spec.layers.resize(static_cast<std::size_t>(options.layers));
  spec.learned_positions = options.learned_positions;
  RandomTensors random(options.seed);
  random.add("model.embed_tokens", {kTokens, spec.hidden});
  random.add("positions", {spec.context, spec.hidden});
  for (std::int64_t i = 0; i < options.layers; ++i) {
    if (i % 2 == 1) spec.layers[static_cast<std::size_t>(i)].window = options.window;
    const std::string layer = cat("model.layers.", i, ".");
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) random.add(layer + norm, {spec.hidden});
    random.add(layer + "self_attn.q_proj", {4 * spec.head_dim, 16});
    for (const char* name : {"self_attn.k_proj", "self_attn.v_proj"}) random.add(layer + name, {2 * spec.head_dim, 16});
    random.add(layer + "self_attn.o_proj", {16, 4 * spec.head_dim});
    for (const char* name : {"mlp.gate_proj", "mlp.up_proj"}) random.add(layer + name, {spec.ffn, 16});
    random.add(layer + "mlp.down_proj", {16, spec.ffn});
  }
  random.add("model.norm", {spec.hidden});
  random.add("lm_head", {kTokens, spec.hidden});
  convert::TensorNames names = convert::kLlamaNames;
  names.positions = "positions";
  Model views;
  convert::DecoderWeights weights(random.tensors, names, names, views);
  EXPECT_TRUE(convert::build_decoder(spec, weights, views.graph).ok());
  Model model;
  model.graph = views.graph;
  for (const ValueId id : model.graph.of_kind(ValueKind::parameter)) {
    EXPECT_TRUE(model.copy_weight(id, *views.weight(id)).ok());
  }
  model.metadata[std::string(kMetaContext)] = std::to_string(spec.context);
  if (options.tokenizer) {
    model.tokenizer = TokenizerData{text::kVocabularyFormat, text::vocabulary_to_bytes(letters())};
  }
  return model;
}

RefTensors letter_values(const Model& model, const std::vector<std::int32_t>& tokens) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const Graph bound = bind(model.graph, {{"batch", 1}, {"seq", count}}).value();
  RefTensors tensors;
  for (std::uint32_t i = 0; i < model.graph.values().size(); ++i) {
    const auto bytes = model.weight({i});
    if (!bytes) continue;
    const Value& value = model.graph.values()[i];
    std::vector<float> numbers(value.shape.elements());
    std::memcpy(numbers.data(), bytes->data(), bytes->size());
    tensors[value.name] = {value.shape.values(), {numbers.begin(), numbers.end()}};
  }
  tensors["tokens"] = {{1, count}, {tokens.begin(), tokens.end()}};
  EXPECT_TRUE(interpret(bound, tensors).ok());
  return tensors;
}

}  // namespace graft::test
