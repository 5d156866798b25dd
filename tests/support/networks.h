// Small networks of the usual kinds, as graphs for training: forward, loss, gradients, and an SGD step per parameter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/op_id.gen.h"
#include "tests/support/plan_checks.h"

namespace graft::test {

/// Adds layers to a graph; every parameter gets a name of its own.
class Network : public GraphMaker {
 public:
  /// x [N, H, W, C] -> [N, H', W', channels] by a kernel x kernel convolution that pads to H' = ceil(H / stride).
  ValueId conv(ValueId x, std::int64_t channels, std::int64_t kernel, std::int64_t stride = 1);
  ValueId up_conv(ValueId x, std::int64_t channels);  ///< transposed, twice the size
  ValueId linear(ValueId x, std::int64_t features);   ///< over the last axis, with bias
  ValueId relu(ValueId x) { return add(Op::relu, {x}); }
  ValueId max_pool(ValueId x);
  ValueId batch_norm(ValueId x);
  ValueId layer_norm(ValueId x);
  ValueId flatten(ValueId x);
  /// Mean cross entropy against an input "labels", then gradients and a step for each parameter.
  void train(ValueId logits);

  std::vector<ValueId> parameters;

 private:
  ValueId weight(const char* kind, Shape shape);
};

void build_lenet(Network& net, std::int64_t batch);
/// `blocks` residual blocks with batch norm; every third halves the image and doubles the channels.
void build_resnet(Network& net, std::int64_t batch, std::int64_t blocks);
void build_u_net(Network& net, std::int64_t batch, std::int64_t depth);
/// Layers of self-attention and a two-layer perceptron, with layer norm.
void build_transformer(Network& net, std::int64_t batch, std::int64_t layers);

}  // namespace graft::test
