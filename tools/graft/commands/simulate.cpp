// graft simulate: federated training of many clients on one machine, to see what split, codec and server do.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "graft/adapters.h"
#include "graft/delta.h"
#include "graft/source.h"
#include "graft/steps.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/report/metrics_file.h"
#include "tools/graft/report/svg.h"
#include "tools/graft/shared/delta_flags.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/training/prepared_run.h"
#include "tools/graft/training/training_sets.h"

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
  Owned<graft_residual> residual;  ///< null where coding loses nothing
};

struct Simulation {
  const SimulateArguments& options;
  graft_context* context = nullptr;
  graft_delta_coding coding = GRAFT_DELTA_F32;
  TrainingSets sets;
  Owned<graft_trainer> trainer;
  Owned<graft_server> server;
  Owned<graft_model> global;  ///< as it is after the last round
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
  std::uint64_t samples = 0;
  double loss_sum = 0;  ///< over the samples of the clients' last epochs
};

/// What is drawn at random, the same on every machine: the standard says what this generator gives, but not what its
/// distributions do.
class Draws {
 public:
  Draws(const SimulateArguments& options, std::uint64_t round, std::uint64_t what) {
    std::vector<std::uint32_t> words;
    for (const std::uint64_t number : {std::uint64_t{options.train.train.options.seed}, round, what}) {
      words.push_back(static_cast<std::uint32_t>(number));
      words.push_back(static_cast<std::uint32_t>(number >> 32));
    }
    std::seed_seq seeds(words.begin(), words.end());
    engine_.seed(seeds);
  }
  std::uint64_t next() { return engine_(); }
  std::uint64_t below(std::uint64_t n) { return next() % n; }  ///< the bias is below n / 2^64
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};
constexpr std::uint64_t kOfRound = ~std::uint64_t{0}, kOfNoise = kOfRound - 1;  // no client has such a number

/// Takes a handle that a call made, where the call went well.
template <typename T>
Result<Owned<T>> taken(T* made, graft_status status, const graft_context* context) {
  Owned<T> owned(made);
  TRY(checked(status, context));
  return owned;
}

/// Trains one client from the global model on, and gives what changed.
Result<Owned<graft_delta>> train_client(Simulation& all, Client& client, std::uint64_t seed, Round& round) {
  graft_trainer* const trainer = all.trainer.get();
  TRY(checked(graft_trainer_restart(trainer, all.global.get()), all.context));
  graft_data_set* part = nullptr;
  const graft_status selected =
      graft_data_select(all.sets.training.get(), client.rows.data(), client.rows.size(), &part);
  TRY_ASSIGN(const auto samples, taken(part, selected, all.context));
  const TrainFlags& flags = all.options.train.train;
  auto batches = sized<graft_loader_options>();
  batches.batch = static_cast<std::uint64_t>(flags.batch * flags.accumulate);
  batches.seed = seed;
  batches.epochs = all.options.local_epochs;
  batches.anonymous = 1;
  graft_loader* reader = nullptr;
  const graft_status opened = graft_loader_create(part, &batches, &reader);
  TRY_ASSIGN(const auto loader, taken(reader, opened, all.context));
  for (int more = 1; more != 0;) TRY(checked(graft_train_next(trainer, reader, &more, nullptr), all.context));
  auto totals = sized<graft_totals>();
  TRY(checked(graft_trainer_epoch(trainer, &totals), all.context));
  round.samples += totals.samples;
  round.loss_sum += totals.loss * static_cast<double>(totals.samples);
  auto place = sized<graft_run_place>();
  TRY(checked(graft_trainer_place(trainer, &place), all.context));
  graft_model* copy = nullptr;
  const graft_status copied = graft_trainer_copy(trainer, 0, &copy);
  TRY_ASSIGN(const auto trained, taken(copy, copied, all.context));
  auto make = sized<graft_delta_options>();
  make.samples = client.rows.size();
  make.local_steps = place.step;
  make.coding = all.coding;
  make.clip_norm = all.options.clip_delta;
  make.kept = client.residual.get();
  graft_delta* made = nullptr;
  const graft_status done = graft_delta_make(all.global.get(), copy, &make, &made);
  return taken(made, done, all.context);
}

