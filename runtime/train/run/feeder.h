// From batches of data to the inputs of a program.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/data/ranges.h"
#include "runtime/exec/program.h"
#include "runtime/train/plan/training_plan.h"

namespace graft::train {

/// Why a step whose labels weigh nothing together is refused: all are ignored, or weigh 0.
Status nothing_counts(std::uint64_t step, const LossWeights& weights, std::int64_t ignore_index);

/// Which field of the data goes to which input, and how. Belongs to one program; after create() it allocates nothing
/// but the threads that check and copy many megabytes.
class Feeder {
 public:
  /// The label field goes to the loss; a feature goes to the model's input of its name, or, where there is none, to the
  /// first input that no feature is named after, unless the field's name is exact. `values` is the model's graph, for
  /// its inputs' order of axes. Errors name the field or input that has no counterpart, or whose shape or type does not
  /// fit: a sample's axes are the input's without the batch, in the source's order. Axes of one element do not count,
  /// and either may be flat.
  ///
  /// An input whose batch is not its first axis is recurrent state: each sample has its part, and without a field it
  /// starts as zeros. An input without a batch is one for all samples of a step.
  static Result<Feeder> create(const std::vector<data::Field>& fields, const Graph& model, const SizedPlan& sized);

  /// invalid_argument names the first number among samples [first, first + count) of the batch that an input does not
  /// take: an index of no row or class, NaN, infinity. Costs about what copying them costs.
  Status check(const data::Batch& batch, std::uint64_t first, std::uint64_t count) const;

  /// What the mean of the loss of samples [first, first + count) is over. Errors name a weight that is no number from 0
  /// to 2^20.
  Result<LossWeights> weigh(const data::Batch& batch, std::uint64_t first, std::uint64_t count) const;

  /// The field of the data that a term of the loss takes for targets.
  std::optional<std::size_t> target_field(std::size_t term) const { return terms_[term].labels; }
  const std::vector<data::Field>& fields() const { return fields_; }

  /// Copies samples [first, first + count) of the batch into the program's staging; count is the program's.
  void copy(const data::Batch& batch, std::uint64_t first, Program& program) const;

 private:
  struct Route {
    std::size_t field = 0;
    std::size_t input = 0;                  // of the program
    std::uint64_t elements = 0;             // of one sample
    std::uint64_t bytes = 4;                // of an element
    std::optional<Packed> packed = {};      // which the device unpacks
    bool to_float = false;                  // i32 -> f32
    bool to_integer = false;                // f32 -> i32, where each is one: check() refuses others
    bool to_truth = false;                  // f32 or i32 -> boolean, where each is 0 or 1: check() refuses others
    std::optional<passes::InputRule> rule;  // none: anything goes
    std::vector<std::uint32_t> order;       // element i of the input is element order[i] of the field; empty: the same
    std::uint64_t inner = 0;                // elements behind the batch axis where that is not the first; 0: it is
    bool shared = false;                    // no batch axis: all samples have to say the same
  };
  /// One term of the loss.
  struct Term {
    LossCount count;
    std::optional<std::size_t> labels;  ///< field
  };
  Status add(const data::Field& field, std::size_t index, const PlanPort& port, std::size_t input, const Value* value,
             std::string_view symbol);
  Status add_packed(const data::Field& field, std::size_t index, const passes::PackedShape& given, std::size_t input);
  Status check_halves(const Route& route, const data::Batch& batch, std::uint64_t first, std::uint64_t count) const;

  Status check_shared(const Route& route, const data::Batch& batch, std::uint64_t first, std::uint64_t count) const;
  Status check_truths(const Route& route, const data::Batch& batch, std::uint64_t first, std::uint64_t count) const;
  Status check_integers(const Route& route, const data::Batch& batch, std::uint64_t first, std::uint64_t count) const;

  void copy_elements(const Route& route, const std::byte* from, std::byte* to, data::ElementRange elements) const;

  std::uint64_t samples_ = 0;
  std::vector<Route> routes_;
  std::vector<std::size_t> zeros_;  // inputs that start as zeros
  std::vector<data::Field> fields_;
  std::vector<Term> terms_;
  std::optional<std::size_t> weights_;  ///< field of the samples' weights
};

}  // namespace graft::train
