// graft delta: what training changed as a small file; made, averaged over clients, put on a model.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/delta/average.h"
#include "runtime/delta/delta_file.h"
#include "runtime/delta/privacy.h"
#include "runtime/delta/server.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/graft/checkpoint_report.h"
#include "tools/graft/output.h"
#include "tools/graft/server_flags.h"

namespace graft::cli {
namespace {

using delta::Delta;

struct DeltaArguments {
  std::string base;
  std::string updated;
  std::string file;
  std::vector<std::string> files;
  std::string output;
  std::string coding = "f32";
  std::string residual;
  delta::MakeOptions make;
  std::optional<std::uint64_t> seed;
  double rate = 1;
  ServerFlags server;
  std::string server_state;
  std::string weights = "samples";
  bool products = false;
  std::uint32_t rank = 0;
  double noise = 0;
  double clip_norm = 0;
  double delta = 1e-5;
  double share = 1;
  std::uint64_t rounds = 1;
  bool json = false;
  bool in_place = false;
};

Status make(const DeltaArguments& options) {
  Outputs outputs;
  outputs.reads("the base", options.base);
  outputs.reads("the new model", options.updated);
  TRY(outputs.file("-o", options.output));
  TRY(outputs.file("--residual", options.residual));
  delta::MakeOptions make = options.make;
  TRY_ASSIGN(make.coding, delta::parse_coding(options.coding));
  make.seed = options.seed;
  delta::Residual residual;
  if (!options.residual.empty()) {
    TRY_ASSIGN(residual, delta::read_residual(os::system_files(), options.residual));
    make.residual = &residual;
  }
  TRY_ASSIGN(const Model base, open_model(options.base));
  TRY_ASSIGN(const Model updated, open_model(options.updated));
  TRY_ASSIGN(const Delta made, delta::make(base, updated, make));
  TRY(delta::write_delta(os::system_files(), options.output, made));
  if (make.residual != nullptr) {
    TRY(delta::write_residual(os::system_files(), options.residual, made, residual));
  }
  TRY_ASSIGN(const os::FileInfo info, os::system_files().info(options.output));
  std::printf("Wrote %s: %zu tensors, %s numbers, norm %.6g%s, %s.\n", options.output.c_str(), made.tensors.size(),
              grouped(made.elements()).c_str(), made.norm,
              made.clip_norm > 0 && made.norm > made.clip_norm ? cat(" clipped to ", made.clip_norm).c_str() : "",
              bytes_text(info.size).c_str());
  return ok_status();
}

Status save_server(const DeltaArguments& options, const delta::Server& server) {
  if (options.server_state.empty()) return ok_status();
  TRY_ASSIGN(const auto bytes, server.state());
  const std::array parts = {std::span<const std::byte>(bytes)};
  return os::atomic_write_file(os::system_files(), options.server_state, parts);
}

Status apply(const DeltaArguments& options) {
  os::FileSystem& files = os::system_files();
  Outputs outputs;
  outputs.replaces("the base", options.base, options.in_place);
  outputs.reads("the delta", options.file);
  TRY(outputs.file("-o", options.output));
  TRY(outputs.file("--server-state", options.server_state));
  TRY_ASSIGN(const delta::ServerOptions server_options, server_options_of(options.server));
  const bool keeps = server_options.kind != delta::ServerKind::fedavg || server_options.beta1 > 0;
  if (keeps && options.server_state.empty()) {
    return invalid("This server's step has moments, which go from round to round: name a file with --server-state.");
  }
  TRY_ASSIGN(const Model base, open_model(options.base));
  TRY_ASSIGN(Delta delta, delta::read_delta(files, options.file));
  TRY(check_base(delta, base));
  delta::Server server(server_options);
  if (!options.server_state.empty() && os::exists(files, options.server_state)) {
    TRY_ASSIGN(const auto bytes, os::read_file(files, options.server_state, std::uint64_t{1} << 31));
    TRY(server.restore(bytes.bytes(), options.server_state));
  }
  if (keeps) {
    TRY_ASSIGN(delta, server.step(delta, delta::statistics_of(base)));
  }
  TRY_ASSIGN(const Model model, delta::apply(base, delta, keeps ? 1 : server_options.rate));
  TRY(save_output(options.output, model));
  TRY(save_server(options, server));
  std::printf("Wrote %s.\n", options.output.c_str());
  return ok_status();
}

Result<Delta> average_of(const DeltaArguments& options) {
  const delta::Weighing weighing = options.weights == "equal" ? delta::Weighing::equal : delta::Weighing::samples;
  if (!options.products) {
    delta::Averager averager({weighing, options.noise, options.clip_norm, options.seed});
    for (const std::string& path : options.files) {
      TRY_ASSIGN(const Delta next, delta::read_delta(os::system_files(), path));
      TRY(averager.add(next).with_context(cat("While adding \"", path, "\"")));
    }
    return averager.finish();
  }
  std::vector<Delta> deltas;
  for (const std::string& path : options.files) {
    TRY_ASSIGN(Delta next, delta::read_delta(os::system_files(), path));
    deltas.push_back(std::move(next));
  }
  TRY_ASSIGN(delta::Products products, average_products(deltas, options.rank, weighing));
  std::printf("Matrices of rank %u hold %.4g%% of the exact average's squared norm.\n", products.average.rank,
              100 * products.kept);
  return std::move(products.average);
}

Status average(const DeltaArguments& options) {
  Outputs outputs;
  for (const std::string& path : options.files) outputs.reads("a delta", path);
  TRY(outputs.file("-o", options.output));
  TRY_ASSIGN(const Delta average, average_of(options));
  TRY(delta::write_delta(os::system_files(), options.output, average));
  std::printf("Wrote %s: the average of %u clients and %llu samples, norm %.6g.\n", options.output.c_str(),
              average.clients, static_cast<unsigned long long>(average.samples), average.norm);
  return ok_status();
}

Status info(const DeltaArguments& options) {
  TRY_ASSIGN(const Delta delta, delta::read_delta(os::system_files(), options.file));
  TRY_ASSIGN(const os::FileInfo file, os::system_files().info(options.file));
  const bool adapters = delta.kind == delta::Kind::adapters;
  const std::string coding(delta::coding_name(delta.coding));
  if (options.json) {
    nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
    for (const auto& tensor : delta.tensors) {
      tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape.values()}, {"dtype", dtype_name(tensor.dtype)}});
    }
    cli::print({{"kind", adapters ? "adapters" : "weights"},
                {"base", hash_text(delta.base)},
                {"base_file", delta.base_file},
                {"samples", delta.samples},
                {"clients", delta.clients},
                {"local_steps", delta.local_steps},
                {"rank", delta.rank},
                {"coding", coding},
                {"fixed_bits", delta.fixed_bits},
                {"norm", delta.norm},
                {"clip_norm", delta.clip_norm},
                {"noise", delta.noise},
                {"numbers", delta.elements()},
                {"bytes", file.size},
                {"tensors", tensors}});
    return ok_status();
  }
  std::printf("%s of %s (weights %s)\n", adapters ? "Adapters" : "Changes",
              delta.base_file.empty() ? "a model" : delta.base_file.c_str(), hash_text(delta.base).c_str());
  std::printf("clients      %u\nsamples      %llu\nlocal steps  %llu\n", delta.clients,
              static_cast<unsigned long long>(delta.samples), static_cast<unsigned long long>(delta.local_steps));
  if (delta.rank > 0) std::printf("rank         %u\n", delta.rank);
  std::printf("coding       %s\nnorm         %.6g\n", coding.c_str(), delta.norm);
  if (delta.clip_norm > 0) std::printf("clipped to   %.6g\n", delta.clip_norm);
  if (delta.noise > 0) std::printf("noise        %.6g\n", delta.noise);
  std::printf("numbers      %s in %zu tensors, %s\n", grouped(delta.elements()).c_str(), delta.tensors.size(),
              bytes_text(file.size).c_str());
  for (const auto& tensor : delta.tensors) std::printf("  %s %s\n", tensor.name.c_str(), tensor.shape.text().c_str());
  return ok_status();
}

