// The terms of a loss: their names, their targets, and what each is the mean of.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"
#include "runtime/data/loader.h"
#include "runtime/train/step/options.h"
#include "shaders/common/step_state.h"

namespace graft::train {

/// The losses that there are, for sentences: "ce, mse, ...".
std::string loss_names();

/// Errors name the option, its value and its limits.
Status check_losses(const TrainOptions& options);

/// How many outputs a loss is taken of.
std::size_t outputs_of(Loss loss);
/// Whether it compares its outputs with targets.
bool has_target(Loss loss);
/// Whether it compares the samples of a batch with each other, so that micro-batches would change it.
bool needs_whole_batch(const TrainOptions& options);

/// Tells each term which field of the data its targets are, by name or in order, and of which shape they are. Names of
/// terms that are no outputs of the model are taken for fields. A field of weights weighs the samples. `fields` may be
/// empty: nothing is known of them.
Status set_targets(const Graph& model, const std::vector<data::Field>& fields, TrainOptions& options);

/// Whether the targets have the output's shape (without the batch), rather than one of labels.
bool is_dense(const LossOptions& term, const Shape& output);

/// The class axis of an output of this shape, with its batch: as the term says, or the one that the targets' shape
/// lacks, else `usual`. Errors name the output and both shapes; `note` (may be null) says which of several was taken.
Result<std::size_t> class_axis_of(const LossOptions& term, std::string_view output, const Shape& shape,
                                  std::int64_t usual, std::string* note);

/// Of samples of preferences: what a reference model says of their two texts (loss_preference.cpp).
inline constexpr std::string_view kReferenceField = "reference";

/// Over what a term is the mean: rows or elements of a sample, those of ignored labels aside, each by its weight.
struct LossCount {
  double per_sample = 1;
  bool by_label = false;              ///< rows are labels that may be ignored, or have a class weight
  std::int32_t ignore_index = -100;   ///< of labels
  std::vector<double> class_weights;  ///< of labels; empty: 1
};

/// What a batch counts, summed exactly in whatever order. Weights are in units of 2^-30.
struct LossWeights {
  std::uint64_t samples = 0;
  std::uint64_t rows = 0;  ///< of the first term, without weights: what right answers are counted among
  std::array<std::uint64_t, kMaxLossTerms> terms = {};

  void add(const LossWeights& other);
  bool is_nothing() const;
  /// What the mean of the whole loss is over: the first term's weight, or with several terms the samples.
  double total(std::size_t term_count) const;
  /// For kernels: what the terms of the batch are divided by.
  void to_step_state(std::size_t term_count, StepState& state) const;
};
inline constexpr double kLossWeightUnit = 0x1p-30;

}  // namespace graft::train
