// Folds that compute: elementwise on numbers and, where a dimension can say it, on symbolic ones.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "platform/base/checked.h"
#include "tools/convert/onnx/import/fold.h"

namespace graft::convert {
namespace {

/// Broadcast result dims and, per operand, where each result element comes from.
struct Broadcasting {
  std::vector<std::int64_t> dims;
  std::vector<std::vector<std::size_t>> source;
};

std::optional<Broadcasting> broadcasting(const std::vector<const HostTensor*>& inputs) {
  std::size_t rank = 0;
  for (const HostTensor* t : inputs) rank = std::max(rank, t->dims.size());
  Broadcasting b;
  b.dims.assign(rank, 1);
  for (const HostTensor* t : inputs) {
    for (std::size_t i = 0; i < t->dims.size(); ++i) {
      std::int64_t& dim = b.dims[rank - t->dims.size() + i];
      if (t->dims[i] == 1) continue;
      if (dim != 1 && dim != t->dims[i]) return std::nullopt;
      dim = t->dims[i];
    }
  }
  const auto count = element_count(b.dims);
  if (!count || *count > kMaxFolded) return std::nullopt;
  for (const HostTensor* t : inputs) {
    std::vector<std::int64_t> strides(rank, 0);
    const auto own = row_major_strides(t->dims);
    for (std::size_t i = 0; i < t->dims.size(); ++i) {
      if (t->dims[i] != 1) strides[rank - t->dims.size() + i] = own[i];
    }
    b.source.push_back(strided_walk(b.dims, strides));
  }
  return b;
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return ((a % b) + b) % b; }

std::optional<std::int64_t> integer_math(const std::string& op, std::int64_t a, std::int64_t b) {
  if (op == "Add") return checked_add(a, b);
  if (op == "Sub") return b == std::numeric_limits<std::int64_t>::min() ? std::nullopt : checked_add(a, -b);
  if (op == "Mul") return checked_mul(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Min") return std::min(a, b);
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
  if (op == "Div") return a / b;
  if (op == "Mod" && std::abs(b) < (std::int64_t{1} << 60)) return floor_mod(a, b);
  return std::nullopt;
}

/// Symbols are at least 1, which settles what is larger in a few cases. ONNX divides towards zero: rounding down is the
/// same of what is not negative.
std::optional<Dim> symbol_math(const std::string& op, const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    const auto value = integer_math(op, a.value(), b.value());
    return value ? std::optional<Dim>(Dim(*value)) : std::nullopt;
  }
  if (op == "Mul") return multiply(a, b);
  if (op == "Add") return add(a, b);
  if (op == "Sub") return subtract(a, b);
  const auto least_a = least(a), least_b = least(b);
  const bool by_number = b.is_constant() && b.value() >= 1 && least_a.value_or(-1) >= 0;
  if (op == "Div") {
    if (const auto exact = b == Dim(0) ? std::nullopt : divide_exactly(a, b)) return exact;
    return by_number ? divide_floor(a, b.value()) : std::nullopt;
  }
  if (op == "Mod" && b.is_constant() && b.value() != 0 && divide_exactly(a, b)) return Dim(0);
  if (op == "Mod" && by_number) {
    const auto whole = divide_floor(a, b.value()), part = whole ? multiply(*whole, b) : std::nullopt;
    return part ? subtract(a, *part) : std::nullopt;
  }
  if (op != "Max" && op != "Min") return std::nullopt;
  if (a.is_constant() && least_b && *least_b >= a.value()) return op == "Max" ? b : a;
  if (b.is_constant() && least_a && *least_a >= b.value()) return op == "Max" ? a : b;
  return a == b ? std::optional<Dim>(a) : std::nullopt;
}

std::optional<float> float_math(const std::string& op, float a, float b) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Max") return std::isnan(a) || std::isnan(b) ? std::numeric_limits<float>::quiet_NaN() : std::max(a, b);
  if (op == "Min") return std::isnan(a) || std::isnan(b) ? std::numeric_limits<float>::quiet_NaN() : std::min(a, b);
  if (op == "Pow") return std::pow(a, b);
  return std::nullopt;
}

bool arithmetic(const FoldContext& c) {
  if (c.opset < 7 || c.inputs.size() != 2 || c.in(0).type != c.in(1).type || c.attr("fmod", 0) != 0) return false;
  const HostTensor &a = c.in(0), &b = c.in(1);
  const auto plan = broadcasting({&a, &b});
  if (!plan || !(is_integer(a.type) || is_float(a.type))) return false;
  HostTensor out;
  out.type = a.type;
  out.dims = plan->dims;
  for (std::size_t i = 0; i < plan->source[0].size(); ++i) {
    const std::size_t p = plan->source[0][i], q = plan->source[1][i];
    if (is_float(a.type)) {
      const auto value = float_math(c.node.op, a.floats[p], b.floats[q]);
      if (!value) return false;
      out.floats.push_back(*value);
    } else if (a.symbolic() || b.symbolic()) {
      const auto value = symbol_math(c.node.op, a.dim(p), b.dim(q));
      if (!value) return false;
      out.symbols.push_back(*value);
    } else {
      const auto value = integer_math(c.node.op, a.ints[p], b.ints[q]);
      if (!value || (a.type == ElemType::i32 && *value != static_cast<std::int32_t>(*value))) return false;
      if (a.type == ElemType::u64 && *value < 0) return false;
      out.ints.push_back(wrapped(*value, a.type));
    }
  }
  if (out.symbolic() &&
      std::all_of(out.symbols.begin(), out.symbols.end(), [](const Dim& d) { return d.is_constant(); })) {
    for (const Dim& d : out.symbols) out.ints.push_back(d.value());
    out.symbols.clear();
  }
  return c.out(std::move(out));
}

std::optional<bool> compare_dims(const std::string& op, const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    const std::int64_t x = a.value(), y = b.value();
    if (op == "Equal") return x == y;
    if (op == "Less") return x < y;
    if (op == "LessOrEqual") return x <= y;
    if (op == "Greater") return x > y;
    return x >= y;
  }
  if (a == b) return op != "Less" && op != "Greater";
  // A symbol is at least 1, so it differs from zero and from negative numbers.
  const auto below = [](const Dim& low, const Dim& high) {
    const auto difference = subtract(high, low);
    return difference && least(*difference).value_or(0) >= 1;
  };
  const bool a_low = below(a, b), b_low = below(b, a);
  if (!a_low && !b_low) return std::nullopt;
  if (op == "Equal") return false;
  return (op == "Less" || op == "LessOrEqual") == a_low;
}

