// Products of quantized numbers, exact: f32 holds every integer up to 2^24, so a sum of products is computed in as many
// parts as keep each part's sum of absolute values below that, whatever the order of its terms; parts are added in i32.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/spatial.h"

namespace graft::convert {
namespace {

constexpr double kExact = 1 << 24;

/// An operand without its zero point, as f32.
struct Operand {
  ValueId value;
  double most = 255;         ///< of its absolute values
  std::vector<float> known;  ///< its numbers in the source's order, where they are known
};

Status check_eight_bits(NodeContext& c, std::size_t i) {
  if (is_integer(c.type(i)) && elem_bits(c.type(i)) <= 8) return {};
  return unsupported("its input ", i, " is ", elem_name(c.type(i)), ", and only integers of 8 bits are multiplied");
}

/// Which element of the zero point is for element `at` of the operand; `axis` is the one it counts along.
std::size_t zero_at(const HostTensor& q, const HostTensor& zero, std::size_t at, std::size_t axis) {
  if (zero.count() <= 1) return 0;
  const std::vector<std::int64_t> strides = row_major_strides(q.dims);
  return static_cast<std::size_t>(static_cast<std::int64_t>(at) / strides[axis] % q.dims[axis]);
}

/// Input i minus its zero point, which has one number, or one for each index of `axis` (or the operand's own rank).
Result<Operand> centred(NodeContext& c, std::size_t i, std::size_t zero, std::size_t axis, const Perm& perm) {
  GRAFT_TRY(check_eight_bits(c, i));
  const bool has_zero = c.has(zero);
  Operand operand;
  if (!has_zero) operand.most = c.type(i) == ElemType::u8 ? 255 : 128;
  const HostTensor* q = c.host(i);
  const HostTensor* z = has_zero ? c.host(zero) : nullptr;
  const bool by_axis = !has_zero || c.rank(zero) == 0 ||
                       (c.rank(zero) == 1 && (c.shape(zero)[0] == Dim(1) || c.shape(zero)[0] == c.shape(i)[axis]));
  if (q != nullptr && !q->symbolic() && (z != nullptr || !has_zero) && by_axis && q->count() > 0) {
    operand.most = 0;
    for (std::size_t at = 0; at < q->count(); ++at) {
      const double number = q->number(at) - (z != nullptr ? z->number(zero_at(*q, *z, at, axis)) : 0);
      operand.known.push_back(static_cast<float>(number));
      operand.most = std::max(operand.most, std::abs(number));
    }
    operand.value = c.packed(i, zero, static_cast<std::int64_t>(axis), perm);
    return operand;
  }
  ValueId x = c.in(i, perm);
  if (has_zero) {
    ValueId point = c.in(zero);
    if (c.rank(zero) == 1 && c.rank(i) > 1) {
      std::vector<Dim> along(c.rank(i), Dim(1));
      const std::size_t place =
          perm.empty() ? axis : static_cast<std::size_t>(std::find(perm.begin(), perm.end(), axis) - perm.begin());
      along[place] = c.shape(zero)[0];
      point = c.reshape(point, Shape(along));
    }
    x = c.emit(Op::sub, {x, point});
  }
  operand.value = c.cast(x, DType::f32);
  return operand;
}

/// The least number of equal parts of `count` such that in each the sum of absolute products is exact; 0 where even
/// single ones are too many. `bound(first, last)`: of such a part.
template <typename Bound>
std::int64_t parts_of(std::int64_t count, Bound bound) {
  for (std::int64_t size = count; size >= 1; size = size == 1 ? 0 : (size + 1) / 2) {
    double worst = 0;
    for (std::int64_t first = 0; first < count && worst < kExact; first += size) {
      worst = std::max(worst, bound(first, std::min(first + size, count)));
    }
    if (worst < kExact) return size;
  }
  return 0;
}

ValueId sliced(NodeContext& c, ValueId x, std::size_t axis, std::int64_t first, std::int64_t last) {
  if (!c.status().ok()) return kNoValue;
  const std::size_t rank = c.shape_of(x).rank();
  constexpr std::int64_t kAll = 0x7fffffff;
  Ints starts(rank, 0), ends(rank, kAll);
  starts[axis] = first;
  ends[axis] = last;
  return c.emit(Op::slice, {x}, {{"starts", starts}, {"ends", ends}, {"steps", Ints(rank, 1)}});
}

ValueId added(NodeContext& c, ValueId sum, ValueId part) {
  part = c.cast(part, DType::i32);
  return sum.valid() ? c.emit(Op::add, {sum, part}) : part;
}

// ---- convolutions

/// The sum of absolute products with channels [first, last) of each group.
double conv_bound(const Operand& x, const Operand& w, const Shape& weight, std::int64_t first, std::int64_t last) {
  std::int64_t taps = 1;
  for (std::size_t i = 2; i < weight.rank(); ++i) taps *= weight[i].value();
  if (w.known.empty()) return x.most * w.most * static_cast<double>(taps * (last - first));
  const std::int64_t channels = weight[1].value();
  double worst = 0;
  for (std::int64_t o = 0; o < weight[0].value(); ++o) {
    double sum = 0;
    for (std::int64_t at = (o * channels + first) * taps; at < (o * channels + last) * taps; ++at) {
      sum += std::abs(static_cast<double>(w.known[static_cast<std::size_t>(at)]));
    }
    worst = std::max(worst, sum);
  }
  return worst * x.most;
}

/// The convolution of inputs x and w as i32, [N, H, W, C].
Result<ValueId> exact_conv(NodeContext& c, std::size_t x_input, std::size_t w_input, std::size_t x_zero,
                           std::size_t w_zero, Spatial& s) {
  const Shape weight = c.shape(w_input);
  if (weight.rank() != c.rank(x_input)) {
    return corrupt("its weights have ", weight.rank(), " axes where its input has ", c.rank(x_input));
  }
  if (!weight.is_constant()) return unsupported("its weights have the symbolic shape ", weight.text());
  Ints kernel;
  for (std::size_t i = 2; i < weight.rank(); ++i) kernel.push_back(weight[i].value());
  if (c.attr_ints("kernel_shape", kernel) != kernel) return corrupt("its kernel_shape is not that of its weights");
  GRAFT_TRY_ASSIGN(s, read_spatial(c, kernel));
  const Perm perm = channels_last(weight.rank());
  GRAFT_TRY_ASSIGN(const Operand x, centred(c, x_input, x_zero, 0, perm));
  GRAFT_TRY_ASSIGN(const Operand w, centred(c, w_input, w_zero, 0, perm));
  const std::int64_t groups = c.attr("group", 1), channels = weight[1].value();
  const auto planes = [&](ValueId v) {
    const Shape shape = c.shape_of(v);
    return s.axes == 1 && shape.rank() == 3 ? c.reshape(v, Shape{shape[0], 1, shape[1], shape[2]}) : v;
  };
  const ValueId images = planes(x.value), filters = planes(w.value);
  if (!c.status().ok()) return c.status();
  const std::int64_t size =
      parts_of(channels, [&](std::int64_t a, std::int64_t b) { return conv_bound(x, w, weight, a, b); });
  if (size == 0) return unsupported("its kernel of ", weight.text(), " has sums that f32 does not hold exactly");
  const Attrs attrs = {{"strides", s.strides}, {"pads", s.pads}, {"dilations", s.dilations}, {"groups", groups}};
  if (size >= channels) return c.cast(c.emit(Op::conv, {images, filters}, attrs), DType::i32);
  const Shape shape = c.shape_of(images);
  if (groups < 1 || shape[3] != Dim(groups * channels)) return corrupt("its ", groups, " groups do not fit");
  const ValueId grouped = c.reshape(images, Shape{shape[0], shape[1], shape[2], groups, channels});
  ValueId sum;
  for (std::int64_t first = 0; first < channels; first += size) {
    const std::int64_t last = std::min(first + size, channels);
    const ValueId part =
        c.reshape(sliced(c, grouped, 4, first, last), Shape{shape[0], shape[1], shape[2], groups * (last - first)});
    sum = added(c, sum, c.emit(Op::conv, {part, sliced(c, filters, 3, first, last)}, attrs));
  }
  return sum;
}

Status conv_integer(NodeContext& c) {
  Spatial s;
  GRAFT_TRY_ASSIGN(const ValueId sum, exact_conv(c, 0, 1, 2, 3, s));
  out_image(c, 0, sum, s, ElemType::i32);
  return {};
}

/// sum * (a_scale * b_scale / y_scale), rounded, about the zero point of the result.
void requantized(NodeContext& c, ValueId sum, ValueId a_scale, ValueId b_scale, std::size_t y_scale, std::size_t y_zero,
                 ValueId& out) {
  const ValueId factor = c.emit(Op::div, {c.emit(Op::mul, {a_scale, b_scale}), c.reshape(c.in(y_scale), Shape{})});
  const ValueId scaled = c.emit(Op::mul, {c.cast(sum, DType::f32), factor});
  out = c.emit(Op::quantize, {scaled, c.constant(HostTensor::scalar(1)), c.reshape(c.in(y_zero), Shape{})},
               {{"type", elem_name(c.type(y_zero))}, {"axis", std::int64_t{0}}});
}

Status expect_one(NodeContext& c, std::size_t i) {
  const auto count = c.shape(i).element_count();
  if (count.ok() && count.value() == Dim(1)) return {};
  return unsupported("its input ", i, " has the shape ", c.shape(i).text(), "; one number is supported there");
}

Status qlinear_conv(NodeContext& c) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}, std::size_t{6}, std::size_t{7}}) {
    GRAFT_TRY(expect_one(c, i));
  }
  Spatial s;
  GRAFT_TRY_ASSIGN(ValueId sum, exact_conv(c, 0, 3, 2, 5, s));
  if (c.has(8)) {
    if (c.type(8) != ElemType::i32 || c.rank(8) != 1) return corrupt("its bias is not a list of int32");
    sum = c.emit(Op::add, {sum, c.in(8)});
  }
  const ValueId w_scale = c.rank(4) == 0 ? c.in(4) : c.reshape(c.in(4), Shape{c.shape(4)[0]});
  ValueId y;
  requantized(c, sum, c.reshape(c.in(1), Shape{}), w_scale, 6, 7, y);
  out_image(c, 0, y, s, c.type(7));
  return {};
}

