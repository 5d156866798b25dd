#include "runtime/c_api/c_distribute.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "platform/group/in_process.h"
#include "runtime/c_api/c_data.h"
#include "runtime/core/features.h"
#include "runtime/distribute/start.h"
#include "runtime/run_state/run_state.h"

using namespace graft;
using namespace graft::c_api;

namespace {

/// An end of graft_group_in_process().
group::Group& end_of(void* user) { return *static_cast<group::Group*>(user); }

graft_status tell_failure(const Status& status, char* message, std::size_t message_bytes) {
  if (!status.ok() && message != nullptr && message_bytes > 0) {
    const std::size_t count = std::min(status.message().size(), message_bytes - 1);
    std::memcpy(message, status.message().data(), count);
    message[count] = '\0';
  }
  return static_cast<graft_status>(status.code());
}

graft_status exchange_in_process(void* user, std::size_t parts, const void* const* out, const std::size_t* out_bytes,
                                 void* const* in, const std::size_t* in_bytes, std::uint64_t deadline_ms, char* message,
                                 std::size_t message_bytes) {
  group::Group& end = end_of(user);
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (std::size_t i = 0; i < parts * end.size(); ++i) {
    from.emplace_back(static_cast<const std::byte*>(out[i]), out_bytes[i]);
    to.emplace_back(static_cast<std::byte*>(in[i]), in_bytes[i]);
  }
  const auto deadline =
      deadline_ms == UINT64_MAX ? group::kNoDeadline : std::chrono::nanoseconds(std::chrono::milliseconds(deadline_ms));
  return tell_failure(end.exchange(from, to, deadline), message, message_bytes);
}

void leave_in_process(void* user, graft_status why, const char* message) {
  end_of(user).leave(why == GRAFT_OK ? ok_status() : Status(static_cast<Code>(why), message));
}

/// The loader gives the batch of the step that failed again.
Status go_back(graft_trainer& trainer, graft_loader* loader) {
  if (loader == nullptr) return ok_status();
  loader->pending = nullptr;
  const train::TrainingState& state = trainer.trainer->state();
  if (state.step == 0 && !trainer.first_place) return ok_status();  // nobody has read anything
  return loader->loader->restore(data::Cursor(state.step == 0 ? *trainer.first_place : state.cursor));
}

/// Those that are left.
Status meet(graft_trainer& trainer, graft_loader* loader) {
  if (trainer.trainer->is_sharded()) {
    return unsupported(
        "The optimizer's state was shared out among workers that are no longer the same: make new trainers, and resume "
        "from the checkpoint, or begin again where no step was taken.");
  }
  GRAFT_TRY(trainer.exchange->reform());
  return go_back(trainer, loader);
}

}  // namespace