bool comparison(const FoldContext& c) {
  if (c.opset < 7 || c.inputs.size() != 2 || c.in(0).type != c.in(1).type) return false;
  const HostTensor &a = c.in(0), &b = c.in(1);
  const auto plan = broadcasting({&a, &b});
  if (!plan) return false;
  HostTensor out;
  out.type = ElemType::boolean;
  out.dims = plan->dims;
  for (std::size_t i = 0; i < plan->source[0].size(); ++i) {
    const std::size_t p = plan->source[0][i], q = plan->source[1][i];
    const std::string& op = c.node.op;
    std::optional<bool> value;
    if (is_float(a.type)) {
      const float x = a.floats[p], y = b.floats[q];
      value = op == "Equal"         ? x == y
              : op == "Less"        ? x < y
              : op == "LessOrEqual" ? x <= y
              : op == "Greater"     ? x > y
                                    : x >= y;
    } else {
      value = compare_dims(op, a.dim(p), b.dim(q));
    }
    if (!value) return false;
    out.ints.push_back(*value);
  }
  return c.out(std::move(out));
}

bool logic(const FoldContext& c) {
  if (c.inputs.size() != 2 || c.in(0).type != ElemType::boolean || c.in(1).type != ElemType::boolean) return false;
  const auto plan = broadcasting({&c.in(0), &c.in(1)});
  if (!plan || c.opset < 7) return false;
  HostTensor out;
  out.type = ElemType::boolean;
  out.dims = plan->dims;
  for (std::size_t i = 0; i < plan->source[0].size(); ++i) {
    const bool x = c.in(0).ints[plan->source[0][i]] != 0, y = c.in(1).ints[plan->source[1][i]] != 0;
    out.ints.push_back(c.node.op == "And" ? x && y : c.node.op == "Or" ? x || y : x != y);
  }
  return c.out(std::move(out));
}

