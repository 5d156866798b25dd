#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

#include "runtime/ops/movement.h"
#include "shaders/common/step_state.h"
#include "shaders/fill/step_scalar_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::fill {
namespace {

constexpr AttrSpec kFull[] = {attr::shape("shape").needed(), attr::number("value").needed(), attr::integer("dtype")};
constexpr AttrSpec kStepScalar[] = {attr::text("field").needed(), attr::integer("index")};

Status infer_full(InferContext& c) {
  const std::int64_t dtype = c.attrs().integer("dtype");
  const double value = c.attrs().number("value");
  if (dtype < 0 || dtype > static_cast<std::int64_t>(DType::boolean)) {
    return invalid("The attribute \"dtype\" is ", dtype,
                   "; tensors of f32 (0), i32 (1) and boolean (2) can be filled.");
  }
  const DType type = static_cast<DType>(dtype);
  if (type == DType::i32 && !(value == std::trunc(value) && value >= -2147483648.0 && value <= 2147483647.0)) {
    return invalid("The attribute \"value\" is ", value, ", which is no 32-bit integer.");
  }
  if (type == DType::boolean && value != 0 && value != 1) {
    return invalid("The attribute \"value\" is ", value, "; a truth value is 0 or 1.");
  }
  c.output(type, c.attrs().shape("shape"));
  return ok_status();
}

Status emit_full(Emitter& e) {
  const double value = e.attrs().number("value");
  const std::uint32_t word = e.out_dtype() == DType::f32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                                         : static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
  return emit_fill(e, e.out(), e.out_shape().elements(), word);
}

struct Field {
  std::string_view name;
  std::size_t offset;      // bytes into the step state
  std::int64_t count = 1;  // of an array
};
constexpr std::array kFields = {
    Field{"loss_weight", offsetof(StepState, loss_weight)},
    Field{"loss_scale", offsetof(StepState, loss_scale)},
    Field{"inverse_loss_scale", offsetof(StepState, inverse_loss_scale)},
    Field{"clip_norm", offsetof(StepState, clip_norm)},
    Field{"learning_rate", offsetof(StepState, learning_rate), 16},
    Field{"bias_correction1", offsetof(StepState, bias_correction1), 16},
    Field{"bias_correction2", offsetof(StepState, bias_correction2), 16},
    Field{"term_weight", offsetof(StepState, term_weight), 16},
};

const Field* find_field(const Attrs& attrs) {
  const std::string name = attrs.text("field");
  for (const Field& field : kFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

Status infer_step_scalar(InferContext& c) {
  const Field* const field = find_field(c.attrs());
  if (field == nullptr) {
    return invalid("The attribute \"field\" is \"", c.attrs().text("field"),
                   "\"; loss_weight, loss_scale, inverse_loss_scale, clip_norm, learning_rate, bias_correction1, "
                   "bias_correction2 and term_weight are known.");
  }
  const std::int64_t index = c.attrs().integer("index");
  if (index < 0 || index >= field->count) {
    return invalid("The attribute \"index\" is ", index, "; \"", field->name, "\" has ", field->count,
                   field->count == 1 ? " number." : " numbers.");
  }
  c.output(DType::f32, Shape());
  return ok_status();
}

Status emit_step_scalar(Emitter& e) {
  const push::StepScalarPush push = {
      .word = static_cast<std::uint32_t>(find_field(e.attrs())->offset / 4 + e.attrs().integer("index"))};
  e.dispatch(shaders::KernelId::step_scalar__f32, {}, {e.step_state(), e.out()}, push, {1, 1, 1});
  return ok_status();
}

}  // namespace

/// full(; shape, value, dtype) -> a tensor of one value.
extern const OpDef op_full;
const OpDef op_full = {.name = "full",
                       .attrs = kFull,
                       .min_inputs = 0,
                       .max_inputs = 0,
                       .infer = infer_full,
                       .emit = emit_full,
                       .gradient = NoGrad{"it has no inputs"}};

/// step_scalar(; field, index) -> one number of the step state.
extern const OpDef op_step_scalar;
const OpDef op_step_scalar = {.name = "step_scalar",
                              .attrs = kStepScalar,
                              .min_inputs = 0,
                              .max_inputs = 0,
                              .infer = infer_step_scalar,
                              .emit = emit_step_scalar,
                              .gradient = NoGrad{"it has no inputs"},
                              .uses_step_state = true};

}  // namespace graft::ops::fill
