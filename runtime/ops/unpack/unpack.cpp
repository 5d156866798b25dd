// fused_unpack: an input that is given in fewer than 32 bits, as f32 numbers; made where a session asks for such
// inputs.
#include <array>
#include <string>

#include "runtime/core/node_check.h"
#include "runtime/ops/elementwise.h"
#include "shaders/kernels.gen.h"
#include "shaders/unpack/unpack_push.h"

namespace graft::ops::unpack {
namespace {

constexpr AttrSpec kAttrs[] = {attr::shape("shape").needed(), attr::integer("kind").needed(), attr::integer("axis"),
                               attr::integer("channels"),     attr::number("scale0", 1),      attr::number("scale1", 1),
                               attr::number("scale2", 1),     attr::number("scale3", 1),      attr::number("offset0"),
                               attr::number("offset1"),       attr::number("offset2"),        attr::number("offset3")};

Status infer(InferContext& c) {
  const Shape shape = c.attrs().shape("shape");
  GRAFT_TRY(check_shape(shape).with_context("In the attribute \"shape\""));
  const std::int64_t kind = c.attrs().integer("kind"), channels = c.attrs().integer("channels");
  const std::int64_t axis = c.attrs().integer("axis");
  if (kind < 0 || kind > 3) return invalid("There is no kind ", kind, " of packed elements.");
  if (c.dtype(0) != DType::i32) return invalid("Its words are ", dtype_name(c.dtype(0)), " instead of i32.");
  const std::uint64_t per_word = kind < 2 ? 4 : 2, words = (shape.elements() + per_word - 1) / per_word;
  if (c.shape(0) != Shape{static_cast<std::int64_t>(words)}) {
    return invalid("Its words have the shape ", c.shape(0).text(), " instead of [", words, "].");
  }
  if (channels < 0 || channels > 4) return invalid("It has ", channels, " channels; at most 4 are scaled.");
  if (channels > 1 && (axis < 0 || axis >= static_cast<std::int64_t>(shape.rank()) ||
                       shape[static_cast<std::size_t>(axis)] != Dim(channels))) {
    return invalid("Axis ", axis, " of ", shape.text(), " does not have ", channels, " channels.");
  }
  c.output(DType::f32, shape);
  return ok_status();
}

Status emit(Emitter& e) {
  const auto dims = e.out_shape().values();
  const std::uint64_t count = e.out_shape().elements();
  GRAFT_TRY(count32(count, "output"));
  const auto channels = static_cast<std::uint32_t>(e.attrs().integer("channels"));
  push::UnpackPush push{};
  push.inner = 1;
  for (std::size_t i = dims.size(); channels > 1 && i-- > static_cast<std::size_t>(e.attrs().integer("axis")) + 1;) {
    push.inner *= static_cast<std::uint32_t>(dims[i]);
  }
  push.channels = std::max(channels, 1u);
  for (std::uint32_t c = 0; c < channels; ++c) {
    push.scale[c] = static_cast<float>(e.attrs().number(cat("scale", c)));
    push.offset[c] = static_cast<float>(e.attrs().number(cat("offset", c)));
  }
  emit_flat(e, shaders::KernelId::fused_unpack__w32,
            {static_cast<std::uint32_t>(e.attrs().integer("kind")), channels != 0 ? 1u : 0u}, {e.in(0), e.out()}, push,
            count, 0b1);
  return ok_status();
}

}  // namespace

/// fused_unpack(words i32[n]; shape, kind, channels, axis, scale0.., offset0..) -> f32 of that shape. kind: 0 u8, 1 i8,
/// 2 f16, 3 bf16, the first in a word's lowest bits. channels: 0, as they are; 1, all alike; more, the size of `axis`.
extern const OpDef op_fused_unpack;
const OpDef op_fused_unpack = {.name = "fused_unpack", .attrs = kAttrs, .infer = infer, .emit = emit};

}  // namespace graft::ops::unpack
