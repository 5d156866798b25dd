#include "tools/graft/workers.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "graft/gloo.h"
#include "platform/base/checked.h"
#include "platform/group/in_process.h"
#include "runtime/distribute/start.h"
#include "runtime/session/callback_group.h"
#include "runtime/train/fit.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"

namespace graft::cli {
namespace {

constexpr std::uint64_t kMostWorkers = 64;
constexpr const char* kGloo = "libgraft_gloo.so.0.1";

/// Meetings after one failure: more would be no worker's fault.
constexpr int kMostMeetings = 32;

/// The loader reads this worker's samples alone.
Status read_share(PreparedRun& run, train::Share share) {
  const auto micro = static_cast<std::uint64_t>(run.trainer->plan().micro_batch);
  run.share = share;
  return run.loader->read_only([share = std::move(share), micro, &all = run.reads_all](std::uint64_t samples) {
    return all ? std::pair(std::uint64_t{0}, samples) : share.of_samples(micro, samples);
  });
}

Status begin_together(group::Group& group, PreparedRun& run, const train::SlotExchange& exchange,
                      const TrainArguments& options, std::chrono::nanoseconds deadline) {
  Configuration words = configuration_of(*run.trainer);
  add_data(options, run, words);
  words["--shard-optimizer"] = run.trainer->is_sharded() ? "yes" : "no";
  TRY(distribute::agree(group, words, !run.has_joined, deadline));
  run.has_joined = true;
  TRY(distribute::share_state(group, *run.trainer, run.loader.get(), deadline));
  run.place = run.loader->cursor();
  // Until a step is done that one worker began: what is begun together needs this worker's share alone.
  run.reads_all = run.trainer->state().samples_done != 0;
  return read_share(run, exchange.share());
}

bool is_of_lost_worker(const Status& status) {
  return status.code() == Code::io_error || status.code() == Code::timeout;
}

}  // namespace

void add_worker_flags(CLI::App& app, WorkerFlags& flags) {
  app.add_option("--workers", flags.number,
                 "Share the micro-batches of each step (--accumulate) among so many devices, to the same bits (1)")
      ->check(whole(1, kMostWorkers));
  app.add_option("--devices", flags.devices, "One for each worker in turn, as in 0,1 (default: that of --device)");
  app.add_option("--worker-timeout", flags.timeout,
                 "Seconds that a process may be silent; one that runs is waited for ten times as long (120)")
      ->check(whole(1, 1 << 20));
  app.add_flag("--heal", flags.heal,
               "Bring workers up to date whose parameters are not those of the others, instead of ending the run");
  app.add_flag("--shard-optimizer", flags.shard_optimizer,
               "Share the optimizer's state out among the workers: less memory each, the same bits; where one is lost, "
               "the others go on from the last checkpoint");
  app.add_option("--wire", flags.wire,
                 "How gradients are sent: f32, or bf16, half of it and not the bits of one worker (f32)")
      ->check(CLI::IsMember({"f32", "bf16"}));
}

Result<std::unique_ptr<Workers>> Workers::create(const TrainArguments& options) {
  std::unique_ptr<Workers> made(new Workers(options));
  TRY_ASSIGN(const auto launch, launched_as([](const char* name) { return std::getenv(name); }));
  const std::uint64_t number = options.workers.number;
  if (launch && number != 1 && number != launch->size) {
    return invalid("--workers is ", number, ", but this is worker ", launch->rank, " of ", launch->size, " by ",
                   launch->by, ".");
  }
  if (!launch && number == 1) {
    if (!options.workers.devices.empty()) return invalid("--devices is for several workers: --workers N.");
    if (options.workers.shard_optimizer) return invalid("--shard-optimizer is for several workers: --workers N.");
    if (options.workers.wire != "f32") return invalid("--wire is for several workers: --workers N.");
    return made;
  }
  if (options.recover_device) return unsupported("--recover-device is for runs of one worker.");
  if (launch) {
    TRY(made->join(*launch));
  } else {
    made->group_ = group::in_process(number);
    made->ended_.resize(number);
  }
  return made;
}

Status Workers::join(const Launch& launch) {
  auto library = os::DynamicLibrary::open(kGloo);
  if (!library.ok()) {
    return Status(library.status()).with_context("Workers of several processes need libgraft_gloo");
  }
  gloo_ = std::move(*library);
  const auto enter = gloo_.find_as<decltype(&graft_gloo_join)>("graft_gloo_join");
  if (enter == nullptr) return error(Code::not_found, kGloo, " is another library than graft's.");
  std::fprintf(stderr, "Worker %u of %u (by %s), by way of %s port %u.\n", launch.rank, launch.size, launch.by.c_str(),
               launch.address.c_str(), launch.port);
  const char* const secret = std::getenv("GRAFT_SECRET");
  const graft_gloo_options options = {sizeof options, launch.rank, launch.size, launch.address.c_str(),
                                      launch.port,    secret,      0,           1000 * options_.workers.timeout};
  std::array<char, 512> message = {};
  const graft_status status = enter(&options, &joined_, message.data(), message.size());
  if (status != GRAFT_OK) return error(static_cast<Code>(status), message.data());
  launch_ = launch;
  group_.push_back(std::make_unique<CallbackGroup>(joined_));
  return ok_status();
}

Workers::~Workers() {
  static_cast<void>(end(error(Code::cancelled, "it could not begin.")));
  if (joined_.user != nullptr) gloo_.find_as<decltype(&graft_gloo_leave)>("graft_gloo_leave")(&joined_);
}

distribute::ExchangeOptions Workers::exchange_options() const {
  distribute::ExchangeOptions made;
  // Whoever stands still is found by its silence. One that runs is slow, or compiles: it gets longer, as between steps.
  if (launch_) made.within_step = made.between_steps = 10 * std::chrono::seconds(options_.workers.timeout);
  made.overlap = made.moves_shares = true;
  if (options_.workers.wire == "bf16") made.wire = distribute::Wire::bf16;
  return made;
}

Status Workers::after_step(PreparedRun& run, const train::SlotExchange& exchange) {
  run.reads_all = false;
  run.place = run.trainer->state().cursor;
  train::Share now = exchange.share();
  return now.costs == run.share.costs ? ok_status() : read_share(run, std::move(now));
}

DeviceFlags Workers::device_of(std::size_t rank) const {
  DeviceFlags flags = options_.device;
  const std::vector<std::string> devices = split_list(options_.workers.devices);
  if (!devices.empty()) flags.device = devices[(launch_ ? launch_->local_rank : rank) % devices.size()];
  return flags;
}

std::unique_ptr<train::SlotExchange> Workers::exchange(gpu::Device& device) {
  if (group_.empty()) return nullptr;
  return std::make_unique<distribute::GroupExchange>(*group_[0], device, exchange_options());
}

Status Workers::begin(PreparedRun& run, train::SlotExchange* exchange, const Model& base, const Model& model) {
  if (group_.empty()) return ok_status();
  led_ = leads();
  run.has_joined = has_joined_;
  for (std::size_t rank = 1; rank < group_.size(); ++rank) {
    TRY_ASSIGN(auto thread, os::start_thread(
                                [this, rank, &base, &model] {
                                  ended_[rank] = work_as(rank, *group_[rank], base, model);
                                  group_[rank]->leave(ended_[rank]);
                                },
                                "for a worker"));
    threads_.push_back(std::move(thread));
  }
  Status begun = begin_together(*group_[0], run, *exchange, options_, exchange_options().between_steps);
  if (launch_ && is_of_lost_worker(begun)) {
    begun = meet_again(*group_[0], run, static_cast<distribute::GroupExchange&>(*exchange), std::move(begun));
  }
  TRY(std::move(begun));
  const std::size_t workers = group_[0]->size();
  if (!leads()) {
    std::fprintf(stderr, "One of %zu workers, from step %llu on.\n", workers,
                 static_cast<unsigned long long>(run.trainer->state().step));
    return ok_status();
  }
  const auto slots =
      static_cast<std::uint64_t>(ceil_div(run.trainer->options().batch, run.trainer->plan().micro_batch));
  std::string shares;
  for (std::size_t rank = 0; rank < workers; ++rank) {
    shares += cat(rank == 0 ? "" : ", ", train::Share{rank, workers}.of(slots).count);
  }
  std::fprintf(stderr, "%zu workers take %s of the %llu micro-batches of a step.\n", workers, shares.c_str(),
               static_cast<unsigned long long>(slots));
  if (slots < workers) {
    std::fprintf(stderr, "Those with 0 have nothing to do: --accumulate %zu gives each one.\n", workers);
  }
  return ok_status();
}

Status Workers::work_as(std::size_t rank, group::Group& group, const Model& base, const Model& model) {
  TRY_ASSIGN(auto opened, OpenDevice::open(device_of(rank)));
  {
    distribute::GroupExchange exchange(group, opened->device(), exchange_options());
    TRY_ASSIGN(const auto run, prepare_run(*opened, base, model, options_, &exchange, std::nullopt));
    TRY(begin_together(group, *run, exchange, options_, exchange_options().between_steps));
    train::FitOptions fit_options;
    fit_options.steps = options_.steps;
    fit_options.on_step = [&](const train::StepResult&) { return after_step(*run, exchange); };
    fit_options.go_on = [&](const Status& why) { return go_on(group, *run, exchange, why); };
    for (bool concluded = false; !concluded;) {
      TRY(train::fit(*run->trainer, *run->loader, fit_options));
      TRY_ASSIGN(concluded, conclude(group, *run, exchange, nullptr));
    }
  }
  return opened->close();
}

Status Workers::go_on(PreparedRun& run, train::SlotExchange& exchange, const Status& why) {
  return go_on(*group_[0], run, exchange, why);
}

Status Workers::go_on(group::Group& group, PreparedRun& run, train::SlotExchange& with, const Status& why) {
  auto& exchange = static_cast<distribute::GroupExchange&>(with);  // the only one that there is
  if (options_.workers.heal && exchange.differs()) {
    if (group.rank() == 0) std::fprintf(stderr, "%s They get worker 0's state.\n", why.message().c_str());
    TRY(run.loader->restore(data::Cursor(*run.place)));
    return begin_together(group, run, exchange, options_, exchange_options().between_steps);
  }
  if (!launch_ || !exchange.has_lost_worker()) return why;
  if (!run.trainer->is_sharded()) return meet_again(group, run, exchange, why);
  if (options_.checkpoint.options.folder.empty()) {
    return Status(why).with_context(
        "The optimizer's state was shared out, a part of it is lost, and without --checkpoint there is no copy; start "
        "the "
        "run anew");
  }
  starts_anew_ = true;
  return why;
}

Status Workers::meet_anew() {
  starts_anew_ = false;
  has_joined_ = true;
  std::fprintf(stderr, "A part of the optimizer's state is lost: the others go on from the last checkpoint.\n");
  Status met = error(Code::timeout, "they have not met.");
  for (int i = 0; i < kMostMeetings && is_of_lost_worker(met); ++i) met = group_[0]->reform();
  TRY(std::move(met));
  std::fprintf(stderr, "%zu workers go on%s.\n", group_[0]->size(), leads() ? "; this one is worker 0" : "");
  return ok_status();
}

Status Workers::meet_again(group::Group& group, PreparedRun& run, distribute::GroupExchange& exchange, Status failed) {
  for (int i = 0; i < kMostMeetings && is_of_lost_worker(failed); ++i) {  // others may go meanwhile
    std::fprintf(stderr, "%s%s\n", failed.message().c_str(), exchange.lets_in() ? "" : " The others go on.");
    failed = exchange.reform();
    if (!failed.ok()) continue;
    // Before the first step nobody has read anything.
    if (run.place) TRY(run.loader->restore(data::Cursor(*run.place)));
    if (const bool leads = group.rank() == 0; leads != led_) {
      led_ = leads;
      if (leads) std::fprintf(stderr, "This worker is worker 0 now.\n");
      TRY(when_it_leads_(leads));
    }
    failed = begin_together(group, run, exchange, options_, exchange_options().between_steps);
  }
  TRY(std::move(failed));
  std::fprintf(stderr, "%zu workers go on from step %llu.\n", group.size(),
               static_cast<unsigned long long>(run.trainer->state().step));
  return ok_status();
}

Result<bool> Workers::conclude(group::Group& group, PreparedRun& run, train::SlotExchange& exchange,
                               const std::function<Status()>& finish) {
  const std::uint64_t step = run.trainer->state().step;
  bool finished = false;
  for (;;) {
    auto all = distribute::end_together(group, finished, exchange_options().between_steps);
    if (all.ok() && *all) return true;
    if (all.ok()) {
      TRY(run.trainer->gather_state());
      if (group.rank() != 0) continue;
      TRY(finish());
      finished = true;
      continue;
    }
    if (!launch_ || !is_of_lost_worker(all.status())) return all.status();
    static_cast<distribute::GroupExchange&>(exchange).note_lost_worker();
    TRY(go_on(group, run, exchange, all.status()));
    if (run.trainer->state().step != step) return false;
  }
}

Result<bool> Workers::conclude(PreparedRun& run, train::SlotExchange* exchange, const std::function<Status()>& finish) {
  if (exchange != nullptr) return conclude(*group_[0], run, *exchange, finish);
  TRY(finish());
  return true;
}

Status Workers::end(const Status& why) {
  if (group_.empty()) return ok_status();
  group_[0]->leave(why);
  for (os::Thread& thread : threads_) thread.join();
  threads_.clear();
  for (const Status& status : ended_) {
    if (!status.ok() && status.code() != Code::cancelled) return status;
  }
  return ok_status();
}

}  // namespace graft::cli
