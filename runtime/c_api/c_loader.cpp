// graft/data.h: batches of data sets, and training on them.
#include "graft/steps.h"
#include "runtime/c_api/c_async.h"
#include "runtime/c_api/c_data.h"
#include "runtime/c_api/c_distribute.h"
#include "runtime/c_api/c_trainer.h"

using namespace graft;
using namespace graft::c_api;

graft_status graft_loader_create(graft_data_set* set, const graft_loader_options* options, graft_loader** loader) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (loader == nullptr) return invalid("graft_loader_create needs a place for the loader.");
    *loader = nullptr;
    GRAFT_TRY_ASSIGN(const graft_loader_options given, read_options(options, "graft_loader_options"));
    if (set->has_loader()) return invalid("The data set has a loader already; a set has one at a time.");
    data::LoaderOptions wanted;
    wanted.batch = given.batch;
    wanted.seed = given.seed;
    wanted.shuffle = given.in_order == 0;
    wanted.keyed = given.keyed != 0;
    wanted.drop_last = given.drop_last != 0;
    wanted.epochs = given.epochs;
    wanted.shuffle_buffer = given.shuffle_buffer;
    wanted.memory_limit = given.memory_limit;
    wanted.threads = given.read_threads;
    wanted.allocator = set->context->allocator;
    auto made = std::make_unique<graft_loader>();
    made->context = set->context;
    made->order = order_text(wanted.shuffle, wanted.keyed, wanted.drop_last);
    // Now: later the loader's thread reads the set.
    made->fingerprint = set->fingerprint;
    if (given.anonymous == 0 && made->fingerprint.empty()) {
      GRAFT_TRY_ASSIGN(made->fingerprint, fingerprint_of(*set->source));
    }
    GRAFT_TRY_ASSIGN(made->loader, data::Loader::create(*set->source, wanted));
    made->fields.resize(set->source->fields().size());
    made->set = set;
    set->set_loading(true);
    *loader = made.release();
    return ok_status();
  });
}

void graft_loader_destroy(graft_loader* loader) {
  if (loader != nullptr) destroy<graft_context>(loader->context, loader);
}

graft_status graft_loader_next(graft_loader* loader, graft_batch* batch) {
  if (loader == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(loader->context, [&]() -> Status {
    GRAFT_TRY(write_info(graft_batch{}, batch, "graft_batch"));
    loader->pending = nullptr;
    GRAFT_TRY_ASSIGN(const data::Batch* next, loader->loader->next());
    if (next == nullptr) return ok_status();
    for (std::size_t f = 0; f < loader->fields.size(); ++f) loader->fields[f] = next->field(f).data();
    graft_batch out{};
    out.samples = next->count();
    out.epoch = next->epoch();
    out.last_of_epoch = next->last_of_epoch() ? 1 : 0;
    out.fields = loader->fields.data();
    return write_info(out, batch, "graft_batch");
  });
}

namespace {

Result<std::optional<train::StepResult>> whole(Result<train::StepResult> step) {
  if (!step.ok()) return std::move(step).status();
  return std::optional<train::StepResult>(std::move(*step));
}

/// `part`: one micro-batch; `done` becomes true with the last one.
Status train_next(graft_trainer& trainer, graft_loader& loader, bool part, int& more, bool& done,
                  graft_metrics* metrics) {
  if (&*loader.context != &*trainer.context) return invalid("The loader and the trainer are of two contexts.");
  if (metrics != nullptr) GRAFT_TRY(check_info(metrics, "graft_metrics"));
  GRAFT_TRY(check_samples(trainer, *loader.set->source));
  more = 1;
  RunObserver* const observer = trainer.profile ? &trainer.profile->profile : nullptr;
  if (observer != nullptr && trainer.told) {
    observer->phase(HostPhase::report, *trainer.told, std::chrono::steady_clock::now());
  }
  trainer.told.reset();
  if (loader.pending == nullptr) {
    const PhaseScope scope(observer, HostPhase::data);
    GRAFT_TRY_ASSIGN(loader.pending, loader.loader->next());
  }
  const auto has_ended = [&] { return trainer.exchange != nullptr && trainer.exchange->has_ended(); };
  const bool is_between_steps = trainer.trainer->state().samples_done == 0;
  const bool is_late = trainer.exchange == nullptr && is_between_steps && trainer.limit.is_over();
  if (loader.pending == nullptr || has_ended() || is_late) {
    more = 0;
    return ok_status();
  }
  trainer.limit.step_begins();
  auto result =
      part ? trainer.trainer->micro_step(*loader.pending) : whole(trainer.trainer->train_step(*loader.pending));
  // Samples that are themselves at fault would be so the next time: the step was thrown away, and others follow.
  const bool refused = result.status().code() == Code::invalid_argument && trainer.trainer->state().samples_done == 0;
  const bool ended = result.ok() && result->has_value();
  const bool ends_epoch = ended && loader.pending->last_of_epoch();
  if (ended || refused) loader.pending = nullptr;
  if (result.status().code() == Code::cancelled && has_ended()) {
    more = 0;
    return ok_status();
  }
  GRAFT_TRY(Status(result.status()));
  if (!ended) return ok_status();
  done = true;
  if (observer != nullptr) trainer.told = std::chrono::steady_clock::now();
  GRAFT_TRY(follow_shares(trainer, *loader.loader));
  const Status kept = end_step(trainer, **result, metrics);
  trainer.ends_epoch = ends_epoch;
  if (trainer.exchange != nullptr && trainer.exchange->share().rank == 0 && trainer.limit.is_over()) {
    trainer.exchange->end_run();
  }
  return kept;
}

}  // namespace

graft_status graft_train_next(graft_trainer* trainer, graft_loader* loader, int* more, graft_metrics* metrics) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (loader == nullptr || more == nullptr) return invalid("graft_train_next needs a loader and a place for more.");
    bool done = false;
    return train_next(*trainer, *loader, false, *more, done, metrics);
  });
}

graft_status graft_train_next_async(graft_trainer* trainer, graft_loader* loader, int* more, graft_metrics* metrics,
                                    graft_done done, void* user) {
  if (loader == nullptr || more == nullptr) return GRAFT_INVALID_ARGUMENT;
  return ask(trainer, done, user, [loader = Ref<graft_loader>(loader), more, metrics](graft_trainer& of) {
    bool ended = false;
    return train_next(of, *loader, false, *more, ended, metrics);
  });
}

graft_status graft_train_next_part(graft_trainer* trainer, graft_loader* loader, int* more, int* done) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (loader == nullptr || more == nullptr || done == nullptr) {
      return invalid("graft_train_next_part needs a loader and places for more and done.");
    }
    bool ended = false;
    const Status taken = train_next(*trainer, *loader, true, *more, ended, nullptr);
    *done = ended ? 1 : 0;
    return taken;
  });
}

graft_status graft_evaluate_data(graft_trainer* trainer, graft_data_set* set, graft_metrics* metrics) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (set == nullptr) return invalid("graft_evaluate_data needs a data set.");
    if (set->has_loader()) return invalid("The data set has a loader, whose thread reads it; open it once more.");
    if (metrics != nullptr) GRAFT_TRY(check_info(metrics, "graft_metrics"));
    GRAFT_TRY(check_samples(*trainer, *set->source));
    const WithoutProfile apart(*trainer);
    GRAFT_TRY_ASSIGN(const train::Metrics result, trainer->trainer->evaluate(*set->source));
    if (metrics == nullptr) return ok_status();
    return write_info(metrics_of(*trainer->trainer, result, trainer->trainer->learning_rate()), metrics,
                      "graft_metrics");
  });
}
