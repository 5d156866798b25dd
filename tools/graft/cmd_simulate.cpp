// graft simulate: federated training of many clients on one machine, to see what split, codec and server do.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/data/random.h"
#include "runtime/data/split.h"
#include "runtime/delta/average.h"
#include "runtime/delta/delta_file.h"
#include "runtime/delta/privacy.h"
#include "runtime/delta/server.h"
#include "runtime/session/training.h"
#include "runtime/train/fit.h"
#include "tools/bench/device.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/metrics_file.h"
#include "tools/graft/open_data.h"
#include "tools/graft/output.h"
#include "tools/graft/server_flags.h"
#include "tools/graft/svg.h"
#include "tools/graft/train_setup.h"

namespace graft::cli {
namespace {

struct SimulateArguments {
  TrainArguments train;
  std::uint64_t clients = 10;
  std::uint64_t rounds = 10;
  std::uint64_t per_round = 0;  ///< 0: all
  double drop = 0;
  std::uint64_t local_epochs = 1;
  std::string split = "iid";
  std::string coding = "f32";
  double clip_delta = 0;
  double noise = 0;
  double delta = 1e-5;
  ServerFlags server;
};

/// What one client keeps from round to round.
struct Client {
  std::vector<std::uint64_t> rows;
  delta::Residual residual;
};

struct Simulation {
  const SimulateArguments& options;
  train::Trainer& trainer;
  data::Source& source;
  data::Source* held_out;  ///< may be null
  delta::Coding coding;
  delta::Server server;
  std::vector<Client> clients;
  std::vector<std::uint64_t> members;  ///< clients with samples
  MetricsFile metrics = {};
  std::vector<CurvePoint> losses = {};
  std::vector<CurvePoint> held_out_losses = {};
};

/// What a round gave.
struct Round {
  std::uint64_t chosen = 0;
  std::uint64_t reported = 0;
  std::uint64_t bytes = 0;  ///< of all deltas
  train::Metrics metrics;   ///< of the clients' last epochs
};

std::uint64_t seed_of(const SimulateArguments& options, std::uint64_t round, std::uint64_t what) {
  return data::mix(options.train.train.seed, round, what);
}

/// Trains one client from the global model on, and gives what changed.
Result<delta::Delta> train_client(Simulation& all, Client& client, const Model& global, std::uint64_t seed,
                                  Round& round) {
  TRY(reset_to_model(all.trainer, global));
  TRY_ASSIGN(const auto rows, data::select(all.source, client.rows));
  const TrainFlags& flags = all.options.train.train;
  data::LoaderOptions loader_options;
  loader_options.batch = static_cast<std::uint64_t>(flags.batch * flags.accumulate);
  loader_options.seed = seed;
  loader_options.epochs = all.options.local_epochs;
  TRY_ASSIGN(const auto loader, data::Loader::create(*rows, loader_options));
  TRY(train::fit(all.trainer, *loader, {}));
  round.metrics.add(all.trainer.state().epoch_metrics);
  TRY_ASSIGN(Model trained, borrow_model(global));
  TRY(copy_to_model(all.trainer, trained));
  delta::MakeOptions make;
  make.samples = client.rows.size();
  make.local_steps = all.trainer.state().step;
  make.coding = all.coding;
  make.clip_norm = all.options.clip_delta;
  if (all.coding == delta::Coding::int8 || all.coding == delta::Coding::bf16) make.residual = &client.residual;
  return delta::make(global, trained, make);
}

/// One round; `global` becomes the new model.
Result<Round> run_round(Simulation& all, std::uint64_t number, Model& global) {
  Round round;
  const SimulateArguments& options = all.options;
  data::Random random(seed_of(options, number, 0x726f756e64));
  std::vector<std::uint64_t> members = all.members;
  for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[random.below(i)]);
  if (options.per_round > 0 && options.per_round < members.size()) members.resize(options.per_round);
  round.chosen = members.size();
  std::erase_if(members, [&](std::uint64_t) { return random.uniform() < options.drop; });
  std::ranges::sort(members);
  if (members.empty()) return round;
  const bool equal = options.noise > 0;
  delta::Averager averager({equal ? delta::Weighing::equal : delta::Weighing::samples, options.noise,
                            options.clip_delta,
                            equal ? std::optional(seed_of(options, number, 0x6e6f697365)) : std::nullopt});
  for (const std::uint64_t member : members) {
    TRY_ASSIGN(const delta::Delta made,
               train_client(all, all.clients[member], global, seed_of(options, number, member), round));
    TRY_ASSIGN(const auto bytes, delta::to_bytes(made));
    round.bytes += bytes.size();
    TRY_ASSIGN(const delta::Delta sent, delta::from_bytes(bytes, "the client's"));
    TRY(averager.add(sent));
    ++round.reported;
  }
  TRY_ASSIGN(const delta::Delta average, averager.finish());
  TRY_ASSIGN(const delta::Delta step, all.server.step(average, delta::statistics_of(global)));
  TRY_ASSIGN(Model next, delta::apply(global, step));
  // What did not change is borrowed from the model before, which goes: those weights are the file's.
  for (std::uint32_t i = 0; i < next.graph.values().size(); ++i) {
    if (step.find(next.graph.values()[i].name) == nullptr) continue;
    TRY(global.copy_weight({i}, *next.weight({i})));
  }
  return round;
}

Status tell_round(Simulation& all, std::uint64_t number, const Round& round, const Model& global) {
  nlohmann::ordered_json row = {{"kind", "round"},
                                {"round", number},
                                {"clients", round.chosen},
                                {"reported", round.reported},
                                {"bytes", round.bytes}};
  std::printf("round %llu: %llu of %llu clients, %s", static_cast<unsigned long long>(number),
              static_cast<unsigned long long>(round.reported), static_cast<unsigned long long>(round.chosen),
              bytes_text(round.bytes).c_str());
  if (round.reported > 0) {
    std::printf(", loss %.4f", round.metrics.loss());
    row["loss"] = round.metrics.loss();
    all.losses.push_back({static_cast<double>(number), round.metrics.loss()});
  }
  if (all.held_out != nullptr) {
    TRY(reset_to_model(all.trainer, global));
    TRY_ASSIGN(const train::Metrics metrics, all.trainer.evaluate(*all.held_out));
    std::printf("; held-out loss %.4f", metrics.loss());
    row["held_out_loss"] = metrics.loss();
    all.held_out_losses.push_back({static_cast<double>(number), metrics.loss()});
    if (metrics.has_correct) {
      std::printf(", accuracy %.2f%%", 100 * metrics.accuracy());
      row["held_out_accuracy"] = metrics.accuracy();
    }
  }
  std::printf("\n");
  std::fflush(stdout);
  all.metrics.write(row);
  return ok_status();
}

Status check_options(const SimulateArguments& options) {
  if (options.noise > 0 && options.clip_delta == 0)
    return invalid("--noise needs --clip-delta, which it is a multiple of.");
  if (options.noise > 0 && options.coding == "fixed") {
    return invalid("With --noise all clients weigh the same, but integers carry their samples: take another --codec.");
  }
  return ok_status();
}

Result<std::vector<Client>> share_out(const SimulateArguments& options, data::Source& source) {
  TRY_ASSIGN(const data::Split split, data::parse_split(options.split));
  std::vector<std::int64_t> labels(source.size().value_or(0));
  if (split.kind != data::Split::Kind::iid) {
    TRY_ASSIGN(labels, data::labels_of(source));
  }
  TRY_ASSIGN(auto rows, data::split_rows(labels, options.clients, split, options.train.train.seed));
  std::vector<Client> clients(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) clients[i].rows = std::move(rows[i]);
  return clients;
}

void tell_clients(const std::vector<Client>& clients, std::size_t members) {
  std::vector<std::size_t> sizes;
  for (const Client& client : clients) sizes.push_back(client.rows.size());
  std::ranges::sort(sizes);
  std::printf("%zu clients with %zu to %zu samples, %zu in the middle", clients.size(), sizes.front(), sizes.back(),
              sizes[sizes.size() / 2]);
  if (members < clients.size()) std::printf("; %zu have none and take no part", clients.size() - members);
  std::printf(".\n");
}

Status tell_privacy(const SimulateArguments& options, std::size_t members) {
  if (options.noise == 0) return ok_status();
  const double chosen =
      options.per_round == 0 ? 1.0 : static_cast<double>(options.per_round) / static_cast<double>(members);
  TRY_ASSIGN(const auto cost, delta::privacy_of(options.noise, std::min(1.0, chosen), options.rounds, options.delta));
  std::printf(
      "Privacy of each client: (epsilon, delta) = (%.4g, %g), if each round chose clients at random one by one.\n",
      cost.epsilon, options.delta);
  return ok_status();
}

Status simulate(OpenDevice& opened, Model& model, const SimulateArguments& options) {
  TRY_ASSIGN(DataSets sets, open_sets(options.train, model));
  if (!sets.training->size()) return invalid("Clients share a data set of known size.");
  TRY_ASSIGN(const graft_server_kind kind, server_kind_of(options.server));
  const delta::ServerOptions server = {static_cast<delta::ServerKind>(kind), options.server.rate, options.server.beta1,
                                       options.server.beta2, options.server.tau};
  TRY_ASSIGN(const delta::Coding coding, delta::parse_coding(options.coding));
  TRY_ASSIGN(std::vector<Client> clients, share_out(options, *sets.training));

  TRY_ASSIGN(train::TrainOptions train_options, cli::train_options(options.train.train, 0));
  bind_length(*sets.training, model, train_options.bindings);
  train::TrainerOptions trainer_options;
  trainer_options.request.evaluation = sets.held_out != nullptr;
  if (sets.held_out) trainer_options.request.evaluation_samples = sets.held_out->size();
  opened.give_to(trainer_options.program);
  train::scale_for_rounding(opened.device().target(), train_options);
  TRY_ASSIGN(const auto trainer,
             create_trainer(opened.device(), model, train_options, sets.training->fields(), trainer_options));
  Simulation all{
      options, *trainer, *sets.training, sets.held_out.get(), coding, delta::Server(server), std::move(clients), {}};
  for (std::uint64_t i = 0; i < all.clients.size(); ++i) {
    if (!all.clients[i].rows.empty()) all.members.push_back(i);
  }
  tell_clients(all.clients, all.members.size());
  TRY(tell_privacy(options, all.members.size()));
  if (!options.train.metrics.empty()) TRY(all.metrics.open(options.train.metrics, 0));
  TRY_ASSIGN(Model global, borrow_model(model));
  TRY(tell_round(all, 0, {}, global));
  std::uint64_t bytes = 0;
  for (std::uint64_t number = 1; number <= options.rounds; ++number) {
    TRY_ASSIGN(const Round round, run_round(all, number, global));
    bytes += round.bytes;
    TRY(tell_round(all, number, round, global));
  }
  std::printf("The clients sent %s in all.\n", bytes_text(bytes).c_str());
  if (!options.train.svg.empty()) {
    const std::string caption = cat(options.train.data, ", ", options.clients, " clients, split ", options.split,
                                    ", drop ", options.drop, ", ", options.server.kind, ", ", options.coding);
    TRY(write_text(options.train.svg, loss_svg("Loss by round", all.losses, all.held_out_losses, caption)));
  }
  if (!options.train.output.empty()) {
    const bool adapters = options.train.train.has_adapters();
    if (adapters) {
      TRY_ASSIGN(const Model adapter, adapter_of(global));
      TRY(save_output(options.train.output, saver_of(adapter)));
    } else {
      TRY(save_output(options.train.output, saver_of(global)));
    }
    std::printf("Wrote %s.\n", options.train.output.c_str());
  }
  return all.metrics.outcome();
}

Status run_simulate(const SimulateArguments& options) {
  TRY(check_options(options));
  const TrainArguments& train = options.train;
  Outputs outputs;
  outputs.replaces("the model", train.path, train.in_place);
  for (const std::string& file : adapter_files(train.train.adapter)) outputs.reads("the adapter", file);
  outputs.reads_data(train.data);
  outputs.reads_data(train.held_out);
  TRY(outputs.file("-o", train.output));
  TRY(outputs.file("--svg", train.svg));
  TRY(outputs.stream("--metrics", train.metrics));
  TRY_ASSIGN(AdaptedModel model,
             open_adapted(train.path, train.train.adapter, WeightCheck::at_once, train.train.fresh()));
  TRY_ASSIGN(auto device, OpenDevice::open(train.device));
  TRY(simulate(*device, model.get(), options));
  return device->close();
}

}  // namespace

