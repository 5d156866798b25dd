#include "tools/bench/bench_cases.h"

#include "platform/base/checked.h"
#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "shaders/kernels.gen.h"
#include "shaders/matmul/matmul_push.h"

namespace graft::cli {
namespace {

using Dims = std::vector<std::int64_t>;

// One node on residents, so that no time goes into copies of inputs.
Result<Graph> one_node(Op op, const std::vector<Dims>& inputs, const Attrs& attrs) {
  Graph graph;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TRY_ASSIGN(const ValueId id, graph.add_value(cat("in", i), DType::f32, Shape::of(inputs[i]), ValueKind::constant));
    ids.push_back(id);
  }
  TRY_ASSIGN(const NodeId node, graph.add_node(op, ids, attrs, "y"));
  graph.add_output("y", graph.node(node).outputs[0]);
  return graph;
}

// Parameter, gradient and both moments, updated in place.
BenchCase adam(std::int64_t count) {
  BenchCase c;
  c.name = cat("adam_step ", count >> 20, "M");
  c.build = [=]() -> Result<Graph> {
    Graph graph;
    std::vector<ValueId> ids;
    for (const auto kind : {ValueKind::parameter, ValueKind::constant, ValueKind::state, ValueKind::state}) {
      TRY_ASSIGN(const ValueId id, graph.add_value(cat("in", ids.size()), DType::f32, {count}, kind));
      ids.push_back(id);
    }
    TRY(graph.add_node(Op::adam_step, ids, {}, "y").status());
    return graph;
  };
  return c;
}

// Rivals take the operands of the op's kernel: the first two bindings and the last, and with an empty `push` its push
// block too.
void use_rival(Plan& plan, shaders::KernelId kernel, std::array<std::uint32_t, 3> groups,
               const std::vector<std::byte>& push = {}) {
  std::vector<Step> steps;
  PlanBinding out;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::dispatch) out = step.bindings.back();  // of the last pass
  }
  bool replaced = false;
  for (Step& step : plan.steps) {
    if (step.kind == StepKind::dispatch) {
      if (replaced) continue;  // later passes of the op have no counterpart
      replaced = true;
      step.bindings = {step.bindings[0], step.bindings[1], out};
      step.groups = groups;
      if (!push.empty()) step.push = push;
      plan.kernels[step.kernel] = {kernel, {}, 3, static_cast<std::uint32_t>(step.push.size())};
    }
    steps.push_back(step);
  }
  for (PlanNode& node : plan.nodes) node.steps = std::min(node.steps, 1u);
  plan.steps = std::move(steps);
}

// Rows times a quantized weight [n, k], or as in its gradient a weight [k, n].
BenchCase quantized_gemm(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, bool trans_b) {
  BenchCase c;
  c.name = cat("matmul N", trans_b ? "T " : "N ", dtype_name(dtype), " ", m, "x", n, "x", k);
  c.build = [=]() -> Result<Graph> {
    Graph graph;
    TRY_ASSIGN(const ValueId x, graph.add_value("x", DType::f32, {m, k}, ValueKind::constant));
    const Shape shape = trans_b ? Shape{n, k} : Shape{k, n};
    TRY_ASSIGN(const ValueId w, graph.add_value("w", dtype, shape, ValueKind::constant));
    TRY_ASSIGN(const NodeId node, graph.add_node(Op::matmul, {x, w}, {{"trans_b", std::int64_t{trans_b}}}, "y"));
    graph.add_output("y", graph.node(node).outputs[0]);
    return graph;
  };
  return c;
}

