// A run as its app shows it, over graft/steps.h, and groups of threads. Included by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graft/graft.hpp"
#include "graft/steps.h"

namespace graft {
inline namespace v0 {

/// What a step was, and the means of its samples.
struct StepReport {
  graft_step_info step;
  graft_totals totals;
};

/// How the run is planned now; its texts are valid until the next call.
inline Result<graft_run_info> describe(Trainer& trainer) {
  auto info = detail::sized<graft_run_info>();
  Status got = detail::to_status(graft_trainer_describe(trainer.get(), &info), trainer.context());
  if (!got.ok()) return got;
  return info;
}
/// The step that was done last.
inline Result<StepReport> last_step(const Trainer& trainer) {
  StepReport report = {detail::sized<graft_step_info>(), detail::sized<graft_totals>()};
  Status got =
      detail::to_status(graft_trainer_last_step(trainer.get(), &report.step, &report.totals), trainer.context());
  if (!got.ok()) return got;
  return report;
}
/// Of the epoch so far.
inline Result<graft_totals> epoch_totals(const Trainer& trainer) {
  auto totals = detail::sized<graft_totals>();
  Status got = detail::to_status(graft_trainer_epoch(trainer.get(), &totals), trainer.context());
  if (!got.ok()) return got;
  return totals;
}
/// Where the run stands.
inline Result<graft_run_place> place(const Trainer& trainer) {
  auto at = detail::sized<graft_run_place>();
  Status got = detail::to_status(graft_trainer_place(trainer.get(), &at), trainer.context());
  if (!got.ok()) return got;
  return at;
}
/// What is trained, to read with Trainer::read().
inline std::vector<TensorInfo> trained(const Trainer& trainer) {
  std::vector<TensorInfo> all;
  TensorInfo info{};
  while (graft_trainer_parameter(trainer.get(), all.size(), &info) == GRAFT_OK) all.push_back(info);
  return all;
}
/// What each of several workers said of itself in the last step, by rank; texts are valid until the next call. Empty
/// where the run has one.
inline std::vector<graft_worker_report> worker_reports(const Trainer& trainer) {
  std::vector<graft_worker_report> all;
  auto report = detail::sized<graft_worker_report>();
  while (graft_trainer_worker(trainer.get(), all.size(), &report) == GRAFT_OK) all.push_back(report);
  return all;
}
/// A model with the weights as they are now (`ema`: with their running means) and the trainer's adapters, while the run
/// goes on; see graft_trainer_copy for what must outlive it.
inline Result<Model> copy(Trainer& trainer, bool ema = false) {
  graft_model* model = nullptr;
  const graft_status code = graft_trainer_copy(trainer.get(), ema ? 1 : 0, &model);
  return detail::made(code, trainer.context(), Model(model, trainer.context()));
}
/// Begins the run anew with the weights of `model`, of the same graph; null: with those of the trainer's own model.
inline Status restart(Trainer& trainer, const Model* model = nullptr) {
  return detail::to_status(graft_trainer_restart(trainer.get(), model == nullptr ? nullptr : model->get()),
                           trainer.context());
}
/// What graft_train_next_part came to.
enum class Part : std::uint8_t { more, done, over };
/// One micro-batch of the loader's next step; `over`: the epochs are.
inline Result<Part> train_next_part(Trainer& trainer, Loader& loader) {
  int more = 0, done = 0;
  Status got = detail::to_status(graft_train_next_part(trainer.get(), loader.get(), &more, &done), trainer.context());
  if (!got.ok()) return got;
  return more == 0 ? Part::over : done != 0 ? Part::done : Part::more;
}

/// The ends of a group of threads of this process, by rank, for TrainerOptions::group. Outlives their trainers.
class ThreadGroup {
 public:
  /// Of so many threads; empty where the system refuses it.
  explicit ThreadGroup(std::uint32_t size) : ends_(size) {
    if (graft_group_in_process(size, ends_.data()) != GRAFT_OK) ends_.clear();
  }
  ThreadGroup(ThreadGroup&&) = default;  ///< leaves none
  ThreadGroup& operator=(ThreadGroup&&) = delete;
  ~ThreadGroup() {
    for (graft_group& end : ends_) graft_group_release(&end);
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }  ///< 0: there is none
  /// How workers share a step may be set before trainers are made.
  graft_group& operator[](std::uint32_t rank) { return ends_[rank]; }

 private:
  std::vector<graft_group> ends_;
};

}  // namespace v0
}  // namespace graft
