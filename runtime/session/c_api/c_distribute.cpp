#include "runtime/session/c_api/c_distribute.h"

#include <cstddef>
#include <cstring>

#include "runtime/core/features.h"
#include "runtime/distribute/start.h"
#include "runtime/session/c_api/c_data.h"
#include "runtime/session/checkpoint/run_state.h"

using namespace graft;
using namespace graft::c_api;

namespace {

std::chrono::nanoseconds between_steps(const graft_trainer& trainer) {
  return distribute::deadlines_of(trainer.group_timeout).between_steps;
}

/// The loader gives the batch of the step that failed again.
Status go_back(graft_trainer& trainer, graft_loader* loader) {
  if (loader == nullptr) return ok_status();
  loader->pending = nullptr;
  const train::TrainingState& state = trainer.trainer->state();
  return loader->loader->restore(data::Cursor(state.step == 0 ? trainer.first_place : state.cursor));
}

}  // namespace

namespace graft::c_api {

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
  if (options.group_timeout_ms > kLongest) {
    return invalid("A group_timeout_ms of ", options.group_timeout_ms, " is more than ", kLongest, ".");
  }
  if (options.group_timeout_ms != 0) trainer.group_timeout = std::chrono::milliseconds(options.group_timeout_ms);
  trainer.group = std::make_unique<CallbackGroup>(given);
  distribute::ExchangeOptions how = distribute::deadlines_of(trainer.group_timeout);
  how.moves_shares = given.moves_shares != 0;
  if (given.bf16_wire != 0) how.wire = distribute::Wire::bf16;
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
    if (trainer->exchange->has_lost_worker()) {
      if (trainer->trainer->is_sharded()) {
        return unsupported(
            "The optimizer's state was shared out, and a part of it is lost: make new trainers, and resume from the "
            "checkpoint.");
      }
      GRAFT_TRY(trainer->exchange->reform());
      GRAFT_TRY(go_back(*trainer, loader));
    }
    Configuration words = configuration_of(*trainer->trainer);
    words["shard_optimizer"] = trainer->trainer->is_sharded() ? "yes" : "no";
    if (loader != nullptr) {
      words["data contents"] = loader->fingerprint;
      words["order"] = loader->order;
    }
    data::Loader* const batches = loader == nullptr ? nullptr : loader->loader.get();
    const auto begin = [&]() -> Status {
      GRAFT_TRY(distribute::agree(*trainer->group, words, !trainer->has_joined, between_steps(*trainer)));
      trainer->has_joined = true;
      return distribute::share_state(*trainer->group, *trainer->trainer, batches, between_steps(*trainer));
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