BenchCase gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool trans_a, bool trans_b) {
  BenchCase c;
  c.name = cat("matmul ", trans_a ? "T" : "N", trans_b ? "T" : "N", " ", m, "x", n, "x", k);
  const Dims a = trans_a ? Dims{k, m} : Dims{m, k};
  const Dims b = trans_b ? Dims{n, k} : Dims{k, n};
  const Attrs attrs = {{"trans_a", std::int64_t{trans_a}}, {"trans_b", std::int64_t{trans_b}}};
  c.build = [=] { return one_node(Op::matmul, {a, b}, attrs); };
  const auto rival = [=](shaders::KernelId kernel, std::int64_t tile_m, std::int64_t tile_n) {
    return [=](Plan& plan) {
      push::MatmulPush push{};
      push.m = static_cast<std::uint32_t>(m);
      push.n = static_cast<std::uint32_t>(n);
      push.k = static_cast<std::uint32_t>(k);
      push.a_row_stride = static_cast<std::uint32_t>(trans_a ? 1 : k);
      push.a_k_stride = static_cast<std::uint32_t>(trans_a ? m : 1);
      push.b_k_stride = static_cast<std::uint32_t>(trans_b ? 1 : n);
      push.b_col_stride = static_cast<std::uint32_t>(trans_b ? k : 1);
      const auto bytes = std::as_bytes(std::span(&push, 1));
      use_rival(plan, kernel,
                {static_cast<std::uint32_t>(ceil_div(n, tile_n)), static_cast<std::uint32_t>(ceil_div(m, tile_m)), 1},
                {bytes.begin(), bytes.end()});
    };
  };
  c.rivals = {{"naive", rival(shaders::KernelId::matmul_naive__f32, 8, 16)},
              {"tiled", rival(shaders::KernelId::matmul_tiled__f32, 64, 64)}};
  return c;
}

struct Conv {
  std::int64_t batch, size, in, out, kernel, stride, groups;
  std::int64_t pad() const { return kernel / 2; }
  std::int64_t out_size() const { return (size + 2 * pad() - kernel) / stride + 1; }
  Dims x() const { return {batch, size, size, in}; }
  Dims w() const { return {out, kernel, kernel, in / groups}; }
  Dims y() const { return {batch, out_size(), out_size(), out}; }
  Attrs attrs() const {
    return {{"strides", Ints{stride, stride}},
            {"pads", Ints{pad(), pad(), pad(), pad()}},
            {"dilations", Ints{1, 1}},
            {"groups", groups}};
  }
  std::string text() const {
    return cat(kernel, "x", kernel, groups == in && groups > 1 ? " depthwise" : "",
               stride > 1 ? cat(" stride ", stride) : "", " ", batch, "x", size, "x", size, "x", in,
               groups > 1 ? "" : cat(" -> ", out));
  }
};

BenchCase conv_forward(const Conv& conv, bool with_naive) {
  BenchCase c;
  c.name = "conv " + conv.text();
  c.build = [=] { return one_node(Op::conv, {conv.x(), conv.w()}, conv.attrs()); };
  if (!with_naive) return c;
  const auto naive = [=](Plan& plan) {
    const std::int64_t outputs = conv.batch * conv.out_size() * conv.out_size() * conv.out;
    use_rival(plan, shaders::KernelId::conv_naive__f32,
              {static_cast<std::uint32_t>(std::min<std::int64_t>(ceil_div<std::int64_t>(outputs, 64), 65535)),
               static_cast<std::uint32_t>(ceil_div<std::int64_t>(ceil_div<std::int64_t>(outputs, 64), 65535)), 1});
  };
  c.rivals = {{"naive", naive}};
  return c;
}

BenchCase conv_grad_data(const Conv& conv) {
  Attrs attrs = conv.attrs();
  attrs.set("shape", Shape::of(conv.x()));
  return {"conv_grad_data " + conv.text(), [=] { return one_node(Op::conv_grad_data, {conv.y(), conv.w()}, attrs); }};
}

BenchCase conv_grad_weight(const Conv& conv) {
  Attrs attrs = conv.attrs();
  attrs.set("shape", Shape::of(conv.w()));
  return {"conv_grad_weight " + conv.text(), [=] {
            return one_node(Op::conv_grad_weight, {conv.x(), conv.y()}, attrs);
          }};
}

struct Pool {
  std::int64_t batch, size, channels, kernel, stride;
  std::int64_t pad() const { return (kernel - 1) / 2; }
  std::int64_t out_size() const { return (size + 2 * pad() - kernel) / stride + 1; }
};

