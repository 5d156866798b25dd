#include "tests/support/tiny_decoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "platform/base/text.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/quantized.h"

namespace graft::test {
namespace {

class Decoder {
 public:
  Decoder(const TinyDecoder& spec, TinyModel& model) : spec_(spec), model_(model), b_(model.graph) {}

  void build() {
    const Dim batch = Dim::symbol("batch");
    const Dim seq = Dim::symbol("seq");
    const ValueId tokens = model_.graph.add_value("tokens", DType::i32, Shape{batch, seq}, ValueKind::input).value();
    const ValueId table = model_.weight("model.embed_tokens.weight", {spec_.vocabulary, spec_.width}, 0.5);
    ValueId x = b_.node(Op::gather, {table, tokens}, {{"axis", std::int64_t{0}}});
    if (spec_.learned_positions) {
      const ValueId places = b_.node(Op::positions, {}, {{"shape", Shape{seq}}});
      const ValueId all = model_.weight("model.embed_positions.weight", {16, spec_.width}, 0.5);
      x = b_.add(x, b_.node(Op::gather, {all, places}, {{"axis", std::int64_t{0}}}));
    }
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
      const std::string layer = cat("model.layers.", i, ".");
      x = b_.add(x, attention(norm(x, layer + "input_layernorm"), layer + "self_attn."));
      x = b_.add(x, feed_forward(norm(x, layer + "post_attention_layernorm"), layer + "mlp."));
    }
    x = norm(x, "model.norm");
    const ValueId head = spec_.tied ? table : model_.weight("lm_head.weight", {spec_.vocabulary, spec_.width}, 0.3);
    model_.graph.add_output("logits", b_.node(Op::matmul, {x, head}, {{"trans_b", std::int64_t{1}}}));
  }

 private:
  ValueId norm(ValueId x, const std::string& name) {
    return b_.node(Op::rms_norm, {x, model_.weight(name + ".weight", {spec_.width}, 1)}, {{"epsilon", 1e-5}});
  }

  ValueId linear(ValueId x, const std::string& name, std::int64_t in, std::int64_t out) {
    const ValueId weight = model_.weight(name + ".weight", {out, in}, 1 / std::sqrt(static_cast<double>(in)));
    return b_.node(Op::matmul, {x, weight}, {{"trans_b", std::int64_t{1}}}, name);
  }

  ValueId heads(ValueId x, std::int64_t count, bool rotate) {
    const ValueId split =
        b_.reshape(x, Shape{Dim::symbol("batch"), Dim::symbol("seq"), count, spec_.width / spec_.heads});
    return rotate && !spec_.learned_positions ? b_.node(Op::rope, {split}, {{"theta", 100.0}}) : split;
  }

  ValueId attention(ValueId x, const std::string& name) {
    const std::int64_t key = spec_.width / spec_.heads * spec_.kv_heads;
    const ValueId q = heads(linear(x, name + "q_proj", spec_.width, spec_.width), spec_.heads, true);
    const ValueId k = heads(linear(x, name + "k_proj", spec_.width, key), spec_.kv_heads, true);
    const ValueId v = heads(linear(x, name + "v_proj", spec_.width, key), spec_.kv_heads, false);
    const ValueId mixed = b_.node(Op::attention, {q, k, v}, {{"causal", std::int64_t{1}}});
    const ValueId flat = b_.reshape(mixed, Shape{Dim::symbol("batch"), Dim::symbol("seq"), spec_.width});
    return linear(flat, name + "o_proj", spec_.width, spec_.width);
  }

  ValueId feed_forward(ValueId x, const std::string& name) {
    const ValueId gate = b_.node(Op::silu, {linear(x, name + "gate_proj", spec_.width, spec_.inner)});
    const ValueId up = linear(x, name + "up_proj", spec_.width, spec_.inner);
    return linear(b_.mul(gate, up), name + "down_proj", spec_.inner, spec_.width);
  }

  const TinyDecoder& spec_;
  TinyModel& model_;
  Builder b_;
};

}  // namespace

TinyModel tiny_llama(const TinyDecoder& spec) {
  TinyModel model;
  Decoder(spec, model).build();
  return model;
}

Model plain_model(const TinyModel& source) {
  Model model;
  model.graph = source.graph;
  for (const auto& [name, numbers] : source.weights) {
    EXPECT_TRUE(model.copy_weight(model.graph.find_value(name), std::as_bytes(std::span(numbers))).ok());
  }
  return model;
}

Model quantized_model(const TinyModel& source, DType dtype, bool dequantized) {
  Model model;
  std::vector<ValueId> ids;
  std::map<std::string, std::vector<std::byte>> contents;
  for (const Value& value : source.graph.values()) {
    ids.push_back(kNoValue);
    if (value.kind == ValueKind::temporary) continue;
    const bool linear = value.kind == ValueKind::parameter && value.shape.rank() == 2;
    const bool blocks = linear && !dequantized;
    ids.back() =
        model.graph
            .add_value(value.name, blocks ? dtype : value.dtype, value.shape, linear ? ValueKind::constant : value.kind)
            .value();
    const auto found = source.weights.find(value.name);
    if (found == source.weights.end()) continue;
    std::vector<float> numbers = found->second;
    std::vector<std::byte> bytes(storage_bytes(dtype, numbers.size()));
    if (linear) quantize(dtype, numbers, bytes);
    if (linear && dequantized) dequantize(dtype, bytes, numbers);
    const auto stored = blocks ? std::span<const std::byte>(bytes) : std::as_bytes(std::span(numbers));
    EXPECT_TRUE(model.copy_weight(ids.back(), stored).ok());
  }
  for (const Node& node : source.graph.nodes()) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(ids[input.index]);
    const NodeId made = model.graph.add_node(node.op, inputs, node.attrs, node.name).value();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      ids[node.outputs[i].index] = model.graph.node(made).outputs[i];
    }
  }
  for (const Output& output : source.graph.outputs()) model.graph.add_output(output.name, ids[output.value.index]);
  return model;
}

std::unique_ptr<data::Source> TokenData::source() const {
  return data::from_slices(fields, {std::as_bytes(std::span(tokens)), std::as_bytes(std::span(labels))}, samples)
      .value();
}

TokenData token_data(std::uint64_t samples, std::int64_t length, std::int32_t vocabulary, std::uint64_t seed) {
  TokenData out;
  out.samples = samples;
  out.fields = {{"tokens", DType::i32, {length}, data::Role::feature},
                {"label", DType::i32, {length}, data::Role::label}};
  data::Random random(data::mix(seed));
  const auto draw = [&] { return static_cast<std::int32_t>(random.uniform(0, vocabulary - 0.001)); };
  for (std::uint64_t s = 0; s < samples; ++s) {
    std::int32_t next = draw();
    // Sample s begins with s + 1 tokens that are not learned, as a prompt would.
    for (std::int64_t i = 0; i < length; ++i) {
      out.tokens.push_back(next);
      next = draw();
      out.labels.push_back(i <= static_cast<std::int64_t>(s) && i + 1 < length ? -100 : next);
    }
  }
  return out;
}

}  // namespace graft::test