/// The delta as the server gets it: the bytes that the client sends.
Result<Owned<graft_delta>> send(Simulation& all, graft_delta* delta, Round& round) {
  const void* bytes = nullptr;
  std::size_t count = 0;
  TRY(checked(graft_delta_bytes(delta, &bytes, &count), all.context));
  round.bytes += count;
  auto source = sized<graft_source>();
  source.data = bytes;
  source.bytes = count;
  source.name = "the client's";
  graft_delta* sent = nullptr;
  const graft_status loaded = graft_delta_load_source(all.context, &source, &sent);
  return taken(sent, loaded, all.context);
}

/// The probability with which a round takes a client.
double share_of(const Simulation& all) {
  if (all.options.per_round == 0) return 1;
  return std::min(1.0, static_cast<double>(all.options.per_round) / static_cast<double>(all.members.size()));
}

/// The clients that report in this round, in order. With noise each is drawn by itself, as the accountant assumes.
std::vector<std::uint64_t> draw_members(const Simulation& all, std::uint64_t number, Round& round) {
  const SimulateArguments& options = all.options;
  Draws draws(options, number, kOfRound);
  std::vector<std::uint64_t> members = all.members;
  if (options.noise > 0) {
    std::erase_if(members, [&](std::uint64_t) { return draws.uniform() >= share_of(all); });
    round.chosen = members.size();
    std::erase_if(members, [&](std::uint64_t) { return draws.uniform() < options.drop; });
    return members;
  }
  for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[draws.below(i)]);
  if (options.per_round > 0 && options.per_round < members.size()) members.resize(options.per_round);
  round.chosen = members.size();
  std::erase_if(members, [&](std::uint64_t) { return draws.uniform() < options.drop; });
  std::ranges::sort(members);
  return members;
}

Result<Owned<graft_averager>> open_averager(const Simulation& all, const std::uint64_t& seed) {
  auto wanted = sized<graft_average_options>();
  wanted.noise = all.options.noise;
  wanted.clip_norm = all.options.clip_delta;
  wanted.equal = wanted.noise > 0 ? 1 : 0;
  wanted.seed = wanted.noise > 0 ? &seed : nullptr;
  if (wanted.noise > 0) {
    wanted.expected_clients = share_of(all) * static_cast<double>(all.members.size()) * (1 - all.options.drop);
  }
  graft_averager* made = nullptr;
  const graft_status created = graft_averager_create(all.context, &wanted, &made);
  return taken(made, created, all.context);
}

/// One round; the global model takes the server's step.
Result<Round> run_round(Simulation& all, std::uint64_t number) {
  Round round;
  const std::vector<std::uint64_t> members = draw_members(all, number, round);
  if (members.empty() && all.options.noise == 0) return round;
  TRY_ASSIGN(const auto averager, open_averager(all, Draws(all.options, number, kOfNoise).next()));
  if (members.empty()) {  // the round's noise hides that nobody came
    auto make = sized<graft_delta_options>();
    make.clip_norm = all.options.clip_delta;
    graft_delta* made = nullptr;
    const graft_status done = graft_delta_make(all.global.get(), all.global.get(), &make, &made);
    TRY_ASSIGN(const auto nothing, taken(made, done, all.context));
    TRY(checked(graft_averager_add(averager.get(), nothing.get()), all.context));
  }
  for (const std::uint64_t member : members) {
    const std::uint64_t seed = Draws(all.options, number, member).next();
    TRY_ASSIGN(const auto made, train_client(all, all.clients[member], seed, round));
    TRY_ASSIGN(const auto sent, send(all, made.get(), round));
    TRY(checked(graft_averager_add(averager.get(), sent.get()), all.context));
    ++round.reported;
  }
  graft_delta* mean = nullptr;
  const graft_status averaged = graft_averager_finish(averager.get(), &mean);
  TRY_ASSIGN(const auto average, taken(mean, averaged, all.context));
  graft_delta* next = nullptr;
  const graft_status stepped = graft_server_step(all.server.get(), all.global.get(), mean, &next);
  TRY_ASSIGN(const auto step, taken(next, stepped, all.context));
  TRY(checked(graft_delta_apply(all.global.get(), next, 1), all.context));
  return round;
}

