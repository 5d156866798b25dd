#include "runtime/session/training.h"

namespace graft {
namespace {

train::TrainOptions with_defaults(const Model& model, train::TrainOptions options) {
  for (const auto& [symbol, size] : model.symbol_defaults) options.bindings.try_emplace(symbol, size);
  return options;
}

}  // namespace

Result<std::unique_ptr<train::Trainer>> make_trainer(gpu::Device& device, const Model& model,
                                                     const train::TrainOptions& options,
                                                     const std::vector<data::Field>& fields,
                                                     const train::TrainerOptions& trainer_options) {
  const train::WeightOf weight_of = [&model](ValueId value) { return model.weight(value); };
  return train::Trainer::create(device, model.graph, weight_of, with_defaults(model, options), fields, trainer_options);
}

Result<train::TrainingPlan> plan_training(const Model& model, const train::TrainOptions& options,
                                          const train::PlanRequest& request, const gpu::Caps& caps) {
  return train::plan_training(model.graph, with_defaults(model, options), request, caps);
}

Status copy_trained(train::Trainer& trainer, Model& model, const HostAllocator& allocator) {
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {
    const ValueId value = model.graph.find_value(tensor.name);
    if (tensor.kind == ValueKind::constant || !value.valid()) continue;
    if (model.graph.value(value).kind == ValueKind::constant) continue;
    GRAFT_TRY_ASSIGN(HostBuffer contents, HostBuffer::create(tensor.bytes, "a trained weight", allocator));
    GRAFT_TRY(trainer.read(tensor.name, contents.bytes()));
    GRAFT_TRY(model.set_weight(value, std::move(contents)));
  }
  return {};
}

}  // namespace graft
