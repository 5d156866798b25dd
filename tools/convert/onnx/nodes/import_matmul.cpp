// Products of matrices.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

Status floats(NodeContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (c.has(i) && !is_float(c.type(i))) {
      return unsupported("its input ", i, " is ", elem_name(c.type(i)), ", and only floats are multiplied");
    }
  }
  return {};
}

/// Products of 32-bit integers, exact modulo 2^32: all of them, then their sums. Files multiply shapes and indices so.
Status integer_matmul(NodeContext& c) {
  constexpr std::uint64_t kMostProducts = 1 << 22;
  Shape a = c.shape(0), b = c.shape(1);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (a.rank() == 0 || b.rank() == 0) return corrupt("an operand has no axes");
  if (!a.is_constant() || !b.is_constant())
    return unsupported("it multiplies integers of symbolic sizes; bind them (--bind NAME=SIZE)");
  std::vector<Dim> left(a.begin(), a.end()), right(b.begin(), b.end());
  if (row) left.insert(left.begin(), Dim(1));
  if (column) right.push_back(Dim(1));
  if (left.back() != right[right.size() - 2]) {
    return corrupt("its operands ", a.text(), " and ", b.text(), " do not fit each other");
  }
  left.push_back(Dim(1));                 // [.., rows, inner, 1]
  right.insert(right.end() - 2, Dim(1));  // [.., 1, inner, columns]
  GRAFT_TRY_ASSIGN(const Shape all, broadcast(Shape(left), Shape(right)));
  if (all.elements() > kMostProducts) {
    return unsupported("it takes ", all.elements(), " products of integers, and ", kMostProducts, " are supported");
  }
  const ValueId products = c.emit(Op::mul, {c.reshape(c.in(0), Shape(left)), c.reshape(c.in(1), Shape(right))});
  const auto inner = static_cast<std::int64_t>(all.rank()) - 2;
  ValueId y = c.emit(Op::reduce_sum, {products}, {{"axes", Ints{inner}}, {"keepdims", std::int64_t{0}}});
  if (row || column) {
    std::vector<Dim> dims(all.begin(), all.end());
    dims.erase(dims.end() - 2);
    if (column) dims.pop_back();
    if (row) dims.erase(dims.end() - (column ? 1 : 2));
    y = c.reshape(y, Shape(dims));
  }
  c.out(0, y);
  return {};
}

Status matmul(NodeContext& c) {
  const bool wide = is_integer(c.type(0)) && elem_bits(c.type(0)) >= 32;
  if (wide && c.type(1) == c.type(0)) return integer_matmul(c);
  GRAFT_TRY(floats(c));
  c.out(0, c.emit(Op::matmul, {c.in(0), c.in(1)}, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}}));
  return {};
}

/// alpha * A' * B' + beta * C.
Status gemm(NodeContext& c) {
  GRAFT_TRY(floats(c));
  if (c.rank(0) != 2 || c.rank(1) != 2) {
    return corrupt("its operands have ", c.rank(0), " and ", c.rank(1), " axes instead of 2");
  }
  const double alpha = c.attr_number("alpha", 1.0);
  const double beta = c.attr_number("beta", 1.0);
  const bool trans_b = c.attr("transB", 0) != 0;
  std::vector<ValueId> inputs = {c.in(0), c.in(1)};
  const Dim columns = c.shape(1)[trans_b ? 0 : 1];
  const bool bias = c.has(2) && c.rank(2) == 1 && c.shape(2)[0] == columns && alpha == 1 && beta == 1;
  if (bias) inputs.push_back(c.in(2));
  ValueId y = c.emit(Op::matmul, inputs,
                     {{"trans_a", std::int64_t{c.attr("transA", 0) != 0}}, {"trans_b", std::int64_t{trans_b}}});
  if (alpha != 1) y = c.emit(Op::affine, {y}, {{"alpha", alpha}, {"beta", 0.0}});
  if (c.has(2) && !bias) {
    ValueId addend = c.in(2);
    if (beta != 1) addend = c.emit(Op::affine, {addend}, {{"alpha", beta}, {"beta", 0.0}});
    const Shape shape = c.shape_of(y);
    GRAFT_TRY_ASSIGN(const Shape joint, broadcast(shape, c.shape(2)));
    if (c.status().ok() && joint != shape) {
      return corrupt("its C has the shape ", c.shape(2).text(), ", which does not broadcast to ", shape.text());
    }
    y = c.emit(Op::add, {y, addend});
  }
  c.out(0, y);
  return {};
}

}  // namespace

const RuleEntry kMatmulRules[] = {
    {"MatMul", 2, 2, matmul},
    {"Gemm", 2, 3, gemm},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
