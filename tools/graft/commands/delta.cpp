// graft delta: what training changed as a small file; made, averaged over clients, put on a model.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "graft/adapters.h"
#include "graft/delta.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/delta_flags.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

struct DeltaArguments {
  std::string base;
  std::string updated;
  std::string file;
  std::vector<std::string> files;
  std::string output;
  std::string coding = "f32";
  std::string residual;
  std::uint64_t samples = 1;
  std::uint64_t local_steps = 0;
  std::uint32_t fixed_bits = 8;
  std::uint32_t room = 1024;
  std::optional<std::uint64_t> seed;
  double rate = 1;
  ServerFlags server;
  std::string server_state;
  std::string weights = "samples";
  bool products = false;
  std::uint32_t rank = 0;
  double noise = 0;  ///< of make and average
  double clip_norm = 0;
  double expected_clients = 0;
  double delta = 1e-5;
  double share = 1;
  std::uint64_t rounds = 1;
  bool json = false;
  bool in_place = false;
};

const std::uint64_t* given(const std::optional<std::uint64_t>& seed) { return seed ? &*seed : nullptr; }

Result<Owned<graft_delta>> read_delta(graft_context* context, const std::string& path) {
  graft_delta* made = nullptr;
  const graft_status loaded = graft_delta_load(context, path.c_str(), &made);
  Owned<graft_delta> delta(made);
  TRY(checked(loaded, context));
  return delta;
}

Result<graft_delta_info> describe(graft_context* context, graft_delta* delta) {
  auto info = sized<graft_delta_info>();
  TRY(checked(graft_delta_describe(delta, &info), context));
  return info;
}

Result<std::uint64_t> size_of(const std::string& path) {
  std::error_code failed;
  const std::uint64_t bytes = std::filesystem::file_size(path, failed);
  if (failed) return error(Code::io_error, "The size of \"", path, "\" is not known: ", failed.message(), ".");
  return bytes;
}

/// What coding lost is written beside the file that keeps it and takes its place when the delta is written, too: a
/// delta that could not be is made again from what was there.
class KeptResidual {
 public:
  explicit KeptResidual(const std::string& path) : path_(path) {}
  KeptResidual(const KeptResidual&) = delete;
  KeptResidual& operator=(const KeptResidual&) = delete;
  ~KeptResidual() {
    std::error_code ignored;
    if (!next_.empty()) std::filesystem::remove(next_, ignored);
  }
  Status begin() {
    if (path_.empty()) return ok_status();
    TRY_ASSIGN(const std::string random, random_name());
    next_ = (std::filesystem::path(path_).parent_path() / cat(".graft-", random, ".next")).string();
    std::error_code failed;
    if (!std::filesystem::exists(path_, failed)) return ok_status();
    std::filesystem::copy_file(path_, next_, std::filesystem::copy_options::overwrite_existing, failed);
    if (failed) return error(Code::io_error, "\"", path_, "\" cannot be copied: ", failed.message(), ".");
    return ok_status();
  }
  const char* path() const { return next_.empty() ? nullptr : next_.c_str(); }
  Status finish() const {
    std::error_code failed;
    if (!next_.empty()) std::filesystem::rename(next_, path_, failed);
    if (failed) return error(Code::io_error, "\"", path_, "\" cannot be replaced: ", failed.message(), ".");
    return ok_status();
  }

 private:
  std::string path_;
  std::string next_;
};

