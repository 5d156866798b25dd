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
Status copy_to_model(train::Trainer& trainer, Model& model, const HostAllocator& allocator = default_host_allocator(),
                     bool allow_non_finite = false);

}  // namespace graft