// ---- matrices

double matmul_bound(const Operand& a, const Operand& b, const Shape& shape, std::int64_t first, std::int64_t last) {
  if (b.known.empty()) return a.most * b.most * static_cast<double>(last - first);
  const std::int64_t columns = shape.rank() == 1 ? 1 : shape.back().value();
  const std::int64_t rows = shape.rank() == 1 ? shape[0].value() : shape[shape.rank() - 2].value();
  const auto matrices = static_cast<std::int64_t>(b.known.size()) / std::max<std::int64_t>(rows * columns, 1);
  double worst = 0;
  for (std::int64_t m = 0; m < matrices; ++m) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (std::int64_t row = first; row < last; ++row) {
        sum += std::abs(static_cast<double>(b.known[static_cast<std::size_t>((m * rows + row) * columns + column)]));
      }
      worst = std::max(worst, sum);
    }
  }
  return worst * a.most;
}

/// The product of inputs a and b as i32.
Result<ValueId> exact_matmul(NodeContext& c, std::size_t a_input, std::size_t b_input, std::size_t a_zero,
                             std::size_t b_zero) {
  const std::size_t a_rank = c.rank(a_input), b_rank = c.rank(b_input);
  if (a_rank == 0 || b_rank == 0) return corrupt("its operands must have axes");
  const Dim inner = c.shape(a_input)[a_rank - 1];
  if (inner != c.shape(b_input)[b_rank == 1 ? 0 : b_rank - 2]) {
    return corrupt("its operands ", c.shape(a_input).text(), " and ", c.shape(b_input).text(), " do not fit");
  }
  if (!inner.is_constant()) return unsupported("it sums over the symbolic axis ", inner.text());
  GRAFT_TRY_ASSIGN(const Operand a, centred(c, a_input, a_zero, a_rank < 2 ? 0 : a_rank - 2, {}));
  GRAFT_TRY_ASSIGN(const Operand b, centred(c, b_input, b_zero, b_rank - 1, {}));
  const bool known = !b.known.empty() && c.shape(b_input).is_constant();
  Operand bounded = b;
  if (!known) bounded.known.clear();
  const std::int64_t count = inner.value();
  const std::int64_t size =
      parts_of(count, [&](std::int64_t x, std::int64_t y) { return matmul_bound(a, bounded, c.shape(b_input), x, y); });
  if (size == 0) return unsupported("its sums are empty or too large for f32");
  const Attrs attrs = {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}};
  ValueId sum;
  for (std::int64_t first = 0; first < count; first += size) {
    const std::int64_t last = std::min(first + size, count);
    const bool whole = size >= count;
    const ValueId left = whole ? a.value : sliced(c, a.value, a_rank - 1, first, last);
    const ValueId right = whole ? b.value : sliced(c, b.value, b_rank == 1 ? 0 : b_rank - 2, first, last);
    sum = added(c, sum, c.emit(Op::matmul, {left, right}, attrs));
  }
  return sum;
}

Status matmul_integer(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const ValueId sum, exact_matmul(c, 0, 1, 2, 3));
  c.out_typed(0, sum, ElemType::i32);
  return {};
}

Status qlinear_matmul(NodeContext& c) {
  for (const std::size_t i : {std::size_t{6}, std::size_t{7}}) GRAFT_TRY(expect_one(c, i));
  GRAFT_TRY_ASSIGN(const ValueId sum, exact_matmul(c, 0, 3, 2, 5));
  ValueId a_scale = c.in(1);
  const Shape rows = c.shape(1);
  if (rows.rank() == 1 && c.rank(0) > 1) a_scale = c.reshape(a_scale, rows[0] == Dim(1) ? Shape{} : Shape{rows[0], 1});
  ValueId y;
  requantized(c, sum, a_scale, c.in(4), 6, 7, y);
  c.out_typed(0, c.reshape(y, c.shape_of(sum)), c.type(7));
  return {};
}

}  // namespace

const RuleEntry kIntegerRules[] = {
    {"ConvInteger", 2, 4, conv_integer},
    {"MatMulInteger", 2, 4, matmul_integer},
    {"QLinearConv", 8, 9, qlinear_conv},
    {"QLinearMatMul", 8, 8, qlinear_matmul},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
