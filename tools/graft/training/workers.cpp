#include "tools/graft/training/workers.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "graft/gloo.h"
#include "tools/common/help.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

constexpr std::uint64_t kMostWorkers = 64;
constexpr const char* kGloo = "libgraft_gloo.so.0.1";

/// Meetings after one failure: more would be no worker's fault.
constexpr int kMostMeetings = 32;

bool is_of_lost_worker(const Status& status) {
  return status.code() == Code::io_error || status.code() == Code::timeout;
}

/// All trainers were made alike, and have worker 0's state.
Status begin_together(const PreparedRun& run) {
  return checked(graft_trainer_join(run.trainer.get(), run.loader.get(), nullptr), run.context);
}

Status heal(const PreparedRun& run, const Status& why, bool tells) {
  if (tells) to_stderr("%s They get worker 0's state.\n", why.message().c_str());
  return begin_together(run);
}

/// Worker `rank` of so many has these of the slots, as many as are left divided by the workers that are left.
std::uint64_t slots_of(std::uint64_t rank, std::uint64_t workers, std::uint64_t slots) {
  return slots / workers + (rank < slots % workers ? 1 : 0);
}

/// Takes all steps as a worker that never leads. `conclude` as Workers has it.
Status take_all_steps(const PreparedRun& run, std::uint64_t steps, const std::function<Status(const Status&)>& go_on) {
  for (;;) {
    TRY_ASSIGN(const graft_run_place place, run.place());
    if (steps != 0 && place.step >= steps) return ok_status();
    int more = 0;
    const Status taken = checked(graft_train_next(run.trainer.get(), run.loader.get(), &more, nullptr), run.context);
    if (!taken.ok()) {
      TRY(go_on(taken));
    } else if (more == 0) {
      return ok_status();
    }
  }
}

}  // namespace

void add_worker_flags(CLI::App& app, WorkerFlags& flags) {
  const HelpGroup group(app, "Workers");
  app.add_option("--workers", flags.number,
                 "Share the micro-batches of each step (--accumulate) among so many devices, to the same bits (1)")
      ->check(whole(1, kMostWorkers));
  app.add_option("--devices", flags.devices, "One for each worker in turn, as in 0,1 (default: that of --device)");
  app.add_option("--worker-timeout", flags.timeout,
                 "Seconds that a process may be silent; one that runs is waited for ten times as long (120)")
      ->check(whole(1, 1 << 20));
  app.add_flag("--insecure-network", flags.insecure_network,
               "Let processes on several machines send weights and gradients unencrypted and unauthenticated");
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
    return made;
  }
  made->group_.resize(number);
  const auto workers = static_cast<std::uint32_t>(number);
  if (graft_group_in_process(workers, made->group_.data()) != GRAFT_OK) {
    made->group_.clear();
    return error(Code::out_of_memory, "There is no memory for a group of ", number, " workers.");
  }
  for (graft_group& end : made->group_) made->share_options(end);
  made->ended_.resize(number);
  made->size_ = workers;
  return made;
}

void Workers::share_options(graft_group& end) const {
  end.overlap = end.moves_shares = 1;
  end.shard_optimizer = options_.workers.shard_optimizer ? 1 : 0;
  end.bf16_wire = options_.workers.wire == "bf16" ? 1 : 0;
}

Status Workers::join(const Launch& launch) {
  auto library = Library::open(kGloo);
  if (!library.ok()) return Status(library.status()).with_context("Workers of several processes need libgraft_gloo");
  gloo_ = std::move(*library);
  const auto enter = gloo_.find_as<decltype(&graft_gloo_join)>("graft_gloo_join");
  if (enter == nullptr) return error(Code::not_found, kGloo, " is another library than graft's.");
  to_stderr("Worker %u of %u (by %s), by way of %s port %u.\n", launch.rank, launch.size, launch.by.c_str(),
            launch.address.c_str(), launch.port);
  const char* const secret = std::getenv("GRAFT_SECRET");
  const graft_gloo_options options = {sizeof options,
                                      launch.rank,
                                      launch.size,
                                      launch.address.c_str(),
                                      launch.port,
                                      secret,
                                      0,
                                      1000 * options_.workers.timeout,
                                      options_.workers.insecure_network ? 1 : 0};
  std::array<char, 512> message = {};
  const graft_status status = enter(&options, &joined_, message.data(), message.size());
  if (status != GRAFT_OK) return error(static_cast<Code>(status), message.data());
  launched_ = true;
  local_rank_ = launch.local_rank;
  group_.push_back(joined_);
  share_options(group_.front());
  rank_ = joined_.rank;
  size_ = joined_.size;
  return ok_status();
}

