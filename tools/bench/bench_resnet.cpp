// The forward pass of an image network as a whole: ResNet-18's shapes at 224 pixels, 3.6 GFLOP.
#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "tools/bench/bench_cases.h"
#include "tools/common/status.h"

namespace graft::cli {
namespace {

class ResNet {
 public:
  explicit ResNet(Graph& graph) : graph_(graph), b_(graph) {}

  Status build() {
    ValueId x = constant({1, 224, 224, 3});
    x = relu(conv(x, 64, 7, 2));
    x = b_.node(Op::max_pool, {x}, {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
    for (const std::int64_t channels : {64, 128, 256, 512}) {
      x = block(x, channels, channels == 64 ? 1 : 2);
      x = block(x, channels, 1);
    }
    x = b_.node(Op::reduce_mean, {x}, {{"axes", Ints{1, 2}}, {"keepdims", std::int64_t{0}}});
    x = b_.node(Op::matmul, {x, constant({512, 1000}), constant({1000})});
    TRY(b_.status());
    TRY(status_);
    graph_.add_output("y", x);
    return ok_status();
  }

 private:
  // Filled with the same number everywhere by the benchmark: what the weights are does not matter to the speed.
  ValueId constant(const Shape& shape) {
    auto id = graph_.add_value(cat("in", count_++), DType::f32, shape, ValueKind::constant);
    if (id.ok()) return *id;
    status_ = std::move(id).status();
    return {};
  }

  ValueId conv(ValueId x, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    const std::int64_t in = b_.shape(x)[3].value();
    const std::int64_t pad = kernel / 2;
    const Attrs attrs = {{"strides", Ints{stride, stride}},
                         {"pads", Ints{pad, pad, pad, pad}},
                         {"dilations", Ints{1, 1}},
                         {"groups", std::int64_t{1}}};
    const ValueId y = b_.node(Op::conv, {x, constant({out, kernel, kernel, in})}, attrs);
    return b_.node(Op::batch_norm, {y, constant({out}), constant({out}), constant({out}), constant({out})});
  }

  ValueId relu(ValueId x) { return b_.node(Op::relu, {x}); }

  ValueId block(ValueId x, std::int64_t channels, std::int64_t stride) {
    const ValueId y = conv(relu(conv(x, channels, 3, stride)), channels, 3, 1);
    return relu(b_.add(y, stride == 1 ? x : conv(x, channels, 1, stride)));
  }

  Graph& graph_;
  Builder b_;
  Status status_;
  int count_ = 0;
};

}  // namespace

BenchCase resnet_case() {
  BenchCase c;
  c.name = "ResNet-18 forward 1x224x224";
  c.build = []() -> Result<Graph> {
    Graph graph;
    TRY(ResNet(graph).build());
    return graph;
  };
  return c;
}

}  // namespace graft::cli
