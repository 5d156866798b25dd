#include "runtime/run_state/training.h"

#include "runtime/core/finite.h"

namespace graft {

Result<std::unique_ptr<train::Trainer>> create_trainer(gpu::Device& device, const Model& model,
                                                       const train::TrainOptions& options,
                                                       const std::vector<data::Field>& fields,
                                                       const train::TrainerOptions& trainer_options) {
  GRAFT_TRY(model.check_before_use());
  return train::Trainer::create(
      device, model.graph, [&model](ValueId value) { return model.weight(value); }, options, fields, trainer_options);
}

Status copy_to_model(train::Trainer& trainer, Model& model, const HostAllocator& allocator, bool allow_non_finite,
                     bool ema) {
  std::vector<std::pair<ValueId, HostBuffer>> all;
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {
    const ValueId value = model.graph.find_value(tensor.name);
    if (!value.valid() || tensor.kind == ValueKind::constant) continue;
    GRAFT_TRY_ASSIGN(HostBuffer contents, HostBuffer::create(tensor.bytes, "a trained tensor", allocator));
    GRAFT_TRY(ema ? trainer.read_ema(tensor.name, contents.bytes()) : trainer.read(tensor.name, contents.bytes()));
    const auto at = allow_non_finite ? std::nullopt : find_non_finite(contents.bytes(), tensor.dtype);
    if (at) {
      return invalid("The trained tensor \"", tensor.name, "\" is not finite at element ", *at,
                     ": the model was not touched and nothing changed.");
    }
    all.emplace_back(value, std::move(contents));
  }
  // Only once everything was read: a model is never half trained.
  for (auto& [value, contents] : all) GRAFT_TRY(model.set_weight(value, std::move(contents)));
  return ok_status();
}

Status reset_to_model(train::Trainer& trainer, const Model& model) {
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {
    if (tensor.kind == ValueKind::constant) continue;
    const ValueId value = model.graph.find_value(tensor.name);
    const auto weight = value.valid() ? model.weight(value) : std::nullopt;
    if (weight && weight->size() != tensor.bytes) {
      return invalid("\"", tensor.name, "\" has ", weight->size(), " bytes in the model and ", tensor.bytes,
                     " in the trainer.");
    }
    GRAFT_TRY(trainer.write(tensor.name, weight ? *weight : std::vector<std::byte>(tensor.bytes)));
  }
  trainer.state() = {.seed = trainer.state().seed};
  GRAFT_TRY(trainer.set_anchor());
  return trainer.set_ema();
}

}  // namespace graft
