#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::where {
namespace {

Status infer(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::boolean));
  if (c.dtype(1) != c.dtype(2)) {
    return invalid("Its choices are of types ", dtype_name(c.dtype(1)), " and ", dtype_name(c.dtype(2)),
                   "; they must be the same.");
  }
  if (dtype_size(c.dtype(1)) != 4) {
    return unsupported("Its choices are of type ", dtype_name(c.dtype(1)),
                       "; f32, i32 and boolean can be chosen from.");
  }
  GRAFT_TRY_ASSIGN(const Shape choices, broadcast(c.shape(1), c.shape(2)));
  GRAFT_TRY_ASSIGN(Shape shape, broadcast(c.shape(0), choices));
  c.output(c.dtype(1), std::move(shape));
  return ok_status();
}

Status emit(Emitter& e) { return emit_broadcast(e, shaders::KernelId::where__w32, 0, 3); }

Status vjp(VjpContext& c) {
  const ValueId zero = c.b.full({}, 0);
  if (c.needs(1)) c.grad(1, c.b.node(Op::where, {c.in(0), c.dy(), zero}));
  if (c.needs(2)) c.grad(2, c.b.node(Op::where, {c.in(0), zero, c.dy()}));
  return ok_status();
}

}  // namespace

/// where(cond boolean, a, b) -> a where cond holds, else b; all three broadcast.
extern const OpDef op_where;
const OpDef op_where = {.name = "where",
                        .min_inputs = 3,
                        .max_inputs = 3,
                        .infer = infer,
                        .emit = emit,
                        .gradient = vjp,
                        .inplace_inputs = 0b111};

}  // namespace graft::ops::where
