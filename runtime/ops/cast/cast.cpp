#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "shaders/cast/cast_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::cast {
namespace {

constexpr AttrSpec kCast[] = {{"to", AttrType::integer, true}};

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

}  // namespace

/// cast(x; to, a DType's number) -> x in another element type.
extern const OpDef op_cast;
const OpDef op_cast = {
    .name = "cast", .attrs = kCast, .infer = infer, .emit = emit, .gradient = vjp, .inplace_inputs = 0b1};

}  // namespace graft::ops::cast
