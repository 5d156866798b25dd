#include "runtime/ops/rnn/recurrence.h"

#include <algorithm>
#include <limits>

#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/parts.h"
#include "runtime/ops/product.h"
#include "shaders/rnn/rnn_begin_push.h"

namespace graft::ops::rnn {
namespace {

constexpr std::uint64_t kThreads = 64;
constexpr std::uint64_t kAlignedWords = 64;  // at whose multiples every device of Vulkan 1.1 can bind, also in 16 bits

}  // namespace

Result<Shape> check_gates(InferContext& c, std::int64_t n) {
  for (const std::size_t i : {0, 1}) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_rank(0, 3));
  GRAFT_TRY(c.expect_rank(1, 2));
  GRAFT_TRY_ASSIGN(const std::int64_t hidden, c.constant_dim(1, 1));
  if (hidden > std::numeric_limits<std::int32_t>::max() / n) {
    return unsupported("It has ", hidden, " hidden elements, too many for its ", n, " gates.");
  }
  GRAFT_TRY(c.expect_shape(1, {n * hidden, hidden}));
  GRAFT_TRY(c.expect_shape(0, {c.shape(0)[0], c.shape(0)[1], n * hidden}));
  const Dim& steps = c.shape(0)[0];
  if (steps.is_constant() && steps.value() > kMaxSteps) {
    return unsupported("It has ", steps.value(), " time steps; at most ", kMaxSteps, " are supported.");
  }
  return Shape{steps, c.shape(0)[1], hidden};
}

Status check_optional(InferContext& c, std::size_t i, const Shape& shape) {
  if (!c.has(i)) return ok_status();
  GRAFT_TRY(c.expect_dtype(i, DType::f32));
  return c.expect_shape(i, shape);
}

Status check_lengths(InferContext& c, std::size_t i, const Dim& rows) {
  if (!c.has(i)) return ok_status();
  GRAFT_TRY(c.expect_dtype(i, DType::i32));
  return c.expect_shape(i, {rows});
}

Result<Recurrence> Recurrence::make(Emitter& e, const Shape& y, std::uint64_t gates, const Cell& cell,
                                    std::uint64_t places, std::uint64_t products) {
  Recurrence r(e, cell);
  r.steps_ = y.elements(0, 1);
  r.rows_ = y.elements(1, 2);
  r.hidden_ = y.elements(2, 3);
  r.gates_ = gates;
  GRAFT_TRY(count32(y.elements(), "tensor of results"));
  const auto all = checked_mul<std::uint64_t>(y.elements(), gates);
  GRAFT_TRY(count32(all.value_or(std::numeric_limits<std::uint64_t>::max()), "tensor of gates"));
  if (r.empty()) return r;
  GRAFT_TRY_ASSIGN(r.per_part_, items_per_part(e.caps(), r.steps_, {r.row_words() * gates, r.row_words()},
                                               "steps of a recurrent layer"));
  r.per_part_ = std::max<std::uint64_t>(r.per_part_, 1);
  r.place_words_ = align_up(r.row_words(), kAlignedWords);
  r.products_at_ = places * r.place_words_;
  r.products_ = products * r.row_words();
  const std::uint64_t words = r.products_at_ + r.products_;
  if (words > binding_words(e.caps())) {
    return unsupported("The state of a recurrent layer of ", r.rows_, " rows by ", r.hidden_, " elements takes ",
                       4 * words, " bytes; at most ", 4 * binding_words(e.caps()), " fit one binding.");
  }
  r.slot_ = e.scratch(4 * words);
  return r;
}

Binding Recurrence::state() const { return {slot_, Access::read_write}; }

Status Recurrence::load(const std::vector<std::pair<std::uint64_t, std::optional<Binding>>>& places) {
  // All of it: kernels bind the whole, also before there is a product.
  GRAFT_TRY(emit_fill(*e_, {slot_, Access::write}, products_at_ + products_, 0));
  for (const auto& [place, from] : places) {
    if (!from) continue;
    StridedCopy copy{{static_cast<std::int64_t>(row_words())}, {1}, {1}};
    copy.to_offset = static_cast<std::int64_t>(place * place_words_);
    GRAFT_TRY(emit_strided_copy(*e_, *from, {slot_, Access::write}, copy));
  }
  return ok_status();
}

Status Recurrence::store(std::uint64_t place, const Binding& to) {
  StridedCopy copy{{static_cast<std::int64_t>(row_words())}, {1}, {1}};
  copy.from_offset = static_cast<std::int64_t>(place * place_words_);
  return emit_strided_copy(*e_, {slot_, Access::read}, to, copy);
}

Status Recurrence::multiply(std::uint64_t place, const Binding& r, std::uint64_t k, std::uint64_t n, bool transposed) {
  Product product{.m = rows_, .n = n, .k = k, .trans_b = transposed, .whole = true};
  GemmOperands operands{.a = part_of({slot_, Access::read}, place * place_words_, rows_ * k),
                        .b = r,
                        .out = part_of({slot_, Access::write}, products_at_, rows_ * n)};
  return emit_product(*e_, product, operands);
}

Result<Binding> Recurrence::part_of_r(const Binding& r, std::uint64_t first, std::uint64_t words) {
  // Half of it where R is kept in 16 bits.
  if (2 * first % std::max<std::uint64_t>(e_->caps().storage_buffer_alignment, 4) == 0) return part_of(r, first, words);
  const Slot copied = e_->scratch(4 * words);
  StridedCopy copy{{static_cast<std::int64_t>(words)}, {1}, {1}};
  copy.from_offset = static_cast<std::int64_t>(first);
  GRAFT_TRY(emit_strided_copy(*e_, r, {copied, Access::write}, copy));
  return Binding{copied, Access::read};
}

