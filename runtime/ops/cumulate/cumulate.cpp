// cumsum and cumprod: running sums and products along an axis.
#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"
#include "shaders/cumulate/cumulate_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::cumulate {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integer("axis"), attr::integer("exclusive"), attr::integer("reverse")};
constexpr std::uint64_t kWorkgroup = 128;  // local_size_x of the kernel
// Lines this short, or this many, keep a device busy with an invocation each.
constexpr std::uint64_t kShortLine = 32, kManyLines = 8192;

Status infer(InferContext& c) {
  if (c.dtype(0) != DType::f32 && c.dtype(0) != DType::i32) {
    return invalid("Its input is of type ", dtype_name(c.dtype(0)), "; f32 or i32 is needed.");
  }
  GRAFT_TRY(normalize_axis(c.attrs().integer("axis"), c.shape(0).rank()).status());
  c.output(c.dtype(0), c.shape(0));
  return ok_status();
}

Status emit(Emitter& e) {
  const Shape& shape = e.in_shape(0);
  if (shape.elements() == 0) return ok_status();
  GRAFT_TRY(count32(shape.elements(), "input"));
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(e.attrs().integer("axis"), shape.rank()));
  const std::uint64_t inner = shape.elements(axis + 1, shape.rank());
  const std::uint64_t size = shape.elements(axis, axis + 1);
  const std::uint64_t lines = shape.elements(0, axis) * inner;
  const push::CumulatePush push{.lines = static_cast<std::uint32_t>(lines),
                                .size = static_cast<std::uint32_t>(size),
                                .inner = static_cast<std::uint32_t>(inner)};
  const bool serial = size <= kShortLine || lines >= kManyLines;
  const auto flag = [](bool on) -> std::uint32_t { return on ? 1 : 0; };
  const bool floats = e.in_dtype(0) == DType::f32;
  e.dispatch(floats ? shaders::KernelId::cumulate__f32 : shaders::KernelId::cumulate__i32,
             {flag(e.node().op == Op::cumprod), flag(e.attrs().flag("exclusive")), flag(e.attrs().flag("reverse")),
              flag(serial)},
             {e.in(0), e.out()}, push, e.spread(serial ? ceil_div(lines, kWorkgroup) : lines));
  return ok_status();
}

Status vjp_sum(VjpContext& c) {
  Attrs attrs = c.attrs();
  attrs.set("reverse", std::int64_t{!c.attrs().flag("reverse")});
  c.grad(0, c.b.node(Op::cumsum, {c.dy()}, std::move(attrs)));
  return ok_status();
}

constexpr OpDef cumulate(std::string_view name, Gradient gradient) {
  return {.name = name, .attrs = kAttrs, .infer = infer, .emit = emit, .gradient = gradient};
}

}  // namespace

/// cumsum, cumprod(x; axis, exclusive, reverse): exclusive leaves out the element itself, reverse begins at the end.
extern const OpDef op_cumsum, op_cumprod;
constexpr OpDef op_cumsum = cumulate("cumsum", vjp_sum);
constexpr OpDef op_cumprod = cumulate("cumprod", NoGrad{"the gradient of running products is not implemented"});

}  // namespace graft::ops::cumulate
