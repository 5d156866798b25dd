#include "tools/graft/server_flags.h"

#include <algorithm>
#include <array>

#include "tools/common/numbers.h"

namespace graft::cli {

void add_server_flags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--server", flags.kind, "fedavg, fedadagrad, fedadam or fedyogi: the server's step (fedavg)");
  app.add_option("--server-rate", flags.rate, "Its learning rate (1)")->check(positive());
  app.add_option("--server-beta1", flags.beta1, "Its momentum (0)")->check(number(0, 1, Ends::open_above));
  app.add_option("--server-beta2", flags.beta2, "Of fedadam and fedyogi (0.99)")->check(number(0, 1, Ends::open_above));
  app.add_option("--server-tau", flags.tau, "Of all but fedavg: least divisor (0.001)")->check(positive());
}

void refuse_idle_server_flags(const CLI::App& app, const ServerFlags& flags) {
  refuse_idle(app, flags.kind == "fedavg", {"--server-beta2", "--server-tau"}, "with --server fedavg.");
  refuse_idle(app, flags.kind == "fedadagrad", {"--server-beta2"}, "with --server fedadagrad.");
}

Result<graft_server_kind> server_kind_of(const ServerFlags& flags) {
  constexpr std::array<const char*, 4> kKinds = {"fedavg", "fedadagrad", "fedadam", "fedyogi"};
  const auto* const found = std::ranges::find(kKinds, flags.kind);
  if (found != kKinds.end()) return static_cast<graft_server_kind>(found - kKinds.begin());
  return invalid("A server's step is fedavg, fedadagrad, fedadam or fedyogi, not \"", flags.kind, "\".");
}

}  // namespace graft::cli