Status make(const DeltaArguments& options) {
  Outputs outputs;
  outputs.reads("the base", options.base);
  outputs.reads("the new model", options.updated);
  TRY(outputs.file("-o", options.output));
  TRY(outputs.file("--residual", options.residual));
  auto wanted = sized<graft_delta_options>();
  TRY_ASSIGN(wanted.coding, coding_of(options.coding));
  wanted.samples = options.samples;
  wanted.local_steps = options.local_steps;
  wanted.fixed_bits = options.fixed_bits;
  wanted.room = options.room;
  wanted.clip_norm = options.clip_norm;
  wanted.noise = options.noise;
  wanted.seed = given(options.seed);
  KeptResidual residual(options.residual);
  TRY(residual.begin());
  wanted.residual = residual.path();
  TRY_ASSIGN(const auto context, open_context_without_device());
  TRY_ASSIGN(const auto base, open_model(context.get(), options.base));
  TRY_ASSIGN(const auto updated, open_model(context.get(), options.updated));
  graft_delta* made = nullptr;
  const graft_status status = graft_delta_make(base.get(), updated.get(), &wanted, &made);
  const Owned<graft_delta> delta(made);
  TRY(checked(status, context.get()));
  TRY(checked(graft_delta_save(made, options.output.c_str()), context.get()));
  TRY(residual.finish());
  TRY_ASSIGN(const graft_delta_info info, describe(context.get(), made));
  TRY_ASSIGN(const std::uint64_t bytes, size_of(options.output));
  if (options.json) {
    print_json({{"output", options.output},
                {"tensors", info.tensors},
                {"numbers", info.numbers},
                {"norm", info.norm},
                {"clip_norm", info.clip_norm},
                {"bytes", bytes}});
    return ok_status();
  }
  to_stdout("Wrote %s: %zu tensors, %s numbers, norm %.6g%s, %s.\n", options.output.c_str(), info.tensors,
            grouped(info.numbers).c_str(), info.norm,
            info.noise > 0                                     ? cat(" with noise of ", info.noise).c_str()
            : info.clip_norm > 0 && info.norm > info.clip_norm ? cat(" clipped to ", info.clip_norm).c_str()
                                                               : "",
            bytes_text(bytes).c_str());
  return ok_status();
}

Status apply(const DeltaArguments& options) {
  Outputs outputs;
  outputs.replaces("the base", options.base, options.in_place);
  outputs.reads("the delta", options.file);
  TRY(outputs.file("-o", options.output));
  TRY(outputs.file("--server-state", options.server_state));
  TRY_ASSIGN(const auto context, open_context_without_device());
  TRY_ASSIGN(const auto server, open_server(context.get(), options.server));
  const bool keeps = graft_server_keeps(server.get()) != 0;
  if (keeps && options.server_state.empty()) {
    return invalid("This server's step has moments, which go from round to round: name a file with --server-state.");
  }
  TRY_ASSIGN(const auto model, open_model(context.get(), options.base));
  TRY_ASSIGN(auto delta, read_delta(context.get(), options.file));
  std::error_code ignored;
  if (!options.server_state.empty() && std::filesystem::exists(options.server_state, ignored)) {
    TRY(checked(graft_server_load(server.get(), options.server_state.c_str()), context.get()));
  }
  if (keeps) {
    graft_delta* step = nullptr;
    TRY(checked(graft_server_step(server.get(), model.get(), delta.get(), &step), context.get()));
    delta.reset(step);
  }
  TRY_ASSIGN(const graft_delta_info info, describe(context.get(), delta.get()));
  const double rate = keeps ? 1 : options.server.rate;
  TRY(checked(graft_delta_apply(model.get(), delta.get(), rate), context.get()));
  TRY(save_output(options.output, [&](const std::string& path) -> Status {
    const auto save = info.of_adapters != 0 ? graft_model_save_adapters : graft_model_save;
    return checked(save(model.get(), path.c_str()), context.get());
  }));
  if (!options.server_state.empty()) {
    TRY(checked(graft_server_save(server.get(), options.server_state.c_str()), context.get()));
  }
  if (options.json) {
    print_json(
        {{"output", options.output}, {"clients", info.clients}, {"samples", info.samples}, {"server_rate", rate}});
  } else {
    to_stdout("Wrote %s.\n", options.output.c_str());
  }
  return ok_status();
}

