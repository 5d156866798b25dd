#include "tools/graft/shared/delta_flags.h"

#include <algorithm>
#include <array>

#include "tools/common/help.h"
#include "tools/common/numbers.h"

namespace graft::cli {

void add_server_flags(CLI::App& app, ServerFlags& flags) {
  const HelpGroup group(app, "Server");
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

Result<Owned<graft_server>> open_server(graft_context* context, const ServerFlags& flags) {
  constexpr std::array<const char*, 4> kKinds = {"fedavg", "fedadagrad", "fedadam", "fedyogi"};
  const auto* const found = std::ranges::find(kKinds, flags.kind);
  if (found == kKinds.end()) {
    return invalid("A server's step is fedavg, fedadagrad, fedadam or fedyogi, not \"", flags.kind, "\".");
  }
  auto wanted = sized<graft_server_options>();
  wanted.kind = static_cast<graft_server_kind>(found - kKinds.begin());
  wanted.rate = flags.rate;
  wanted.beta1 = flags.beta1;
  wanted.beta2 = flags.beta2;
  wanted.tau = flags.tau;
  graft_server* made = nullptr;
  const graft_status created = graft_server_create(context, &wanted, &made);
  Owned<graft_server> server(made);
  TRY(checked(created, context));
  return server;
}

namespace {

constexpr std::array<const char*, 4> kCodings = {"f32", "bf16", "int8", "fixed"};  // as graft_delta_coding

}  // namespace

Result<graft_delta_coding> coding_of(const std::string& name) {
  const auto* const found = std::ranges::find(kCodings, name);
  if (found != kCodings.end()) return static_cast<graft_delta_coding>(found - kCodings.begin());
  return invalid("A delta is coded as f32, bf16, int8 or fixed, not as \"", name, "\".");
}

const char* coding_name(graft_delta_coding coding) { return kCodings[static_cast<std::size_t>(coding)]; }

}  // namespace graft::cli
