// graft_trainer_options: their defaults, and what they say to runtime/train.
#include "interface/defaults.h"

#include "platform/base/names.h"
#include "runtime/c_api/c_options.h"
#include "runtime/c_api/c_session.h"
#include "runtime/c_api/c_trainer.h"
#include "runtime/core/features.h"
#include "runtime/train/step/loss_terms.h"

using namespace graft;
using namespace graft::c_api;

namespace {

/// "a,b" or NULL.
std::vector<std::string> names_of(const char* text) { return split_names(text == nullptr ? "" : text); }

Result<std::vector<train::ParameterGroup>> read_groups(const graft_trainer_options& options) {
  const graft_parameter_group* const groups = options.groups;
  const std::size_t count = options.group_count;
  if (groups == nullptr && count != 0) return invalid(count, " parameter groups were promised, and groups is NULL.");
  std::vector<train::ParameterGroup> out;
  for (std::size_t i = 0; i < count; ++i) {
    const graft_parameter_group& given = groups[i];
    if (given.pattern == nullptr) return invalid("The pattern of parameter group ", i, " is NULL.");
    GRAFT_TRY(check_ranges(given).with_context(cat("Parameter group ", i)));
    train::ParameterGroup& group = out.emplace_back(train::ParameterGroup{.pattern = given.pattern});
    group.learning_rate_scale = given.learning_rate_scale;
    if (given.weight_decay == -1) continue;
    if (given.weight_decay < 0) {
      return invalid("The weight decay of parameter group ", i, " is ", given.weight_decay,
                     "; it must be -1 or 0 or more.");
    }
    group.weight_decay = given.weight_decay;
  }
  return out;
}

Result<std::vector<double>> read_weights(const char* what, const double* numbers, std::size_t count) {
  if (numbers == nullptr && count != 0) return invalid(count, " ", what, " were promised, and they are NULL.");
  return std::vector<double>(numbers, numbers + count);
}

Status read_losses(const graft_trainer_options& options, train::TrainOptions& out) {
  using enum train::Loss;
  constexpr train::Loss kLosses[] = {cross_entropy, mse,     l1,       bce, focal,  dice, huber, smooth_l1, kl,
                                     cosine,        triplet, info_nce, ctc, output, dpo,  ipo,   orpo,      kto};
  train::LossOptions term;
  const auto loss = static_cast<unsigned>(options.loss);
  if (loss >= std::size(kLosses)) return invalid("There is no loss number ", loss, ".");
  term.kind = kLosses[loss];
  term.label_smoothing = options.label_smoothing;
  term.ignore_index = options.ignore_index;
  if (options.class_axis != GRAFT_AXIS_OF_LABELS) term.class_axis = options.class_axis;
  GRAFT_TRY_ASSIGN(term.class_weights,
                   read_weights("class weights", options.class_weights, options.class_weight_count));
  GRAFT_TRY_ASSIGN(term.pos_weight, read_weights("pos weights", options.pos_weight, options.pos_weight_count));
  term.focal_gamma = options.focal_gamma;
  term.focal_alpha = options.focal_alpha;
  term.delta = options.huber_delta;
  term.beta = options.smooth_l1_beta;
  term.blank = options.blank;
  term.preference_beta = options.preference_beta;
  term.desirable_weight = options.desirable_weight;
  term.undesirable_weight = options.undesirable_weight;
  term.zero_infinity = options.zero_infinity != 0;
  term.distill_weight = options.distill_weight;
  std::vector<train::LossOptions> terms = {term};
  if (options.losses != nullptr) {
    GRAFT_TRY_ASSIGN(terms, train::parse_losses(options.losses, term));
  }
  for (train::LossOptions& one : terms) {
    if (one.kind == cosine) one.margin = options.cosine_margin;
    if (one.kind == triplet) one.margin = options.triplet_margin;
    if (one.kind == info_nce) one.temperature = options.temperature;
    if (one.kind == distill || options.teacher != nullptr) one.temperature = options.distill_temperature;
    if (one.kind == ctc && options.target_length != 0) one.target_shape = Shape::of({options.target_length});
  }
  out.loss = std::move(terms.front());
  out.more_losses.assign(terms.begin() + 1, terms.end());
  if (options.sample_weights != nullptr) out.sample_weights = options.sample_weights;
  if constexpr (!kHasLosses) return train::check_losses(out);  // before a graph is made of them
  return ok_status();
}

void read_optimizer(const graft_trainer_options& options, train::OptimizerKind kind, train::OptimizerOptions& o) {
  o.kind = kind;
  o.learning_rate = options.learning_rate;
  o.momentum = options.momentum;
  o.nesterov = options.nesterov != 0;
  o.weight_decay = options.weight_decay;
  o.beta1 = options.beta1;
  o.beta2 = options.beta2;
  o.epsilon = options.epsilon;
  o.alpha = options.alpha;
  o.centered = options.centered != 0;
  o.lr_decay = options.lr_decay;
  o.initial_accumulator_value = options.initial_accumulator_value;
  o.beta2_decay = options.beta2_decay;
  o.epsilon2 = options.epsilon2;
  o.clip_threshold = options.clip_threshold;
  o.ns_steps = options.ns_steps;
  if (options.match_rms_adamw != 0) o.adjust = train::MuonAdjust::match_rms_adamw;
  o.adamw_parameters = names_of(options.adamw_for);
  o.ema = options.ema;
  o.proximal = options.proximal;
}

}  // namespace

