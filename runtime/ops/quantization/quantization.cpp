// quantize, dequantize and fake_quantize: between f32 and the narrow types of quantized networks, as ONNX's
// QuantizeLinear and DequantizeLinear define it.
#include "platform/base/checked.h"
#include "runtime/core/node_check.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/quantization/quantized_type.h"
#include "shaders/kernels.gen.h"
#include "shaders/quantization/quantization_push.h"

namespace graft::ops::quantization {
namespace {

constexpr std::uint64_t kWorkgroup = 128;  // local_size_x of the kernels
constexpr AttrSpec kType = attr::text("type").needed();
constexpr AttrSpec kAxis = attr::integer("axis", -1);
constexpr AttrSpec kBlockSize = attr::integer("block_size").at_least(0);  // 0: a scale is of the whole axis
constexpr AttrSpec kAttrs[] = {kType, kAxis, kBlockSize, attr::flag("saturate", true)};
constexpr AttrSpec kDequantizeAttrs[] = {kType, kAxis, kBlockSize, attr::shape("shape")};

Result<const QuantizedType*> type_of(const Attrs& attrs) {
  const QuantizedType* type = find_quantized_type(attrs.text("type"));
  if (type == nullptr) return invalid("There is no quantized type \"", attrs.text("type"), "\".");
  return type;
}

/// How scales lie over the tensor; the kernels' kScales.
enum class Scales : std::uint32_t { one = 0, by_axis = 1, by_block = 2 };

Result<Scales> scales_of(const Shape& x, const Shape& scale, const Attrs& attrs) {
  if (scale.rank() == 0 || (scale.rank() == 1 && scale[0] == Dim(1))) return Scales::one;
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(attrs.integer("axis"), x.rank()));
  const std::int64_t block = attrs.integer("block_size");
  if (block == 0) {
    if (scale.rank() == 1 && scale[0] == x[axis]) return Scales::by_axis;
    return invalid("Its scale has the shape ", scale.text(), "; one number, or ", x[axis].text(), " for axis ", axis,
                   " of ", x.text(), ", are needed.");
  }
  bool fits = scale.rank() == x.rank();
  for (std::size_t i = 0; fits && i < x.rank(); ++i) {
    if (i != axis) {
      fits = scale[i] == x[i];
    } else {
      fits = x[i].is_constant() && scale[i] == Dim(ceil_div<std::int64_t>(x[i].value(), block));
    }
  }
  if (fits) return Scales::by_block;
  return invalid("Its scale has the shape ", scale.text(), ", which does not fit ", x.text(), " in blocks of ", block,
                 " along axis ", axis, ".");
}

Status check_scales(InferContext& c, std::size_t i, const Shape& x, const QuantizedType& type) {
  GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(scales_of(x, c.shape(i), c.attrs()).status());
  if (!c.has(i + 1)) return ok_status();
  GRAFT_TRY(c.expect_dtype(i + 1, type.is_float() ? DType::f32 : DType::i32));
  // One zero point is one, whether it has an axis or not.
  if (c.shape(i).element_count().value() == Dim(1) && c.shape(i + 1).element_count().value() == Dim(1)) {
    return ok_status();
  }
  return c.expect_shape(i + 1, c.shape(i));
}

Status infer_quantize(InferContext& c) {
  GRAFT_TRY_ASSIGN(const QuantizedType* type, type_of(c.attrs()));
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(check_scales(c, 1, c.shape(0), *type));
  c.output(type->is_float() ? DType::f32 : DType::i32, c.shape(0));
  return ok_status();
}

Status infer_dequantize(InferContext& c) {
  GRAFT_TRY_ASSIGN(const QuantizedType* type, type_of(c.attrs()));
  GRAFT_TRY(c.expect_dtype(0, type->is_float() ? DType::f32 : DType::i32));
  Shape shape = c.shape(0);
  if (c.attrs().has("shape")) {
    if (type->is_float()) return invalid("Numbers of the type ", type->name, " are not packed.");
    shape = c.attrs().shape("shape");
    GRAFT_TRY(check_shape(shape).with_context("In the attribute \"shape\""));
    if (!shape.is_constant()) return invalid("The attribute \"shape\" is ", shape.text(), "; numbers are needed.");
    const std::uint64_t words = ceil_div<std::uint64_t>(shape.elements(), 32 / type->bits);
    if (c.shape(0) != Shape{static_cast<std::int64_t>(words)}) {
      return invalid("Its words have the shape ", c.shape(0).text(), " instead of [", words, "].");
    }
  }
  GRAFT_TRY(check_scales(c, 1, shape, *type));
  c.output(DType::f32, std::move(shape));
  return ok_status();
}

Status infer_fake(InferContext& c) {
  GRAFT_TRY_ASSIGN(const QuantizedType* type, type_of(c.attrs()));
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(check_scales(c, 1, c.shape(0), *type));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status infer_fake_grad(InferContext& c) {
  GRAFT_TRY_ASSIGN(const QuantizedType* type, type_of(c.attrs()));
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(c.expect_dtype(1, DType::f32));
  GRAFT_TRY(c.expect_shape(0, c.shape(1)));
  GRAFT_TRY(check_scales(c, 2, c.shape(1), *type));
  c.output(DType::f32, c.shape(1));
  return ok_status();
}

/// Dispatches a kernel whose bindings are `elements` (each of as many words as the output), scale, zero point, output.
Status emit_kernel(Emitter& e, shaders::KernelId kernel, std::size_t scale, std::uint32_t own, std::uint32_t more) {
  const Shape& shape = e.out_shape();
  GRAFT_TRY(count32(shape.elements(), "output"));
  if (shape.elements() == 0) return ok_status();
  GRAFT_TRY_ASSIGN(const QuantizedType* type, type_of(e.attrs()));
  GRAFT_TRY_ASSIGN(const Scales scales, scales_of(shape, e.in_shape(scale), e.attrs()));
  push::QuantizationPush push{.low = type->low, .high = type->high, .least = type->least};
  push.axis = push.inner = push.block = 1;
  if (scales != Scales::one) {
    GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(e.attrs().integer("axis"), shape.rank()));
    push.axis = static_cast<std::uint32_t>(shape[axis].value());
    push.inner = static_cast<std::uint32_t>(shape.elements(axis + 1, shape.rank()));
    push.block = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(e.attrs().integer("block_size"), 1, std::max<std::int64_t>(push.axis, 1)));
  }
  const bool has_zero = e.has(scale + 1);
  const std::uint32_t overflow = type->saturates ? 3 : e.attrs().flag("saturate") ? 0 : type->infinite ? 2 : 1;
  const std::uint64_t per_word = e.attrs().has("shape") ? 32 / type->bits : 1;
  const std::uint64_t limit = max_bound_elements(e.caps()), elements = shape.elements();
  for (std::uint64_t first = 0; first < elements; first += limit) {
    const std::uint64_t count = std::min(limit, elements - first);
    push.count = static_cast<std::uint32_t>(count);
    push.first = static_cast<std::uint32_t>(first);
    std::vector<Binding> bindings;
    for (std::size_t i = 0; i < scale; ++i) {
      bindings.push_back(element_range(e.in(i), first / per_word, ceil_div(count, per_word)));
    }
    bindings.insert(bindings.end(),
                    {e.in(scale), e.in(has_zero ? scale + 1 : scale), element_range(e.out(), first, count)});
    e.dispatch(kernel, {static_cast<std::uint32_t>(scales), has_zero ? 1u : 0u, type->mantissa, overflow, own, more},
               std::move(bindings), push, e.spread(ceil_div(count, kWorkgroup)));
  }
  return ok_status();
}

