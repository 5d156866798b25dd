// Examples of the size that people train.
#include "tools/convert/onnx/examples/network.h"

namespace graft::convert {
namespace {

/// Two convolutions with batch norm and a skip (He et al. 2015).
void basic_block(Network& net, const std::string& name, int from, int to, int stride) {
  const std::string in = net.last();
  net.conv(name + ".conv1", from, to, 3, stride, 1, false);
  net.batch_norm(name + ".bn1", to);
  net.relu(name + ".relu1");
  net.conv(name + ".conv2", to, to, 3, 1, 1, false);
  net.batch_norm(name + ".bn2", to);
  const std::string out = net.last();
  net.set_last(in);
  if (stride != 1 || from != to) {
    net.conv(name + ".down", from, to, 1, stride, 0, false);
    net.batch_norm(name + ".down_bn", to);
  }
  net.plain("Add", name + ".add", {out});
  net.relu(name + ".relu2");
}

constexpr int kTokens = 14 * 14;
constexpr int kWidth = 384;
constexpr int kHeads = 6;
constexpr int kHead = kWidth / kHeads;

/// [batch, tokens, width] by a projection -> [batch, heads, ...perm of tokens and head].
std::string heads_of(Network& net, const std::string& name, const std::string& from, const std::vector<int>& perm) {
  net.set_last(from);
  net.matmul(name, kWidth, kWidth);
  net.reshape(name + ".split", {0, kTokens, kHeads, kHead});
  net.transpose(name + ".heads", perm);
  return net.last();
}

void attention(Network& net, const std::string& name) {
  const std::string in = net.last();
  const std::string q = heads_of(net, name + ".q", in, {0, 2, 1, 3});
  const std::string k = heads_of(net, name + ".k", in, {0, 2, 3, 1});
  const std::string v = heads_of(net, name + ".v", in, {0, 2, 1, 3});
  net.set_last(q);
  net.plain("MatMul", name + ".scores", {k});
  net.multiply(name + ".scale", 1 / std::sqrt(static_cast<float>(kHead)));
  net.softmax(name + ".softmax");
  net.plain("MatMul", name + ".mix", {v});
  net.transpose(name + ".merge", {0, 2, 1, 3});
  net.reshape(name + ".join", {0, kTokens, kWidth});
  net.matmul(name + ".out", kWidth, kWidth);
}

/// x * 0.5 * (1 + erf(x / sqrt 2)).
void gelu(Network& net, const std::string& name) {
  const std::string in = net.last();
  net.multiply(name + ".div", 1 / std::numbers::sqrt2_v<float>);
  net.plain("Erf", name + ".erf");
  net.increase(name + ".one", 1);
  net.multiply(name + ".half", 0.5);
  net.plain("Mul", name + ".mul", {in});
}

void encoder_layer(Network& net, const std::string& name) {
  const std::string in = net.last();
  net.layer_norm(name + ".norm1", kWidth);
  attention(net, name + ".attention");
  net.plain("Add", name + ".skip1", {in});
  const std::string middle = net.last();
  net.layer_norm(name + ".norm2", kWidth);
  net.matmul(name + ".mlp1", kWidth, 4 * kWidth);
  gelu(net, name + ".gelu");
  net.matmul(name + ".mlp2", 4 * kWidth, kWidth);
  net.plain("Add", name + ".skip2", {middle});
}

}  // namespace

std::string resnet18_onnx(std::uint64_t seed) {
  Network net("resnet18", seed, {3, 224, 224}, 1000);
  net.conv("conv1", 3, 64, 7, 2, 3, false);
  net.batch_norm("bn1", 64);
  net.relu("relu1");
  net.max_pool("pool1", 3, 1);
  int from = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const int to = 64 << stage;
    for (int block = 0; block < 2; ++block) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      basic_block(net, name, from, to, stage > 0 && block == 0 ? 2 : 1);
      from = to;
    }
  }
  net.plain("GlobalAveragePool", "pool2");
  net.flatten();
  net.linear("fc", 512, 1000);
  return net.finish();
}

/// Without a class token: the mean of the tokens is classified.
std::string vit_small_onnx(std::uint64_t seed) {
  Network net("vit-small", seed, {3, 224, 224}, 1000);
  net.set_opset(17);  // the first with LayerNormalization
  net.conv("patches", 3, kWidth, 16, 16);
  net.reshape("tokens", {0, kWidth, kTokens});
  net.transpose("tokens.last", {0, 2, 1});
  net.add_weight("positions", {1, kTokens, kWidth}, 0.02);
  for (int i = 0; i < 12; ++i) encoder_layer(net, "layer" + std::to_string(i + 1));
  net.layer_norm("norm", kWidth);
  net.mean("mean", 1);
  net.linear("fc", kWidth, 1000);
  return net.finish();
}

}  // namespace graft::convert
