#include "tools/graft/train_setup.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "runtime/passes/precision.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/graft/adapted_model.h"

namespace graft::cli {
namespace {

/// Fewer or as many classes as the model has, all of them its own: they keep their numbers.
bool knows_all(const std::vector<std::string>& known, const data::Source& source) {
  const auto* names = data::class_names(source);
  return names != nullptr && *names != known && std::ranges::all_of(*names, [&](const std::string& name) {
           return std::ranges::find(known, name) != known.end();
         });
}

}  // namespace

// --eval names a set of its own; --eval-split keeps the last samples of --data from training.
Result<DataSets> open_sets(const TrainArguments& options, const Model& model) {
  bool sequence_starts = false;
  data::Hints hints = training_hints_of(model);
  DataSets sets;
  const auto open = [&](const std::string& spec, bool held_out = false) {
    return open_data(spec, model, options.train.seq, hints, sequence_starts,
                     {options.text.on_long, held_out ? 0 : options.text.show,
                      static_cast<Preference>(preference_of(options.train)), options.train.pooling},
                     held_out ? &sets.held_out_info : &sets.training_info);
  };
  TRY_ASSIGN(sets.training, open(options.data));
  if (const auto known = classes_of(model); knows_all(known, *sets.training)) {
    hints.classes = known;
    TRY_ASSIGN(sets.training, open(options.data));
  }
  sequence_starts = has_packed_sequences(*sets.training);
  const data::Hints training_hints = hints;
  if (const auto* classes = data::class_names(*sets.training)) hints.classes = *classes;
  hints.augment = false;  // of what the training is measured on
  if (!options.held_out.empty()) {
    TRY_ASSIGN(sets.held_out, open(options.held_out, true));
    // One graph serves both.
    if (has_packed_sequences(*sets.held_out) && !sequence_starts) {
      sequence_starts = true;
      hints = training_hints;
      TRY_ASSIGN(sets.training, open(options.data));
    }
  }
  if (options.split == 0) return sets;
  if (sets.held_out) return invalid("Give --eval or --eval-split, not both.");
  const auto size = sets.training->size();
  if (!(options.split > 0 && options.split < 1) || !size || *size < 2) {
    return invalid("--eval-split ", options.split, " must lie between 0 and 1, and needs two samples or more.");
  }
  const double wanted = std::round(options.split * static_cast<double>(*size));
  const auto held = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, *size - 1);
  TRY_ASSIGN(sets.held_out, open(options.data, true));
  sets.held_out_info = {};  // the summary of the whole set tells of both
  TRY_ASSIGN(sets.held_out, data::range(std::move(sets.held_out), *size - held, held));
  TRY_ASSIGN(sets.training, data::range(std::move(sets.training), 0, *size - held));
  return sets;
}

Status set_teacher(const TrainFlags& flags, const Graph& taught, train::TrainOptions& options) {
  if (flags.teacher.empty()) return ok_status();
  const double temperature = std::isnan(flags.temperature) ? kDistillTemperature : flags.temperature;
  return learn_from_teacher(taught, flags.distill_weight, temperature, options);
}

FreshAdapters TrainFlags::fresh() const { return {lora, seed, add_tokens, needs_reference(*this)}; }