BenchCase pooling(Op op, const Pool& pool) {
  const Dims x = {pool.batch, pool.size, pool.size, pool.channels};
  const Dims y = {pool.batch, pool.out_size(), pool.out_size(), pool.channels};
  Attrs attrs = {{"kernel", Ints{pool.kernel, pool.kernel}},
                 {"strides", Ints{pool.stride, pool.stride}},
                 {"pads", Ints{pool.pad(), pool.pad(), pool.pad(), pool.pad()}}};
  const bool gradient = op == Op::max_pool_grad || op == Op::avg_pool_grad;
  if (gradient) attrs.set("shape", Shape::of(x));
  BenchCase c;
  c.name = cat(op_def(op).name, " ", pool.kernel, "x", pool.kernel, " stride ", pool.stride, " ", pool.batch, "x",
               pool.size, "x", pool.size, "x", pool.channels);
  c.build = [=]() -> Result<Graph> {
    Graph graph;
    std::vector<ValueId> ids;
    TRY_ASSIGN(const ValueId in, graph.add_value("in0", DType::f32, Shape::of(gradient ? y : x), ValueKind::constant));
    ids.push_back(in);
    if (op == Op::max_pool_grad) {
      TRY_ASSIGN(const ValueId at, graph.add_value("in1", DType::i32, Shape::of(y), ValueKind::constant));
      ids.push_back(at);
    }
    TRY_ASSIGN(const NodeId node, graph.add_node(op, ids, attrs, "y"));
    for (const ValueId out : graph.node(node).outputs) graph.add_output(cat("y", out.index), out);
    return graph;
  };
  return c;
}

BenchCase simple(const std::string& name, Op op, const std::vector<Dims>& inputs, const Attrs& attrs = {}) {
  return {name, [=] { return one_node(op, inputs, attrs); }};
}

}  // namespace

