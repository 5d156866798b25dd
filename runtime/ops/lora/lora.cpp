// lora(base [.., N], x [.., K], a [r, K], b [N, r]; scale) -> base + scale (x a^T) b^T: a low-rank update of a linear
// layer's output, added in the product's own epilogue. x a^T [.., r] is scratch; the gradient computes it again, which
// costs r / N of the layer's product and keeps one tensor per layer from being saved.
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/weight_gemm.h"

namespace graft::ops::lora {
namespace {

constexpr AttrSpec kAttrs[] = {attr::number("scale", 1)};

Status infer(InferContext& c) {
  for (std::size_t i = 0; i < 4; ++i) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_rank(2, 2));
  GRAFT_TRY(c.expect_rank(3, 2));
  if (c.shape(1).rank() == 0) return invalid("Its input 1 is a scalar; rows of features are needed.");
  GRAFT_TRY(c.expect_shape(2, Shape{c.shape(2)[0], c.shape(1).back()}));
  std::vector<Dim> dims = c.shape(1).dims();
  dims.back() = c.shape(3)[0];
  GRAFT_TRY(c.expect_shape(0, Shape(std::move(dims))));
  GRAFT_TRY(c.expect_shape(3, Shape{c.shape(3)[0], c.shape(2)[0]}));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status emit(Emitter& e) {
  const Shape& x = e.in_shape(1);
  const std::uint64_t rows = x.elements(0, x.rank() - 1);
  const std::uint64_t rank = e.in_shape(2).elements(0, 1);
  const Slot low = e.scratch(rows * rank * sizeof(float));
  WeightGemm down{.a = e.in(1), .w = e.in(2), .out = {low, Access::write}};
  down.m = rows;
  down.rows = rank;
  down.columns = e.in_shape(2).elements(1, 2);
  GRAFT_TRY(emit_weight_gemm(e, down));
  WeightGemm up{.a = {low, Access::read}, .w = e.in(3), .out = e.out()};
  up.m = rows;
  up.rows = e.in_shape(3).elements(0, 1);
  up.columns = rank;
  up.base = e.in(0);
  up.alpha = static_cast<float>(e.attrs().number("scale"));
  return emit_weight_gemm(e, up);
}

Status vjp(VjpContext& c) {
  Builder& b = c.b;
  const auto product = [&](ValueId left, ValueId right, bool trans_left, bool trans_right) {
    return b.node(Op::matmul, {left, right},
                  {{"trans_a", std::int64_t{trans_left}}, {"trans_b", std::int64_t{trans_right}}});
  };
  const double scale = c.attrs().number("scale");
  c.grad(0, c.dy());
  // Rows of all batches are summed over: matrices of rank 2.
  const auto flat = [&](ValueId value) -> Result<ValueId> {
    const Shape shape = b.shape(value);
    GRAFT_TRY_ASSIGN(const Dim rows, Shape(std::vector<Dim>(shape.begin(), shape.end() - 1)).element_count());
    return b.reshape(value, Shape{rows, shape.back()});
  };
  GRAFT_TRY_ASSIGN(const ValueId x, flat(c.in(1)));
  GRAFT_TRY_ASSIGN(const ValueId dy, flat(c.dy()));
  if (c.needs(3)) c.grad(3, product(dy, b.scale(product(x, c.in(2), false, true), scale), true, false));
  if (!c.needs(1) && !c.needs(2)) return ok_status();
  const ValueId dlow = b.scale(product(dy, c.in(3), false, false), scale);
  if (c.needs(2)) c.grad(2, product(dlow, x, true, false));
  if (c.needs(1)) c.grad(1, b.reshape(product(dlow, c.in(2), false, false), c.in_shape(1)));
  return ok_status();
}

std::uint64_t flops(const Graph& graph, const Node& node) {
  const Shape& x = graph.value(node.inputs[1]).shape;
  const Shape& y = graph.value(node.inputs[0]).shape;
  return 2 * graph.value(node.inputs[2]).shape.elements(0, 1) * (x.elements() + y.elements());
}

}  // namespace

extern const OpDef op_lora;
const OpDef op_lora = {.name = "lora",
                       .attrs = kAttrs,
                       .min_inputs = 4,
                       .max_inputs = 4,
                       .infer = infer,
                       .emit = emit,
                       .gradient = vjp,
                       .flops = flops,
                       .inplace_inputs = 0b1};

}  // namespace graft::ops::lora
