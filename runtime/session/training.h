// Trainers of models: runtime/train knows graphs, runtime/model knows files; here they meet.
#pragma once

#include <memory>

#include "runtime/model/model.h"
#include "runtime/train/trainer.h"

namespace graft {

/// As train::Trainer::create, with the model's graph and weights. The model must outlive the trainer.
Result<std::unique_ptr<train::Trainer>> create_trainer(gpu::Device& device, const Model& model,
                                                       const train::TrainOptions& options,
                                                       const std::vector<data::Field>& fields,
                                                       const train::TrainerOptions& trainer_options = {});

/// Copies parameters and running statistics from the device into the model, which must be the trainer's.
/// On failure the model is as it was. What is not finite is refused, unless allowed.
/// `ema`: running means in place of parameters that have one (OptimizerOptions::ema).
Status copy_to_model(train::Trainer& trainer, Model& model, const HostAllocator& allocator = default_host_allocator(),
                     bool allow_non_finite = false, bool ema = false);

/// Makes the trainer stand where a fresh one of `model` would: its weights and running statistics, state of zeros, no
/// step done. The model has the graph that the trainer was made with, and may have other weights.
Status reset_to_model(train::Trainer& trainer, const Model& model);

}  // namespace graft
