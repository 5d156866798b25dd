// What graft.hpp says of training. Include graft/graft.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graft/base.hpp"
#include "graft/checkpoint.hpp"
#include "graft/data.hpp"
#include "graft/distribute.h"
#include "graft/session.hpp"
#include "graft/trainer_options.hpp"

namespace graft {
inline namespace v0 {

/// Which one of how many workers.
struct WorkerRank {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

/// Samples of a batch that one worker computes.
struct WorkerShare {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// Trains a model; one call, one optimizer step.
class Trainer {
 public:
  /// `inputs`: the model's inputs in order, each `samples` times its size per sample; `target`: int32 labels for cross
  /// entropy, else float values.
  Result<Metrics> train_step(const std::vector<const void*>& inputs, const void* target, std::uint32_t samples) {
    Metrics metrics = detail::sized<Metrics>();
    Status got = status(graft_train_step(handle_.get(), inputs.data(), inputs.size(), target, samples, &metrics));
    if (!got.ok()) return got;
    return metrics;
  }
  /// One micro-batch of the same, and with the last one the update: nullopt until then. Give the same samples again.
  Result<std::optional<Metrics>> micro_step(const std::vector<const void*>& inputs, const void* target,
                                            std::uint32_t samples) {
    Metrics metrics = detail::sized<Metrics>();
    int done = 0;
    Status got =
        status(graft_train_micro_step(handle_.get(), inputs.data(), inputs.size(), target, samples, &done, &metrics));
    if (!got.ok()) return got;
    return done != 0 ? std::optional(metrics) : std::nullopt;
  }
  /// Loss and metrics of these samples, in the order of train_step(); nothing is trained.
  Result<Metrics> evaluate(const std::vector<const void*>& inputs, const void* target, std::uint32_t samples) {
    Metrics metrics = detail::sized<Metrics>();
    Status got = status(graft_evaluate(handle_.get(), inputs.data(), inputs.size(), target, samples, &metrics));
    if (!got.ok()) return got;
    return metrics;
  }
  /// What one sample consists of: the model's inputs in order, and last the target; see graft_trainer_sample.
  std::vector<TensorInfo> sample() const {
    std::vector<TensorInfo> parts;
    TensorInfo info{};
    while (graft_trainer_sample(handle_.get(), parts.size(), &info) == GRAFT_OK) parts.push_back(info);
    return parts;
  }
  graft_trainer* get() const { return handle_.get(); }  ///< for what only the C ABI has
  graft_context* context() const { return context_; }   ///< for what only the C ABI has
  /// Bytes that the run holds on device and host, by class.
  Result<Memory> memory() const {
    Memory memory = detail::sized<Memory>();
    Status got = status(graft_trainer_memory(handle_.get(), &memory));
    if (!got.ok()) return got;
    return memory;
  }
  /// Between two steps: another budget in bytes (0: none), or one that gives so many bytes back; see
  /// graft_trainer_set_budget.
  Status set_budget(std::uint64_t budget) { return status(graft_trainer_set_budget(handle_.get(), budget)); }
  /// Gives so many bytes back, for warnings of low memory.
  Status trim(std::uint64_t bytes) { return status(graft_trainer_trim(handle_.get(), bytes)); }
  /// Gives all device memory back until the next call that needs it, or resume(); see graft_trainer_pause.
  Status pause() { return status(graft_trainer_pause(handle_.get())); }
  Status resume() { return status(graft_trainer_resume(handle_.get())); }  ///< see graft_trainer_resume
  /// How often the device was short of memory and training went on by itself; see graft_trainer_shortages.
  std::uint64_t shortages() const {
    std::uint64_t count = 0;
    return graft_trainer_shortages(handle_.get(), &count) == GRAFT_OK ? count : 0;
  }
  /// A value of TrainerOptions::fetch as the last step computed it; until the next step.
  Result<std::span<const float>> fetch(const std::string& name) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    Status got = status(graft_trainer_fetch(handle_.get(), name.c_str(), &data, &bytes, nullptr));
    if (!got.ok()) return got;
    return std::span<const float>(static_cast<const float*>(data), bytes / sizeof(float));
  }
  /// One step on the loader's next batch; nullopt where the epochs are over. The trainer must have been made for its
  /// set (TrainerOptions::data).
  Result<std::optional<Metrics>> train_next(Loader& loader) {
    auto metrics = detail::sized<Metrics>();
    int more = 0;
    Status done = status(graft_train_next(handle_.get(), loader.get(), &more, &metrics));
    if (!done.ok()) return done;
    return more == 0 ? std::optional<Metrics>() : std::optional<Metrics>(metrics);
  }
  /// All samples of a set that has no loader.
  Result<Metrics> evaluate(DataSet& set) {
    auto metrics = detail::sized<Metrics>();
    Status done = status(graft_evaluate_data(handle_.get(), set.get(), &metrics));
    if (!done.ok()) return done;
    return metrics;
  }
  /// As Model::read(), of what training has made so far.
  template <typename T = float>
  Result<std::vector<T>> read(const std::string& name) {
    return detail::read_tensor<T>(context_, [&](void* data, std::size_t bytes, TensorInfo* info) {
      return graft_trainer_read(handle_.get(), name.c_str(), data, bytes, info);
    });
  }
  /// Between two steps; frozen weights cannot be changed. A checkpoint takes a snapshot at once.
  template <typename T>
  Status write(const std::string& name, std::span<const T> data) {
    return status(graft_trainer_write(handle_.get(), name.c_str(), data.data(), data.size_bytes()));
  }
  /// See graft_trainer_join; null: the app gives the samples. The steps that are done.
  Result<std::uint64_t> join(Loader* loader = nullptr) {
    std::uint64_t step = 0;
    Status joined = status(graft_trainer_join(handle_.get(), loader == nullptr ? nullptr : loader->get(), &step));
    if (!joined.ok()) return joined;
    return step;
  }
  /// Which of how many workers this one is now: see graft_trainer_rank.
  Result<WorkerRank> rank() const {
    WorkerRank worker;
    Status got = status(graft_trainer_rank(handle_.get(), &worker.rank, &worker.size));
    if (!got.ok()) return got;
    return worker;
  }
  /// Which samples of a step's batch of so many this worker computes: see graft_trainer_share.
  Result<WorkerShare> share(std::uint32_t samples) const {
    WorkerShare own;
    Status got = status(graft_trainer_share(handle_.get(), samples, &own.first, &own.count));
    if (!got.ok()) return got;
    return own;
  }
  /// Before save_checkpoint() where the optimizer's state is shared out: see graft_trainer_gather.
  Status gather() { return status(graft_trainer_gather(handle_.get())); }
  /// What ended the group's last step, or join().
  graft_group_trouble trouble() const { return graft_trainer_trouble(handle_.get()); }
  /// Where a worker is gone or waits, before join(): see graft_trainer_meet.
  Status meet(Loader* loader = nullptr) {
    return status(graft_trainer_meet(handle_.get(), loader == nullptr ? nullptr : loader->get()));
  }
  /// After the last step, by all workers; true once worker 0 has `finished`: see graft_trainer_conclude.
  Result<bool> conclude(bool finished) {
    int ended = 0;
    Status done = status(graft_trainer_conclude(handle_.get(), finished ? 1 : 0, &ended));
    if (!done.ok()) return done;
    return ended != 0;
  }
  /// Asks worker 0's next step to bring what gather() does; true where it is there: see graft_trainer_request_whole.
  Result<bool> request_whole() {
    int is_whole = 0;
    Status done = status(graft_trainer_request_whole(handle_.get(), &is_whole));
    if (!done.ok()) return done;
    return is_whole != 0;
  }
  /// From the next step on; schedule and groups multiply it. See graft/parameters.h for what resumes make of it.
  Status set_learning_rate(double rate) { return status(graft_trainer_set_learning_rate(handle_.get(), rate)); }
  /// The rate that was set, before schedule and groups.
  double learning_rate() const {
    double rate = 0;
    (void)graft_trainer_learning_rate(handle_.get(), &rate);
    return rate;
  }
  /// Copies the trained parameters into the model.
  Status store() { return status(graft_trainer_store(handle_.get())); }
  /// The same with the running means of the parameters (TrainerOptions::ema).
  Status store_ema() { return status(graft_trainer_store_ema(handle_.get())); }

  /// Keeps the run in a folder from now on, and goes on from what is there; see graft_checkpoint_open.
  Result<CheckpointInfo> open_checkpoint(const CheckpointOptions& options) {
    std::vector<graft_pair> metadata;
    for (const auto& [key, value] : options.metadata) metadata.push_back({key.c_str(), value.c_str()});
    graft_cipher cipher{};
    if (options.cipher != nullptr) cipher = detail::raw_cipher(*options.cipher, context_);
    auto raw = detail::sized<graft_checkpoint_options>();
    raw.folder = options.folder.c_str();
    raw.every = options.every;
    raw.journal_every = options.journal_every;
    raw.journal_ms = options.journal_ms;
    raw.keep = options.keep;
    raw.resume = options.resume ? 1 : 0;
    raw.from = detail::or_null(options.from);
    raw.with_changes = options.with_changes ? 1 : 0;
    raw.continue_on_mismatch = options.continue_on_mismatch ? 1 : 0;
    raw.allow_non_finite = options.allow_non_finite ? 1 : 0;
    raw.data = detail::or_null(options.data);
    raw.metadata = metadata.data();
    raw.metadata_count = metadata.size();
    raw.cipher = options.cipher == nullptr ? nullptr : &cipher;
    raw.model_file = detail::or_null(options.model_file);
    raw.late = options.late ? 1 : 0;
    raw.take_over = options.take_over ? 1 : 0;
    raw.loader = options.loader == nullptr ? nullptr : options.loader->get();
    auto info = detail::sized<CheckpointInfo>();
    Status opened = status(graft_checkpoint_open(handle_.get(), &raw, &info));
    if (!opened.ok()) return opened;
    return info;
  }
  /// A snapshot of now: on storage when it returns.
  Status save_checkpoint(const std::string& tag = {}) {
    return status(graft_checkpoint_save(handle_.get(), detail::or_null(tag)));
  }
  /// Returns once the steps that are done are as durable as was asked, of a late checkpoint.
  Status acknowledge() { return status(graft_checkpoint_acknowledge(handle_.get())); }
  /// Waits for what is being written, and keeps the run no longer.
  Status close_checkpoint() { return status(graft_checkpoint_close(handle_.get())); }
  /// Bytes of the app's own in each further snapshot, by worker: 0 for what all share.
  Status set_checkpoint_data(std::span<const std::byte> data, std::uint32_t worker = 0) {
    return status(graft_checkpoint_set_data(handle_.get(), worker, data.data(), data.size()));
  }
  /// The app's own bytes of the snapshot that the run went on from; valid until the next call.
  Result<std::span<const std::byte>> checkpoint_data(std::uint32_t worker = 0) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    Status got = status(graft_checkpoint_data(handle_.get(), worker, &data, &bytes));
    if (!got.ok()) return got;
    return detail::bytes_at(data, bytes);
  }
  /// Parameters and running statistics of a snapshot (number or tag; empty: the newest), for a new run.
  Status warm_start(const std::string& folder, const std::string& snapshot = {}, Cipher* cipher = nullptr) {
    graft_cipher raw{};
    if (cipher != nullptr) raw = detail::raw_cipher(*cipher, context_);
    return status(
        graft_warm_start(handle_.get(), folder.c_str(), detail::or_null(snapshot), cipher == nullptr ? nullptr : &raw));
  }

 private:
  friend class Model;
  Trainer(graft_trainer* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  detail::Handle<graft_trainer, graft_trainer_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
