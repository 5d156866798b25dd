// What a federated server does with its clients' average: shared by graft delta apply and graft simulate.
#pragma once

#include <string>

#include "graft/delta.h"
#include "tools/common/command.h"

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
/// The kind that --server names; invalid_argument: there is none such.
Result<graft_server_kind> server_kind_of(const ServerFlags& flags);

}  // namespace graft::cli