namespace {

constexpr double kLargestInGroup = 1e30;  // as train::check() has it

Result<double> group_number(std::string text, const std::string& what) {
  const std::string wrong = cli::number(0, kLargestInGroup)(text);
  if (!wrong.empty()) return invalid("--group ", what, " ", wrong, ".");
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "*.bias:weight_decay=0,lr=0.1"
Result<train::ParameterGroup> parse_group(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const std::vector<std::string> items = split_list(colon == std::string::npos ? "" : text.substr(colon + 1));
  if (items.empty() || colon == 0) {
    return invalid("--group takes PATTERN:lr=SCALE,weight_decay=X; \"", text, "\" is not that.");
  }
  train::ParameterGroup group;
  group.pattern = text.substr(0, colon);
  std::set<std::string> given;
  for (const std::string& item : items) {
    TRY_ASSIGN(const auto pair, parse_assignment(item, "--group PATTERN:"));
    if (pair.first != "lr" && pair.first != "weight_decay")
      return invalid("--group knows lr and weight_decay, not \"", pair.first, "\".");
    if (!given.insert(pair.first).second) return invalid("--group gives ", pair.first, " of one pattern twice.");
    TRY_ASSIGN(const double value, group_number(pair.second, pair.first));
    if (pair.first == "lr") {
      group.learning_rate_scale = value;
    } else {
      group.weight_decay = value;
    }
  }
  return group;
}

void set_if_given(double& option, double given) {
  if (given >= 0) option = given;
}

Status set_optimizer(const TrainFlags& flags, train::TrainOptions& options) {
  using train::OptimizerKind;
  TRY_ASSIGN(const OptimizerKind kind, train::parse_optimizer(flags.optimizer));
  train::OptimizerOptions& o = options.optimizer;
  o = train::optimizer_defaults(kind);
  set_if_given(o.learning_rate, flags.learning_rate);
  set_if_given(o.momentum, flags.momentum);
  if (flags.nesterov_given) o.nesterov = flags.nesterov;
  if (kind == OptimizerKind::muon && o.momentum == 0) o.nesterov = false;
  set_if_given(o.beta1, flags.beta1);
  set_if_given(o.beta2, flags.beta2);
  set_if_given(o.epsilon, flags.epsilon);
  set_if_given(o.alpha, flags.alpha);
  o.centered = flags.centered;
  set_if_given(o.lr_decay, flags.lr_decay);
  set_if_given(o.initial_accumulator_value, flags.initial_accumulator_value);
  if (!std::isnan(flags.beta2_decay)) o.beta2_decay = flags.beta2_decay;
  set_if_given(o.epsilon2, flags.epsilon2);
  set_if_given(o.clip_threshold, flags.clip_threshold);
  if (flags.ns_steps > 0) o.ns_steps = flags.ns_steps;
  if (flags.muon_adjust == "match_rms_adamw") o.adjust = train::MuonAdjust::match_rms_adamw;
  o.adamw_parameters = split_lists(flags.adamw_for);
  o.ema = flags.ema;
  o.proximal = flags.proximal;
  const bool decoupled =
      kind == OptimizerKind::adamw || kind == OptimizerKind::adamw8bit || kind == OptimizerKind::lamb;
  o.weight_decay = flags.weight_decay >= 0       ? flags.weight_decay
                   : decoupled                   ? 0.01
                   : kind == OptimizerKind::muon ? 0.1
                                                 : 0;
  options.layer_decay = flags.layer_decay;
  return ok_status();
}

Status set_losses(const TrainFlags& flags, train::TrainOptions& options) {
  train::LossOptions like;
  like.label_smoothing = flags.label_smoothing;
  if (flags.ignore_index < INT32_MIN || flags.ignore_index > INT32_MAX) {
    return invalid("--ignore-index ", flags.ignore_index, " does not fit 32 bits.");
  }
  like.ignore_index = static_cast<std::int32_t>(flags.ignore_index);
  if (flags.class_axis != INT64_MIN) like.class_axis = flags.class_axis;
  TRY_ASSIGN(like.class_weights, list_of_numbers(flags.class_weights, "--class-weights"));
  TRY_ASSIGN(like.pos_weight, list_of_numbers(flags.pos_weight, "--pos-weight"));
  like.focal_gamma = flags.focal_gamma;
  like.focal_alpha = flags.focal_alpha;
  like.delta = flags.huber_delta;
  like.beta = flags.smooth_l1_beta;
  if (!std::isnan(flags.margin)) like.margin = flags.margin;
  if (!std::isnan(flags.temperature)) like.temperature = flags.temperature;
  like.distill_weight = flags.distill_weight;
  like.preference_beta = flags.preference_beta;
  like.desirable_weight = flags.desirable_weight;
  like.undesirable_weight = flags.undesirable_weight;
  like.blank = static_cast<std::int32_t>(flags.blank);
  like.zero_infinity = flags.zero_infinity;
  TRY_ASSIGN(auto terms, train::parse_losses(flags.loss, like));
  const bool named = terms.size() > 1 || !terms[0].output.empty();
  if (named && !flags.output.empty()) {
    return invalid("--loss ", flags.loss, " and --loss-of ", flags.output, " both name outputs; give one of them.");
  }
  if (!named) terms[0].output = flags.output;
  options.loss = std::move(terms[0]);
  options.more_losses.assign(std::make_move_iterator(terms.begin() + 1), std::make_move_iterator(terms.end()));
  options.sample_weights = flags.sample_weights;
  return ok_status();
}

}  // namespace

Result<train::TrainOptions> train_options(const TrainFlags& flags, std::uint64_t total_steps) {
  train::TrainOptions options;
  TRY(set_losses(flags, options));
  TRY(set_optimizer(flags, options));
  for (const std::string& text : flags.groups) {
    TRY_ASSIGN(auto group, parse_group(text));
    options.groups.push_back(std::move(group));
  }
  options.freeze = split_lists(flags.freeze);
  TRY_ASSIGN(options.precision, passes::parse_precision(flags.precision));
  if (flags.loss_scale >= 0 || options.precision == DType::f16) {
    options.loss_scaling = train::LossScaling{.growth_interval = flags.growth_interval};
    if (flags.loss_scale >= 0) options.loss_scaling->initial = flags.loss_scale;
  }
  options.clip_norm = flags.clip_norm;
  options.clip_value = flags.clip_value;
  options.optimizer_in_backward = flags.optimizer_in_backward;
  TRY_ASSIGN(options.schedule.kind, train::parse_schedule(flags.schedule));
  options.schedule.warmup_steps = flags.warmup_steps;
  options.schedule.total_steps = total_steps;
  options.schedule.final_factor = flags.final_lr_factor;
  options.schedule.step_size = flags.step_size;
  options.schedule.gamma = flags.gamma;
  options.schedule.rise = flags.rise;
  options.schedule.div_factor = flags.div_factor;
  options.schedule.final_div_factor = flags.final_div_factor;
  options.schedule.power = flags.power;
  if (flags.batch < 1 || flags.accumulate < 1 || flags.batch > (std::int64_t{1} << 31) / flags.accumulate) {
    return invalid("--batch ", flags.batch, " and --accumulate ", flags.accumulate,
                   " must be at least 1, and their product at most 2^31.");
  }
  options.batch = flags.batch * flags.accumulate;
  options.micro_batch = flags.batch;
  options.batch_statistics = !flags.frozen_statistics;
  options.neftune_alpha = flags.neftune;
  options.seed = flags.seed;
  TRY_ASSIGN(options.bindings, bindings_of(flags));
  TRY(train::check(options));
  return options;
}

}  // namespace graft::cli
