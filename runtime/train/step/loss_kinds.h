// What each kind of loss is, in ops. Internal to runtime/train.
#pragma once

#include <optional>
#include <vector>

#include "runtime/train/step/loss.h"

namespace graft::train {

/// One term while it is built.
struct TermBuilder {
  Builder& b;
  const LossOptions& options;
  std::vector<ValueId> of;  ///< predictions, in the source's order of axes
  std::int64_t samples = 0;
  std::size_t number = 0;         ///< of the term
  LossNodes& loss;                ///< gets targets, counts, classes
  ValueId prediction = kNoValue;  ///< in place of the first of `of`, where it is set
  /// Constants and inputs of its own.
  Result<ValueId> constant(std::string_view name, Shape shape, std::vector<float> contents);
  Result<ValueId> target(DType dtype, Shape shape);
};

/// The head of a language model: logits [batch, .., classes] = hidden W^T with a weight W [classes, d] of its own,
/// capped where softcap is not 0: softcap tanh(hidden W^T / softcap).
struct Head {
  ValueId hidden;
  ValueId weight;
  double softcap = 0;
  ValueId rows = kNoValue;     ///< [k, d]: what W goes on in, whatever it has there
  std::int64_t first_row = 0;  ///< of `rows`, among all

  std::int64_t classes(const Graph& graph) const;
};
/// Whether logits come of such a product.
std::optional<Head> head_of_logits(const Graph& graph, ValueId logits);
/// linear_cross_entropy of it.
ValueId head_costs(Builder& b, const Head& head, ValueId labels, Attrs attrs);

/// The losses of preferences.
Result<ValueId> add_preference(TermBuilder& t);

/// The loss of each row or element, the batch axis first; counts[number] says what its mean is over.
Result<ValueId> add_term(TermBuilder& t);

}  // namespace graft::train