bool logical_not(const FoldContext& c) {
  if (c.in(0).type != ElemType::boolean) return false;
  HostTensor out = c.in(0);
  for (std::int64_t& v : out.ints) v = v == 0;
  return c.out(std::move(out));
}

bool where(const FoldContext& c) {
  const bool truth = c.in(0).type == ElemType::boolean || (is_integer(c.in(0).type) && !c.in(0).symbolic());
  if (c.inputs.size() != 3 || !truth || c.in(1).type != c.in(2).type) return false;
  const auto plan = broadcasting({&c.in(0), &c.in(1), &c.in(2)});
  if (!plan) return false;
  HostTensor out;
  out.type = c.in(1).type;
  out.dims = plan->dims;
  const bool symbolic = c.in(1).symbolic() || c.in(2).symbolic();
  for (std::size_t i = 0; i < plan->source[0].size(); ++i) {
    const bool first = c.in(0).ints[plan->source[0][i]] != 0;
    const HostTensor& from = c.in(first ? 1 : 2);
    const std::size_t at = plan->source[first ? 1 : 2][i];
    if (is_float(out.type)) {
      out.floats.push_back(from.floats[at]);
    } else if (symbolic) {
      out.symbols.push_back(from.dim(at));
    } else {
      out.ints.push_back(from.ints[at]);
    }
  }
  return c.out(std::move(out));
}

bool cast_to(const FoldContext& c, ElemType to) {
  const HostTensor& in = c.in(0);
  HostTensor out;
  out.type = to;
  out.dims = in.dims;
  if (in.symbolic()) {
    out.symbols = in.symbols;
    return (to == ElemType::i64 || to == ElemType::i32) && c.out(std::move(out));
  }
  if (is_float(to)) {
    // Rounding to 16 bits and less is left to the device, where it is done once; what fits is the same.
    const bool rounds = to != ElemType::f32 && to != ElemType::f64 && !holds_all(to, in.type);
    if (rounds && to != ElemType::f16) return false;
    for (std::size_t i = 0; i < in.count(); ++i) out.floats.push_back(static_cast<float>(in.number(i)));
    return c.out(std::move(out));
  }
  for (std::size_t i = 0; i < in.count(); ++i) {
    if (to == ElemType::boolean) {
      out.ints.push_back(in.number(i) != 0);
      continue;
    }
    if (!is_integer(to)) return false;
    if (is_float(in.type)) {
      const double value = std::trunc(static_cast<double>(in.floats[i]));
      if (!(std::abs(value) < 9e18)) return false;
      out.ints.push_back(static_cast<std::int64_t>(value));
    } else {
      out.ints.push_back(in.ints[i]);
    }
    // Narrow integers keep their low bits; of 32 and more a number that is none of the type's is somebody's mistake.
    const IntegerRange range = *integer_range(to);
    const bool fits = out.ints.back() >= range.low && out.ints.back() <= range.high;
    if (!fits && elem_bits(to) >= 32) return false;
    out.ints.back() = wrapped(out.ints.back(), to);
  }
  return c.out(std::move(out));
}

bool cast(const FoldContext& c) { return cast_to(c, static_cast<ElemType>(c.attr("to", 0))); }
bool cast_like(const FoldContext& c) { return c.inputs.size() == 2 && cast_to(c, c.in(1).type); }

bool range(const FoldContext& c) {
  if (c.inputs.size() != 3 || c.in(0).type != c.in(1).type || c.in(0).type != c.in(2).type) return false;
  for (std::size_t i = 0; i < 3; ++i) {
    if (c.in(i).symbolic() || c.in(i).count() != 1) return false;
  }
  const double start = c.in(0).number(0), limit = c.in(1).number(0), delta = c.in(2).number(0);
  const double count = std::ceil((limit - start) / delta);
  if (delta == 0 || !(count <= static_cast<double>(kMaxFolded))) return false;
  if (!(std::abs(start) < 1e15 && std::abs(delta) < 1e15)) return false;  // doubles count exactly below
  HostTensor out;
  out.type = c.in(0).type;
  out.dims = {static_cast<std::int64_t>(std::max(count, 0.0))};
  for (std::int64_t i = 0; i < out.dims[0]; ++i) {
    const double value = start + static_cast<double>(i) * delta;
    if (is_float(out.type)) {
      out.floats.push_back(static_cast<float>(value));
    } else {
      out.ints.push_back(static_cast<std::int64_t>(value));
    }
  }
  return c.out(std::move(out));
}

