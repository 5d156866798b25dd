#include "runtime/passes/layout_rules.h"

#include "platform/base/stable_sort.h"
#include "runtime/core/op_id.gen.h"

#include <algorithm>
#include <numeric>

namespace graft::passes {
namespace {

/// What an op does with axes.
enum class Kind : std::uint8_t {
  fixed,      ///< only the order that the graph names
  pointwise,  ///< operands broadcast to the result
  axis,       ///< one axis counts, named by "axis"
  reduce,     ///< axes go, or become 1
  ranges,     ///< per axis, as slice and pad
  concat,
  rows,      ///< axes from "axis" on stay last and in order
  channels,  ///< the last axis stays last
  product,   ///< the last axis of x stays last, where the weight is one matrix
  reshape,
  transpose,
};

Kind kind_of(Op op) {
  switch (op) {
    case Op::neg:
    case Op::abs:
    case Op::exp:
    case Op::expm1:
    case Op::log:
    case Op::log1p:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::reciprocal:
    case Op::square:
    case Op::sin:
    case Op::cos:
    case Op::tan:
    case Op::asin:
    case Op::acos:
    case Op::atan:
    case Op::sinh:
    case Op::cosh:
    case Op::tanh:
    case Op::asinh:
    case Op::acosh:
    case Op::atanh:
    case Op::sigmoid:
    case Op::relu:
    case Op::leaky_relu:
    case Op::elu:
    case Op::selu:
    case Op::celu:
    case Op::gelu:
    case Op::silu:
    case Op::hard_sigmoid:
    case Op::hard_swish:
    case Op::mish:
    case Op::softplus:
    case Op::softsign:
    case Op::thresholded_relu:
    case Op::erf:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::sign:
    case Op::logical_not:
    case Op::is_nan:
    case Op::is_inf:
    case Op::affine:
    case Op::clip:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::pow:
    case Op::maximum:
    case Op::minimum:
    case Op::remainder:
    case Op::prelu:
    case Op::equal:
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal:
    case Op::not_equal:
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_xor:
    case Op::bitwise_and:
    case Op::bitwise_or:
    case Op::bitwise_xor:
    case Op::shift_left:
    case Op::shift_right:
    case Op::narrow:
    case Op::where:
    case Op::cast:
    case Op::dropout:
    case Op::expand: return Kind::pointwise;
    case Op::softmax:
    case Op::log_softmax:
    case Op::quantize:
    case Op::dequantize:
    case Op::fake_quantize: return Kind::axis;
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
    case Op::reduce_l1:
    case Op::reduce_l2:
    case Op::reduce_logsumexp:
    case Op::arg_max:
    case Op::arg_min: return Kind::reduce;
    case Op::slice:
    case Op::pad: return Kind::ranges;
    case Op::concat: return Kind::concat;
    case Op::layer_norm:
    case Op::rms_norm: return Kind::rows;
    case Op::batch_norm: return Kind::channels;
    case Op::matmul: return Kind::product;
    case Op::reshape: return Kind::reshape;
    case Op::transpose: return Kind::transpose;
    default: return Kind::fixed;
  }
}

std::size_t axis_of(const Node& node, std::size_t rank) {
  const std::int64_t axis = node.attrs.integer("axis");
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

bool is_arg(Op op) { return op == Op::arg_max || op == Op::arg_min; }

/// Axes of two shapes that hold the same elements: the smallest runs of one and of the other with equal products.
struct Run {
  std::vector<std::uint8_t> from;
  std::vector<std::uint8_t> to;
};

std::vector<Run> matching_runs(const Shape& from, const Shape& to) {
  std::vector<Run> runs;
  std::size_t i = 0, j = 0;
  while (i < from.rank() && j < to.rank()) {
    Run run{{static_cast<std::uint8_t>(i)}, {static_cast<std::uint8_t>(j)}};
    std::int64_t a = from[i++].value(), b = to[j++].value();
    while (a != b && (a < b ? i < from.rank() : j < to.rank())) {
      if (a < b) {
        run.from.push_back(static_cast<std::uint8_t>(i));
        a *= from[i++].value();
      } else {
        run.to.push_back(static_cast<std::uint8_t>(j));
        b *= to[j++].value();
      }
    }
    runs.push_back(std::move(run));
  }
  if (runs.empty()) runs.emplace_back();
  for (; i < from.rank(); ++i) runs.back().from.push_back(static_cast<std::uint8_t>(i));  // of size 1
  for (; j < to.rank(); ++j) runs.back().to.push_back(static_cast<std::uint8_t>(j));
  return runs;
}

/// Where a run of axes is held: the first place, among axes that are not of size 1, of its own such axes; nullopt where
/// these do not stand side by side and in their order. `none` where all are of size 1.
std::optional<std::size_t> place_of_run(const std::vector<std::uint8_t>& run, const Shape& shape,
                                        const std::vector<std::uint8_t>& moving, std::size_t none) {
  std::optional<std::size_t> first;
  std::size_t next = 0;
  for (const std::uint8_t axis : run) {
    if (shape[axis] == Dim(1)) continue;
    const std::size_t at = place_of(moving, axis);
    if (first && at != next) return std::nullopt;
    if (!first) first = at;
    next = at + 1;
  }
  return first.value_or(none);
}

/// The order of a reshaped value whose source is held in `order`; nullopt where the elements would have to move.
std::optional<Order> reshaped_order(const Shape& from, const Shape& to, const Order& order) {
  const std::vector<Run> runs = matching_runs(from, to);
  std::vector<std::uint8_t> moving;  // axes that are not of size 1, as they are held
  for (const std::uint8_t axis : order) {
    if (from[axis] != Dim(1)) moving.push_back(axis);
  }
  std::vector<std::pair<std::size_t, std::size_t>> places;  // of each run
  for (std::size_t r = 0; r < runs.size(); ++r) {
    // A run of axes of size 1 stays behind the run before it.
    const auto at = place_of_run(runs[r].from, from, moving, places.empty() ? 0 : places.back().first);
    if (!at) return std::nullopt;
    places.emplace_back(*at, r);
  }
  graft::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Order out;
  for (const auto& [at, r] : places) out.insert(out.end(), runs[r].to.begin(), runs[r].to.end());
  return out;
}

Order inverse(const Order& order) {
  Order out(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) out[order[k]] = static_cast<std::uint8_t>(k);
  return out;
}

/// What is left of an order when axes go, numbered anew.
Order without(const Order& order, const std::vector<bool>& gone) {
  Order out;
  for (const std::uint8_t axis : order) {
    if (gone[axis]) continue;
    out.push_back(static_cast<std::uint8_t>(axis - std::count(gone.begin(), gone.begin() + axis, true)));
  }
  return out;
}

}  // namespace

Order same_order(std::size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  return order;
}

bool is_same_order(const Order& order) { return std::is_sorted(order.begin(), order.end()); }

Shape ordered(const Shape& shape, const Order& order) {
  std::vector<Dim> dims;
  for (const std::uint8_t axis : order) dims.push_back(shape[axis]);
  return Shape(std::move(dims));
}

std::size_t place_of(const Order& order, std::size_t axis) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), axis) - order.begin());
}

