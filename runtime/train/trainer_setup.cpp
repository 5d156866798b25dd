// Making a trainer, and what passes between its device memory and the host.
#include <algorithm>

#include "runtime/exec/kernel_proof.h"
#include "runtime/train/trainer.h"

namespace graft::train {

Trainer::Trainer(gpu::Device& device, const Graph& model, const TrainOptions& options, std::vector<data::Field> fields,
                 const TrainerOptions& trainer_options, TrainingPlan plan)
    : device_(device),
      model_(model),
      options_(options),
      trainer_options_(trainer_options),
      fields_(std::move(fields)),
      plan_(std::move(plan)) {
  state_.seed = options.seed;
}

Result<std::unique_ptr<Trainer>> Trainer::create(gpu::Device& device, const Graph& model, const WeightOf& weight_of,
                                                 const TrainOptions& options, const std::vector<data::Field>& fields,
                                                 const TrainerOptions& trainer_options) {
  GRAFT_TRY_ASSIGN(TrainingPlan plan, plan_training(model, options, trainer_options.request, device.target()));
  std::unique_ptr<Trainer> trainer(new Trainer(device, model, options, fields, trainer_options, std::move(plan)));
  trainer->weight_of_ = weight_of;
  GRAFT_TRY(trainer->build_within());
  return trainer;
}

/// Makes the plan again as long as some of its kernels are found to be wrong.
Status Trainer::prove() {
  KernelProof* const proof = trainer_options_.program.proof;
  const bool same_size = half_done() || options_.micro_batch != 0 || !trainer_options_.request.shrink_micro_batch;
  while (proof != nullptr) {
    GRAFT_TRY_ASSIGN(const bool again, proof->check(device_, plan_.plans()));
    if (!again) break;
    GRAFT_TRY_ASSIGN(plan_, plan_again(plan_.choice.budget, same_size));
  }
  return {};
}

Status Trainer::build() {
  GRAFT_TRY(prove());
  const std::vector<const Plan*> plans = plan_.plans();
  GRAFT_TRY_ASSIGN(memory_, Memory::create(device_, plan_.residents, plans));
  GRAFT_TRY(load_residents());
  GRAFT_TRY(prepare_fetches());
  for (const SizedPlan& sized : plan_.training) {
    GRAFT_TRY_ASSIGN(Runner runner, make_runner(sized));
    training_.push_back(std::move(runner));
  }
  if (plan_.update) {
    GRAFT_TRY_ASSIGN(update_, Program::create(*memory_, *plan_.update, trainer_options_.program));
  }
  if (plan_.hash) {
    GRAFT_TRY_ASSIGN(hash_, Program::create(*memory_, *plan_.hash, trainer_options_.program));
    GRAFT_TRY_ASSIGN(capture_, Capture::create(*memory_, trainer_options_.program.timeout));
  }
  for (const SizedPlan& sized : plan_.evaluation) {
    GRAFT_TRY_ASSIGN(Runner runner, make_runner(sized));
    evaluation_.push_back(std::move(runner));
  }
  return {};
}

Result<Trainer::Runner> Trainer::make_runner(SizedPlan sized) {
  Runner runner;
  runner.samples = sized.samples;
  GRAFT_TRY_ASSIGN(runner.feeder, Feeder::create(fields_, model_, sized));
  auto program = Program::create(*memory_, std::move(sized.plan), trainer_options_.program);
  GRAFT_TRY(of_device(program.status()));
  runner.program = std::move(program).value();
  return runner;
}

/// Writes what was kept of an earlier plan, else the model's weights, and zeros to all else: optimizer state,
/// accumulators, statistics without contents.
Status Trainer::load_residents() {
  for (const Resident& resident : plan_.residents.entries()) {
    const auto kept = kept_.find(resident.name);
    const ValueId value = model_.find_value(resident.name);
    const auto weight = value.valid() ? weight_of_(value) : std::nullopt;
    if (kept != kept_.end()) {
      GRAFT_TRY(memory_->write(resident.name, kept->second.bytes()));
    } else if (weight) {
      GRAFT_TRY(memory_->provide(resident.name, *weight));
    } else if (resident.kind == ValueKind::state) {
      GRAFT_TRY(memory_->fill(resident.name, 0));
    } else {
      return invalid("The model holds no contents for \"", resident.name, "\".");
    }
  }
  return {};
}

Status Trainer::read(std::string_view name, std::span<std::byte> bytes) {
  GRAFT_TRY(check_settled());
  return memory_->read(name, bytes);
}

Status Trainer::write(std::string_view name, std::span<const std::byte> bytes) {
  GRAFT_TRY(check_settled());
  return memory_->write(name, bytes);
}

std::vector<NamedTensor> Trainer::named_tensors() const {
  std::vector<NamedTensor> tensors;
  for (const Resident& r : plan_.residents.entries()) {
    tensors.push_back({r.name, r.kind, r.memory_class, r.dtype, &r.shape, r.bytes});
  }
  return tensors;
}

std::vector<NamedTensor> Trainer::named_parameters() const {
  std::vector<NamedTensor> tensors = named_tensors();
  std::erase_if(tensors, [](const NamedTensor& t) { return t.kind != ValueKind::parameter; });
  return tensors;
}

}  // namespace graft::train
