// How deltas are coded, and what a federated server does with their average: shared by graft delta and graft simulate.
#pragma once

#include <string>

#include "graft/delta.h"
#include "tools/common/command.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {

struct ServerFlags {
  std::string kind = "fedavg";
  double rate = 1;
  double beta1 = 0;
  double beta2 = 0.99;
  double tau = 1e-3;
};

void add_server_flags(CLI::App& app, ServerFlags& flags);
/// Throws CLI::ValidationError where a flag has no effect.
void refuse_idle_server_flags(const CLI::App& app, const ServerFlags& flags);
/// One without moments yet. invalid_argument: there is no such step.
Result<Owned<graft_server>> open_server(graft_context* context, const ServerFlags& flags);

/// f32, bf16, int8 or fixed.
Result<graft_delta_coding> coding_of(const std::string& name);
const char* coding_name(graft_delta_coding coding);

}  // namespace graft::cli