BenchCase gemm_yardstick() { return gemm(768, 768, 768, false, true); }

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  for (const std::int64_t n : {256, 512, 768, 1024}) cases.push_back(gemm(n, n, n, false, false));
  cases.push_back(gemm(768, 768, 768, false, true));
  cases.push_back(gemm(768, 768, 768, true, false));
  cases.push_back(gemm(64, 500, 800, false, true));
  for (const bool trans_b : {true, false}) {
    cases.push_back(gemm(1, 1024, 4096, false, trans_b));
    cases.push_back(gemm(1, 1536, 576, false, trans_b));
    cases.push_back(gemm(4, 1024, 4096, false, trans_b));
    cases.push_back(gemm(128, 1536, 576, false, trans_b));
  }
  cases.push_back(gemm(512, 64, 8192, true, false));
  // With NT 128x1536x576 before: dX and dW of a linear layer of 576 inputs and 1536 outputs.
  cases.push_back(gemm(128, 576, 1536, false, false));
  cases.push_back(gemm(1536, 576, 128, true, false));
  for (const auto& [m, n, k] : {std::array{3136, 128, 128}, std::array{25088, 256, 64}, std::array{1568, 256, 1024}}) {
    cases.push_back(gemm(m, n, k, false, true));  // the 1x1 convolutions below, as products
    cases.push_back(gemm(m, k, n, false, false));
    cases.push_back(gemm(n, k, m, true, false));
  }
  for (const DType dtype : {DType::q8_0, DType::q4_0}) {
    for (const std::int64_t m : {1, 4, 128}) cases.push_back(quantized_gemm(dtype, m, 1536, 576, true));
    cases.push_back(quantized_gemm(dtype, 128, 576, 1536, false));
  }
  cases.push_back(gemm(1, 49152, 576, false, true));  // more than caches hold
  for (const DType dtype : {DType::q8_0, DType::q4_0}) cases.push_back(quantized_gemm(dtype, 1, 49152, 576, true));
  for (const DType dtype : {DType::q4_k, DType::q6_k}) {
    cases.push_back(quantized_gemm(dtype, 128, 768, 768, true));
    cases.push_back(quantized_gemm(dtype, 128, 768, 768, false));
  }
  const Conv lenet1{64, 28, 1, 20, 5, 1, 1};
  const Conv lenet{64, 12, 20, 50, 5, 1, 1};
  const Conv square{4, 28, 64, 64, 3, 1, 1};
  const Conv strided{4, 28, 64, 128, 3, 2, 1};
  const Conv pointwise{4, 28, 128, 128, 1, 1, 1};
  const Conv widened{8, 56, 64, 256, 1, 1, 1},
      narrow{8, 14, 1024, 256, 1, 1, 1};    // of ResNet-50, at a batch to train with
  const Conv first{8, 64, 3, 32, 3, 1, 1};  // over pictures
  const Conv depthwise{4, 56, 64, 64, 3, 1, 64};
  const Conv stem{1, 224, 3, 64, 7, 2, 1};  // and the layers of ResNet-18
  const Conv resnet1{1, 56, 64, 64, 3, 1, 1}, resnet2{1, 28, 128, 128, 3, 1, 1}, resnet3{1, 14, 256, 256, 3, 1, 1};
  const Conv resnet4{1, 7, 512, 512, 3, 1, 1}, narrowed{1, 28, 128, 256, 3, 2, 1}, shortcut{1, 28, 128, 256, 1, 2, 1};
  const Conv last{8, 7, 512, 512, 3, 1, 1}, shortcuts{8, 28, 128, 256, 1, 2, 1};  // at a batch to train with
  for (const Conv& conv : {lenet1, lenet, square, strided, pointwise, widened, narrow, first, depthwise, stem, resnet1,
                           resnet2, resnet3, resnet4, narrowed, shortcut, last, shortcuts}) {
    cases.push_back(
        conv_forward(conv, conv.groups == 1 && conv.batch > 1));  // depthwise kernels have another push block
    cases.push_back(conv_grad_data(conv));
    cases.push_back(conv_grad_weight(conv));
  }
  for (const Pool& pool : {Pool{64, 24, 20, 2, 2}, Pool{8, 112, 64, 3, 2}, Pool{8, 28, 256, 2, 2}}) {
    for (const Op op : {Op::max_pool, Op::max_pool_grad, Op::avg_pool, Op::avg_pool_grad}) {
      cases.push_back(pooling(op, pool));
    }
  }
  cases.push_back(resnet_case());
  for (const bool causal : {false, true}) {
    const Dims q{1, 512, 9, 64};
    const Dims kv{1, 512, 3, 64};
    const Attrs attrs = {{"causal", std::int64_t{causal}}, {"scale", 0.125}};
    const std::string text = causal ? " causal 512x9x64" : " 512x9x64";
    cases.push_back(simple("attention" + text, Op::attention, {q, kv, kv}, attrs));
    cases.push_back(simple("attention_grad" + text, Op::attention_grad, {q, kv, kv, q, {1, 512, 9}, q}, attrs));
  }
  cases.push_back(simple("add 4M", Op::add, {{2048, 2048}, {2048, 2048}}));
  cases.push_back(adam(4 << 20));
  cases.push_back(simple("state_hash 4M", Op::state_hash, {{2048, 2048}}));
  cases.push_back(simple("squared_norm 4M", Op::squared_norm, {{2048, 2048}}));
  cases.push_back(simple("state_hash LeNet", Op::state_hash,
                         {{20, 1, 5, 5}, {20}, {50, 20, 5, 5}, {50}, {500, 800}, {500}, {10, 500}, {10}}));
  cases.push_back(simple("add 4M + row", Op::add, {{2048, 2048}, {2048}}));
  cases.push_back(simple("gelu 4M", Op::gelu, {{2048, 2048}}));
  cases.push_back(simple("transpose 2048x2048", Op::transpose, {{2048, 2048}}, {{"perm", Ints{1, 0}}}));
  cases.push_back(simple("reduce_sum 2048x2048 rows", Op::reduce_sum, {{2048, 2048}},
                         {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}));
  cases.push_back(simple("reduce_sum 2048x2048 columns", Op::reduce_sum, {{2048, 2048}},
                         {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}}));
  cases.push_back(simple("softmax 2048x1024", Op::softmax, {{2048, 1024}}, {{"axis", std::int64_t{1}}}));
  cases.push_back(simple("layer_norm 2048x1024", Op::layer_norm, {{2048, 1024}, {1024}, {1024}},
                         {{"axis", std::int64_t{1}}, {"epsilon", 1e-5}}));
  return cases;
}

std::vector<BenchCase> large_bench_cases() {
  std::vector<BenchCase> cases;
  for (const std::int64_t n : {4096, 8192}) cases.push_back(gemm(n, n, n, false, false));
  cases.push_back(simple("add 64M", Op::add, {{8192, 8192}, {8192, 8192}}));
  cases.push_back(simple("gelu 64M", Op::gelu, {{8192, 8192}}));
  const Dims q = {4, 2048, 16, 64};
  const Dims statistics = {4, 2048, 16};
  const Attrs causal = {{"causal", std::int64_t{1}}};
  cases.push_back(simple("attention 4x2048x16x64", Op::attention, {q, q, q}, causal));
  cases.push_back(simple("attention_grad 4x2048x16x64", Op::attention_grad, {q, q, q, q, statistics, q}, causal));
  return cases;
}

}  // namespace graft::cli
