// What a model says of the data that it is for: its inputs, and the classes that its outputs stand for.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/data/spec.h"
#include "runtime/model/model.h"

namespace graft {

/// The names of classes that the model was trained on; empty where it does not say.
std::vector<std::string> classes_of(const Model& model);
/// Keeps them in the model; null: nothing changes.
void keep_classes(const std::vector<std::string>* classes, Model& model);

/// For a data set that the model is evaluated on: `augment` is false, the classes are the model's.
data::Hints hints_of(const Model& model);
/// For one that it is trained on: classes may be new.
data::Hints training_hints_of(const Model& model);

/// Whether samples hold several texts, none of which is to see another (with_packed_sequences).
bool has_packed_sequences(const data::Source& source);

/// Binds what the model's inputs leave open (lengths, heights, widths) to the samples' sizes, where it is not bound
/// yet.
void bind_length(const data::Source& source, const Model& model, Bindings& bindings);

}  // namespace graft
