// Steps of optimizers that are made of several ops. Internal to runtime/train.
#pragma once

#include "runtime/core/build.h"
#include "runtime/train/step/optimizer.h"

namespace graft::train {

/// One parameter on its way.
struct ComposedStep {
  Builder& b;
  const OptimizerOptions& options;
  const Update& update;
  std::vector<ValueId> state;  ///< as optimizer_state() has it, without what is not the optimizer's
  ValueId factor;              ///< of the gradients, or the control of loss scaling; may be kNoValue
  Attrs attrs;                 ///< group, rate_scale and weight_decay
};

Status add_lamb(ComposedStep& s);
Status add_muon(ComposedStep& s);
Status add_adafactor(ComposedStep& s);

/// Whether muon takes this parameter, rather than adamw.
bool is_orthogonal(const OptimizerOptions& options, std::string_view parameter, const Shape& shape);
/// State of adafactor's second moments, of the parameter in the source's order of axes.
std::vector<std::pair<std::string_view, Shape>> adafactor_state(const Shape& source);

}  // namespace graft::train