Result<Owned<graft_delta>> average_of(graft_context* context, const DeltaArguments& options) {
  auto wanted = sized<graft_average_options>();
  wanted.equal = options.weights == "equal" ? 1 : 0;
  wanted.products = options.products ? 1 : 0;
  wanted.rank = options.rank;
  wanted.noise = options.noise;
  wanted.clip_norm = options.clip_norm;
  wanted.expected_clients = options.expected_clients;
  wanted.seed = given(options.seed);
  graft_delta* result = nullptr;
  if (!options.products) {
    graft_averager* made = nullptr;
    const graft_status created = graft_averager_create(context, &wanted, &made);
    const Owned<graft_averager> averager(made);
    TRY(checked(created, context));
    for (const std::string& path : options.files) {
      TRY_ASSIGN(const auto next, read_delta(context, path));
      TRY(checked(graft_averager_add(made, next.get()), context).with_context(cat("While adding \"", path, "\"")));
    }
    TRY(checked(graft_averager_finish(made, &result), context));
    return Owned<graft_delta>(result);
  }
  std::vector<Owned<graft_delta>> deltas;
  std::vector<graft_delta*> raw;
  for (const std::string& path : options.files) {
    TRY_ASSIGN(auto next, read_delta(context, path));
    raw.push_back(next.get());
    deltas.push_back(std::move(next));
  }
  TRY(checked(graft_delta_average(context, raw.data(), raw.size(), &wanted, &result), context));
  Owned<graft_delta> average(result);
  TRY_ASSIGN(const graft_delta_info info, describe(context, result));
  if (!options.json)
    to_stdout("Matrices of rank %u hold %.4g%% of the exact average's squared norm.\n", info.rank, 100 * info.kept);
  return average;
}

Status average(const DeltaArguments& options) {
  Outputs outputs;
  for (const std::string& path : options.files) outputs.reads("a delta", path);
  TRY(outputs.file("-o", options.output));
  TRY_ASSIGN(const auto context, open_context_without_device());
  TRY_ASSIGN(const auto average, average_of(context.get(), options));
  TRY(checked(graft_delta_save(average.get(), options.output.c_str()), context.get()));
  TRY_ASSIGN(const graft_delta_info info, describe(context.get(), average.get()));
  if (options.json) {
    nlohmann::ordered_json row = {
        {"output", options.output}, {"clients", info.clients}, {"samples", info.samples}, {"norm", info.norm}};
    if (options.products) row.update({{"rank", info.rank}, {"kept", info.kept}});
    print_json(row);
    return ok_status();
  }
  to_stdout("Wrote %s: the average of %u clients and %llu samples, norm %.6g.\n", options.output.c_str(), info.clients,
            static_cast<unsigned long long>(info.samples), info.norm);
  return ok_status();
}

Status info(const DeltaArguments& options) {
  TRY_ASSIGN(const auto context, open_context_without_device());
  TRY_ASSIGN(const auto delta, read_delta(context.get(), options.file));
  TRY_ASSIGN(const graft_delta_info info, describe(context.get(), delta.get()));
  TRY_ASSIGN(const std::uint64_t bytes, size_of(options.file));
  const bool adapters = info.of_adapters != 0;
  const char* const coding = coding_name(info.coding);
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  std::string lines;
  for (std::size_t i = 0; i < info.tensors; ++i) {
    auto text = sized<graft_tensor_text>();
    graft_tensor_info tensor = {};
    TRY(checked(graft_delta_tensor_text(delta.get(), i, &text), context.get()));
    TRY(checked(graft_delta_tensor(delta.get(), i, &tensor), context.get()));
    lines += cat("  ", text.name, " ", text.shape, "\n");
    if (!options.json) continue;
    const std::vector<std::int64_t> dims(tensor.dims, tensor.dims + tensor.rank);
    tensors.push_back({{"name", text.name}, {"shape", dims}, {"dtype", text.dtype}});
  }
  if (options.json) {
    print_json({{"kind", adapters ? "adapters" : "weights"},
                {"base", info.base},
                {"base_file", info.base_file},
                {"samples", info.samples},
                {"clients", info.clients},
                {"local_steps", info.local_steps},
                {"rank", info.rank},
                {"coding", coding},
                {"fixed_bits", info.fixed_bits},
                {"norm", info.norm},
                {"clip_norm", info.clip_norm},
                {"noise", info.noise},
                {"numbers", info.numbers},
                {"bytes", bytes},
                {"tensors", tensors}});
    return ok_status();
  }
  to_stdout("%s of %s (weights %s)\n", adapters ? "Adapters" : "Changes",
            *info.base_file == '\0' ? "a model" : info.base_file, info.base);
  to_stdout("clients      %u\nsamples      %llu\nlocal steps  %llu\n", info.clients,
            static_cast<unsigned long long>(info.samples), static_cast<unsigned long long>(info.local_steps));
  if (info.rank > 0) to_stdout("rank         %u\n", info.rank);
  to_stdout("coding       %s\nnorm         %.6g\n", coding, info.norm);
  if (info.clip_norm > 0) to_stdout("clipped to   %.6g\n", info.clip_norm);
  if (info.noise > 0) to_stdout("noise        %.6g\n", info.noise);
  to_stdout("numbers      %s in %zu tensors, %s\n%s", grouped(info.numbers).c_str(), info.tensors,
            bytes_text(bytes).c_str(), lines.c_str());
  return ok_status();
}

