#include "tools/graft/workers.h"

#include <cstdio>

#include "platform/group/in_process.h"
#include "platform/os/threads.h"
#include "runtime/distribute/start.h"
#include "runtime/train/fit.h"
#include "tools/graft/numbers.h"
#include "tools/graft/options.h"

namespace graft::cli {
namespace {

constexpr std::uint64_t kMostWorkers = 64;

Status begin_together(group::Group& group, PreparedRun& run, const TrainArguments& options) {
  Configuration words = configuration_of(*run.trainer);
  add_data(options, run.fingerprint, words);
  GRAFT_TRY(distribute::agree(group, words, group::kNoDeadline));
  GRAFT_TRY(distribute::share_state(group, *run.trainer, *run.loader, group::kNoDeadline));
  if (run.trainer->state().samples_done == 0) return ok_status();
  run.reads_all = true;  // until this step is done
  return run.loader->restore(data::Cursor(run.loader->cursor()));
}

}  // namespace

void add_worker_flags(CLI::App& app, WorkerFlags& flags) {
  app.add_option("--workers", flags.number,
                 "Share the micro-batches of each step (--accumulate) among so many devices, to the same bits (1)")
      ->check(whole(1, kMostWorkers));
  app.add_option("--devices", flags.devices, "One for each worker in turn, as in 0,1 (default: that of --device)");
}

Result<std::unique_ptr<Workers>> Workers::create(const TrainArguments& options, const Model& model) {
  std::unique_ptr<Workers> made(new Workers(options, model));
  if (options.workers.number == 1) return made;
  if (options.recover_device) return unsupported("--recover-device is for runs of one worker.");
  made->group_ = group::in_process(options.workers.number);
  made->ended_.resize(options.workers.number);
  return made;
}

Workers::~Workers() { (void)end(error(Code::cancelled, "it could not begin.")); }

std::unique_ptr<train::SlotExchange> Workers::exchange(gpu::Device& device) {
  if (group_.empty()) return nullptr;
  return std::make_unique<distribute::GroupExchange>(*group_[0], device);
}

Status Workers::begin(PreparedRun& run, const TrainArguments& options) {
  if (group_.empty()) return ok_status();
  const auto slots =
      static_cast<std::uint64_t>(ceil_div(run.trainer->options().batch, run.trainer->plan().micro_batch));
  for (std::size_t rank = 1; rank < group_.size(); ++rank) {
    GRAFT_TRY_ASSIGN(auto thread, os::start_thread(
                                      [this, rank] {
                                        ended_[rank] = work(rank);
                                        group_[rank]->leave(ended_[rank]);
                                      },
                                      "for a worker"));
    threads_.push_back(std::move(thread));
  }
  GRAFT_TRY(begin_together(*group_[0], run, options));
  std::string shares;
  for (std::size_t rank = 0; rank < group_.size(); ++rank) {
    shares += cat(rank == 0 ? "" : ", ", train::slots_of(slots, rank, group_.size()).count);
  }
  std::fprintf(stderr, "%zu workers take %s of the %llu micro-batches of a step.\n", group_.size(), shares.c_str(),
               static_cast<unsigned long long>(slots));
  if (slots < group_.size()) {
    std::fprintf(stderr, "Those with 0 have nothing to do: --accumulate %zu gives each one.\n", group_.size());
  }
  return ok_status();
}

Status Workers::work(std::size_t rank) {
  GRAFT_TRY_ASSIGN(auto opened, OpenDevice::open(device_of_worker(options_, rank)));
  {
    distribute::GroupExchange exchange(*group_[rank], opened->device());
    GRAFT_TRY_ASSIGN(const auto run, prepare_run(*opened, model_, options_, &exchange, std::nullopt));
    GRAFT_TRY(begin_together(*group_[rank], *run, options_));
    train::FitOptions fit_options;
    fit_options.steps = options_.steps;
    fit_options.on_step = [&](const train::StepResult&) {
      run->after_step();
      return ok_status();
    };
    GRAFT_TRY(detail::to_status(train::fit(*run->trainer, *run->loader, fit_options)));
  }
  return opened->close();
}

Status Workers::end(const Status& why) {
  if (group_.empty()) return ok_status();
  group_[0]->leave(why);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (const Status& status : ended_) {
    if (!status.ok() && status.code() != Code::cancelled) return status;
  }
  return ok_status();
}

}  // namespace graft::cli
