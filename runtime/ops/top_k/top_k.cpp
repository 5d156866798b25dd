// top_k: where the largest or smallest elements stand; gather_elements takes them, with their gradient.
#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/movement.h"
#include "shaders/kernels.gen.h"
#include "shaders/top_k/top_k_push.h"

namespace graft::ops::top_k {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integer("k").needed(), attr::integer("axis"), attr::integer("smallest")};
constexpr std::uint64_t kWorkgroup = 128;  // local_size_x of the kernel

Status infer(InferContext& c) {
  if (c.dtype(0) != DType::f32 && c.dtype(0) != DType::i32) {
    return invalid("Its input is of type ", dtype_name(c.dtype(0)), "; f32 or i32 is needed.");
  }
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(c.attrs().integer("axis"), c.shape(0).rank()));
  const Dim& size = c.shape(0)[axis];
  const std::int64_t k = c.attrs().integer("k");
  if (k < 0 || (size.is_constant() && k > size.value())) {
    return invalid("The attribute \"k\" is ", k, " for axis ", axis, " of size ", size.text(), ".");
  }
  std::vector<Dim> dims(c.shape(0).begin(), c.shape(0).end());
  dims[axis] = k;
  c.output(DType::i32, Shape(std::move(dims)));
  return ok_status();
}

Status emit(Emitter& e) {
  if (e.out_shape().elements() == 0) return ok_status();
  const Shape& shape = e.in_shape(0);
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(e.attrs().integer("axis"), shape.rank()));
  const std::uint64_t size = shape.elements(axis, axis + 1);
  if (static_cast<std::uint64_t>(e.attrs().integer("k")) > size) {
    return invalid("The attribute \"k\" is ", e.attrs().integer("k"), " for axis ", axis, " of size ", size, ".");
  }
  push::TopKPush push{.size = static_cast<std::uint32_t>(size),
                      .inner = static_cast<std::uint32_t>(shape.elements(axis + 1, shape.rank())),
                      .k = static_cast<std::uint32_t>(e.attrs().integer("k"))};
  GRAFT_TRY_ASSIGN(push.count, count32(shape.elements(), "input"));
  const bool floats = e.in_dtype(0) == DType::f32;
  e.dispatch(floats ? shaders::KernelId::top_k__f32 : shaders::KernelId::top_k__i32,
             {e.attrs().flag("smallest") ? 0u : 1u}, {e.in(0), e.out()}, push,
             e.spread(ceil_div<std::uint64_t>(push.count, kWorkgroup)));
  return ok_status();
}

}  // namespace

/// top_k(x; k, axis, smallest) -> i32 indices along the axis, best first; of equals the first goes first.
extern const OpDef op_top_k;
const OpDef op_top_k = {
    .name = "top_k", .attrs = kAttrs, .infer = infer, .emit = emit, .gradient = NoGrad{"its result are indices"}};

}  // namespace graft::ops::top_k
