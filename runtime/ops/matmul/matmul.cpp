// matmul(a [.., M, K], b [.., K, N], bias? [N]) -> [.., M, N]: NumPy's rules for rank 1 and for broadcasting batches.
// b may be a quantized weight of rank 2; it is dequantized inside the kernel, in the gradient with respect to a too.
#include <algorithm>
#include <array>

#include "platform/base/checked.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/matmul/matmul_skinny.h"
#include "runtime/ops/parts.h"
#include "runtime/ops/product.h"
#include "runtime/ops/weight_skinny.h"
#include "shaders/matmul/matmul_push.h"

namespace graft::ops::matmul {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integer("trans_a"), attr::integer("trans_b")};

// The operands as matrices: an operand of rank 1 is a row (a) or a column (b), whatever trans_* says.
struct Matrices {
  Shape a;  // [.., M, K] or, when trans_a, [.., K, M]
  Shape b;  // [.., K, N] or, when trans_b, [.., N, K]
  bool trans_a;
  bool trans_b;
  Dim m, n, a_k, b_k;
};

Shape leading(const Shape& shape) { return Shape(std::vector<Dim>(shape.begin(), shape.end() - 2)); }

Matrices matrices(const Shape& a, const Shape& b, const Attrs& attrs) {
  Matrices x{a, b, attrs.flag("trans_a") && a.rank() > 1, attrs.flag("trans_b") && b.rank() > 1, {}, {}, {}, {}};
  if (a.rank() == 1) x.a = Shape{Dim(1), a[0]};
  if (b.rank() == 1) x.b = Shape{b[0], Dim(1)};
  const std::size_t ra = x.a.rank();
  const std::size_t rb = x.b.rank();
  x.m = x.a[ra - (x.trans_a ? 1 : 2)];
  x.a_k = x.a[ra - (x.trans_a ? 2 : 1)];
  x.b_k = x.b[rb - (x.trans_b ? 1 : 2)];
  x.n = x.b[rb - (x.trans_b ? 2 : 1)];
  return x;
}

Status infer(InferContext& c) {
  const bool quantized = is_quantized(c.dtype(1));
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (c.has(i) && (i != 1 || !quantized)) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  }
  if (quantized && (c.shape(1).rank() != 2 || (c.attrs().flag("trans_a") && c.shape(0).rank() > 1))) {
    return unsupported(
        "A product with a quantized weight needs a weight of rank 2 and a first operand that is not "
        "transposed; it was given ",
        c.shape(0).text(), " and ", c.shape(1).text(), ".");
  }
  if (c.shape(0).rank() == 0 || c.shape(1).rank() == 0) {
    return invalid("A matrix product needs operands of rank 1 or more; it was given ", c.shape(0).text(), " and ",
                   c.shape(1).text(), ".");
  }
  const Matrices x = matrices(c.shape(0), c.shape(1), c.attrs());
  if (x.a_k != x.b_k) {
    return invalid("The product of ", c.shape(0).text(), x.trans_a ? " transposed" : "", " and ", c.shape(1).text(),
                   x.trans_b ? " transposed" : "", " sums over ", x.a_k.text(), " elements of the first and ",
                   x.b_k.text(), " of the second; these must be equal.");
  }
  GRAFT_TRY_ASSIGN(const Shape batch, broadcast(leading(x.a), leading(x.b)));
  std::vector<Dim> dims = batch.dims();
  if (c.shape(0).rank() > 1) dims.push_back(x.m);
  if (c.shape(1).rank() > 1) dims.push_back(x.n);
  if (c.has(2)) {
    if (c.shape(1).rank() == 1) return invalid("A product with a vector takes no bias: it has no columns to add to.");
    GRAFT_TRY(c.expect_shape(2, Shape{x.n}));
  }
  c.output(DType::f32, Shape(std::move(dims)));
  return ok_status();
}

// Batch axes of the output with each operand's step along them; neighbours that both step through as one are merged.
struct Batches {
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> a_strides;
  std::vector<std::uint64_t> b_strides;
  std::uint64_t count = 1;
};

