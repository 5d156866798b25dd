// concat: tensors side by side along one axis.
#include <limits>

#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"

namespace graft::ops::concat {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integer("axis").needed()};

Status infer(InferContext& c) {
  const Shape& first = c.shape(0);
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(c.attrs().integer("axis"), first.rank()));
  Shape out = first;
  Dim total(0);
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    GRAFT_TRY(c.expect_dtype(i, c.dtype(0)));
    GRAFT_TRY(c.expect_rank(i, first.rank()));
    for (std::size_t other = 0; other < first.rank(); ++other) {
      if (other == axis) continue;
      if (const auto size = one_size(out[other], c.shape(i)[other])) {
        out[other] = *size;
        continue;
      }
      return invalid("Its input ", i, " has the shape ", c.shape(i).text(), ", which differs from ", first.text(),
                     " in axis ", other, "; only axis ", axis, " may differ.");
    }
    const auto sum = add(total, c.shape(i)[axis]);
    if (!sum)
      return invalid("The sizes of axis ", axis, " of its inputs add up to more than 2^63, or to a text too long.");
    total = *sum;
    out[axis] = total;
  }
  c.output(c.dtype(0), std::move(out));
  return ok_status();
}

Status emit(Emitter& e) {
  GRAFT_TRY(expect_words(e.in_dtype(0)));
  const Shape& out = e.out_shape();
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(e.attrs().integer("axis"), out.rank()));
  const auto outer = static_cast<std::int64_t>(out.elements(0, axis));
  const auto pitch = static_cast<std::int64_t>(out.elements(axis, out.rank()));
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < e.inputs(); ++i) {
    const auto run = static_cast<std::int64_t>(e.in_shape(i).elements(axis, out.rank()));
    GRAFT_TRY(emit_strided_copy(e, e.in(i), e.out(), {{outer, run}, {run, 1}, {pitch, 1}, 0, offset}));
    offset += run;
  }
  return ok_status();
}

Status vjp(VjpContext& c) {
  constexpr std::int64_t kToEnd = std::numeric_limits<std::int32_t>::max();
  const std::size_t rank = c.out_shape().rank();
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(c.attrs().integer("axis"), rank));
  if (c.inputs() == 1) {
    c.grad(0, c.dy());
    return ok_status();
  }
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const std::int64_t size = c.in_shape(i)[axis].value();
    if (c.needs(i)) {
      Ints starts(rank, 0);
      Ints ends(rank, kToEnd);
      starts[axis] = offset;
      ends[axis] = offset + size;
      c.grad(i, c.b.node(Op::slice, {c.dy()}, {{"starts", starts}, {"ends", ends}, {"steps", Ints(rank, 1)}}));
    }
    offset += size;
  }
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }

}  // namespace

extern const OpDef op_concat;
const OpDef op_concat = {.name = "concat",
                         .attrs = kAttrs,
                         .max_inputs = 255,
                         .infer = infer,
                         .emit = emit,
                         .gradient = vjp,
                         .flops = no_flops};

}  // namespace graft::ops::concat
