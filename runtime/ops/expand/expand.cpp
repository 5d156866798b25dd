// expand: repeats a tensor along axes of size 1 and new leading axes (numpy.broadcast_to).
#include "runtime/core/node_check.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"

namespace graft::ops::expand {
namespace {

constexpr AttrSpec kAttrs[] = {attr::shape("shape").needed()};

Status infer(InferContext& c) {
  const Shape target = c.attrs().shape("shape");
  GRAFT_TRY(check_shape(target).with_context("In the attribute \"shape\""));
  const Shape& x = c.shape(0);
  bool fits = x.rank() <= target.rank();
  for (std::size_t i = 0; fits && i < x.rank(); ++i) {
    const Dim& from = x[x.rank() - 1 - i];
    fits = from == Dim(1) || from == target[target.rank() - 1 - i];
  }
  if (!fits) return invalid("Its input has the shape ", x.text(), ", which cannot be expanded to ", target.text(), ".");
  c.output(c.dtype(0), target);
  return ok_status();
}

Status emit(Emitter& e) {
  GRAFT_TRY(expect_words(e.in_dtype(0)));
  const auto out_dims = e.out_shape().values();
  const auto in_dims = e.in_shape(0).values();
  const auto in_strides = row_major_strides(in_dims);
  StridedCopy copy{out_dims, std::vector<std::int64_t>(out_dims.size(), 0), row_major_strides(out_dims)};
  const std::size_t extra = out_dims.size() - in_dims.size();
  for (std::size_t axis = 0; axis < in_dims.size(); ++axis) {
    copy.from_strides[extra + axis] = in_dims[axis] == 1 ? 0 : in_strides[axis];
  }
  return emit_strided_copy(e, e.in(0), e.out(), std::move(copy));
}

Status vjp(VjpContext& c) {
  c.grad(0, c.dy());  // summed back over the repeated axes by the walker
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }

}  // namespace

extern const OpDef op_expand;
const OpDef op_expand = {
    .name = "expand", .attrs = kAttrs, .infer = infer, .emit = emit, .gradient = vjp, .flops = no_flops};

}  // namespace graft::ops::expand