Workers::~Workers() {
  static_cast<void>(end(error(Code::cancelled, "it could not begin.")));
  if (joined_.user != nullptr) {
    gloo_.find_as<decltype(&graft_gloo_leave)>("graft_gloo_leave")(&joined_);
    return;
  }
  for (graft_group& one : group_) graft_group_release(&one);
}

DeviceFlags Workers::device_of(std::size_t rank) const {
  DeviceFlags flags = options_.device;
  const std::vector<std::string> devices = split_list(options_.workers.devices);
  if (!devices.empty()) flags.device = devices[(launched_ ? local_rank_ : rank) % devices.size()];
  return flags;
}

Status Workers::note_rank(const PreparedRun& run) {
  return checked(graft_trainer_rank(run.trainer.get(), &rank_, &size_), run.context);
}

Status Workers::begin(const PreparedRun& run) {
  if (group_.empty()) return ok_status();
  led_ = leads();
  for (std::size_t rank = 1; rank < group_.size(); ++rank) {
    try {
      threads_.emplace_back([this, rank] {
        ended_[rank] = work_as(rank);
        const graft_group& end = group_[rank];
        end.leave(end.user, static_cast<graft_status>(ended_[rank].code()), ended_[rank].message().c_str());
      });
    } catch (const std::system_error& refused) {
      return error(Code::out_of_memory, "There is no thread for a worker: ", refused.code().message(), ".");
    }
  }
  begun_at_.reset();
  Status begun = begin_together(run);
  if (launched_ && is_of_lost_worker(begun)) {
    // The state is dealt to as many workers as there were.
    starts_anew_ = options_.workers.shard_optimizer;
    from_checkpoint_ = false;
    if (!starts_anew_) begun = meet_again(run, std::move(begun));
  }
  TRY(std::move(begun));
  TRY_ASSIGN(const graft_run_place place, run.place());
  begun_at_ = place.step;
  if (!leads()) {
    to_stderr("One of %u workers, from step %llu on.\n", size_, static_cast<unsigned long long>(place.step));
    return ok_status();
  }
  TRY_ASSIGN(const graft_run_info info, run.info());
  const std::uint64_t slots = (info.batch + info.micro_batch - 1) / info.micro_batch;
  std::string shares;
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    shares += cat(rank == 0 ? "" : ", ", slots_of(rank, size_, slots));
  }
  to_stderr("%u workers take %s of the %llu micro-batches of a step.\n", size_, shares.c_str(),
            static_cast<unsigned long long>(slots));
  if (slots < size_) {
    to_stderr("Those with 0 have nothing to do: --accumulate %u gives each one.\n", size_);
  }
  return ok_status();
}

Status Workers::work_as(std::size_t rank) {
  TRY_ASSIGN(auto context, open_context(device_of(rank)));
  {
    TRY_ASSIGN(const auto model, open_trained(context.get(), options_, GRAFT_CHECK_ON_USE));
    TRY_ASSIGN(const PreparedRun run,
               prepare_run(context.get(), model.get(), options_, &group_[rank], RunRole::helps, false));
    const auto go_on_as_helper = [&](const Status& why) {
      const bool differs = graft_trainer_trouble(run.trainer.get()) == GRAFT_GROUP_DIFFERS;
      return options_.workers.heal && differs ? heal(run, why, false) : why;
    };
    TRY(begin_together(run));
    TRY(take_all_steps(run, options_.steps, go_on_as_helper));
    for (int ended = 0; ended == 0;) {
      TRY(checked(graft_trainer_conclude(run.trainer.get(), 0, &ended), context.get()));
    }
  }
  return close_context(std::move(context));
}