Status emit_quantize(Emitter& e) { return emit_kernel(e, shaders::KernelId::quantize__w32, 1, 0, 0); }
Status emit_fake(Emitter& e) { return emit_kernel(e, shaders::KernelId::quantize__w32, 1, 1, 0); }
Status emit_fake_grad(Emitter& e) { return emit_kernel(e, shaders::KernelId::fake_quantize_grad__f32, 2, 0, 0); }

Status emit_dequantize(Emitter& e) {
  GRAFT_TRY_ASSIGN(const QuantizedType* type, type_of(e.attrs()));
  return emit_kernel(e, shaders::KernelId::dequantize__w32, 1, e.attrs().has("shape") ? type->bits : 32,
                     type->is_signed ? 1 : 0);
}

Status vjp_fake(VjpContext& c) {
  if (!c.needs(0)) return ok_status();
  std::vector<ValueId> inputs = {c.dy(), c.in(0), c.in(1)};
  if (c.in(2).valid()) inputs.push_back(c.in(2));
  c.grad(0, c.b.node(Op::fake_quantize_grad, std::move(inputs), c.attrs()));
  return ok_status();
}

/// Of numbers that floats are, as float8 values are; the scale stays as it is.
Status vjp_dequantize(VjpContext& c) {
  if (!c.needs(0)) return ok_status();
  const Shape scale = c.in_shape(1);
  if (scale.element_count().value() == Dim(1)) {
    c.grad(0, c.b.mul(c.dy(), c.b.reshape(c.in(1), Shape{})));
    return ok_status();
  }
  return unsupported("numbers of float types with a scale for each channel have no gradient here");
}

}  // namespace

/// quantize(x, scale, zero_point?; type, axis, block_size, saturate) -> the numbers of `type`, i32 or f32 as they are
/// integers or not: round(x / scale) + zero_point, ties to even, limited to the type's range. One scale, one for each
/// of `axis`, or one for each block_size of it.
extern const OpDef op_quantize, op_dequantize, op_fake_quantize, op_fake_quantize_grad;
const OpDef op_quantize = {
    .name = "quantize",
    .attrs = kAttrs,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_quantize,
    .emit = emit_quantize,
    .gradient = NoGrad{"rounding has none; followed by the same dequantize it is fake_quantize, which has one"},
    .inplace_inputs = 0b1};
/// dequantize(q, scale, zero_point?; type, axis, block_size, shape) -> (q - zero_point) * scale. With `shape` q is as
/// many words as hold the elements of that shape packed, the first in a word's lowest bits.
const OpDef op_dequantize = {.name = "dequantize",
                             .attrs = kDequantizeAttrs,
                             .min_inputs = 2,
                             .max_inputs = 3,
                             .infer = infer_dequantize,
                             .emit = emit_dequantize,
                             .gradient = vjp_dequantize};
/// fake_quantize(x, scale, zero_point?; type, axis, block_size, saturate) -> dequantize(quantize(x)), whose gradient
/// goes straight through where x is within the type's range.
const OpDef op_fake_quantize = {.name = "fake_quantize",
                                .attrs = kAttrs,
                                .min_inputs = 2,
                                .max_inputs = 3,
                                .infer = infer_fake,
                                .emit = emit_fake,
                                .gradient = vjp_fake,
                                .inplace_inputs = 0b1};
const OpDef op_fake_quantize_grad = {.name = "fake_quantize_grad",
                                     .attrs = kAttrs,
                                     .min_inputs = 3,
                                     .max_inputs = 4,
                                     .infer = infer_fake_grad,
                                     .emit = emit_fake_grad,
                                     .inplace_inputs = 0b11};

}  // namespace graft::ops::quantization
