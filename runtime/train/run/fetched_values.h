// Values of the forward pass that were asked for, read after each step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exec/program.h"
#include "runtime/train/plan/replan.h"

namespace graft::train {

/// A value of the last step, of all its samples (of its last micro-batch alone where it has no batch axis).
struct FetchedValue {
  DType dtype{};
  Shape shape;                       ///< in the source's order of axes
  std::span<const std::byte> bytes;  ///< until the next step
};

/// Has memory for all of them from the beginning, so that a step allocates none.
class FetchedValues {
 public:
  FetchedValues() = default;
  static Result<FetchedValues> create(const TrainingSetup& setup, const TrainingPlan& plan);

  /// Keeps what the program computed of samples [first, first + samples) of the step's batch.
  void keep(const Program& program, std::uint64_t first, std::uint64_t samples);
  Result<FetchedValue> find(std::string_view name) const;
  bool empty() const { return values_.empty(); }

 private:
  struct Value {
    std::string name;
    DType dtype{};
    Shape shape;             ///< of one micro-batch
    bool by_sample = false;  ///< its first axis is the batch
    HostBuffer contents;     ///< of the largest batch
  };

  std::vector<Value> values_;
  std::uint64_t samples_ = 0;  ///< of the last step
};

}  // namespace graft::train