bool same_elements(const Shape& shape, const Order& from, const Order& to) {
  Order a, b;
  for (const std::uint8_t axis : from) {
    if (shape[axis] != Dim(1)) a.push_back(axis);
  }
  for (const std::uint8_t axis : to) {
    if (shape[axis] != Dim(1)) b.push_back(axis);
  }
  return a == b;
}

Order trailing_order(const Order& order, std::size_t rank) {
  Order out;
  const std::size_t missing = order.size() - rank;
  for (const std::uint8_t axis : order) {
    if (axis >= missing) out.push_back(static_cast<std::uint8_t>(axis - missing));
  }
  return out;
}

bool LayoutRules::broadcasts(Op op) { return kind_of(op) == Kind::pointwise; }

std::vector<bool> LayoutRules::reduced(const Node& node) const {
  const std::size_t rank = shape(node.inputs[0]).rank();
  if (is_arg(node.op)) {
    std::vector<bool> gone(rank);
    gone[axis_of(node, rank)] = true;
    return gone;
  }
  const Ints axes = node.attrs.integers("axes");
  std::vector<bool> gone(rank, axes.empty());
  for (const std::int64_t axis : axes) {
    gone[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis)] = true;
  }
  return gone;
}

std::size_t LayoutRules::arranged_rank(const Node& node) const {
  if (kind_of(node.op) == Kind::fixed || node.inputs.empty()) return 0;
  return shape(kind_of(node.op) == Kind::pointwise ? node.outputs[0] : node.inputs[0]).rank();
}

bool LayoutRules::allows(const Node& node, const Order& arrangement) const {
  if (arrangement.size() != arranged_rank(node)) return false;
  if (is_same_order(arrangement)) return true;
  const std::size_t rank = arrangement.size();
  switch (kind_of(node.op)) {
    case Kind::fixed: return false;
    // Scales by block lie as the tensor does.
    case Kind::axis: return node.inputs.size() == 1 || shape(node.inputs[1]).rank() < 2;
    case Kind::rows:
      for (std::size_t k = axis_of(node, rank); k < rank; ++k) {
        if (arrangement[k] != k) return false;
      }
      return true;
    case Kind::channels: return arrangement.back() + 1u == rank;
    case Kind::product: return shape(node.inputs[1]).rank() == 2 && rank > 2 && arrangement.back() + 1u == rank;
    case Kind::reshape: return reshaped_order(shape(node.inputs[0]), shape(node.outputs[0]), arrangement).has_value();
    default: return true;
  }
}

