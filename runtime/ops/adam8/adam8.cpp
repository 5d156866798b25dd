// adam8_step(param, grad, m codes, m scales, v codes, v scales, factor?): adam_step with its moments in 8 bits
// (shaders/adam8/codes.h). Codes are packed four to an i32, the scale of each block of 256 elements is an f32.
#include <algorithm>

#include "platform/base/checked.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/optimizer_attrs.h"
#include "shaders/adam8/codes.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::adam8 {
namespace {

Status expect_vector(InferContext& c, std::size_t i, DType dtype, std::uint64_t elements) {
  GRAFT_TRY(c.expect_dtype(i, dtype));
  return c.expect_shape(i, Shape::of({static_cast<std::int64_t>(elements)}));
}

Status infer(InferContext& c) {
  GRAFT_TRY(infer_adam_common(c, 6));
  if (!c.shape(0).is_constant()) return invalid("The parameter's shape ", c.shape(0).text(), " holds symbols.");
  GRAFT_TRY_ASSIGN(const Dim count, c.shape(0).element_count());
  const auto n = static_cast<std::uint64_t>(count.value());
  for (const std::size_t i : {2, 4}) {
    GRAFT_TRY(expect_vector(c, i, DType::i32, ceil_div<std::uint64_t>(n, 4)));
    GRAFT_TRY(expect_vector(c, i + 1, DType::f32, ceil_div<std::uint64_t>(n, codes::kCodeBlock)));
  }
  return ok_status();
}

/// The part of a binding that belongs to elements [first, first + count), `per` of which share a word.
Binding part(const Binding& whole, std::uint64_t first, std::uint64_t count, std::uint64_t per) {
  return part_of(whole, first / per, ceil_div(count, per));
}

Status emit(Emitter& e) {
  push::AdamStepPush push = adam_push(e, 6);
  const std::uint64_t elements = e.in_shape(0).elements();
  GRAFT_TRY(count32(elements, "parameter"));
  // So that the scales' offset is a multiple of any alignment.
  constexpr std::uint64_t kGrain = codes::kCodeBlock * 64;
  const std::uint64_t step = std::max(binding_words(e.caps()) / kGrain * kGrain, kGrain);
  for (std::uint64_t first = 0; first < elements; first += step) {
    const std::uint64_t count = std::min(step, elements - first);
    push.count = static_cast<std::uint32_t>(count);
    const bool whole = count == elements;
    const auto bound = [&](const Binding& b, std::uint64_t per) { return whole ? b : part(b, first, count, per); };
    e.dispatch(shaders::KernelId::adam8_step__f32, {},
               {bound(e.update(0), 1), bound(e.in(1), 1), bound(e.update(2), 4), bound(e.update(3), codes::kCodeBlock),
                bound(e.update(4), 4), bound(e.update(5), codes::kCodeBlock), e.has(6) ? e.in(6) : e.step_state(),
                e.step_state()},
               push, e.spread(ceil_div(count, codes::kCodeBlock)));
  }
  return ok_status();
}

std::uint64_t flops(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.inputs[0]).shape;
  return shape.is_constant() ? 30 * shape.elements() : 0;
}

}  // namespace

extern const OpDef op_adam8_step;
const OpDef op_adam8_step = {.name = "adam8_step",
                             .attrs = kAdamAttrs,
                             .min_inputs = 6,
                             .max_inputs = 7,
                             .infer = infer,
                             .emit = emit,
                             .gradient = NoGrad{"it updates state in place"},
                             .flops = flops,
                             .mutates = 0b111101,
                             .uses_step_state = true};

}  // namespace graft::ops::adam8