namespace graft::c_api {

void configure_wire(const graft_trainer& trainer, Configuration& configuration) {
  if (trainer.rounds_wire) configuration["precision"] += ", bf16 on the wire";
}

Status make_exchange(const graft_trainer_options& options, gpu::Device& device, train::PlanRequest& request,
                     graft_trainer& trainer) {
  if (options.group == nullptr) return ok_status();
  if constexpr (!kHasGroups) return left_out("trainers of several workers", "groups");
  graft_group given = {};  // without what the caller's (maybe older, smaller) struct lacks
  const std::size_t size = options.group->struct_size;
  if (size < offsetof(graft_group, reform) || size > sizeof given)
    return invalid("The graft_group's struct_size is ", size, ".");
  std::memcpy(&given, options.group, size);
  if (given.exchange == nullptr || given.leave == nullptr) return invalid("A function of the graft_group is NULL.");
  if (given.rank >= given.size) {
    return invalid("The graft_group's rank ", given.rank, " is not below its size, ", given.size, ".");
  }
  constexpr std::uint64_t kLongest = 1ull << 32;  // fifty days
  for (const auto& [name, ms] :
       {std::pair("group_timeout_ms", options.group_timeout_ms), std::pair("group_pause_ms", options.group_pause_ms)}) {
    if (ms > kLongest) return invalid("A ", name, " of ", ms, " is more than ", kLongest, ".");
  }
  if (options.group_timeout_ms != 0) trainer.group_timeout = std::chrono::milliseconds(options.group_timeout_ms);
  trainer.group = std::make_unique<CallbackGroup>(given);
  distribute::ExchangeOptions how = distribute::deadlines_of(trainer.group_timeout);
  trainer.group_pause =
      options.group_pause_ms == 0 ? how.between_steps : std::chrono::milliseconds(options.group_pause_ms);
  how.between_steps = trainer.group_pause;
  how.overlap = given.overlap != 0;
  how.moves_shares = given.moves_shares != 0;
  trainer.rounds_wire = given.bf16_wire != 0;
  if (trainer.rounds_wire) how.wire = distribute::Wire::bf16;
  if (given.shard_optimizer != 0) request.shard = {given.rank, given.size};
  trainer.exchange = std::make_unique<distribute::GroupExchange>(*trainer.group, device, how);
  return ok_status();
}

Status follow_shares(graft_trainer& trainer, data::Loader& loader) {
  if (trainer.exchange == nullptr) return ok_status();
  train::Share now = trainer.exchange->share();
  if (now.costs == trainer.share.costs && now.workers == trainer.share.workers) return ok_status();
  trainer.share = now;
  const auto micro = static_cast<std::uint64_t>(trainer.trainer->plan().micro_batch);
  return loader.read_only(
      [share = std::move(now), micro](std::uint64_t samples) { return share.of_samples(micro, samples); });
}

}  // namespace graft::c_api

graft_status graft_trainer_join(graft_trainer* trainer, graft_loader* loader, uint64_t* step) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (trainer->group == nullptr) return invalid("The trainer was made without a group: it is alone.");
    if (loader != nullptr && loader->context != trainer->context) {
      return invalid("The loader belongs to another context than the trainer.");
    }
    if (loader != nullptr) GRAFT_TRY(check_known(*loader));
    if (trainer->exchange->has_lost_worker()) {
      GRAFT_TRY(meet(*trainer, loader));
    } else if (trainer->exchange->differs()) {
      GRAFT_TRY(go_back(*trainer, loader));
    }
    Configuration words = configuration_of(*trainer->trainer);
    configure_wire(*trainer, words);
    words["shard_optimizer"] = trainer->trainer->is_sharded() ? "yes" : "no";
    if (loader != nullptr) {
      words["data contents"] = loader->fingerprint;
      words["order"] = loader->order;
    }
    data::Loader* const batches = loader == nullptr ? nullptr : loader->loader.get();
    const auto begin = [&]() -> Status {
      GRAFT_TRY(distribute::agree(*trainer->group, words, !trainer->has_joined, trainer->group_pause));
      trainer->has_joined = true;
      GRAFT_TRY(distribute::share_state(*trainer->group, *trainer->trainer, batches, trainer->group_pause));
      GRAFT_TRY_ASSIGN(const bool ended,
                       distribute::end_together(*trainer->group, trainer->exchange->has_ended(), trainer->group_pause));
      trainer->exchange->set_shared(trainer->trainer->options().optimizer.learning_rate, ended);
      return ok_status();
    };
    Status begun = begin();
    if (begun.code() == Code::io_error || begun.code() == Code::timeout) trainer->exchange->note_lost_worker();
    GRAFT_TRY(std::move(begun));
    const train::TrainingState& state = trainer->trainer->state();
    if (step != nullptr) *step = state.step;
    if (batches == nullptr) return ok_status();
    if (state.step == 0) trainer->first_place = batches->cursor();
    // A step that is half done needs the whole of its batch; the ones behind it are read as they are shared.
    trainer->share = {.workers = 0};  // whoever is alone now reads all again
    return state.samples_done != 0 ? batches->read_only(nullptr) : follow_shares(*trainer, *batches);
  });
}