Order LayoutRules::input_order(const Node& node, const Order& arrangement, std::size_t i) const {
  const std::size_t rank = shape(node.inputs[i]).rank();
  switch (kind_of(node.op)) {
    case Kind::fixed: return same_order(rank);
    case Kind::pointwise: return trailing_order(arrangement, rank);
    case Kind::concat: return arrangement;
    default: return i == 0 ? arrangement : same_order(rank);
  }
}

Order LayoutRules::output_order(const Node& node, const Order& arrangement, std::size_t k) const {
  const std::size_t rank = shape(node.outputs[k]).rank();
  switch (kind_of(node.op)) {
    case Kind::fixed: return same_order(rank);
    case Kind::reduce: return rank == arrangement.size() ? arrangement : without(arrangement, reduced(node));
    case Kind::rows: return Order(arrangement.begin(), arrangement.begin() + static_cast<std::ptrdiff_t>(rank));
    case Kind::reshape: return *reshaped_order(shape(node.inputs[0]), shape(node.outputs[0]), arrangement);
    case Kind::transpose: {
      const Ints perm = node.attrs.integers("perm");
      const Order back = inverse(Order(perm.begin(), perm.end()));
      Order out;
      for (const std::uint8_t axis : arrangement) out.push_back(back[axis]);
      return out;
    }
    default: return rank == arrangement.size() ? arrangement : same_order(rank);
  }
}

bool LayoutRules::takes_swapped(const Node& node, const Order& arrangement, std::size_t i, const Order& held) const {
  if (kind_of(node.op) != Kind::product || i > 1 || !is_same_order(arrangement)) return false;
  const std::size_t rank = held.size();
  const std::size_t other = shape(node.inputs[1 - i]).rank();
  if (rank < 2 || (i == 0 && rank > 2 && other != rank)) return false;
  Order swapped = same_order(rank);
  std::swap(swapped[rank - 1], swapped[rank - 2]);
  return held == swapped;
}

std::optional<Order> LayoutRules::arrange_input(const Node& node, std::size_t i, const Order& held) const {
  const Kind kind = kind_of(node.op);
  if (held.size() != arranged_rank(node)) return std::nullopt;
  if (i != 0 && kind != Kind::pointwise && kind != Kind::concat) return std::nullopt;
  if (!allows(node, held)) return std::nullopt;
  return held;
}

std::optional<Order> LayoutRules::arrange_output(const Node& node, std::size_t k, const Order& held) const {
  const Kind kind = kind_of(node.op);
  std::optional<Order> arrangement;
  if (kind == Kind::transpose) {
    const Ints perm = node.attrs.integers("perm");
    arrangement.emplace();
    for (const std::uint8_t axis : held) arrangement->push_back(static_cast<std::uint8_t>(perm[axis]));
  } else if (kind == Kind::reshape) {
    arrangement = reshaped_order(shape(node.outputs[0]), shape(node.inputs[0]), held);
  } else if (k == 0 && held.size() == arranged_rank(node)) {
    arrangement = held;
  }
  if (!arrangement || !allows(node, *arrangement)) return std::nullopt;
  if (output_order(node, *arrangement, k) != held) return std::nullopt;
  return arrangement;
}

Attrs LayoutRules::attrs(const Node& node, const Order& arrangement) const {
  Attrs attrs = node.attrs;
  if (is_same_order(arrangement)) return attrs;
  const std::size_t rank = arrangement.size();
  const auto place = [&](std::size_t axis) { return static_cast<std::int64_t>(place_of(arrangement, axis)); };
  switch (kind_of(node.op)) {
    case Kind::pointwise:
      if (node.op == Op::expand) attrs.set("shape", ordered(attrs.shape("shape"), arrangement));
      break;
    case Kind::axis: attrs.set("axis", place(axis_of(node, rank))); break;
    case Kind::concat: attrs.set("axis", place(axis_of(node, rank))); break;
    case Kind::reduce: {
      if (is_arg(node.op)) {
        attrs.set("axis", place(axis_of(node, rank)));
        break;
      }
      const std::vector<bool> gone = reduced(node);
      Ints axes;
      for (std::size_t k = 0; k < rank; ++k) {
        if (gone[arrangement[k]]) axes.push_back(static_cast<std::int64_t>(k));
      }
      attrs.set("axes", std::move(axes));
      break;
    }
    case Kind::ranges:
      for (const char* name : {"starts", "ends", "steps", "pads"}) {
        if (!attrs.has(name)) continue;
        const Ints old = attrs.integers(name);
        Ints moved = old;  // pads: all befores, then all afters
        for (std::size_t k = 0; k < old.size(); ++k) moved[k] = old[k / rank * rank + arrangement[k % rank]];
        attrs.set(name, std::move(moved));
      }
      break;
    case Kind::reshape: attrs.set("shape", ordered(shape(node.outputs[0]), output_order(node, arrangement, 0))); break;
    default: break;
  }
  return attrs;
}

}  // namespace graft::passes
