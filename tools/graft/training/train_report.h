// What a run shows of its steps and evaluations, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "graft/steps.h"
#include "tools/graft/report/tensorboard.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {

/// "loss 0.1234, accuracy 91.00%"
std::string metrics_text(const graft_totals& totals);
nlohmann::ordered_json metrics_json(const char* kind, const graft_totals& totals);
TensorBoard::Scalars scalars_of(const graft_step_info& step, const graft_totals& totals);
/// All that is trained, as it is now.
Status each_parameter(graft_context* context, graft_trainer* trainer, const TensorBoard::Add& add);
Result<graft_totals> totals_of(graft_context* context, const graft_evaluation* evaluation);

}  // namespace graft::cli
