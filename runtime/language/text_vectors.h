// Training of vectors of texts: a sample is a group of texts, and the loss takes one vector of each.
#pragma once

#include <optional>

#include "runtime/data/source.h"
#include "runtime/language/text_inputs.h"
#include "runtime/model/model.h"

namespace graft {

/// What a sample holds: a query, the text that it belongs to, and others.
struct TextGroups {
  std::int64_t texts = 2;
  std::int64_t length = 0;  ///< tokens of a text
  Pooling pooling = Pooling::mean;

  /// The field f32 [texts, length] of the weights that tokens are pooled by; those of a text that is missing are zeros.
  std::string field() const;
};
/// nullopt: these are fields of other samples.
std::optional<TextGroups> text_groups_of(const std::vector<data::Field>& fields);

/// The model with inputs of groups, each [batch, texts, seq], and vectors of them for outputs: "query" [batch, width],
/// and "keys" [batch, texts - 1, width], the first of which is the query's own (Loss::info_nce). Borrows the weights of
/// `base`, which must outlive it; parameters keep their names.
/// unsupported: a model that sees padding, or one that text_inputs_of() or hidden_state_of() does not know.
Result<Model> with_text_vectors(const Model& base, const TextGroups& groups);

/// The model as it takes samples of this source: with packed sequences kept apart, or with vectors of texts. nullopt:
/// as it is.
Result<std::optional<Model>> model_for(const data::Source& source, const Model& model);

/// Keeps in `model` how its vectors were trained, where the samples say.
void keep_pooling(const std::vector<data::Field>& fields, Model& model);

}  // namespace graft
