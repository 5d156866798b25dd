// compact: which elements are chosen, one after the other, for what the data decide how many there are.
#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/elementwise.h"
#include "shaders/compact/compact_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::compact {
namespace {

constexpr std::uint64_t kWorkgroup = 128;  // local_size_x of the kernel

Status infer(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::i32));
  GRAFT_TRY(c.expect_rank(0, 1));
  c.output(DType::i32, c.shape(0));
  return ok_status();
}

Status emit(Emitter& e) {
  const std::uint64_t count = e.out_shape().elements();
  if (count == 0) return ok_status();
  const std::uint64_t most = max_bound_elements(e.caps());
  if (count > most) {
    return unsupported("Choosing among ", count, " elements needs tensors of more than ", most,
                       " elements, the limit of one binding on this device.");
  }
  e.dispatch(shaders::KernelId::compact__i32, {}, {e.in(0), e.out()},
             push::CompactPush{.count = static_cast<std::uint32_t>(count)}, e.spread(ceil_div(count, kWorkgroup)));
  return ok_status();
}

}  // namespace

/// compact(totals [n] i32) -> i32 [n]: element i is the first place whose total is above i, and 0 where there is none.
/// With running counts of a mask (cumsum) these are the places of the mask, in order; their number is the last count.
extern const OpDef op_compact;
const OpDef op_compact = {
    .name = "compact", .infer = infer, .emit = emit, .gradient = NoGrad{"its result are indices"}};

}  // namespace graft::ops::compact
