// All that a model's kernels are taken from: its plans for inference, for decoding and for a training step.
#pragma once

#include <string>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/plan/plan.h"
#include "tools/common/status.h"

namespace graft::cli {

struct NamedPlan {
  std::string name;
  Plan plan;
};

struct ModelUse {
  Bindings bindings = {};  ///< but the batch's
  std::int64_t batch = 1;
  DType precision = DType::f32;
  std::string lora = {};  ///< what a language model's training step trains
};
/// "inference", "decode" where it is a language model, and "training step" where it can be trained on labels; where it
/// cannot, the sentence that says why goes to `untrained`.
Result<std::vector<NamedPlan>> plans_of_model(const Model& model, const ModelUse& use, const gpu::Target& target,
                                              std::string& untrained);

}  // namespace graft::cli
