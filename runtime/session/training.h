// Training of models: a trainer fed from a model's weights, and the way back.
#pragma once

#include <memory>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/train/trainer.h"

namespace graft {

/// train::Trainer::create for a model. Symbols that the options leave unbound take the model's defaults. The model and
/// the device must outlive the trainer, and the model's graph must not change; its weights may.
Result<std::unique_ptr<train::Trainer>> make_trainer(gpu::Device& device, const Model& model,
                                                     const train::TrainOptions& options,
                                                     const std::vector<data::Field>& fields,
                                                     const train::TrainerOptions& trainer_options = {});

/// train::plan_training for a model: the plan that make_trainer() would make.
Result<train::TrainingPlan> plan_training(const Model& model, const train::TrainOptions& options,
                                          const train::PlanRequest& request, const gpu::Caps& caps);

/// Copies the trained parameters and running statistics from the device into the model.
Status copy_trained(train::Trainer& trainer, Model& model, const HostAllocator& allocator = default_host_allocator());

}  // namespace graft