graft_group_trouble graft_trainer_trouble(const graft_trainer* trainer) {
  graft_group_trouble trouble = GRAFT_GROUP_FINE;
  if (trainer == nullptr || trainer->exchange == nullptr) return trouble;
  (void)guarded(trainer->context, [&] {
    const distribute::GroupExchange& exchange = *trainer->exchange;
    trouble = exchange.differs()            ? GRAFT_GROUP_DIFFERS
              : !exchange.has_lost_worker() ? GRAFT_GROUP_FINE
              : exchange.lets_in()          ? GRAFT_GROUP_NEWCOMER
                                            : GRAFT_GROUP_LOST;
    return ok_status();
  });
  return trouble;
}

graft_status graft_trainer_meet(graft_trainer* trainer, graft_loader* loader) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (trainer->group == nullptr) return invalid("The trainer was made without a group: it is alone.");
    if (!trainer->exchange->has_lost_worker()) return invalid("No worker is gone, and none waits.");
    return meet(*trainer, loader);
  });
}

graft_status graft_trainer_conclude(graft_trainer* trainer, int finished, int* ended) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (ended == nullptr) return invalid("graft_trainer_conclude needs a place for its result.");
    *ended = 0;
    if (trainer->group == nullptr) {
      *ended = finished != 0 ? 1 : 0;
      return ok_status();
    }
    auto all = distribute::end_together(*trainer->group, finished != 0, trainer->group_pause);
    if (all.status().code() == Code::io_error || all.status().code() == Code::timeout) {
      trainer->exchange->note_lost_worker();
    }
    GRAFT_TRY(Status(all.status()));
    *ended = *all ? 1 : 0;
    return *all ? ok_status() : trainer->trainer->gather_state();
  });
}

graft_status graft_group_in_process(uint32_t size, graft_group* ends) {
  constexpr std::uint32_t kMost = 1024;
  if (ends == nullptr || size == 0 || size > kMost) return GRAFT_INVALID_ARGUMENT;
  return or_without_memory(GRAFT_OUT_OF_MEMORY, [&] {
    auto made = group::in_process(size);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      ends[rank] = {};
      ends[rank].struct_size = sizeof ends[rank];
      ends[rank].rank = rank;
      ends[rank].size = size;
      ends[rank].user = made[rank].release();
      ends[rank].exchange = exchange_in_process;
      ends[rank].leave = leave_in_process;
    }
    return GRAFT_OK;
  });
}

void graft_group_release(graft_group* end) {
  if (end == nullptr || end->exchange != exchange_in_process) return;
  delete &end_of(end->user);
  *end = {};
}

graft_status graft_trainer_request_whole(graft_trainer* trainer, int* is_whole) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&] {
    const bool has = trainer->trainer->has_whole_state();
    trainer->asks_whole = !has;
    if (is_whole != nullptr) *is_whole = has ? 1 : 0;
    return ok_status();
  });
}

graft_status graft_trainer_gather(graft_trainer* trainer) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&] { return trainer->trainer->gather_state(); });
}

graft_status graft_trainer_rank(const graft_trainer* trainer, uint32_t* rank, uint32_t* size) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (rank == nullptr || size == nullptr) return invalid("graft_trainer_rank needs places for its results.");
    *rank = trainer->group == nullptr ? 0 : static_cast<std::uint32_t>(trainer->group->rank());
    *size = trainer->group == nullptr ? 1 : static_cast<std::uint32_t>(trainer->group->size());
    return ok_status();
  });
}

graft_status graft_trainer_share(const graft_trainer* trainer, uint32_t samples, uint32_t* first, uint32_t* count) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (first == nullptr || count == nullptr) return invalid("graft_trainer_share needs places for its results.");
    *first = 0;
    *count = samples;
    if (trainer->exchange == nullptr || trainer->trainer->state().samples_done != 0) return ok_status();
    const auto micro = static_cast<std::uint64_t>(trainer->trainer->plan().micro_batch);
    const auto [start, number] = trainer->exchange->share().of_samples(micro, samples);
    *first = static_cast<std::uint32_t>(start);
    *count = static_cast<std::uint32_t>(number);
    return ok_status();
  });
}
