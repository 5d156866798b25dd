#include "runtime/train/fit.h"

namespace graft::train {

Result<FitEnd> fit(Trainer& trainer, data::Loader& loader, const FitOptions& options) {
  for (;;) {
    if (options.steps != 0 && trainer.state().step >= options.steps) return FitEnd::done;
    if (options.stop != nullptr && options.stop->load(std::memory_order_relaxed)) return FitEnd::stopped;
    GRAFT_TRY_ASSIGN(const data::Batch* batch, loader.next());
    if (batch == nullptr) return FitEnd::done;
    GRAFT_TRY_ASSIGN(const StepResult result, trainer.train_step(*batch));
    if (options.on_step) GRAFT_TRY(options.on_step(result));
    if (batch->last_of_epoch() && options.on_epoch) GRAFT_TRY(options.on_epoch(trainer));
  }
}

}  // namespace graft::train
