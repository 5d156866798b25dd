#include "tools/graft/server_flags.h"

#include "tools/common/numbers.h"

namespace graft::cli {

void add_server_flags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--server", flags.kind, "fedavg, fedadagrad, fedadam or fedyogi: the server's step (fedavg)");
  app.add_option("--server-rate", flags.options.rate, "Its learning rate (1)")->check(positive());
  app.add_option("--server-beta1", flags.options.beta1, "Its momentum (0)")->check(number(0, 1, Ends::open_above));
  app.add_option("--server-beta2", flags.options.beta2, "Of fedadam and fedyogi (0.99)")
      ->check(number(0, 1, Ends::open_above));
  app.add_option("--server-tau", flags.options.tau, "Of all but fedavg: least divisor (0.001)")->check(positive());
}

void refuse_idle_server_flags(const CLI::App& app, const ServerFlags& flags) {
  refuse_idle(app, flags.kind == "fedavg", {"--server-beta2", "--server-tau"}, "with --server fedavg.");
  refuse_idle(app, flags.kind == "fedadagrad", {"--server-beta2"}, "with --server fedadagrad.");
}

Result<delta::ServerOptions> server_options_of(const ServerFlags& flags) {
  delta::ServerOptions options = flags.options;
  TRY_ASSIGN(options.kind, delta::parse_server(flags.kind));
  TRY(check(options));
  return options;
}

}  // namespace graft::cli
