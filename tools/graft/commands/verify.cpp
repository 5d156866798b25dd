// graft verify: every op of a model on this GPU against the double-precision reference, forward and gradient.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "graft/verify.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/progress.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

struct VerifyArguments {
  DeviceFlags flags;
  std::string path;
  std::vector<std::string> bind;
  double tolerance = 1e-4;
  std::uint64_t seed = 1;
  bool json = false;
  bool deep = false;
};

struct Verdict {
  std::string node;
  std::string op;
  double forward = 0;
  double gradient = -1;
  std::string failure;
  bool passed = false;
};

void print(const std::vector<Verdict>& verdicts) {
  using Kind = Table::Kind;
  Table table({{"node", 32, Kind::name},
               {"op", 18, Kind::name},
               {"forward", 12, Kind::number},
               {"gradient", 12, Kind::number},
               {"", 3, Kind::word}});
  for (const Verdict& verdict : verdicts) {
    const auto error = [](double value) { return number_text("%.2e", value); };
    table.row({verdict.node, verdict.op, error(verdict.forward),
               verdict.gradient < 0 ? "none" : error(verdict.gradient),
               verdict.passed ? " ok" : cat(" FAILED ", verdict.failure)});
  }
  table.print();
}

// The file alone, for which no device is needed: all that is damaged, by name and place.
Status verify_file(const VerifyArguments& options) {
  TRY_ASSIGN(const auto context, open_context_without_device());
  TRY_ASSIGN(const auto model, open_model(context.get(), options.path));
  const graft_damage* damage = nullptr;
  std::size_t count = 0;
  TRY(checked(graft_model_find_damage(model.get(), &damage, &count), context.get()));
  const std::uint64_t bytes = graft_model_weight_bytes(model.get());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < count; ++i) {
    const graft_damage& d = damage[i];
    rows.push_back({{"weight", d.weight}, {"first_byte", d.first_byte}, {"last_byte", d.last_byte}});
    if (!options.json) {
      to_stdout("%s  bytes %llu to %llu of the file are damaged\n", d.weight,
                static_cast<unsigned long long>(d.first_byte), static_cast<unsigned long long>(d.last_byte));
    }
  }
  if (options.json) {
    to_stdout("%s\n", nlohmann::ordered_json({{"weight_bytes", bytes}, {"damage", rows}}).dump(2).c_str());
  } else if (count == 0) {
    to_stdout("The tables and %s of weights are what their checksums say.\n", bytes_text(bytes).c_str());
  }
  if (count == 0) return ok_status();
  return corrupt("The model file \"", options.path, "\" is damaged in ", count, " ", count == 1 ? "place" : "places",
                 ", the first in the weight \"", damage->weight, "\", bytes ", damage->first_byte, " to ",
                 damage->last_byte, ".");
}

/// What is told of while nodes are compared.
struct Seen {
  bool quiet = false;
  std::vector<Verdict> verdicts = {};
  std::unique_ptr<Progress> progress = nullptr;

  static int tell(void* user, const graft_node_verdict* told) {
    Seen& seen = *static_cast<Seen*>(user);
    if (!seen.progress) seen.progress = std::make_unique<Progress>("op", told->total, seen.quiet);
    seen.progress->update(told->done, told->node);
    seen.verdicts.push_back({told->node, told->op, told->forward, told->gradient, told->failure, told->passed != 0});
    return 0;
  }
};

Status run_verify(const VerifyArguments& options) {
  if (options.deep) return verify_file(options);
  TRY_ASSIGN(const Bindings given, parse_bindings(options.bind));
  TRY(check_is_model(options.path));
  TRY_ASSIGN(auto context, open_context(options.flags));
  TRY_ASSIGN(auto model, open_model(context.get(), options.path, GRAFT_CHECK_AT_ONCE));
  const PublicBindings bindings(given);
  auto wanted = sized<graft_verify_options>();
  wanted.bindings = bindings.data();
  wanted.binding_count = bindings.size();
  wanted.seed = options.seed;
  wanted.tolerance = options.tolerance;
  Seen seen{.quiet = options.json};
  std::size_t nodes = 0, failed = 0;
  const graft_status compared = graft_model_verify(model.get(), &wanted, Seen::tell, &seen, &nodes, &failed);
  seen.progress.reset();
  const Status outcome = checked(compared, context.get());
  if (!outcome.ok() && failed == 0) return outcome;  // it did not come to an end
  const std::vector<Verdict>& verdicts = seen.verdicts;
  const std::string device = graft_device_name(context.get());
  if (options.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Verdict& v : verdicts) {
      rows.push_back({{"node", v.node},
                      {"op", v.op},
                      {"forward", v.forward},
                      {"gradient", v.gradient},
                      {"failure", v.failure},
                      {"passed", v.passed}});
    }
    to_stdout("%s\n", nlohmann::ordered_json({{"device", device}, {"nodes", rows}}).dump(2).c_str());
  } else {
    print(verdicts);
    to_stdout("%zu of %zu different nodes agree with the reference on %s (tolerance %g).\n", nodes - failed, nodes,
              device.c_str(), options.tolerance);
  }
  model.reset();
  TRY(close_context(std::move(context)));
  return outcome;
}

}  // namespace

Action add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyArguments>();
  app.add_option("MODEL", options->path, "A .graft file")->required();
  app.add_option("--bind", options->bind, "Sizes of named dimensions (default 1)");
  app.add_option("--tolerance", options->tolerance, "Largest error over the root mean square (default 1e-4)")
      ->check(positive());
  app.add_option("--seed", options->seed, "Seed of the random inputs")->check(whole(0));
  app.add_flag("--deep", options->deep,
               "Check the file alone, and name every damaged weight and where; needs no device");
  app.add_flag("--json", options->json, "Print JSON");
  add_device_flags(app, options->flags);
  app.callback([&app, options] {
    refuse_idle(app, options->deep,
                {"--bind", "--tolerance", "--seed", "--device", "--vulkan-library", "--matmul-precision", "--cache",
                 "--no-self-test", "--validate", "--verbose"},
                "with --deep, which needs no device.");
  });
  return [options] { return run_verify(*options); };
}

}  // namespace graft::cli