Status Workers::go_on(const PreparedRun& run, const Status& why) {
  const graft_group_trouble trouble = graft_trainer_trouble(run.trainer.get());
  if (options_.workers.heal && trouble == GRAFT_GROUP_DIFFERS) return heal(run, why, leads());
  if (!launched_ || (trouble != GRAFT_GROUP_LOST && trouble != GRAFT_GROUP_NEWCOMER)) return why;
  if (!options_.workers.shard_optimizer) return meet_again(run, why);
  TRY_ASSIGN(const graft_run_place place, run.place());
  from_checkpoint_ = place.step != begun_at_;
  if (from_checkpoint_ && options_.checkpoint.folder.empty()) {
    return Status(why).with_context(
        "The optimizer's state was shared out, a part of it is lost, and without --checkpoint there is no copy; start "
        "the run again");
  }
  starts_anew_ = true;
  return why;
}

Status Workers::meet_anew() {
  starts_anew_ = false;
  has_met_ = true;
  to_stderr("A part of the optimizer's state is lost: the others %s.\n",
            from_checkpoint_ ? "go on from the last checkpoint" : "begin again");
  graft_group& end = group_.front();
  Status met = error(Code::timeout, "they have not met.");
  for (int i = 0; i < kMostMeetings && is_of_lost_worker(met); ++i) {
    std::array<char, 512> message = {};
    const graft_status status = end.reform(end.user, &end.rank, &end.size, message.data(), message.size());
    met = status == GRAFT_OK ? ok_status() : error(static_cast<Code>(status), message.data());
  }
  TRY(std::move(met));
  rank_ = end.rank;
  size_ = end.size;
  to_stderr("%u workers go on%s.\n", size_, leads() ? "; this one is worker 0" : "");
  return ok_status();
}

Status Workers::meet_again(const PreparedRun& run, Status failed) {
  for (int i = 0; i < kMostMeetings && is_of_lost_worker(failed); ++i) {  // others may go meanwhile
    const bool lets_in = graft_trainer_trouble(run.trainer.get()) == GRAFT_GROUP_NEWCOMER;
    to_stderr("%s%s\n", failed.message().c_str(), lets_in ? "" : " The others go on.");
    failed = checked(graft_trainer_meet(run.trainer.get(), run.loader.get()), run.context);
    if (!failed.ok()) continue;
    TRY(note_rank(run));
    if (leads() != led_) {
      led_ = leads();
      if (led_) to_stderr("This worker is worker 0 now.\n");
      TRY(when_it_leads_(led_));
    }
    failed = begin_together(run);
  }
  TRY(std::move(failed));
  TRY_ASSIGN(const graft_run_place place, run.place());
  to_stderr("%u workers go on from step %llu.\n", size_, static_cast<unsigned long long>(place.step));
  return ok_status();
}

Result<bool> Workers::conclude(const PreparedRun& run, const std::function<Status()>& finish) {
  if (group_.empty()) {
    TRY(finish());
    return true;
  }
  TRY_ASSIGN(const graft_run_place before, run.place());
  bool finished = false;
  for (;;) {
    int ended = 0;
    const Status all = checked(graft_trainer_conclude(run.trainer.get(), finished ? 1 : 0, &ended), run.context);
    if (all.ok() && ended != 0) return true;
    if (all.ok()) {
      if (!leads()) continue;
      TRY(finish());
      finished = true;
      continue;
    }
    if (!launched_ || !is_of_lost_worker(all)) return all;
    TRY(go_on(run, all));
    TRY_ASSIGN(const graft_run_place now, run.place());
    // Whether the run has ended is worker 0's to say, which may be another now.
    if (now.step != before.step || !finished) return false;
  }
}

Status Workers::end(const Status& why) {
  if (group_.empty()) return ok_status();
  const graft_group& own = group_.front();
  own.leave(own.user, static_cast<graft_status>(why.code()), why.message().c_str());
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (const Status& status : ended_) {
    if (!status.ok() && status.code() != Code::cancelled) return status;
  }
  return ok_status();
}

}  // namespace graft::cli