std::vector<std::uint64_t> batch_strides(const Shape& operand, std::size_t rank) {
  std::vector<std::uint64_t> strides(rank, 0);
  const std::size_t own = operand.rank() - 2;
  std::uint64_t stride = operand.elements(own, own + 2);
  for (std::size_t i = own; i-- > 0;) {
    const auto size = static_cast<std::uint64_t>(operand[i].value());
    if (size != 1) strides[rank - own + i] = stride;
    stride *= size;
  }
  return strides;
}

Batches make_batches(const Matrices& x, const Shape& batch) {
  Batches out;
  const auto a = batch_strides(x.a, batch.rank());
  const auto b = batch_strides(x.b, batch.rank());
  for (std::size_t i = 0; i < batch.rank(); ++i) {
    const auto size = static_cast<std::uint64_t>(batch[i].value());
    out.count *= size;
    if (size == 1) continue;
    if (!out.sizes.empty() && out.a_strides.back() == a[i] * size && out.b_strides.back() == b[i] * size) {
      out.sizes.back() *= size;
      out.a_strides.back() = a[i];
      out.b_strides.back() = b[i];
    } else {
      out.sizes.push_back(size);
      out.a_strides.push_back(a[i]);
      out.b_strides.push_back(b[i]);
    }
  }
  return out;
}

// A batch of products by one b over rows that follow each other is one taller product.
bool fold_batches(const Matrices& x, std::uint64_t m, std::uint64_t k, Batches& batches) {
  if (x.trans_a || batches.sizes.size() != 1 || batches.b_strides[0] != 0 || batches.a_strides[0] != m * k)
    return false;
  batches = Batches{{}, {}, {}, 1};
  return true;
}

// Tensors larger than a binding are cut where their words stay together: along the outermost batch axis, along the rows
// of a and y, or, for y = a^T b, along the sum; a large matrix b by its own rows.

Status emit_batches(Emitter& e, const GemmProblem& problem, const GemmOperands& operands, const push::MatmulPush& push,
                    const Batches& batches) {
  const std::uint64_t items = batches.sizes[0];
  const std::uint64_t inner = problem.batches / items;
  const std::uint64_t y_words = inner * problem.m * problem.n;
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part,
                   items_per_part(e.caps(), items, {batches.a_strides[0], batches.b_strides[0], y_words},
                                  "batches of a matrix product"));
  return for_each_part(items, per_part, [&](std::uint64_t first, std::uint64_t count) {
    GemmProblem part = problem;
    part.batches = count * inner;
    part.outputs = count * y_words;
    GemmOperands bound = operands;
    bound.a = items_of(operands.a, first, count, items, batches.a_strides[0]);
    bound.b = items_of(operands.b, first, count, items, batches.b_strides[0]);
    bound.out = items_of(operands.out, first, count, items, y_words);
    return emit_gemm(e, kMatmulKernels, part, bound, push);
  });
}

Status emit_rows(Emitter& e, bool trans_a, const GemmProblem& problem, const GemmOperands& operands,
                 const push::MatmulPush& push) {
  if (trans_a) return emit_gemm(e, kMatmulKernels, problem, operands, push);
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part,
                   items_per_part(e.caps(), problem.m, {problem.inner, problem.n}, "rows of a matrix product"));
  return for_each_part(problem.m, per_part, [&](std::uint64_t first, std::uint64_t count) {
    GemmProblem part = problem;
    part.m = count;
    part.outputs = count * problem.n;
    GemmOperands bound = operands;
    bound.a = items_of(operands.a, first, count, problem.m, problem.inner);
    bound.out = items_of(operands.out, first, count, problem.m, problem.n);
    return emit_gemm(e, kMatmulKernels, part, bound, push);
  });
}

Status emit_sums(Emitter& e, const GemmProblem& problem, const GemmOperands& operands, const push::MatmulPush& push) {
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part, items_per_part(e.caps(), problem.inner, {problem.m, problem.n},
                                                                "rows of both sides of a transposed matrix product"));
  if (per_part >= problem.inner) return emit_gemm(e, kMatmulKernels, problem, operands, push);
  const auto run = [&](std::uint64_t first, std::uint64_t count, const Binding& to) {
    GemmProblem part = problem;
    part.inner = count;
    GemmOperands bound = operands;
    bound.has_bias = false;
    bound.a = items_of(operands.a, first, count, problem.inner, problem.m);
    bound.b = items_of(operands.b, first, count, problem.inner, problem.n);
    bound.out = to;
    return emit_gemm(e, kMatmulKernels, part, bound, push);
  };
  return emit_partial_sums(e, problem.inner, per_part, problem.outputs, operands, run);
}