Status privacy(const DeltaArguments& options) {
  TRY_ASSIGN(const auto cost, delta::privacy_of(options.noise, options.share, options.rounds, options.delta));
  if (options.json) {
    cli::print({{"epsilon", cost.epsilon}, {"delta", options.delta}, {"order", cost.order}});
  } else {
    std::printf(
        "(epsilon, delta) = (%.4g, %g): %llu rounds, each with %.4g%% of the clients and noise of %g times the "
        "norm that each is clipped to.\n",
        cost.epsilon, options.delta, static_cast<unsigned long long>(options.rounds), 100 * options.share,
        options.noise);
  }
  return ok_status();
}

CLI::Option* add_seed(CLI::App* app, std::optional<std::uint64_t>& seed) {
  return app->add_option("--seed", seed, "Of the noise, for tests: whoever knows it takes the noise away");
}

void add_make(CLI::App* app, const std::shared_ptr<DeltaArguments>& options) {
  app->add_option("BASE", options->base, "The model or adapters that training began with")->required();
  app->add_option("NEW", options->updated, "What training wrote: the same model, or adapters")->required();
  app->add_option("-o,--output", options->output, "The delta file to write")->required();
  app->add_option("--samples", options->make.samples, "Samples that training used: the delta's weight (1)")
      ->check(whole(1));
  app->add_option("--local-steps", options->make.local_steps, "Optimizer steps that it took (0)")->check(whole(0));
  app->add_option("--codec", options->coding, "f32, bf16, int8 (blocks of 256) or fixed (integers)");
  app->add_option("--residual", options->residual,
                  "What coding lost is kept in this file and added to the next round's delta");
  app->add_option("--fixed-bits", options->make.fixed_bits, "Of --codec fixed: bits behind the point (8)")
      ->check(whole(0, delta::kMaxFixedBits));
  app->add_option("--room", options->make.room, "Of --codec fixed: clients that must fit in a sum (1024)")
      ->check(whole(1, UINT32_MAX));
  app->add_option("--clip-norm", options->make.clip_norm, "Scale the delta to this L2 norm where it is longer")
      ->check(positive());
  app->add_option("--noise", options->make.noise, "Add normal noise of so many times --clip-norm")->check(positive());
  add_seed(app, options->seed);
  app->callback([app, options] {
    const bool fixed = options->coding == "fixed";
    refuse_idle(*app, !fixed, {"--fixed-bits", "--room"}, "without --codec fixed.");
    refuse_idle(*app, options->make.noise == 0, {"--seed"}, "without --noise.");
  });
}

