#include "tests/support/networks.h"

#include <cmath>

#include "runtime/autodiff/autodiff.h"
#include "runtime/core/op_id.gen.h"

namespace graft::test {

ValueId Network::weight(const char* kind, Shape shape) {
  const ValueId v = parameter(cat(kind, parameters.size()), std::move(shape));
  parameters.push_back(v);
  return v;
}

ValueId Network::conv(ValueId x, std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
  const auto in = b.shape(x).values();
  const ValueId w = weight("conv", {channels, kernel, kernel, in[3]});
  const std::int64_t before = (kernel - 1) / 2;
  const std::int64_t after = kernel - 1 - before;
  return add(Op::conv, {x, w, weight("bias", {channels})},
             {{"strides", Ints{stride, stride}}, {"pads", Ints{before, before, after, after}}});
}

ValueId Network::up_conv(ValueId x, std::int64_t channels) {
  const ValueId w = weight("up", {b.shape(x).values()[3], 2, 2, channels});
  return add(Op::conv_transpose, {x, w, weight("bias", {channels})}, {{"strides", Ints{2, 2}}});
}

ValueId Network::linear(ValueId x, std::int64_t features) {
  const ValueId w = weight("linear", {b.shape(x).back(), features});
  return add(Op::matmul, {x, w, weight("bias", {features})});
}

ValueId Network::max_pool(ValueId x) {
  return add(Op::max_pool, {x}, {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}});
}

ValueId Network::batch_norm(ValueId x) {
  const Shape channels = {b.shape(x).back()};
  const auto out = b.nodes(Op::batch_norm_train, {x, weight("scale", channels), weight("shift", channels)});
  EXPECT_EQ(out.size(), 3u) << b.status().message();
  if (out.size() != 3) return kNoValue;
  const auto dims = b.shape(x).values();
  const std::string id = std::to_string(parameters.size());
  act(Op::batch_norm_update, {state("mean" + id, channels), state("var" + id, channels), out[1], out[2]},
      {{"momentum", 0.1}, {"count", dims[0] * dims[1] * dims[2]}});
  return out[0];
}

ValueId Network::layer_norm(ValueId x) {
  const Shape features = {b.shape(x).back()};
  const auto axis = static_cast<std::int64_t>(b.shape(x).rank()) - 1;
  return add(Op::layer_norm, {x, weight("scale", features), weight("shift", features)}, {{"axis", axis}});
}

ValueId Network::flatten(ValueId x) {
  const auto dims = b.shape(x).values();
  std::int64_t rest = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) rest *= dims[i];
  return b.reshape(x, {dims[0], rest});
}

void Network::train(ValueId logits) {
  std::vector<Dim> rows = b.shape(logits).dims();
  rows.pop_back();
  const ValueId labels = value("labels", Shape(rows), ValueKind::input, DType::i32);
  const ValueId losses = add(Op::cross_entropy, {logits, labels});
  const ValueId loss = add(Op::reduce_mean, {losses}, {}, "loss");
  output("loss", loss);
  const auto gradients = add_gradients(graph, {{loss, kNoValue}}, parameters);
  ASSERT_TRUE(gradients.ok()) << gradients.status().message();
  for (std::size_t i = 0; i < parameters.size(); ++i) act(Op::sgd_step, {parameters[i], (*gradients)[i]});
}

void build_lenet(Network& net, std::int64_t batch) {
  ValueId x = net.input("x", {batch, 28, 28, 1});
  x = net.max_pool(net.relu(net.conv(x, 6, 5)));
  x = net.max_pool(net.relu(net.conv(x, 16, 5)));
  x = net.relu(net.linear(net.flatten(x), 120));
  net.train(net.linear(net.relu(net.linear(x, 84)), 10));
}

void build_resnet(Network& net, std::int64_t batch, std::int64_t blocks) {
  std::int64_t channels = 16;
  ValueId x = net.relu(net.batch_norm(net.conv(net.input("x", {batch, 32, 32, 3}), channels, 3)));
  for (std::int64_t i = 0; i < blocks; ++i) {
    const bool down = i % 3 == 2;
    if (down) channels *= 2;
    const ValueId skip = down ? net.conv(x, channels, 1, 2) : x;
    ValueId y = net.relu(net.batch_norm(net.conv(x, channels, 3, down ? 2 : 1)));
    y = net.batch_norm(net.conv(y, channels, 3));
    x = net.relu(net.b.add(y, skip));
  }
  const ValueId pooled = net.add(Op::reduce_mean, {x}, {{"axes", Ints{1, 2}}});
  net.train(net.linear(pooled, 10));
}

void build_u_net(Network& net, std::int64_t batch, std::int64_t depth) {
  std::int64_t channels = 8;
  ValueId x = net.input("x", {batch, 64, 64, 3});
  std::vector<ValueId> skips;
  for (std::int64_t i = 0; i < depth; ++i, channels *= 2) {
    x = net.relu(net.conv(net.relu(net.conv(x, channels, 3)), channels, 3));
    skips.push_back(x);
    x = net.max_pool(x);
  }
  x = net.relu(net.conv(x, channels, 3));
  for (std::int64_t i = depth; i-- > 0;) {
    channels /= 2;
    x = net.add(Op::concat, {net.up_conv(x, channels), skips[static_cast<std::size_t>(i)]},
                {{"axis", std::int64_t{3}}});
    x = net.relu(net.conv(net.relu(net.conv(x, channels, 3)), channels, 3));
  }
  net.train(net.conv(x, 4, 1));
}

void build_transformer(Network& net, std::int64_t batch, std::int64_t layers) {
  constexpr std::int64_t kTokens = 32;
  constexpr std::int64_t kWidth = 64;
  constexpr std::int64_t kHeads = 4;
  constexpr std::int64_t kHead = kWidth / kHeads;
  ValueId x = net.input("x", {batch, kTokens, kWidth});
  const Attrs heads_first = {{"perm", Ints{0, 2, 1, 3}}};
  for (std::int64_t i = 0; i < layers; ++i) {
    const ValueId normed = net.layer_norm(x);
    ValueId part[3];
    for (ValueId& p : part) {
      p = net.add(Op::transpose, {net.b.reshape(net.linear(normed, kWidth), {batch, kTokens, kHeads, kHead})},
                  heads_first);
    }
    ValueId scores = net.add(Op::matmul, {part[0], part[1]}, {{"trans_b", std::int64_t{1}}});
    scores = net.add(Op::softmax, {net.b.scale(scores, 1 / std::sqrt(static_cast<double>(kHead)))},
                     {{"axis", std::int64_t{3}}});
    ValueId mixed = net.add(Op::transpose, {net.add(Op::matmul, {scores, part[2]})}, heads_first);
    mixed = net.linear(net.b.reshape(mixed, {batch, kTokens, kWidth}), kWidth);
    x = net.b.add(x, mixed);
    const ValueId hidden = net.add(Op::gelu, {net.linear(net.layer_norm(x), 4 * kWidth)});
    x = net.b.add(x, net.linear(hidden, kWidth));
  }
  net.train(net.linear(net.layer_norm(x), 100));
}

}  // namespace graft::test