// The rows of a, all batches of them, times a weight in its own format or larger than a binding.
Status emit_weight(Emitter& e, const Matrices& x) {
  const Shape& a = e.in_shape(0);
  WeightGemm gemm{.a = e.in(0), .w = e.in(1), .out = e.out(), .dtype = e.in_dtype(1), .by_rows = x.trans_b};
  gemm.m = a.elements(0, a.rank() - 1);
  gemm.rows = e.in_shape(1).elements(0, 1);
  gemm.columns = e.in_shape(1).elements(1, 2);
  if (e.has(2)) gemm.bias = e.in(2);
  return emit_weight_gemm(e, gemm);
}

// A few rows times the rows of b, where lanes of a CPU device should each take rows of their own. False: they should
// not, and nothing was dispatched.
Result<bool> emit_few_rows(Emitter& e, std::uint64_t m, std::uint64_t n, std::uint64_t k,
                           const GemmOperands& operands) {
  if (std::max(m, n) * k > binding_words(e.caps())) return false;
  WeightGemm gemm{.a = operands.a, .w = operands.b, .out = operands.out, .m = m, .rows = n, .columns = k};
  if (operands.has_bias) gemm.bias = operands.bias;
  return emit_weight_skinny(e, gemm, 0, n);
}

// The same for each matrix of a batch.
Fours fours_of(bool along_k, std::uint64_t across, std::uint64_t k, const std::vector<std::uint64_t>& batch_strides) {
  const bool whole = std::ranges::all_of(batch_strides, [](std::uint64_t n) { return n % 4 == 0; });
  return whole ? graft::fours_of(along_k, across, k) : Fours::none;
}

Status emit(Emitter& e) {
  const Matrices x = matrices(e.in_shape(0), e.in_shape(1), e.attrs());
  // A matrix larger than a binding is taken in parts by the kernels of weights.
  const bool large = e.in_shape(1).rank() == 2 && !x.trans_a && e.in_shape(1).elements() > binding_words(e.caps());
  if (is_quantized(e.in_dtype(1)) || large) return emit_weight(e, x);
  GRAFT_TRY_ASSIGN(const Shape batch, broadcast(leading(x.a), leading(x.b)));
  const auto k = static_cast<std::uint64_t>(x.a_k.value());
  auto m = static_cast<std::uint64_t>(x.m.value());
  const auto n = static_cast<std::uint64_t>(x.n.value());
  Batches batches = make_batches(x, batch);
  const std::uint64_t count = batches.count;
  if (fold_batches(x, m, k, batches)) m *= count;

  push::MatmulPush push{};
  GRAFT_TRY(count32(x.a.elements(), "first operand"));
  GRAFT_TRY(count32(x.b.elements(), "second operand"));
  push.a_row_stride = static_cast<std::uint32_t>(x.trans_a ? 1 : k);
  push.a_k_stride = static_cast<std::uint32_t>(x.trans_a ? m : 1);
  push.b_k_stride = static_cast<std::uint32_t>(x.trans_b ? 1 : n);
  push.b_col_stride = static_cast<std::uint32_t>(x.trans_b ? k : 1);
  std::ranges::fill(push.batch_dims, 1u);
  const std::size_t first = std::size(push.a_batch_strides) - batches.sizes.size();
  for (std::size_t i = 0; i < batches.sizes.size(); ++i) {
    if (first + i > 0) push.batch_dims[first + i - 1] = static_cast<std::uint32_t>(batches.sizes[i]);
    push.a_batch_strides[first + i] = static_cast<std::uint32_t>(batches.a_strides[i]);
    push.b_batch_strides[first + i] = static_cast<std::uint32_t>(batches.b_strides[i]);
  }
  GemmOperands operands{.a = e.in(0), .b = e.in(1), .out = e.out(), .takes_bias = true};
  if (e.has(2)) {
    operands.has_bias = true;
    operands.bias = e.in(2);
    operands.bias_count = n;
  }
  GemmProblem problem{.m = m, .n = n, .inner = k, .batches = batches.count, .outputs = e.out_shape().elements()};
  problem.a_fours = fours_of(!x.trans_a, m, k, batches.a_strides);
  problem.b_fours = fours_of(x.trans_b, n, k, batches.b_strides);
  if (problem.outputs == 0) return ok_status();
  if (!batches.sizes.empty()) return emit_batches(e, problem, operands, push, batches);
  if (x.trans_b && (!x.trans_a || m == 1) && device_class(e.caps()) == DeviceClass::cpu) {
    GRAFT_TRY_ASSIGN(const bool done, emit_few_rows(e, m, n, k, operands));
    if (done) return ok_status();
  }
  if ((!x.trans_a || m == 1) && std::max(m, n) * k <= binding_words(e.caps()) && suits_skinny(e, m, n, k, x.trans_b)) {
    return emit_skinny(e, m, n, k, x.trans_b, operands);
  }
  return x.trans_a && !x.trans_b ? emit_sums(e, problem, operands, push)
                                 : emit_rows(e, x.trans_a, problem, operands, push);
}

