// random_uniform and random_normal: numbers that the step state and a stream determine.
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "runtime/ops/elementwise.h"
#include "shaders/kernels.gen.h"
#include "shaders/random/random_push.h"

namespace graft::ops::random {
namespace {

constexpr AttrSpec kAttrs[] = {attr::shape("shape").needed(), attr::integer("stream").within(0, UINT32_MAX),
                               attr::number("offset").finite(), attr::number("factor", 1).finite()};

Status infer(InferContext& c) {
  c.output(DType::f32, c.attrs().shape("shape"));
  return ok_status();
}

Status emit(Emitter& e) {
  const std::uint64_t count = e.out_shape().elements();
  GRAFT_TRY(count32(count, "output"));
  const push::RandomPush push = {.count = 0,
                                 .first = 0,
                                 .stream = static_cast<std::uint32_t>(e.attrs().integer("stream")),
                                 .offset = static_cast<float>(e.attrs().number("offset")),
                                 .factor = static_cast<float>(e.attrs().number("factor"))};
  const std::uint32_t normal = e.node().op == Op::random_normal ? 1 : 0;
  emit_flat(e, shaders::KernelId::random__f32, {normal}, {e.step_state(), e.out()}, push, count, 0b01);
  return ok_status();
}

constexpr OpDef random(std::string_view name) {
  return {.name = name,
          .attrs = kAttrs,
          .min_inputs = 0,
          .max_inputs = 0,
          .infer = infer,
          .emit = emit,
          .gradient = NoGrad{"it has no inputs"},
          .uses_step_state = true};
}

}  // namespace

/// random_uniform, random_normal(; shape, stream, offset, factor) -> offset + factor * numbers that are uniform in [0,
/// 1) or normal.
extern const OpDef op_random_uniform, op_random_normal;
constexpr OpDef op_random_uniform = random("random_uniform");
constexpr OpDef op_random_normal = random("random_normal");

}  // namespace graft::ops::random
