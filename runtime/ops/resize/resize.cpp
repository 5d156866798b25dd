// resize: images [N, H, W, C] sampled at another size, nearest or bilinear, with ONNX's coordinate modes.
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "platform/base/checked.h"
#include "runtime/core/node_check.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"
#include "shaders/kernels.gen.h"
#include "shaders/resize/resize_push.h"

namespace graft::ops::resize {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integers("sizes").needed(),
                               attr::text("mode", "nearest"),
                               attr::text("coordinates", "half_pixel"),
                               attr::text("nearest", "round_prefer_floor"),
                               attr::number("scale_h"),
                               attr::number("scale_w"),
                               attr::shape("to")};  // sizes that hold symbols; binding makes "sizes" of them
constexpr AttrSpec kGradAttrs[] = {attr::shape("shape").needed(),
                                   attr::integers("sizes").needed(),
                                   attr::text("mode", "nearest"),
                                   attr::text("coordinates", "half_pixel"),
                                   attr::text("nearest", "round_prefer_floor"),
                                   attr::number("scale_h"),
                                   attr::number("scale_w")};
constexpr std::uint64_t kWorkgroup = 128;                       // local_size_x of the kernels
constexpr std::int64_t kMaxTerm = (std::int64_t{1} << 30) - 1;  // kernels double what they compare

/// Position o of the resized axis lies at (a * o + b) / c of the source axis.
struct AxisMap {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 1;
};

struct Fraction {
  std::int64_t numerator;
  std::int64_t denominator;
};

/// The first continued fraction of `value` > 0 within 1e-7 of it (files keep scales in f32), with terms below 2^15
/// where there is one.
Fraction rational(double value) {
  Fraction before{0, 1};
  Fraction now{1, 0};
  double rest = value;
  for (int i = 0; i < 32; ++i) {
    const double whole = std::floor(rest);
    if (whole > 32768) break;
    const auto term = static_cast<std::int64_t>(whole);
    const Fraction next{term * now.numerator + before.numerator, term * now.denominator + before.denominator};
    if (next.numerator > 32768 || next.denominator > 32768) break;
    before = now;
    now = next;
    const double error = std::abs(static_cast<double>(now.numerator) / static_cast<double>(now.denominator) - value);
    if (error <= 1e-7 * value || rest - whole < 1e-9) break;
    rest = 1 / (rest - whole);
  }
  return now;
}

Result<Fraction> scale_of(const Attrs& attrs, std::string_view name, std::int64_t in, std::int64_t out) {
  const double scale = attrs.number(name);
  if (scale == 0) {
    const std::int64_t divisor = std::gcd(in, out);
    return Fraction{out / divisor, in / divisor};
  }
  if (!(scale >= 1e-4 && scale <= 1e4)) {
    return invalid("The attribute \"", name, "\" is ", scale, "; it must be 0 or lie in [0.0001, 10000].");
  }
  const Fraction fraction = rational(scale);
  if (fraction.numerator > 0 && fraction.denominator > 0) return fraction;
  return unsupported("The attribute \"", name, "\" is ", scale, ", which is no ratio of numbers below 32768.");
}

Result<AxisMap> axis_map(const Attrs& attrs, std::size_t axis, std::int64_t in, std::int64_t out) {
  GRAFT_TRY_ASSIGN(const Fraction scale, scale_of(attrs, axis == 0 ? "scale_h" : "scale_w", in, out));
  const std::string coordinates = attrs.text("coordinates");
  AxisMap map;
  if (coordinates == "half_pixel" || coordinates == "pytorch_half_pixel") {
    // (o + 1/2) / scale - 1/2; PyTorch maps a single element to the first.
    if (coordinates == "half_pixel" || out > 1) {
      map = {2 * scale.denominator, scale.denominator - scale.numerator, 2 * scale.numerator};
    }
  } else if (coordinates == "align_corners") {
    if (out > 1) map = {in - 1, 0, out - 1};
  } else if (coordinates == "asymmetric") {
    map = {scale.denominator, 0, scale.numerator};
  } else {
    return invalid("The attribute \"coordinates\" is \"", coordinates,
                   "\"; it must be half_pixel, align_corners, asymmetric or pytorch_half_pixel.");
  }
  // Sizes below 2^30 and fractions below 2^31 cannot overflow 64 bits here.
  const std::int64_t most = std::max(map.a * out, map.c * (in + 1)) + std::abs(map.b) + map.c;
  if (most > kMaxTerm) {
    return unsupported("Resizing an axis from ", in, " to ", out, " needs numbers up to ", most, "; the limit is ",
                       kMaxTerm, ".");
  }
  return map;
}

Result<std::uint32_t> rounding_of(const Attrs& attrs) {
  constexpr std::array<std::string_view, 4> kNames = {"round_prefer_floor", "floor", "ceil", "round_prefer_ceil"};
  const std::string name = attrs.text("nearest");
  for (std::uint32_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return i;
  }
  return invalid("The attribute \"nearest\" is \"", name,
                 "\"; it must be round_prefer_floor, floor, ceil or round_prefer_ceil.");
}

Result<bool> is_linear(const Attrs& attrs) {
  const std::string mode = attrs.text("mode");
  if (mode != "nearest" && mode != "linear") {
    return invalid("The attribute \"mode\" is \"", mode, "\"; it must be nearest or linear.");
  }
  return mode == "linear";
}

