// What options begin as.
#include <cstddef>

#include "runtime/session/c_api/c_trainer.h"

using namespace graft;
using namespace graft::c_api;

graft_status graft_trainer_defaults(graft_optimizer optimizer, graft_trainer_options* options) {
  using enum train::OptimizerKind;
  constexpr train::OptimizerKind kKinds[] = {adamw,   adam,    sgd,       adamw8bit, lion,
                                             rmsprop, adagrad, adafactor, lamb,      muon};
  constexpr std::size_t kNeeded = offsetof(graft_trainer_options, own_numbers) + sizeof(int);
  const auto number = static_cast<unsigned>(optimizer);
  if (number >= std::size(kKinds) || options == nullptr || options->struct_size < kNeeded) {
    return GRAFT_INVALID_ARGUMENT;
  }
  const train::OptimizerOptions usual = train::optimizer_defaults(kKinds[number]);
  const train::Schedule schedule;
  options->own_numbers = 1;
  options->optimizer = optimizer;
  options->learning_rate = usual.learning_rate;
  options->momentum = usual.momentum;
  options->nesterov = usual.nesterov ? 1 : 0;
  options->weight_decay = optimizer == GRAFT_ADAMW || optimizer == GRAFT_ADAMW_8BIT || optimizer == GRAFT_LAMB ? 0.01
                          : optimizer == GRAFT_MUON                                                            ? 0.1
                                                                                                               : 0;
  options->beta1 = usual.beta1;
  options->beta2 = usual.beta2;
  options->epsilon = usual.epsilon;
  options->alpha = usual.alpha;
  options->lr_decay = usual.lr_decay;
  options->initial_accumulator_value = usual.initial_accumulator_value;
  options->beta2_decay = usual.beta2_decay;
  options->epsilon2 = usual.epsilon2;
  options->clip_threshold = usual.clip_threshold;
  options->ns_steps = usual.ns_steps;
  options->layer_decay = 1;
  options->step_size = 1000;
  options->gamma = schedule.gamma;
  options->rise = schedule.rise;
  options->div_factor = schedule.div_factor;
  options->final_div_factor = schedule.final_div_factor;
  options->power = schedule.power;
  return GRAFT_OK;
}