Action add_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateArguments>();
  TrainArguments& train = options->train;
  app.add_option("MODEL", train.path, "A .graft file")->required();
  app.add_option("--data", train.data, "The data set that the clients share, as graft train takes it")->required();
  app.add_option("--eval", train.held_out, "A data set to evaluate on after each round");
  app.add_option("--eval-split", train.split, "Share of --data to evaluate on instead: its last samples")
      ->check(number(0, 1, Ends::open));
  app.add_option("--clients", options->clients, "How many (10)")->check(whole(1, 1000000));
  app.add_option("--rounds", options->rounds, "How many (10)")->check(whole(1));
  app.add_option("--per-round", options->per_round, "Clients that a round takes, at random (all)")->check(whole(1));
  app.add_option("--drop", options->drop, "Share of them that do not report, at random (0)")
      ->check(number(0, 1, Ends::open_above));
  app.add_option("--local-epochs", options->local_epochs,
                 "Times through its samples that a client trains (1); with few rounds, 3 to 5 reach further")
      ->check(whole(1));
  app.add_option("--split", options->split,
                 "iid, dirichlet=ALPHA (labels are shared out unevenly) or shards=N (pieces of single labels)");
  app.add_option("--codec", options->coding, "f32, bf16, int8 or fixed: how deltas are sent (f32)");
  app.add_option("--clip-delta", options->clip_delta, "Largest norm of a client's delta")->check(positive());
  app.add_option("--noise", options->noise, "Normal noise on the clients' sum, of so many times --clip-delta")
      ->check(positive());
  app.add_option("--delta", options->delta, "Of the privacy that is told with --noise (1e-5)")
      ->check(number(0, 1, Ends::open));
  add_server_flags(app, options->server);
  app.add_option("--metrics", train.metrics, "Write a JSON object per round to this file");
  app.add_option("--svg", train.svg, "Draw the losses to this file");
  app.add_option("-o,--output", train.output, "The last model; with --lora or --adapter, the adapters alone");
  add_in_place_flag(app, train.in_place);
  add_train_flags(app, train.train);
  add_device_flags(app, train.device);
  add_pace_flags(app, train.device);
  app.callback([&app, options] {
    refuse_idle_train_flags(app, options->train.train);
    refuse_idle_server_flags(app, options->server);
    refuse_idle(app, options->noise == 0, {"--delta"}, "without --noise.");
  });
  return [options] { return run_simulate(*options); };
}

}  // namespace graft::cli