void add_apply(CLI::App* app, const std::shared_ptr<DeltaArguments>& options) {
  app->add_option("BASE", options->base, "The model or adapters that the delta was made for")->required();
  app->add_option("DELTA", options->file, "A delta, of one client or an average")->required();
  app->add_option("-o,--output", options->output, "The new model or adapters")->required();
  add_server_flags(*app, options->server);
  app->add_option("--server-state", options->server_state, "Moments of the server's step, from round to round");
  add_in_place_flag(*app, options->in_place);
  app->callback([app, options] { refuse_idle_server_flags(*app, options->server); });
}

void add_average(CLI::App* app, const std::shared_ptr<DeltaArguments>& options) {
  app->add_option("DELTAS", options->files, "Deltas of one base")->required();
  app->add_option("-o,--output", options->output, "The delta file to write")->required();
  app->add_option("--weights", options->weights, "samples or equal")->check(CLI::IsMember({"samples", "equal"}));
  auto* products = app->add_flag("--products", options->products,
                                 "Of adapters: average what their matrices multiply to, and factor that again");
  app->add_option("--rank", options->rank, "Of --products (the largest of the deltas)")
      ->check(whole(1, 65536))
      ->needs(products);
  app->add_option("--noise", options->noise,
                  "Add normal noise to the sum, of so many times --clip-norm; with --weights equal")
      ->check(positive())
      ->excludes(products);
  app->add_option("--clip-norm", options->clip_norm, "What each delta was clipped to")->check(positive());
  add_seed(app, options->seed);
  app->callback([app, options] {
    refuse_idle(*app, options->noise == 0, {"--clip-norm", "--seed"}, "without --noise.");
  });
}

void add_privacy(CLI::App* app, const std::shared_ptr<DeltaArguments>& options) {
  app->add_option("--noise", options->noise, "Standard deviation of the noise over the norm clipped to")
      ->required()
      ->check(positive());
  app->add_option("--share", options->share, "Of the clients that a round takes, each at random (1)")
      ->check(number(0, 1));
  app->add_option("--rounds", options->rounds, "How many (1)")->check(whole(1));
  app->add_option("--delta", options->delta, "Chance that the promise fails (1e-5)")->check(number(0, 1, Ends::open));
}

}  // namespace

Action add_delta(CLI::App& app) {
  auto options = std::make_shared<DeltaArguments>();
  auto chosen = std::make_shared<Status (*)(const DeltaArguments&)>(nullptr);
  app.require_subcommand(1);
  const auto sub = [&](const char* name, const char* what, Status (*action)(const DeltaArguments&)) {
    CLI::App* command = app.add_subcommand(name, what);
    command->parse_complete_callback([chosen, action] { *chosen = action; });
    return command;
  };
  add_make(sub("make", "What training changed of a model, or its adapters", make), options);
  add_apply(sub("apply", "A model or adapters with a delta added", apply), options);
  add_average(sub("average", "The average of several clients' deltas", average), options);
  CLI::App* told = sub("info", "What a delta holds", info);
  told->add_option("DELTA", options->file, "A delta file")->required();
  told->add_flag("--json", options->json, "As JSON");
  CLI::App* cost = sub("privacy", "The (epsilon, delta) that rounds with noise amount to", privacy);
  add_privacy(cost, options);
  cost->add_flag("--json", options->json, "As JSON");
  return [options, chosen]() -> Status { return (*chosen)(*options); };
}

}  // namespace graft::cli