/// How good the global model is, where there is data to say.
Status evaluate(Simulation& all, std::uint64_t number, nlohmann::ordered_json& row) {
  graft_data_set* const set = all.sets.held_out.get();
  if (set == nullptr) return ok_status();
  TRY(checked(graft_trainer_restart(all.trainer.get(), all.global.get()), all.context));
  auto metrics = sized<graft_metrics>();
  TRY(checked(graft_evaluate_data(all.trainer.get(), set, &metrics), all.context));
  to_stdout("; held-out loss %.4f", metrics.loss);
  row["held_out_loss"] = metrics.loss;
  all.held_out_losses.push_back({static_cast<double>(number), metrics.loss});
  if (std::isnan(metrics.accuracy)) return ok_status();
  to_stdout(", accuracy %.2f%%", 100 * metrics.accuracy);
  row["held_out_accuracy"] = metrics.accuracy;
  return ok_status();
}

Status tell_round(Simulation& all, std::uint64_t number, const Round& round) {
  nlohmann::ordered_json row = {{"kind", "round"},
                                {"round", number},
                                {"clients", round.chosen},
                                {"reported", round.reported},
                                {"bytes", round.bytes}};
  to_stdout("round %llu: %llu of %llu clients, %s", static_cast<unsigned long long>(number),
            static_cast<unsigned long long>(round.reported), static_cast<unsigned long long>(round.chosen),
            bytes_text(round.bytes).c_str());
  if (round.samples > 0) {
    const double loss = round.loss_sum / static_cast<double>(round.samples);
    to_stdout(", loss %.4f", loss);
    row["loss"] = loss;
    all.losses.push_back({static_cast<double>(number), loss});
  }
  TRY(evaluate(all, number, row));
  to_stdout("\n");
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

Status share_out(Simulation& all) {
  const SimulateArguments& options = all.options;
  graft_data_set* const set = all.sets.training.get();
  std::vector<std::uint64_t> rows(graft_data_samples(set)), ends(options.clients);
  if (rows.empty()) return invalid("Clients share a data set of known size.");
  TRY(checked(graft_data_split(set, options.split.c_str(), options.clients, options.train.train.options.seed,
                               rows.data(), ends.data()),
              all.context));
  auto first = rows.begin();
  for (std::uint64_t i = 0; i < options.clients; ++i) {
    const auto end = rows.begin() + static_cast<std::ptrdiff_t>(ends[i]);
    Client& client = all.clients.emplace_back();
    client.rows.assign(first, end);
    if (!client.rows.empty()) all.members.push_back(i);
    if (all.coding == GRAFT_DELTA_INT8 || all.coding == GRAFT_DELTA_BF16) {
      graft_residual* residual = nullptr;
      TRY(checked(graft_residual_create(all.context, &residual), all.context));
      client.residual.reset(residual);
    }
    first = end;
  }
  return ok_status();
}

void tell_clients(const Simulation& all) {
  std::vector<std::size_t> sizes;
  for (const Client& client : all.clients) sizes.push_back(client.rows.size());
  std::ranges::sort(sizes);
  to_stdout("%zu clients with %zu to %zu samples, %zu in the middle", sizes.size(), sizes.front(), sizes.back(),
            sizes[sizes.size() / 2]);
  const std::size_t idle = all.clients.size() - all.members.size();
  if (idle > 0) to_stdout("; %zu have none and take no part", idle);
  to_stdout(".\n");
}

Status tell_privacy(const Simulation& all) {
  const SimulateArguments& options = all.options;
  if (options.noise == 0) return ok_status();
  const double share = share_of(all);
  double epsilon = 0;
  TRY(checked(graft_delta_privacy(all.context, options.noise, share, options.rounds, options.delta, &epsilon),
              all.context));
  to_stdout(
      "Privacy of each client: (epsilon, delta) = (%.4g, %g); each round draws each client by itself with "
      "probability %.4g.\n",
      epsilon, options.delta, share);
  return ok_status();
}

/// The data, the clients' shares of it, and the trainer that they take turns on.
Status prepare(Simulation& all, graft_model* model, const TrainWishes& wishes) {
  graft_trainer_options wanted = wishes.options();
  wanted.data = all.sets.training.get();
  wanted.held_out = all.sets.held_out.get();
  wanted.no_evaluation = all.sets.held_out ? 0 : 1;
  graft_trainer* trainer = nullptr;
  const graft_status created = graft_trainer_create(model, &wanted, &trainer);
  TRY_ASSIGN(all.trainer, taken(trainer, created, all.context));
  graft_model* global = nullptr;
  const graft_status copied = graft_trainer_copy(trainer, 0, &global);
  TRY_ASSIGN(all.global, taken(global, copied, all.context));
  return ok_status();
}

/// The last model, or its adapters.
Status write_model(Simulation& all, graft_model* model) {
  const TrainArguments& train = all.options.train;
  if (train.output.empty()) return ok_status();
  TRY(checked(graft_trainer_restart(all.trainer.get(), all.global.get()), all.context));
  TRY(checked(graft_trainer_store(all.trainer.get()), all.context));
  TRY(keep_classes(all.context, model, all.sets.training.get()));
  TRY(save_output(train.output, [&](const std::string& path) {
    const auto save = train.train.has_adapters() ? graft_model_save_adapters : graft_model_save;
    return checked(save(model, path.c_str()), all.context);
  }));
  to_stdout("Wrote %s.\n", train.output.c_str());
  return ok_status();
}

Status simulate(Simulation& all, graft_model* model) {
  const SimulateArguments& options = all.options;
  const TrainArguments& train = options.train;
  TrainWishes wishes;
  TRY(wishes.read(train.train, 0));
  TRY_ASSIGN(all.sets, open_training_sets(all.context, model, train));
  if (needs_reference(train.train)) TRY(add_references(all.context, model, train, wishes, all.sets));
  TRY(share_out(all));
  TRY(prepare(all, model, wishes));
  tell_clients(all);
  TRY(tell_privacy(all));
  if (!train.metrics.empty()) TRY(all.metrics.open(train.metrics, 0));
  TRY(tell_round(all, 0, {}));
  std::uint64_t bytes = 0;
  for (std::uint64_t number = 1; number <= options.rounds; ++number) {
    TRY_ASSIGN(const Round round, run_round(all, number));
    bytes += round.bytes;
    TRY(tell_round(all, number, round));
  }
  to_stdout("The clients sent %s in all.\n", bytes_text(bytes).c_str());
  if (!train.svg.empty()) {
    const std::string caption = cat(train.data, ", ", options.clients, " clients, split ", options.split, ", drop ",
                                    options.drop, ", ", options.server.kind, ", ", options.coding);
    TRY(write_text(train.svg, loss_svg("Loss by round", all.losses, all.held_out_losses, caption)));
  }
  TRY(write_model(all, model));
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
  TRY(outputs.model("-o", train.output));
  TRY(outputs.file("--svg", train.svg));
  TRY(outputs.stream("--metrics", train.metrics));
  TRY_ASSIGN(auto context, open_context(train.device));
  {
    TRY_ASSIGN(const auto model, open_trained(context.get(), train, GRAFT_CHECK_AT_ONCE));
    Simulation all{options, context.get()};
    TRY_ASSIGN(all.coding, coding_of(options.coding));
    TRY_ASSIGN(all.server, open_server(context.get(), options.server));
    TRY(simulate(all, model.get()));
  }
  return close_context(std::move(context));
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
  app.add_option("--per-round", options->per_round,
                 "Clients that a round takes, at random (all); with --noise on average, each drawn by itself")
      ->check(whole(1));
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
