// Products of matrices.
#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import.h"

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

Status matmul(NodeContext& c) {
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

/// Subscripts of an Einsum, one letter per axis.
struct Subscripts {
  std::vector<std::string> inputs;
  std::string output;
};

Result<Subscripts> parse_equation(const std::string& text) {
  std::string equation;
  for (const char ch : text) {
    if (ch != ' ') equation += ch;
  }
  if (equation.find("...") != std::string::npos) return unsupported("an ellipsis in its equation is not supported");
  const auto arrow = equation.find("->");
  Subscripts s;
  std::string left = equation.substr(0, arrow);
  for (std::size_t start = 0; start <= left.size();) {
    const auto end = std::min(left.find(',', start), left.size());
    s.inputs.push_back(left.substr(start, end - start));
    start = end + 1;
  }
  if (arrow != std::string::npos) {
    s.output = equation.substr(arrow + 2);
  } else {  // the letters that occur once, in order of the alphabet
    for (char ch = 'A'; ch <= 'z'; ++ch) {
      if (std::count(left.begin(), left.end(), ch) == 1) s.output += ch;
    }
  }
  for (std::string part : s.inputs) {
    for (const char ch : part) {
      if (!std::isalpha(static_cast<unsigned char>(ch))) return corrupt("its equation \"", text, "\" is malformed");
    }
    std::sort(part.begin(), part.end());
    if (std::adjacent_find(part.begin(), part.end()) != part.end()) {
      return unsupported("a repeated letter in one operand (a diagonal) is not supported");
    }
  }
  return s;
}

/// The operand with its axes at the places of `letters`: missing ones have size 1.
ValueId spread(NodeContext& c, std::size_t i, const std::string& own, const std::string& letters) {
  Perm perm;
  std::vector<Dim> dims;
  for (const char letter : letters) {
    const auto at = own.find(letter);
    if (at == std::string::npos) {
      dims.push_back(1);
    } else {
      perm.push_back(static_cast<std::uint8_t>(at));
      dims.push_back(c.shape(i)[at]);
    }
  }
  return c.reshape(c.in(i, simplified(perm)), Shape(std::move(dims)));
}

/// Two operands as a batched product: batch letters, rows, columns and one summed group; otherwise product and sum.
Status einsum(NodeContext& c) {
  GRAFT_TRY(floats(c));
  GRAFT_TRY_ASSIGN(const Subscripts s, parse_equation(c.attr_text("equation", "")));
  if (s.inputs.size() != c.inputs() || c.inputs() > 2) {
    return unsupported("its equation has ", s.inputs.size(), " operands for ", c.inputs(),
                       " inputs; 1 or 2 are supported");
  }
  std::string summed;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (s.inputs[i].size() != c.rank(i)) {
      return corrupt("its operand ", i, " has ", c.rank(i), " axes for the letters \"", s.inputs[i], "\"");
    }
    for (const char letter : s.inputs[i]) {
      if (s.output.find(letter) == std::string::npos && summed.find(letter) == std::string::npos) summed += letter;
    }
  }
  const std::string letters = s.output + summed;
  for (const char letter : s.output) {
    const bool known = std::any_of(s.inputs.begin(), s.inputs.end(),
                                   [&](const std::string& in) { return in.find(letter) != std::string::npos; });
    if (!known || std::count(s.output.begin(), s.output.end(), letter) > 1) {
      return corrupt("its output letter '", letter, "' is unknown or repeated");
    }
  }
  if (letters.size() > Shape::kMaxRank) return unsupported("it has more than ", Shape::kMaxRank, " letters");
  if (c.inputs() == 2 && summed.size() == 1) {
    std::string batch, rows, columns;
    for (const char letter : s.output) {
      const bool a = s.inputs[0].find(letter) != std::string::npos;
      const bool b = s.inputs[1].find(letter) != std::string::npos;
      (a && b ? batch : a ? rows : columns) += letter;
    }
    const bool shared = s.inputs[0].find(summed) != std::string::npos && s.inputs[1].find(summed) != std::string::npos;
    if (shared && rows.size() == 1 && columns.size() == 1 && s.output == batch + rows + columns) {
      const ValueId a = spread(c, 0, s.inputs[0], batch + rows + summed);
      const ValueId b = spread(c, 1, s.inputs[1], batch + summed + columns);
      c.out(0, c.emit(Op::matmul, {a, b}, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}}));
      return {};
    }
  }
  ValueId product = spread(c, 0, s.inputs[0], letters);
  if (c.inputs() == 2) product = c.emit(Op::mul, {product, spread(c, 1, s.inputs[1], letters)});
  Ints axes;
  for (std::size_t i = s.output.size(); i < letters.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (!axes.empty()) product = c.emit(Op::reduce_sum, {product}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
  c.out(0, product);
  return {};
}

}  // namespace

const RuleEntry kMatmulRules[] = {
    {"MatMul", 2, 2, matmul},
    {"Gemm", 2, 3, gemm},
    {"Einsum", 1, 2, einsum},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