/// Everything but `count`.
Result<push::ResizePush> make_push(const Shape& x, const Attrs& attrs) {
  const Ints sizes = attrs.integers("sizes");
  if (sizes.size() != 2) return invalid("The attribute \"sizes\" has ", sizes.size(), " entries; it takes 2.");
  push::ResizePush p{};
  GRAFT_TRY_ASSIGN(const bool linear, is_linear(attrs));
  GRAFT_TRY_ASSIGN(p.rounding, rounding_of(attrs));
  p.linear = linear;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const Dim& dim = x[axis + 1];
    if (!dim.is_constant()) {
      return invalid("Axis ", axis + 1, " of the resized shape ", x.text(), " is ", dim.text(),
                     "; a number is needed there.");
    }
    const std::int64_t in = dim.value();
    const std::int64_t out = sizes[axis];
    if (in < 1 || out < 1 || in > kMaxTerm || out > kMaxTerm) {
      return invalid("Axis ", axis + 1, " cannot be resized from ", in, " to ", out, ": both must lie in [1, ",
                     kMaxTerm, "].");
    }
    GRAFT_TRY_ASSIGN(const AxisMap map, axis_map(attrs, axis, in, out));
    p.in_size[axis] = static_cast<std::int32_t>(in);
    p.out_size[axis] = static_cast<std::int32_t>(out);
    p.a[axis] = static_cast<std::int32_t>(map.a);
    p.b[axis] = static_cast<std::int32_t>(map.b);
    p.c[axis] = static_cast<std::int32_t>(map.c);
  }
  return p;
}

Shape resized(const Shape& x, const push::ResizePush& p) { return {x[0], p.out_size[0], p.out_size[1], x[3]}; }

Status infer(InferContext& c) {
  GRAFT_TRY(c.expect_rank(0, 4));
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  if (c.attrs().has("to")) {
    const Shape to = c.attrs().shape("to"), &x = c.shape(0);
    if (to.rank() != 2) return invalid("The attribute \"to\" has ", to.rank(), " entries; it takes 2.");
    c.output(DType::f32, Shape{x[0], to[0], to[1], x[3]});
    return ok_status();
  }
  GRAFT_TRY_ASSIGN(const push::ResizePush p, make_push(c.shape(0), c.attrs()));
  c.output(DType::f32, resized(c.shape(0), p));
  return ok_status();
}

/// `source` is the image that was resized, whichever of input and output it is.
Status emit_with(Emitter& e, shaders::KernelId kernel, const Shape& source) {
  const std::uint64_t count = e.out_shape().elements();
  if (count == 0) return ok_status();
  GRAFT_TRY_ASSIGN(push::ResizePush p, make_push(source, e.attrs()));
  GRAFT_TRY(count32(e.in_shape(0).elements(), "resized image"));
  GRAFT_TRY_ASSIGN(p.count, count32(count, "resized image"));
  GRAFT_TRY_ASSIGN(p.channels, count32(source.elements(3, 4), "list of channels"));
  e.dispatch(kernel, {}, {e.in(0), e.out()}, p, e.spread(ceil_div(count, kWorkgroup)));
  return ok_status();
}

Status emit(Emitter& e) { return emit_with(e, shaders::KernelId::resize__f32, e.in_shape(0)); }
Status emit_grad(Emitter& e) { return emit_with(e, shaders::KernelId::resize_grad__f32, e.out_shape()); }

Status vjp(VjpContext& c) {
  Attrs attrs = c.attrs();
  attrs.set("shape", c.in_shape(0));
  c.grad(0, c.b.node(Op::resize_grad, {c.dy()}, std::move(attrs)));
  return ok_status();
}

Status infer_grad(InferContext& c) {
  const Shape source = c.attrs().shape("shape");
  GRAFT_TRY(check_shape(source).with_context("In the attribute \"shape\""));
  if (source.rank() != 4) return invalid("The attribute \"shape\" is ", source.text(), "; rank 4 is needed.");
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY_ASSIGN(const push::ResizePush p, make_push(source, c.attrs()));
  GRAFT_TRY(c.expect_shape(0, resized(source, p)));
  c.output(DType::f32, source);
  return ok_status();
}

Status vjp_grad(VjpContext& c) {
  Attrs attrs;
  for (const auto& [name, value] : c.attrs().items()) {
    if (name != "shape") attrs.set(name, value);
  }
  c.grad(0, c.b.node(Op::resize, {c.dy()}, std::move(attrs)));
  return ok_status();
}

// Bilinear: three interpolations of three operations for every element of the resized image.
std::uint64_t flops_of(const Shape& resized_image, const Attrs& attrs) {
  if (!resized_image.is_constant()) return 0;
  return attrs.text("mode") == "linear" ? 9 * resized_image.elements() : 0;
}
std::uint64_t flops(const Graph& g, const Node& n) { return flops_of(g.value(n.outputs[0]).shape, n.attrs); }
std::uint64_t grad_flops(const Graph& g, const Node& n) { return flops_of(g.value(n.inputs[0]).shape, n.attrs); }

}  // namespace

extern const OpDef op_resize, op_resize_grad;
const OpDef op_resize = {
    .name = "resize", .attrs = kAttrs, .infer = infer, .emit = emit, .gradient = vjp, .flops = flops};
const OpDef op_resize_grad = {.name = "resize_grad",
                              .attrs = kGradAttrs,
                              .infer = infer_grad,
                              .emit = emit_grad,
                              .gradient = vjp_grad,
                              .flops = grad_flops};

}  // namespace graft::ops::resize
