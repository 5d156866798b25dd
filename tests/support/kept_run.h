// A small training run that is kept in a checkpoint store: dropout, batch norm, shuffling, a schedule, AdamW and
// accumulation, with epochs that end inside.
#pragma once

#include <memory>
#include <string>

#include "runtime/run_state/checkpointing.h"
#include "runtime/run_state/training.h"
#include "tests/support/c_api.h"
#include "tests/support/trainer_fixture.h"

namespace graft::test {

struct KeptRun {
  explicit KeptRun(const TinyModel& tiny = tiny_cnn(3, 0.4)) : model(model_of(tiny)) {}
  KeptRun(const KeptRun&) = delete;
  KeptRun& operator=(const KeptRun&) = delete;

  static train::TrainOptions default_options() {
    train::TrainOptions out;
    out.optimizer.learning_rate = 0.01;
    out.optimizer.weight_decay = 0.1;
    out.schedule = {.kind = train::ScheduleKind::cosine, .warmup_steps = 2, .total_steps = 20};
    out.batch = 6;
    out.micro_batch = 2;
    out.clip_norm = 1;
    out.seed = 3;
    return out;
  }

  /// A trainer with the model's weights and a new loader; both at the beginning.
  void start() {
    checkpointer.reset();
    loader.reset();
    source = data.source();
    loader = data::Loader::create(*source, {.batch = 6, .seed = 3}).value();
    if (!trainer) return make_trainer();
    for (const auto& [name, bytes] : initial) GRAFT_CHECK(trainer->write(name, bytes).ok());
    trainer->state() = initial_state;
  }

  void make_trainer() {
    train::TrainerOptions trainer_options;
    trainer_options.request.evaluation = false;
    trainer_options.request.checkpoints = true;
    trainer_options.request.samples = data.samples;
    auto made = create_trainer(*shared_device(), model, options, data.fields, trainer_options);
    GRAFT_CHECK(made.ok());
    trainer = std::move(made).value();
    initial_state = trainer->state();
    for (const train::NamedTensor& tensor : trainer->named_tensors()) {
      if (tensor.kind == ValueKind::constant) continue;
      auto& bytes = initial[std::string(tensor.name)];
      bytes.resize(tensor.bytes);
      GRAFT_CHECK(trainer->read(tensor.name, bytes).ok());
    }
  }

  /// Opens the store and brings trainer and loader to its state.
  Status open(CheckpointOptions checkpoint, os::FileSystem& files = os::system_files()) {
    start();
    GRAFT_TRY_ASSIGN(checkpointer, Checkpointer::open(files, checkpoint, *trainer, model, configuration_of(*trainer)));
    Status begun = detail::to_status(checkpointer->begin(loader.get()));
    if (!begun.ok()) checkpointer.reset();
    return begun;
  }

  /// Trains until so many steps are done, and `pieces` micro-batches of the next.
  Status run_to(std::uint64_t steps, int pieces = 0) {
    while (trainer->state().step < steps || pieces > 0) {
      GRAFT_TRY_ASSIGN(const data::Batch* batch, loader->next());
      std::optional<train::StepResult> result;
      while (!result) {
        if (trainer->state().step >= steps && pieces-- == 0) return ok_status();
        GRAFT_TRY_ASSIGN(result, trainer->micro_step(*batch));
      }
      if (checkpointer) GRAFT_TRY(checkpointer->record(*result));
    }
    return ok_status();
  }

  Model model;
  TinyData data = tiny_data(20, {1, 8, 8}, 3);  // the last batch of an epoch is short: 6, 6, 6, 2
  train::TrainOptions options = default_options();
  std::unique_ptr<train::Trainer> trainer;
  train::TrainingState initial_state;
  std::map<std::string, std::vector<std::byte>> initial;
  std::unique_ptr<data::Source> source;
  std::unique_ptr<data::Loader> loader;
  std::unique_ptr<Checkpointer> checkpointer;
};

}  // namespace graft::test