namespace graft::c_api {

Result<train::TrainOptions> train_options_of(const graft_trainer_options& options) {
  train::TrainOptions out;
  using enum train::OptimizerKind;
  constexpr train::OptimizerKind kOptimizers[] = {adamw,   adam,    sgd,       adamw8bit, lion,
                                                  rmsprop, adagrad, adafactor, lamb,      muon};
  constexpr train::ScheduleKind kSchedules[] = {train::ScheduleKind::constant,  train::ScheduleKind::linear,
                                                train::ScheduleKind::cosine,    train::ScheduleKind::step,
                                                train::ScheduleKind::one_cycle, train::ScheduleKind::polynomial,
                                                train::ScheduleKind::plateau};
  const auto optimizer = static_cast<unsigned>(options.optimizer);
  const auto schedule = static_cast<unsigned>(options.schedule);
  if (optimizer >= std::size(kOptimizers)) return invalid("There is no optimizer number ", optimizer, ".");
  if (schedule >= std::size(kSchedules)) return invalid("There is no schedule number ", schedule, ".");
  GRAFT_TRY_ASSIGN(out.precision, read_precision(options.precision));
  if (options.loss_scale >= 0 || out.precision == DType::f16) {
    out.loss_scaling = train::LossScaling{};
    if (options.loss_scale >= 0) out.loss_scaling->initial = options.loss_scale;
    out.loss_scaling->growth_interval = options.growth_interval;
  }
  GRAFT_TRY(read_losses(options, out));
  read_optimizer(options, kOptimizers[optimizer], out.optimizer);
  out.layer_decay = options.layer_decay;
  out.clip_norm = options.clip_norm;
  out.clip_value = options.clip_value;
  out.optimizer_in_backward = options.optimizer_in_backward != 0;
  out.batch_statistics = options.frozen_statistics == 0;
  out.neftune_alpha = options.neftune_alpha;
  out.schedule.kind = kSchedules[schedule];
  out.schedule.warmup_steps = options.warmup_steps;
  out.schedule.total_steps = options.total_steps;
  out.schedule.final_factor = options.final_lr_factor;
  out.schedule.step_size = options.step_size;
  out.schedule.gamma = options.gamma;
  out.schedule.rise = options.rise;
  out.schedule.div_factor = options.div_factor;
  out.schedule.final_div_factor = options.final_div_factor;
  out.schedule.power = options.power;
  out.batch = options.batch;
  out.micro_batch = options.micro_batch;
  out.seed = options.seed;
  out.freeze = names_of(options.freeze);
  out.fetch = names_of(options.fetch);
  out.predictions = options.predictions != 0;
  GRAFT_TRY_ASSIGN(out.groups, read_groups(options));
  GRAFT_TRY_ASSIGN(out.bindings, read_bindings(options.bindings, options.binding_count));
  GRAFT_TRY_ASSIGN(out.inputs, read_formats(options.inputs, options.input_count));
  return out;
}

Result<graft_trainer_options> read_trainer_options(const graft_trainer_options* given) {
  constexpr std::size_t kKeyEnd = offsetof(graft_trainer_options, optimizer) + sizeof(graft_optimizer);
  const bool says = given != nullptr && given->struct_size >= kKeyEnd;
  return read_options(given, "graft_trainer_options",
                      default_graft_trainer_options(says ? given->optimizer : GRAFT_ADAMW));
}

}  // namespace graft::c_api

graft_status graft_trainer_options_init(graft_trainer_options* options, graft_optimizer optimizer) {
  if (options == nullptr || static_cast<unsigned>(optimizer) >= kGraftOptimizers) return GRAFT_INVALID_ARGUMENT;
  const Status written = write_info(default_graft_trainer_options(optimizer), options, "graft_trainer_options");
  return written.ok() ? GRAFT_OK : GRAFT_INVALID_ARGUMENT;
}
