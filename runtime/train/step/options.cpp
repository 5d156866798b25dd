#include "runtime/train/step/options.h"

#include <cmath>

#include "runtime/core/features.h"
#include "runtime/ops/choice.h"
#include "runtime/passes/precision.h"
#include "runtime/train/step/loss_terms.h"

namespace graft::train {
namespace {

struct OptimizerName {
  std::string_view name;
  OptimizerKind kind;
};
constexpr OptimizerName kOptimizers[] = {{"sgd", OptimizerKind::sgd},         {"adam", OptimizerKind::adam},
                                         {"adamw", OptimizerKind::adamw},     {"adamw8bit", OptimizerKind::adamw8bit},
                                         {"lion", OptimizerKind::lion},       {"rmsprop", OptimizerKind::rmsprop},
                                         {"adagrad", OptimizerKind::adagrad}, {"adafactor", OptimizerKind::adafactor},
                                         {"lamb", OptimizerKind::lamb},       {"muon", OptimizerKind::muon}};

/// One of those that are left without GRAFT_WITHOUT's optimizers.
[[maybe_unused]] bool is_plain(const OptimizerOptions& o) {
  const bool known = o.kind == OptimizerKind::sgd || o.kind == OptimizerKind::adam || o.kind == OptimizerKind::adamw;
  return known && o.ema == 0 && o.proximal == 0;
}

Status check_optimizer(const OptimizerOptions& o) {
  if constexpr (!kHasOptimizers) {
    if (!is_plain(o)) {
      return left_out("optimizers other than sgd, adam and adamw, running means of parameters and proximal terms",
                      "optimizers");
    }
  }
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0)) {
    return invalid("Nesterov momentum needs a momentum above 0 and no dampening.");
  }
  return {};
}

}  // namespace

std::string_view optimizer_name(OptimizerKind kind) {
  for (const OptimizerName& entry : kOptimizers) {
    if (entry.kind == kind) return entry.name;
  }
  return "?";
}

Result<OptimizerKind> parse_optimizer(std::string_view name) {
  for (const OptimizerName& entry : kOptimizers) {
    if (entry.name == name) return entry.kind;
  }
  return invalid("There is no optimizer \"", name,
                 "\"; there are sgd, adam, adamw, adamw8bit, lion, rmsprop, adagrad, adafactor, "
                 "lamb and muon.");
}

OptimizerOptions optimizer_defaults(OptimizerKind kind) {
  OptimizerOptions options;
  options.kind = kind;
  switch (kind) {
    case OptimizerKind::lion: options.beta2 = 0.99; break;
    case OptimizerKind::adagrad: options.epsilon = 1e-10; break;
    case OptimizerKind::lamb: options.epsilon = 1e-6; break;
    case OptimizerKind::adafactor: options.learning_rate = 1e-2; break;
    case OptimizerKind::muon:
      options.momentum = 0.95;
      options.nesterov = true;
      break;
    default: break;
  }
  return options;
}

bool corrects_bias(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::adamw8bit:
    case OptimizerKind::lamb:
    case OptimizerKind::muon: return true;
    default: return false;
  }
}

std::optional<LossScaling> loss_scaling_of(const TrainOptions& options) {
  if constexpr (!kHasHalves) return {};
  if (!options.loss_scaling) return options.precision == DType::f16 ? std::optional(LossScaling{}) : std::nullopt;
  return options.loss_scaling->initial == 0 ? std::nullopt : options.loss_scaling;
}

Status check(const TrainOptions& options) {
  constexpr std::int64_t kMaxBatch = 1 << 30;
  if (options.batch < 1 || options.batch > kMaxBatch) {
    return invalid("The batch is ", options.batch, " samples; it must be 1 to ", kMaxBatch, ".");
  }
  if (options.micro_batch < 0 || options.micro_batch > options.batch) {
    return invalid("The micro-batch is ", options.micro_batch, " samples; it must be 0 (all) to the batch's ",
                   options.batch, ".");
  }
  if (options.groups.size() > kMaxParameterGroups) {
    return invalid("There are ", options.groups.size(), " parameter groups; ", kMaxParameterGroups, " fit.");
  }
  GRAFT_TRY(passes::check_precision(options.precision));
  if (!kHasHalves && options.loss_scaling && options.loss_scaling->initial != 0) {
    return left_out("scaled losses", "halves");
  }
  if (const auto scaling = loss_scaling_of(options); scaling && scaling->initial < 0x1p-24) {
    return invalid("The loss scale is ", scaling->initial, "; it must be 0 (none) or at least 2^-24.");
  }
  GRAFT_TRY(check_losses(options));
  if (!kHasOptimizers && options.layer_decay != 1) return left_out("rates that decay by layers", "optimizers");
  if (options.optimizer_in_backward && (options.clip_norm > 0 || loss_scaling_of(options))) {
    return invalid("The optimizer cannot run in the backward pass with ",
                   options.clip_norm > 0 ? "clipping by the norm" : "loss scaling",
                   ", which needs all gradients first.");
  }
  if (options.optimizer.proximal > 0 && loss_scaling_of(options)) {
    return invalid("The proximal term does not go with loss scaling, which gradients carry until the update.");
  }
  GRAFT_TRY(check_optimizer(options.optimizer));
  return check(options.schedule);
}

void scale_for_rounding(const gpu::Target& target, TrainOptions& options) {
  if (!options.loss_scaling && rounds_to_f16(target)) options.loss_scaling = LossScaling{};
}

}  // namespace graft::train
