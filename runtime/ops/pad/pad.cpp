// pad: constant, reflect or edge padding; negative pads crop.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "platform/base/checked.h"
#include "runtime/core/node_check.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"
#include "shaders/kernels.gen.h"
#include "shaders/pad/pad_grad_push.h"
#include "shaders/pad/pad_push.h"

namespace graft::ops::pad {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integers("pads").needed(), attr::text("mode", "constant"), attr::number("value")};
constexpr AttrSpec kGradAttrs[] = {attr::shape("shape").needed(), attr::integers("pads").needed(),
                                   attr::text("mode", "constant"), attr::number("value")};
constexpr std::int64_t kMaxPad = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kWorkgroup = 128;  // local_size_x of the kernels

enum class Mode : std::uint32_t { constant = 0, reflect = 1, edge = 2 };  // as in pad_push.h

Result<Mode> mode_of(const Attrs& attrs) {
  const std::string mode = attrs.text("mode");
  if (mode == "constant") return Mode::constant;
  if (mode == "reflect") return Mode::reflect;
  if (mode == "edge") return Mode::edge;
  return invalid("The attribute \"mode\" is \"", mode, "\"; it must be constant, reflect or edge.");
}

Result<Shape> padded_shape(const Shape& x, const Attrs& attrs) {
  GRAFT_TRY_ASSIGN(const Mode mode, mode_of(attrs));
  const Ints pads = attrs.integers("pads");
  if (pads.size() != 2 * x.rank()) {
    return invalid("The attribute \"pads\" has ", pads.size(), " entries; the shape ", x.text(), " needs ",
                   2 * x.rank(), ".");
  }
  std::vector<Dim> dims;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t begin = pads[axis];
    const std::int64_t end = pads[axis + x.rank()];
    if (begin == 0 && end == 0) {
      dims.push_back(x[axis]);
      continue;
    }
    if (std::max(begin, end) > kMaxPad || std::min(begin, end) < -kMaxPad) {
      return invalid("The attribute \"pads\" holds ", begin, " and ", end, " for axis ", axis, "; the limit is ",
                     kMaxPad, ".");
    }
    if (!x[axis].is_constant()) {  // what may be cropped or repeated is checked once it is a number
      const auto padded = add(x[axis], Dim(begin + end));
      if (!padded) return invalid("The padded axis ", x[axis].text(), " cannot be written; bind it first.");
      dims.push_back(*padded);
      continue;
    }
    const std::int64_t kept = x[axis].value() + std::min<std::int64_t>(begin, 0) + std::min<std::int64_t>(end, 0);
    if (kept < 0) {
      return invalid("The pads ", begin, " and ", end, " crop more than the ", x[axis].text(), " elements of axis ",
                     axis, ".");
    }
    const std::int64_t most = std::max<std::int64_t>({begin, end, 0});
    if (most > 0 && ((mode == Mode::edge && kept < 1) || (mode == Mode::reflect && most > kept - 1))) {
      return invalid("The pads ", begin, " and ", end, " of axis ", axis, " are too large for the ", kept,
                     " elements that the mode \"", attrs.text("mode"), "\" can repeat.");
    }
    dims.emplace_back(x[axis].value() + begin + end);
  }
  return Shape(std::move(dims));
}

/// The constant as a device word of this type.
Result<std::uint32_t> constant_word(const Attrs& attrs, DType dtype) {
  const double value = attrs.number("value");
  if (dtype == DType::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const double low = dtype == DType::boolean ? 0 : std::numeric_limits<std::int32_t>::min();
  const double high = dtype == DType::boolean ? 1 : std::numeric_limits<std::int32_t>::max();
  if (value >= low && value <= high && value == std::floor(value)) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
  }
  return invalid("The attribute \"value\" is ", value, ", which is no ", dtype_name(dtype), ".");
}

Status infer(InferContext& c) {
  GRAFT_TRY(expect_words(c.dtype(0)));
  GRAFT_TRY(constant_word(c.attrs(), c.dtype(0)));
  GRAFT_TRY_ASSIGN(Shape out, padded_shape(c.shape(0), c.attrs()));
  c.output(c.dtype(0), std::move(out));
  return ok_status();
}

struct Axis {
  std::int64_t out;
  std::int64_t in;
  std::int64_t before;
  bool padded() const { return before != 0 || out != in; }
};

/// Merges axes: an unpadded one into an unpadded one before it, and in constant mode into any one before it.
std::vector<Axis> collapsed(const std::vector<std::int64_t>& out, const std::vector<std::int64_t>& in,
                            const std::vector<std::int64_t>& before, Mode mode) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Axis axis{out[i], in[i], before[i]};
    const bool merges = !axes.empty() && !axis.padded() && (mode == Mode::constant || !axes.back().padded());
    if (merges) {
      axes.back() = {axes.back().out * axis.out, axes.back().in * axis.in, axes.back().before * axis.out};
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({1, 1, 0});
  return axes;
}