Status privacy(const DeltaArguments& options) {
  TRY_ASSIGN(const auto context, open_context_without_device());
  double epsilon = 0;
  TRY(checked(graft_delta_privacy(context.get(), options.noise, options.share, options.rounds, options.delta, &epsilon),
              context.get()));
  if (options.json) {
    const std::uint32_t order = graft_delta_privacy_order(options.noise, options.share, options.rounds, options.delta);
    print_json({{"epsilon", epsilon}, {"delta", options.delta}, {"order", order}});
  } else {
    to_stdout(
        "(epsilon, delta) = (%.4g, %g) for each client: %llu rounds, each of which draws each client by itself with "
        "probability %.4g, and noise on the sum of %g times the norm that each delta is clipped to.\n",
        epsilon, options.delta, static_cast<unsigned long long>(options.rounds), options.share, options.noise);
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
  app->add_option("--samples", options->samples, "Samples that training used: the delta's weight (1)")->check(whole(1));
  app->add_option("--local-steps", options->local_steps, "Optimizer steps that it took (0)")->check(whole(0));
  app->add_option("--codec", options->coding, "f32, bf16, int8 (blocks of 256) or fixed (integers)");
  app->add_option("--residual", options->residual,
                  "What coding lost is kept in this file and added to the next round's delta");
  app->add_option("--fixed-bits", options->fixed_bits, "Of --codec fixed: bits behind the point (8)")
      ->check(whole(0, 30));
  app->add_option("--room", options->room, "Of --codec fixed: clients that must fit in a sum (1024)")
      ->check(whole(1, UINT32_MAX));
  app->add_option("--clip-norm", options->clip_norm,
                  "Scale the delta, as it is sent, to this L2 norm where it is longer; all trainable tensors are sent")
      ->check(positive());
  app->add_option("--noise", options->noise, "Add normal noise of so many times --clip-norm to every number")
      ->check(positive());
  add_seed(app, options->seed);
  app->callback([app, options] {
    const bool fixed = options->coding == "fixed";
    refuse_idle(*app, !fixed, {"--fixed-bits", "--room"}, "without --codec fixed.");
    refuse_idle(*app, options->noise == 0, {"--seed"}, "without --noise.");
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
  app->add_option("--expected-clients", options->expected_clients,
                  "With --noise: divide the sum by this number, for rounds that draw clients by chance (the deltas')")
      ->check(positive());
  add_seed(app, options->seed);
  app->callback([app, options] {
    refuse_idle(*app, options->noise == 0, {"--clip-norm", "--expected-clients", "--seed"}, "without --noise.");
  });
}

void add_privacy(CLI::App* app, const std::shared_ptr<DeltaArguments>& options) {
  app->add_option("--noise", options->noise, "Standard deviation of the noise over the norm clipped to")
      ->required()
      ->check(positive());
  app->add_option("--share", options->share,
                  "Probability with which a round takes each client, by itself: not a fixed number of them (1)")
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
    command->add_flag("--json", options->json, "Print JSON");
    return command;
  };
  add_make(sub("make", "What training changed of a model, or its adapters", make), options);
  add_apply(sub("apply", "A model or adapters with a delta added", apply), options);
  add_average(sub("average", "The average of several clients' deltas", average), options);
  CLI::App* told = sub("info", "What a delta holds", info);
  told->add_option("DELTA", options->file, "A delta file")->required();
  CLI::App* cost = sub("privacy", "The (epsilon, delta) that rounds with noise amount to", privacy);
  add_privacy(cost, options);
  return [options, chosen]() -> Status { return (*chosen)(*options); };
}

}  // namespace graft::cli