void Recurrence::step(StepKernel kernel, std::uint64_t time, std::uint32_t flags, std::uint32_t option,
                      bool has_lengths, const std::vector<StepTensor>& tensors) {
  const bool quads = hidden_ % 4 == 0;
  const std::uint64_t unit = quads ? 4 : 1;
  const auto units = [&](std::uint64_t words) { return static_cast<std::uint32_t>(words / unit); };
  push::RnnStepPush p{};
  p.count = units(row_words());
  p.hidden = units(hidden_);
  p.gates_at = units((time - part_start(time)) * gates_ * row_words());
  p.hidden_at = units((time - part_start(time)) * row_words());
  p.place = units(place_words_);
  p.step = static_cast<std::uint32_t>(time);
  p.products = units(products_at_);
  p.flags = flags;
  p.clip = static_cast<float>(cell_.clip > 0 ? cell_.clip : cell_.state_clip);
  std::vector<Binding> bindings = {state()};
  for (const StepTensor& tensor : tensors) {
    const std::uint64_t at = tensor.time.value_or(time);
    if (tensor.time) p.before_at = units((at - part_start(at)) * row_words());
    const std::uint64_t count = std::min(per_part_, steps_ - part_start(at));
    bindings.push_back(tensor.by_steps
                           ? items_of(tensor.whole, part_start(at), count, steps_, tensor.gates * row_words())
                           : tensor.whole);
  }
  for (std::size_t i = 0; i < cell_.activations.size(); ++i) {
    p.alpha[i] = static_cast<float>(cell_.activations[i].alpha);
    p.beta[i] = static_cast<float>(cell_.activations[i].beta);
  }
  const auto kind = [&](std::size_t i) { return static_cast<std::uint32_t>(cell_.activations[i].kind); };
  e_->dispatch(quads ? kernel.quads : kernel.single,
               {kind(0), kind(1), kind(2), cell_.saves_sums, cell_.clip > 0, has_lengths, option}, std::move(bindings),
               p, e_->spread(ceil_div<std::uint64_t>(p.count, kThreads)));
}

Status Recurrence::emit_before(const Binding& y, const std::optional<Binding>& first,
                               const std::optional<Binding>& lengths, const Binding& before) {
  if (empty() || steps_ == 0) return ok_status();
  const auto row = static_cast<std::int64_t>(row_words());
  const auto others = static_cast<std::int64_t>(steps_ - 1) * row;
  const std::int64_t begin = reverse_ ? others : 0;
  StridedCopy shifted{{others}, {1}, {1}};
  (reverse_ ? shifted.from_offset : shifted.to_offset) = row;
  GRAFT_TRY(emit_strided_copy(*e_, y, before, shifted));
  StridedCopy start{{row}, {1}, {1}};
  start.to_offset = begin;
  if (first) {
    GRAFT_TRY(emit_strided_copy(*e_, *first, before, start));
  } else {
    const Slot zero = e_->scratch(4);
    GRAFT_TRY(emit_fill(*e_, {zero, Access::write}, 1, 0));
    start.from_strides = {0};
    GRAFT_TRY(emit_strided_copy(*e_, {zero, Access::read}, before, start));
  }
  if (!reverse_ || !first || !lengths) return ok_status();
  return for_each_part(steps_, per_part_, [&](std::uint64_t at, std::uint64_t count) {
    push::RnnBeginPush p{};
    p.count = static_cast<std::uint32_t>(row_words());
    p.hidden = static_cast<std::uint32_t>(hidden_);
    p.step = static_cast<std::uint32_t>(at);
    p.steps = static_cast<std::uint32_t>(count);
    e_->dispatch(shaders::KernelId::rnn_begin__f32, {},
                 {*first, *lengths, items_of(before, at, count, steps_, row_words())}, p,
                 e_->spread(ceil_div<std::uint64_t>(row_words(), kThreads)));
    return ok_status();
  });
}

std::uint64_t recurrence_flops(const Shape& y, std::uint64_t gates, std::uint64_t per_element) {
  return y.elements() * (2 * gates * y.elements(2, 3) + per_element);
}

ValueId sum_of_products(VjpContext& c, ValueId left, ValueId right) {
  const auto flat = [&](ValueId v) {
    if (!c.b.status().ok()) return v;
    const Shape shape = c.b.shape(v);
    const auto rows = multiply(shape[0], shape[1]);
    if (!rows) c.b.fail(invalid("The steps and rows of ", shape.text(), " are too many to count."));
    return rows ? c.b.reshape(v, Shape{*rows, shape[2]}) : v;
  };
  return c.b.node(Op::matmul, {flat(left), flat(right)}, {{"trans_a", std::int64_t{1}}, {"trans_b", std::int64_t{0}}});
}

ValueId last_axis_part(VjpContext& c, ValueId v, std::int64_t first, std::int64_t count) {
  constexpr std::int64_t kToEnd = std::numeric_limits<std::int32_t>::max();
  return c.b.node(
      Op::slice, {v},
      {{"starts", Ints{0, 0, first}}, {"ends", Ints{kToEnd, kToEnd, first + count}}, {"steps", Ints{1, 1, 1}}});
}

}  // namespace graft::ops::rnn
