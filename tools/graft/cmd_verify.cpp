// graft verify: every op of a model on this GPU against the double-precision reference, forward and gradient.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/session/verify.h"
#include "tools/bench/device.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/progress.h"

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

void print(const std::vector<NodeVerdict>& verdicts, double tolerance) {
  std::printf("%-32s %-18s %12s %12s  %s\n", "node", "op", "forward", "gradient", "");
  for (const NodeVerdict& verdict : verdicts) {
    char gradient[32] = "none";
    if (verdict.gradient >= 0) std::snprintf(gradient, sizeof gradient, "%.2e", verdict.gradient);
    std::printf("%-32s %-18s %12.2e %12s  %s%s\n", verdict.node.c_str(), verdict.op.c_str(), verdict.forward, gradient,
                verdict.passed(tolerance) ? "ok" : "FAILED ", verdict.failure.c_str());
  }
}

// The file alone, for which no device is needed: all that is damaged, by name and place.
Status verify_file(const VerifyArguments& options) {
  TRY_ASSIGN(const Model model, open_model(options.path));
  const std::vector<WeightDamage> damage = model.find_damage();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const WeightDamage& d : damage) {
    const std::string& name = model.graph.value(d.value).name;
    rows.push_back({{"weight", name}, {"first_byte", d.begin}, {"last_byte", d.end - 1}});
    if (!options.json) {
      std::printf("%s  bytes %llu to %llu of the file are damaged\n", name.c_str(),
                  static_cast<unsigned long long>(d.begin), static_cast<unsigned long long>(d.end - 1));
    }
  }
  if (options.json) {
    std::printf("%s\n",
                nlohmann::ordered_json({{"weight_bytes", model.weight_bytes()}, {"damage", rows}}).dump(2).c_str());
  } else if (damage.empty()) {
    std::printf("The tables and %s of weights are what their checksums say.\n",
                bytes_text(model.weight_bytes()).c_str());
  }
  if (damage.empty()) return ok_status();
  return corrupt("The model file \"", options.path, "\" is damaged in ", damage.size(), " ",
                 damage.size() == 1 ? "place" : "places", ", the first in the weight \"",
                 model.graph.value(damage.front().value).name, "\", bytes ", damage.front().begin, " to ",
                 damage.front().end - 1, ".");
}

Status run_verify(const VerifyArguments& options) {
  if (options.deep) return verify_file(options);
  TRY_ASSIGN(const Model model, open_model(options.path, WeightCheck::at_once));
  TRY_ASSIGN(const Bindings given, parse_bindings(options.bind));
  TRY_ASSIGN(const Bindings bindings, complete_bindings(model, given, true));
  TRY_ASSIGN(auto device, OpenDevice::open(options.flags));
  std::vector<NodeVerdict> verdicts;
  std::unique_ptr<Progress> progress;
  TRY(verify_ops(device->device(), model, bindings, options.seed,
                 [&](const NodeVerdict& verdict, std::size_t done, std::size_t total) -> Status {
                   if (!progress) progress = std::make_unique<Progress>("op", total, options.json);
                   progress->update(done, verdict.node);
                   verdicts.push_back(verdict);
                   return ok_status();
                 }));
  progress.reset();
  const auto failed = std::count_if(verdicts.begin(), verdicts.end(),
                                    [&](const NodeVerdict& v) { return !v.passed(options.tolerance); });
  if (options.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const NodeVerdict& v : verdicts) {
      rows.push_back({{"node", v.node},
                      {"op", v.op},
                      {"forward", v.forward},
                      {"gradient", v.gradient},
                      {"failure", v.failure},
                      {"passed", v.passed(options.tolerance)}});
    }
    std::printf(
        "%s\n",
        nlohmann::ordered_json({{"device", device->device().caps().device_name}, {"nodes", rows}}).dump(2).c_str());
  } else {
    print(verdicts, options.tolerance);
    std::printf("%zu of %zu different nodes agree with the reference on %s (tolerance %g).\n",
                verdicts.size() - static_cast<std::size_t>(failed), verdicts.size(),
                device->device().caps().device_name.c_str(), options.tolerance);
  }
  TRY(device->close());
  if (failed == 0) return ok_status();
  return error(Code::device_error, failed, " of ", verdicts.size(), " nodes differ from the reference on this device.");
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
  return [options] { return run_verify(*options); };
}

}  // namespace graft::cli