/// What shapes and tables are computed with; nullptr for all other ops.
float (*float_function(Op op))(float) {
  switch (op) {
    case Op::neg: return [](float x) { return -x; };
    case Op::abs: return [](float x) { return std::fabs(x); };
    case Op::floor: return [](float x) { return std::floor(x); };
    case Op::ceil: return [](float x) { return std::ceil(x); };
    case Op::round: return [](float x) { return std::nearbyint(x); };
    case Op::sqrt: return [](float x) { return std::sqrt(x); };
    case Op::exp: return [](float x) { return std::exp(x); };
    case Op::log: return [](float x) { return std::log(x); };
    case Op::sin: return [](float x) { return std::sin(x); };
    case Op::cos: return [](float x) { return std::cos(x); };
    case Op::reciprocal: return [](float x) { return 1.0F / x; };
    case Op::relu: return [](float x) { return std::max(x, 0.0F); };
    case Op::sigmoid: return [](float x) { return 1.0F / (1.0F + std::exp(-x)); };
    case Op::tanh: return [](float x) { return std::tanh(x); };
    case Op::sign: return [](float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : x; };
    default: return nullptr;
  }
}

/// Over everything, or over the only axis: what shape arithmetic uses.
bool reduce(const FoldContext& c) {
  const HostTensor& in = c.in(0);
  if (in.dims.size() > 1 || in.count() == 0 || is_float(in.type) || in.type == ElemType::boolean) return false;
  const auto axes = c.ints_of("axes", 1);
  const bool noop = c.attr("noop_with_empty_axes", 0) != 0, keep = c.attr("keepdims", 1) != 0;
  if ((!axes || axes->empty()) && noop) return false;
  const std::string op = c.node.op == "ReduceProd" ? "Mul" : c.node.op == "ReduceSum" ? "Add" : c.node.op.substr(6);
  Dim total = in.dim(0);
  for (std::size_t i = 1; i < in.count(); ++i) {
    const auto next = symbol_math(op, total, in.dim(i));
    if (!next) return false;
    total = *next;
  }
  HostTensor out = HostTensor::of_dims({total});
  out.type = in.type;
  if (in.dims.empty() || !keep) out.dims.clear();
  return c.out(std::move(out));
}

}  // namespace

bool fold_unary(const FoldContext& c, Op op) {
  HostTensor out = c.in(0);
  if (is_float(out.type)) {
    auto* const function = float_function(op);
    if (function == nullptr) return false;
    for (float& v : out.floats) v = function(v);
    return c.out(std::move(out));
  }
  if (out.symbolic() || (op != Op::neg && op != Op::abs)) return false;
  if (!is_integer(out.type)) return false;
  for (std::int64_t& v : out.ints) {
    if (v == std::numeric_limits<std::int64_t>::min()) return false;
    v = wrapped(op == Op::neg ? -v : std::abs(v), out.type);
  }
  return c.out(std::move(out));
}

const FoldEntry kFoldMaths[] = {
    {"Add", 2, arithmetic},
    {"Sub", 2, arithmetic},
    {"Mul", 2, arithmetic},
    {"Div", 2, arithmetic},
    {"Mod", 2, arithmetic},
    {"Max", 2, arithmetic},
    {"Min", 2, arithmetic},
    {"Pow", 2, arithmetic},
    {"Equal", 2, comparison},
    {"Less", 2, comparison},
    {"LessOrEqual", 2, comparison},
    {"Greater", 2, comparison},
    {"GreaterOrEqual", 2, comparison},
    {"And", 2, logic},
    {"Or", 2, logic},
    {"Xor", 2, logic},
    {"Not", 1, logical_not},
    {"Where", 3, where},
    {"Cast", 1, cast},
    {"CastLike", 2, cast_like},
    {"Range", 3, range},
    {"ReduceProd", 1, reduce},
    {"ReduceSum", 1, reduce},
    {"ReduceMin", 1, reduce},
    {"ReduceMax", 1, reduce},
    {nullptr, 0, nullptr},
};

}  // namespace graft::convert
