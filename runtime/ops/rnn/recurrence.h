// What the recurrent ops share: shapes, the memory of a state, and how one time step is dispatched.
//
// An op is one node whatever the number of steps: each step is a product of the state with R (a kernel of matmul) and a
// kernel that does the cell. The state stands in scratch memory and is f32 however tensors are kept. A step is short,
// so submissions may be cut between any two.
//
// A row whose sequence has ended rests: its state passes by, its results and the gradients of its gates are zero. In
// reverse it rests until its last step is reached.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/core/vjp.h"
#include "runtime/ops/emitter.h"
#include "runtime/ops/rnn/cell.h"
#include "shaders/kernels.gen.h"
#include "shaders/rnn/rnn_step_push.h"

namespace graft::ops::rnn {

/// More steps than any network of this kind is trained on; each is a few dispatches of the plan.
inline constexpr std::int64_t kMaxSteps = 1 << 16;

/// gates [steps, rows, n * hidden] at input 0, R [n * hidden, hidden] at 1, both f32. Gives {steps, rows, hidden}.
Result<Shape> check_gates(InferContext& c, std::int64_t n);
/// f32 of this shape, or left out.
Status check_optional(InferContext& c, std::size_t i, const Shape& shape);
/// i32 [rows], or left out.
Status check_lengths(InferContext& c, std::size_t i, const Dim& rows);

/// Flags of RnnStepPush.
inline constexpr std::uint32_t kHasProduct = 1, kHasDy = 2, kHasPeepholes = 4, kFinish = 8, kHasBias = 16,
                               kIsFirst = 32, kSecondPhase = 64;

/// A kernel's variants for single numbers and for vectors of four.
struct StepKernel {
  shaders::KernelId single;
  shaders::KernelId quads;
};

/// A tensor that a step works on: bound is the part of its steps that a binding can hold.
struct StepTensor {
  Binding whole;
  bool by_steps = true;  ///< else it is bound as it is
  std::uint64_t gates = 1;
  std::optional<std::uint64_t> time = {};  ///< another step than the one at hand
};

class Recurrence {
 public:
  /// `y`: any tensor [steps, rows, hidden] of the node; `gates`: of the cell. `places`: how many [rows, hidden] the
  /// state has beside the products, and `products` how many those.
  static Result<Recurrence> make(Emitter& e, const Shape& y, std::uint64_t gates, const Cell& cell,
                                 std::uint64_t places, std::uint64_t products);

  std::uint64_t steps() const { return steps_; }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t hidden() const { return hidden_; }
  std::uint64_t row_words() const { return rows_ * hidden_; }
  bool empty() const { return row_words() == 0; }
  /// The place in time of the k-th step.
  std::uint64_t time(std::uint64_t k) const { return reverse_ ? steps_ - 1 - k : k; }

  /// Zeros everywhere in the state, and what is given in its places.
  Status load(const std::vector<std::pair<std::uint64_t, std::optional<Binding>>>& places);
  Status store(std::uint64_t place, const Binding& to);
  /// The whole of it, for step kernels.
  Binding state() const;
  /// What stands for an operand that is left out.
  Binding nothing() const { return {slot_, Access::read}; }

  /// products = a place of the state [rows, k] times r: [n, k] (transposed) or [k, n].
  Status multiply(std::uint64_t place, const Binding& r, std::uint64_t k, std::uint64_t n, bool transposed);
  /// Words [first, first + words) of R, which may have to be copied so that they can be bound.
  Result<Binding> part_of_r(const Binding& r, std::uint64_t first, std::uint64_t words);

  /// The kernel for the step at place `time`. Binding 0 is the state.
  void step(StepKernel kernel, std::uint64_t time, std::uint32_t flags, std::uint32_t option, bool has_lengths,
            const std::vector<StepTensor>& tensors);

  /// before = y one step earlier (later in reverse), and what was before the first one.
  Status emit_before(const Binding& y, const std::optional<Binding>& first, const std::optional<Binding>& lengths,
                     const Binding& before);

 private:
  Recurrence(Emitter& e, const Cell& cell) : e_(&e), cell_(cell), reverse_(cell.reverse) {}
  std::uint64_t part_start(std::uint64_t time) const { return time / per_part_ * per_part_; }

  Emitter* e_;
  Cell cell_;
  bool reverse_;
  std::uint64_t steps_ = 0, rows_ = 0, hidden_ = 0, gates_ = 0;
  std::uint64_t per_part_ = 1;
  std::uint64_t place_words_ = 0;  ///< from one place of the state to the next
  std::uint64_t products_at_ = 0;  ///< words
  std::uint64_t products_ = 0;
  Slot slot_ = {};
};

inline std::optional<Binding> optional_in(const Emitter& e, std::size_t i) {
  return e.has(i) ? std::optional(e.in(i)) : std::nullopt;
}
/// Any binding in its place: the kernel is told.
inline Binding in_or(const Emitter& e, std::size_t i, const Binding& other) { return e.has(i) ? e.in(i) : other; }

/// Of one direction: products with R, and so many operations per hidden element besides.
std::uint64_t recurrence_flops(const Shape& y, std::uint64_t gates, std::uint64_t per_element);

/// The sum over all steps of left^T right: of [steps, rows, m] and [steps, rows, n].
ValueId sum_of_products(VjpContext& c, ValueId left, ValueId right);
/// Elements [first, first + count) of the last axis.
ValueId last_axis_part(VjpContext& c, ValueId v, std::int64_t first, std::int64_t count);

}  // namespace graft::ops::rnn
