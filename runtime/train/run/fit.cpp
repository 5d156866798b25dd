#include "runtime/train/run/fit.h"

namespace graft::train {
namespace {

bool stopped(const FitOptions& options) {
  return options.stop != nullptr && options.stop->load(std::memory_order_relaxed);
}

}  // namespace

Result<FitEnd> fit(Trainer& trainer, data::Loader& loader, const FitOptions& options) {
  for (;;) {
    if (options.steps != 0 && trainer.state().step >= options.steps) return FitEnd::done;
    if (options.end && options.end()) return FitEnd::done;
    if (stopped(options)) return FitEnd::stopped;
    const data::Batch* batch = nullptr;
    {
      const PhaseScope scope(options.observer, HostPhase::data);
      GRAFT_TRY_ASSIGN(batch, loader.next());
    }
    if (batch == nullptr) return FitEnd::done;
    const bool ends_epoch = batch->last_of_epoch();  // on_step may call the loader
    std::optional<StepResult> result;
    for (;;) {
      auto taken = trainer.micro_step(*batch);
      if (!taken.ok() && options.go_on) {
        GRAFT_TRY(options.go_on(taken.status()));
        break;
      }
      GRAFT_TRY_ASSIGN(result, std::move(taken));
      if (result) break;
      if (options.stop_within_steps && stopped(options)) return FitEnd::stopped;
    }
    if (!result) continue;  // the step comes again
    const PhaseScope scope(options.observer, HostPhase::report);
    if (options.on_step) GRAFT_TRY(options.on_step(*result));
    if (ends_epoch && options.on_epoch) GRAFT_TRY(options.on_epoch(trainer));
  }
}

}  // namespace graft::train
