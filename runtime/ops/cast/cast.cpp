#include <optional>

#include "runtime/core/vjp.h"
#include "runtime/ops/cast/narrow_format.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "shaders/cast/cast_push.h"
#include "shaders/cast/narrow_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::cast {
namespace {

constexpr AttrSpec kCast[] = {attr::integer("to").needed()};

Status infer(InferContext& c) {
  const std::int64_t to = c.attrs().integer("to");
  if (to < 0 || to > static_cast<std::int64_t>(DType::boolean)) {
    return unsupported("The attribute \"to\" is ", to, "; casts to f32 (0), i32 (1) and boolean (2) are known.");
  }
  if (dtype_size(c.dtype(0)) != 4) {
    return unsupported("Its input is of type ", dtype_name(c.dtype(0)), "; f32, i32 and boolean can be cast.");
  }
  c.output(static_cast<DType>(to), c.shape(0));
  return ok_status();
}

Status emit(Emitter& e) {
  const DType from = e.in_dtype(0);
  const DType to = e.out_dtype();
  const std::uint64_t count = e.out_shape().elements();
  GRAFT_TRY(count32(count, "output"));
  if (from == to || (from == DType::boolean && to == DType::i32)) return emit_copy(e, e.in(0), e.out(), count);
  const std::uint32_t kind =
      from == DType::f32 ? (to == DType::i32 ? 0 : 1) : (to == DType::f32 ? 2 : 3);  // see cast.comp
  emit_flat(e, shaders::KernelId::cast__w32, {kind}, {e.in(0), e.out()}, push::CastPush{}, count);
  return ok_status();
}

Status vjp(VjpContext& c) {
  c.grad(0, c.dy());  // reached between floats only
  return ok_status();
}

// --- narrow

constexpr AttrSpec kNarrow[] = {attr::text("format").needed(), attr::integer("saturate"), attr::text("rounding")};

std::optional<PowerRounding> power_rounding(const Attrs& attrs) {
  const std::string name = attrs.text("rounding");
  if (name.empty() || name == "up") return PowerRounding::up;
  if (name == "down") return PowerRounding::down;
  if (name == "nearest") return PowerRounding::nearest;
  return std::nullopt;
}

Status infer_narrow(InferContext& c) {
  const std::string format = c.attrs().text("format");
  const bool floats = find_format(kFloatFormats, format) != nullptr || format == kPowerFormat;
  if (!floats && find_format(kIntegerFormats, format) == nullptr) {
    return invalid("The attribute \"format\" is \"", format, "\", which is no format that is known.");
  }
  if (!power_rounding(c.attrs())) {
    return invalid("The attribute \"rounding\" is \"", c.attrs().text("rounding"),
                   "\"; up, down and nearest are known.");
  }
  GRAFT_TRY(c.expect_dtype(0, floats ? DType::f32 : DType::i32));
  c.output(c.dtype(0), c.shape(0));
  return ok_status();
}

Status emit_narrow(Emitter& e) {
  const std::uint64_t count = e.out_shape().elements();
  GRAFT_TRY(count32(count, "output"));
  const std::string name = e.attrs().text("format");
  push::NarrowPush push{};
  push.saturate = e.attrs().flag("saturate") ? 1 : 0;
  if (const IntegerFormat* integer = find_format(kIntegerFormats, name)) {
    push.mantissa = integer->bits;
    push.least = integer->has_sign ? 1 : 0;
    emit_flat(e, shaders::KernelId::narrow__i32, {}, {e.in(0), e.out()}, push, count);
    return ok_status();
  }
  if (const FloatFormat* format = find_format(kFloatFormats, name)) {
    push.mantissa = format->mantissa;
    push.least = format->least;
    push.largest = format->largest;
    push.overflow = static_cast<std::uint32_t>(format->overflow);
    push.negative_zero = format->negative_zero ? 1 : 0;
  } else {
    push.power = 1 + static_cast<std::uint32_t>(power_rounding(e.attrs()).value_or(PowerRounding::up));
  }
  emit_flat(e, shaders::KernelId::narrow__f32, {}, {e.in(0), e.out()}, push, count);
  return ok_status();
}

}  // namespace

/// cast(x; to, a DType's number) -> x in another element type.
extern const OpDef op_cast;
const OpDef op_cast = {
    .name = "cast", .attrs = kCast, .infer = infer, .emit = emit, .gradient = vjp, .inplace_inputs = 0b1};

/// narrow(x; format, saturate, rounding) -> floats rounded to what a format can say, integers reduced to its low bits;
/// still in 32-bit words. saturate: what is too large becomes the largest number. rounding (up, down, nearest): of
/// f8e8m0.
extern const OpDef op_narrow;
const OpDef op_narrow = {.name = "narrow",
                         .attrs = kNarrow,
                         .infer = infer_narrow,
                         .emit = emit_narrow,
                         .gradient = vjp,  // straight through the rounding
                         .inplace_inputs = 0b1};

}  // namespace graft::ops::cast
