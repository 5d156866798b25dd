// What a federated server does with its clients' average: shared by graft delta apply and graft simulate.
#pragma once

#include <string>

#include "runtime/delta/server.h"
#include "tools/common/command.h"

namespace graft::cli {

struct ServerFlags {
  std::string kind = "fedavg";
  delta::ServerOptions options;
};

void add_server_flags(CLI::App& app, ServerFlags& flags);
/// Throws CLI::ValidationError where a flag has no effect.
void refuse_idle_server_flags(const CLI::App& app, const ServerFlags& flags);
Result<delta::ServerOptions> server_options_of(const ServerFlags& flags);

}  // namespace graft::cli
