// Trainers of models: runtime/train knows graphs, runtime/model knows files; here they meet.
#pragma once

#include <memory>

#include "runtime/model/model.h"
#include "runtime/train/run/trainer.h"

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

// Distillation: a model learns from what a larger one, its teacher, says of the same tokens. G. Hinton et al.,
// "Distilling the Knowledge in a Neural Network", 2015.

/// The model with its teacher in one graph, so that both are planned together. What is the teacher's is named
/// "teacher/..." and frozen; its logits are the output "teacher/logits". Where the model's samples hold several texts
/// (with_packed_sequences), the teacher keeps them apart, too. Borrows the weights of both.
/// unsupported: one of the two is no language model that takes token ids alone; invalid_argument: vocabularies differ.
Result<Model> with_teacher(const Model& model, const Model& teacher);

/// Has options with the loss ce learn from the teacher of such a graph: weight times the divergence of the model's
/// softened distributions from the teacher's times temperature^2, plus (1 - weight) times ce.
Status learn_from_teacher(const Graph& taught, double weight, train::TrainOptions& options);

/// Such options for the model without its teacher: those of ce.
train::TrainOptions without_teacher(train::TrainOptions options);

}  // namespace graft