// An operand's gradient is a product of the other operand and dy; which one is transposed follows from
// y = A B: dA = dy B^T, dB = A^T dy, and their transposes.
Status vjp(VjpContext& c) {
  const Shape a_shape = c.in_shape(0);
  const Shape b_shape = c.in_shape(1);
  Matrices x = matrices(a_shape, b_shape, c.attrs());
  std::vector<Dim> dims = c.out_shape().dims();
  if (b_shape.rank() == 1) dims.push_back(Dim(1));
  if (a_shape.rank() == 1) dims.insert(dims.end() - 1, Dim(1));
  ValueId dy = c.b.reshape(c.dy(), Shape(dims));
  ValueId a = c.b.reshape(c.in(0), x.a);
  const ValueId b = c.b.reshape(c.in(1), x.b);
  const auto product = [&](ValueId left, ValueId right, bool trans_left, bool trans_right) {
    return c.b.node(Op::matmul, {left, right},
                    {{"trans_a", std::int64_t{trans_left}}, {"trans_b", std::int64_t{trans_right}}});
  };
  // Where one operand is a vector, its gradient takes its own shape when no batch was broadcast into it; else the
  // reshaped axis is dropped and the walker adds up the batch.
  const auto drop = [&](ValueId gradient, std::size_t from_end) {
    std::vector<Dim> kept = c.b.shape(gradient).dims();
    kept.erase(kept.end() - static_cast<std::ptrdiff_t>(from_end));
    return c.b.reshape(gradient, Shape(std::move(kept)));
  };
  if (c.needs(0)) {
    ValueId da = x.trans_a ? product(b, dy, x.trans_b, true) : product(dy, b, false, !x.trans_b);
    if (c.b.status().ok() && a_shape.rank() == 1) da = drop(da, 2);
    c.grad(0, da);
  }
  if (c.needs(1)) {
    // One matrix b under a batch of a: the batch is part of the sum, one long product rather than many and an add.
    if (x.b.rank() == 2 && x.a.rank() > 2 && !x.trans_a) {
      GRAFT_TRY_ASSIGN(const Dim rows, Shape(std::vector<Dim>(x.a.begin(), x.a.end() - 1)).element_count());
      a = c.b.reshape(a, Shape{rows, x.a_k});
      dy = c.b.reshape(dy, Shape{rows, x.n});
    }
    ValueId db = x.trans_b ? product(dy, a, true, x.trans_a) : product(a, dy, !x.trans_a, false);
    if (c.b.status().ok() && b_shape.rank() == 1) db = drop(db, 1);
    c.grad(1, db);
  }
  if (c.needs(2)) c.grad(2, c.dy());
  return ok_status();
}

std::uint64_t flops(const Graph& graph, const Node& node) {
  const Shape& a = graph.value(node.inputs[0]).shape;
  const Shape& b = graph.value(node.inputs[1]).shape;
  return 2 * graph.value(node.outputs[0]).shape.elements() *
         static_cast<std::uint64_t>(matrices(a, b, node.attrs).a_k.value());
}

}  // namespace

extern const OpDef op_matmul;
const OpDef op_matmul = {.name = "matmul",
                         .attrs = kAttrs,
                         .min_inputs = 2,
                         .max_inputs = 3,
                         .infer = infer,
                         .emit = emit,
                         .gradient = vjp,
                         .flops = flops,
                         .quantized_inputs = 0b10};

}  // namespace graft::ops::matmul