Status emit_pad(Emitter& e, const std::vector<std::int64_t>& before, Mode mode, std::uint32_t word) {
  const std::uint64_t count = e.out_shape().elements();
  const std::uint64_t most = std::max(count, e.in_shape(0).elements());
  if (count == 0) return ok_status();
  if (most > static_cast<std::uint64_t>(kMaxPad)) {
    return unsupported("The padded tensor has ", most, " elements; the limit is ", kMaxPad, ".");
  }
  push::PadPush push{};
  const auto axes = collapsed(e.out_shape().values(), e.in_shape(0).values(), before, mode);
  push.count = static_cast<std::uint32_t>(count);
  push.axes = static_cast<std::uint32_t>(axes.size());
  push.mode = static_cast<std::uint32_t>(mode);
  push.word = word;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    push.out_size[i] = static_cast<std::uint32_t>(axes[i].out);
    push.in_size[i] = static_cast<std::uint32_t>(axes[i].in);
    push.before[i] = static_cast<std::int32_t>(axes[i].before);
  }
  e.dispatch(shaders::KernelId::pad__w32, {}, {e.in(0), e.out()}, push, e.spread(ceil_div(count, kWorkgroup)));
  return ok_status();
}

Status emit(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Mode mode, mode_of(e.attrs()));
  GRAFT_TRY_ASSIGN(const std::uint32_t word, constant_word(e.attrs(), e.in_dtype(0)));
  Ints before = e.attrs().integers("pads");
  before.resize(e.out_shape().rank());
  return emit_pad(e, before, mode, word);
}

Status vjp(VjpContext& c) {
  Attrs attrs = c.attrs();
  attrs.set("shape", c.in_shape(0));
  c.grad(0, c.b.node(Op::pad_grad, {c.dy()}, std::move(attrs)));
  return ok_status();
}

// --- pad_grad(dy; shape of x)

Status infer_grad(InferContext& c) {
  const Shape whole = c.attrs().shape("shape");
  GRAFT_TRY(check_shape(whole).with_context("In the attribute \"shape\""));
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY_ASSIGN(const Shape padded, padded_shape(whole, c.attrs()));
  GRAFT_TRY(c.expect_shape(0, padded));
  c.output(DType::f32, whole);
  return ok_status();
}

/// One axis after the other, the last first; sums so far stand in scratch memory.
Status emit_fold(Emitter& e, const std::vector<std::int64_t>& before, Mode mode) {
  auto sizes = e.in_shape(0).values();
  const auto in = e.out_shape().values();
  std::vector<std::size_t> padded;
  for (std::size_t axis = in.size(); axis-- > 0;) {
    if (before[axis] != 0 || sizes[axis] != in[axis]) padded.push_back(axis);
  }
  if (padded.empty()) return emit_copy(e, e.in(0), e.out(), e.out_shape().elements());
  Binding from = e.in(0);
  for (const std::size_t axis : padded) {
    const Shape current = Shape::of(sizes);
    push::PadGradPush push{.inner = static_cast<std::uint32_t>(current.elements(axis + 1, sizes.size())),
                           .mode = static_cast<std::uint32_t>(mode),
                           .in_size = static_cast<std::int32_t>(in[axis]),
                           .out_size = static_cast<std::int32_t>(sizes[axis]),
                           .before = static_cast<std::int32_t>(before[axis])};
    sizes[axis] = in[axis];
    const std::uint64_t count = Shape::of(sizes).elements();
    push.count = static_cast<std::uint32_t>(count);
    const Slot to = axis == padded.back() ? e.out().slot : e.scratch(4 * count);
    e.dispatch(shaders::KernelId::pad_grad__f32, {}, {from, {to, Access::write}}, push,
               e.spread(ceil_div(count, kWorkgroup)));
    from = {to, Access::read};
  }
  return ok_status();
}

Status emit_grad(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Mode mode, mode_of(e.attrs()));
  const std::uint64_t most = std::max(e.in_shape(0).elements(), e.out_shape().elements());
  if (most > static_cast<std::uint64_t>(kMaxPad)) {
    return unsupported("The padded tensor has ", most, " elements; the limit is ", kMaxPad, ".");
  }
  if (e.in_shape(0).elements() == 0) return emit_fill(e, e.out(), e.out_shape().elements(), 0);
  Ints before = e.attrs().integers("pads");
  before.resize(e.out_shape().rank());
  if (mode != Mode::constant) return emit_fold(e, before, mode);
  // Padding is undone by cropping, and cropping by padding with zeros.
  for (std::int64_t& pad : before) pad = -pad;
  return emit_pad(e, before, mode, 0);
}

Status vjp_grad(VjpContext& c) {
  const Attrs& a = c.attrs();
  c.grad(0, c.b.node(Op::pad, {c.dy()}, {{"pads", a.integers("pads")}, {"mode", a.text("mode")}}));
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }

}  // namespace

extern const OpDef op_pad, op_pad_grad;
const OpDef op_pad = {.name = "pad", .attrs = kAttrs, .infer = infer, .emit = emit, .gradient = vjp, .flops = no_flops};
const OpDef op_pad_grad = {
    .name = "pad_grad", .attrs = kGradAttrs, .infer = infer_grad, .emit = emit_grad, .gradient = vjp_grad};

}  // namespace graft::ops::pad
