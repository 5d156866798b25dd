#include "tests/support/tiny_training.h"

#include "runtime/core/op_id.gen.h"

#include <cstring>

namespace graft::test {
namespace {

std::size_t product(const std::vector<std::int64_t>& dims) {
  std::size_t count = 1;
  for (const std::int64_t d : dims) count *= static_cast<std::size_t>(d);
  return count;
}

/// Attributes of a square convolution or pooling.
Attrs window(std::int64_t size, std::int64_t stride, std::int64_t pad, bool conv) {
  Attrs attrs = {{"strides", Ints{stride, stride}}, {"pads", Ints{pad, pad, pad, pad}}};
  if (conv) {
    attrs.set("dilations", Ints{1, 1});
    attrs.set("groups", std::int64_t{1});
  } else {
    attrs.set("kernel", Ints{size, size});
  }
  return attrs;
}

}  // namespace

ValueId TinyModel::filled(const std::string& name, std::vector<std::int64_t> dims, float value, ValueKind kind) {
  weights[name].assign(product(dims), value);
  return graph.add_value(name, DType::f32, Shape::of(dims), kind).value();
}

ValueId TinyModel::weight(const std::string& name, std::vector<std::int64_t> dims, double scale, ValueKind kind) {
  const ValueId id = filled(name, std::move(dims), 0, kind);
  data::Random random(data::mix(next_key_++));
  for (float& w : weights[name]) w = static_cast<float>(random.uniform(-scale, scale));
  return id;
}

ValueId TinyModel::input(const std::string& name, const std::vector<std::int64_t>& sample_dims) {
  std::vector<Dim> dims = {Dim::symbol("batch")};
  dims.insert(dims.end(), sample_dims.begin(), sample_dims.end());
  return graph.add_value(name, DType::f32, Shape(std::move(dims)), ValueKind::input).value();
}

train::WeightOf TinyModel::weight_of() const {
  return [this](ValueId value) -> std::optional<std::span<const std::byte>> {
    const auto found = weights.find(graph.value(value).name);
    if (found == weights.end()) return std::nullopt;
    return std::as_bytes(std::span(found->second));
  };
}

TinyModel tiny_mlp(std::int64_t inputs, std::int64_t hidden, std::int64_t outputs) {
  TinyModel model;
  const ValueId x = model.input("x", {inputs});
  const ValueId w1 = model.weight("fc1.weight", {inputs, hidden}, 0.8);
  const ValueId b1 = model.weight("fc1.bias", {hidden}, 0.3);
  const ValueId w2 = model.weight("fc2.weight", {hidden, outputs}, 0.8);
  const ValueId b2 = model.weight("fc2.bias", {outputs}, 0.3);
  Builder b(model.graph);
  const ValueId h = b.node(Op::tanh, {b.node(Op::matmul, {x, w1, b1})});
  model.graph.add_output("y", b.node(Op::matmul, {h, w2, b2}));
  return model;
}

TinyModel tiny_cnn(std::int64_t classes, double dropout) {
  TinyModel model;
  const ValueId image = model.input("image", {1, 8, 8});
  const ValueId w = model.weight("conv.weight", {4, 3, 3, 1}, 0.5);
  const ValueId bias = model.weight("conv.bias", {4}, 0.2);
  const ValueId scale = model.filled("bn.weight", {4}, 1);
  const ValueId shift = model.weight("bn.bias", {4}, 0.3);
  const ValueId mean = model.filled("bn.running_mean", {4}, 0, ValueKind::state);
  const ValueId var = model.filled("bn.running_var", {4}, 1, ValueKind::state);
  const ValueId fc = model.weight("fc.weight", {64, classes}, 0.3);
  Builder b(model.graph);
  const Dim batch = Dim::symbol("batch");
  ValueId h = b.reshape(image, Shape{batch, 8, 8, 1});
  h = b.node(Op::conv, {h, w, bias}, window(3, 1, 1, true));
  h = b.node(Op::batch_norm, {h, scale, shift, mean, var}, {{"epsilon", 1e-5}});
  h = b.node(Op::max_pool, {b.node(Op::relu, {h})}, window(2, 2, 0, false));
  h = b.reshape(h, Shape{batch, 64});
  h = b.node(Op::dropout, {h}, {{"p", dropout}, {"training", std::int64_t{0}}, {"stream", std::int64_t{0}}});
  model.graph.add_output("y", b.node(Op::matmul, {h, fc}));
  return model;
}

TinyModel lenet(double dropout) {
  TinyModel model;
  const Dim batch = Dim::symbol("batch");
  const ValueId image = model.input("image", {1, 28, 28});
  Builder b(model.graph);
  // Uniform in +-1/sqrt(inputs of a neuron), as is usual.
  const ValueId w1 = model.weight("conv1.weight", {6, 5, 5, 1}, 0.2);
  const ValueId b1 = model.weight("conv1.bias", {6}, 0.2);
  const ValueId w2 = model.weight("conv2.weight", {16, 5, 5, 6}, 0.08);
  const ValueId b2 = model.weight("conv2.bias", {16}, 0.08);
  const ValueId w3 = model.weight("fc1.weight", {400, 120}, 0.05);
  const ValueId b3 = model.weight("fc1.bias", {120}, 0.05);
  const ValueId w4 = model.weight("fc2.weight", {120, 10}, 0.09);
  const ValueId b4 = model.weight("fc2.bias", {10}, 0.09);
  ValueId h = b.reshape(image, Shape{batch, 28, 28, 1});
  h = b.node(Op::relu, {b.node(Op::conv, {h, w1, b1}, window(5, 1, 2, true))});
  h = b.node(Op::max_pool, {h}, window(2, 2, 0, false));
  h = b.node(Op::relu, {b.node(Op::conv, {h, w2, b2}, window(5, 1, 0, true))});
  h = b.node(Op::max_pool, {h}, window(2, 2, 0, false));
  h = b.reshape(h, Shape{batch, 400});
  h = b.node(Op::relu, {b.node(Op::matmul, {h, w3, b3})});
  if (dropout > 0) {
    h = b.node(Op::dropout, {h}, {{"p", dropout}, {"training", std::int64_t{0}}, {"stream", std::int64_t{0}}});
  }
  model.graph.add_output("logits", b.node(Op::matmul, {h, w4, b4}));
  return model;
}

std::unique_ptr<data::Source> TinyData::source() const {
  const auto second = labels.empty() ? std::as_bytes(std::span(targets)) : std::as_bytes(std::span(labels));
  return data::from_slices(fields, {std::as_bytes(std::span(x)), second}, samples).value();
}

TinyData tiny_data(std::uint64_t samples, const std::vector<std::int64_t>& sample_dims, std::int32_t classes,
                   std::uint64_t seed) {
  TinyData out;
  out.samples = samples;
  out.fields = {{"x", DType::f32, Shape::of(sample_dims), data::Role::feature},
                {"label", classes > 0 ? DType::i32 : DType::f32, classes > 0 ? Shape{} : Shape{1}, data::Role::label}};
  data::Random random(data::mix(seed, 99));
  for (std::uint64_t i = 0; i < samples * product(sample_dims); ++i) {
    out.x.push_back(static_cast<float>(random.uniform(-1, 1)));
  }
  for (std::uint64_t i = 0; i < samples; ++i) {
    if (classes > 0) {
      out.labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes))));
    } else {
      out.targets.push_back(static_cast<float>(random.uniform(-1, 1)));
    }
  }
  return out;
}

Contents contents_of(train::Trainer& trainer) {
  Contents out;
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {
    auto& values = out[std::string(tensor.name)];
    values.resize(tensor.bytes / sizeof(float));
    if (!trainer.read(tensor.name, std::as_writable_bytes(std::span(values))).ok()) values.clear();
  }
  return out;
}

}  // namespace graft::test
