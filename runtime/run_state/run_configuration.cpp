// What must be the same for a resume to be exact: the model's structure, and options as texts.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/core/features.h"
#include "runtime/core/op_def.h"
#include "runtime/lora/adapter.h"
#include "runtime/run_state/run_state.h"

namespace graft {
namespace {

// As it was always hashed: printf's %a, with a point in any locale.
std::string number_text(double number) {
  char digits[32];
  char* const end = std::to_chars(digits, digits + sizeof digits, std::abs(number), std::chars_format::hex).ptr;
  return cat(std::signbit(number) ? "-" : "", std::isfinite(number) ? "0x" : "", std::string(digits, end));
}

std::string attribute_text(const AttrValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return cat(*integer);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* shape = std::get_if<Shape>(&value)) return shape->text();
  std::string out;
  for (const std::int64_t i : std::get<Ints>(value)) out += cat(i, ',');
  return out;
}

std::string numbers_text(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += cat(text.empty() ? "" : ",", exact_text(number));
  return text;
}

/// What other optimizers than the Adams and sgd have, where it is not as usual.
std::string optimizer_text(const train::OptimizerOptions& o) {
  const train::OptimizerOptions usual = train::optimizer_defaults(o.kind);
  std::string text;
  const auto add = [&](const char* name, double value, double least) {
    if (value != least) text += cat(' ', name, ' ', exact_text(value));
  };
  add("alpha", o.alpha, usual.alpha);
  add("centered", o.centered, usual.centered);
  add("lr-decay", o.lr_decay, usual.lr_decay);
  add("initial", o.initial_accumulator_value, usual.initial_accumulator_value);
  add("beta2-decay", o.beta2_decay, usual.beta2_decay);
  add("eps2", o.epsilon2, usual.epsilon2);
  add("clip-threshold", o.clip_threshold, usual.clip_threshold);
  add("ns-steps", o.ns_steps, usual.ns_steps);
  add("adjust", static_cast<double>(o.adjust), static_cast<double>(usual.adjust));
  add("ema", o.ema, usual.ema);
  for (const std::string& pattern : o.adamw_parameters) text += cat(" adamw ", pattern);
  return text;
}

/// Only what is not as usual, behind what was always there.
std::string loss_text(const train::LossOptions& term) {
  const train::LossOptions usual;
  std::string text =
      cat(train::loss_name(term.kind), ' ', term.output, ' ', exact_text(term.label_smoothing), ' ', term.ignore_index);
  const auto add = [&](const char* name, double value, double least) {
    if (value != least) text += cat(' ', name, ' ', exact_text(value));
  };
  if (term.class_axis) text += cat(" axis ", *term.class_axis);
  if (!term.class_weights.empty()) text += cat(" class-weights ", numbers_text(term.class_weights));
  if (!term.pos_weight.empty()) text += cat(" pos-weight ", numbers_text(term.pos_weight));
  if (term.margin) text += cat(" margin ", exact_text(*term.margin));
  add("weight", term.weight, usual.weight);
  if constexpr (!kHasLosses) return text;  // the others are other losses'
  add("focal-gamma", term.focal_gamma, usual.focal_gamma);
  add("focal-alpha", term.focal_alpha, usual.focal_alpha);
  add("delta", term.delta, usual.delta);
  add("beta", term.beta, usual.beta);
  add("temperature", train::temperature_of(term), train::temperature_of(usual));
  if (term.kind == train::Loss::distill) add("distill-weight", term.distill_weight, 0);
  add("blank", term.blank, usual.blank);
  add("preference-beta", term.preference_beta, usual.preference_beta);
  add("desirable-weight", term.desirable_weight, usual.desirable_weight);
  add("undesirable-weight", term.undesirable_weight, usual.undesirable_weight);
  add("zero-infinity", term.zero_infinity ? 1 : 0, 0);
  return text;
}

std::string schedule_text(const train::Schedule& schedule) {
  std::string text = cat(static_cast<int>(schedule.kind), " warm-up ", schedule.warmup_steps);
  switch (schedule.kind) {  // only what it looks at: a run may be made longer where that changes nothing
    case train::ScheduleKind::constant: break;
    case train::ScheduleKind::plateau: text += cat(" by ", exact_text(schedule.gamma)); break;
    case train::ScheduleKind::one_cycle:
      text += cat(" over ", schedule.total_steps, " rise ", exact_text(schedule.rise), ' ',
                  exact_text(schedule.div_factor), ' ', exact_text(schedule.final_div_factor));
      break;
    case train::ScheduleKind::polynomial:
      text += cat(" over ", schedule.total_steps, " to ", exact_text(schedule.final_factor), " power ",
                  exact_text(schedule.power));
      break;
    case train::ScheduleKind::step:
      text += cat(" every ", schedule.step_size, " by ", exact_text(schedule.gamma));
      break;
    default: text += cat(" over ", schedule.total_steps, " to ", exact_text(schedule.final_factor));
  }
  return text;
}

}  // namespace

std::string structure_hash(const Graph& model) {
  std::string text;
  for (const Value& value : model.values()) {
    text += cat(value.name, ' ', dtype_name(value.dtype), ' ', static_cast<int>(value.kind), value.shape.text(), '\n');
  }
  for (const Node& node : model.nodes()) {
    text += cat(node.name, ' ', op_name(node.op));
    for (const ValueId id : node.inputs) text += cat(' ', id.index);
    for (const auto& [name, value] : node.attrs.items()) text += cat(' ', name, '=', attribute_text(value));
    text += '\n';
  }
  return hash_text(hash128(std::as_bytes(std::span(text.data(), text.size()))));
}

Configuration configuration_of(const train::Trainer& trainer) {
  const train::TrainOptions& options = trainer.options();
  Configuration out;
  out["model"] = structure_hash(trainer.model());
  const train::OptimizerOptions& o = options.optimizer;
  out["optimizer"] = cat(train::optimizer_name(o.kind), " lr ", exact_text(trainer.first_learning_rate()), " decay ",
                         exact_text(o.weight_decay), " momentum ", exact_text(o.momentum), ' ', exact_text(o.dampening),
                         ' ', o.nesterov) +
                     cat(" betas ", exact_text(o.beta1), ' ', exact_text(o.beta2), " eps ", exact_text(o.epsilon));
  out["optimizer"] += optimizer_text(o);
  if (options.layer_decay != 1) out["optimizer"] += cat(" layer-decay ", exact_text(options.layer_decay));
  if (o.proximal > 0) out["optimizer"] += cat(" proximal ", exact_text(o.proximal));
  out["schedule"] = schedule_text(options.schedule);
  for (const train::LossOptions* term : train::loss_terms(options)) {
    out["loss"] += cat(out["loss"].empty() ? "" : " + ", loss_text(*term));
  }
  if (!options.sample_weights.empty()) out["loss"] += cat(" weights ", options.sample_weights);
  if (options.neftune_alpha != 0) out["loss"] += cat(" neftune ", exact_text(options.neftune_alpha));
  out["precision"] = std::string(dtype_name(options.precision));
  if (const auto scaling = train::loss_scaling_of(options)) {
    out["precision"] += cat(" scale ", exact_text(scaling->initial), ' ', exact_text(scaling->growth_factor), ' ',
                            exact_text(scaling->backoff_factor), ' ', scaling->growth_interval);
  }
  if (const auto products = trainer.matmul_precision(); products != gpu::MatmulPrecision::highest) {
    out["matmul-precision"] = products == gpu::MatmulPrecision::high ? "high" : "medium";
  }
  out["clipping"] = cat(exact_text(options.clip_value), ' ', exact_text(options.clip_norm));
  out["statistics"] =
      cat(options.batch_statistics, ' ', options.batch_norm_momentum ? exact_text(*options.batch_norm_momentum) : "-");
  out["batch"] = cat(options.batch);
  out["micro_batch"] = cat(trainer.plan().micro_batch);
  out["seed"] = cat(options.seed);
  for (const std::string& pattern : options.freeze) out["freeze"] += pattern + ' ';
  for (const train::ParameterGroup& group : options.groups) {
    out["groups"] += cat(group.pattern, ' ', exact_text(group.learning_rate_scale), ' ',
                         group.weight_decay ? exact_text(*group.weight_decay) : "-", ' ');
  }
  for (const passes::PackedInput& input : options.inputs) {
    out["inputs"] += cat(input.name, ' ', packed_name(input.element), ' ', input.channels_last ? "last" : "first");
    for (const auto* numbers : {&input.scale, &input.offset}) {
      out["inputs"] += " x";
      for (const float number : *numbers) out["inputs"] += cat(' ', exact_text(double{number}));
    }
    out["inputs"] += ' ';
  }
  return out;
}

Result<std::string> fingerprint_of(data::Source& source) {
  constexpr std::uint64_t kSamples = 64;
  std::string text;
  for (const data::Field& field : source.fields()) {
    text += cat(field.name, ' ', field.type_name(), ' ', field.shape.text(), '\n');
  }
  if (source.size()) text += cat(*source.size());
  std::vector<std::byte> sample(data::sample_bytes(source));
  std::vector<std::byte*> pointers;
  for (std::size_t at = 0, f = 0; f < source.fields().size(); at += source.fields()[f++].bytes()) {
    pointers.push_back(sample.data() + at);
  }
  // From a stream, the first samples.
  const std::uint64_t count = std::min(source.size().value_or(kSamples), kSamples);
  source.start_epoch(0, 0);  // random changes of samples are the same whenever the data is looked at
  for (std::uint64_t i = 0, next = 0; i < count; ++i) {
    std::uint64_t position = source.size() ? *source.size() / count * i : next;
    GRAFT_TRY_ASSIGN(const bool more, source.read(position, pointers));
    if (!more) break;
    next = position;
    text += hash_text(hash128(sample));
  }
  return hash_text(hash128(std::as_bytes(std::span(text.data(), text.size()))));
}

std::string order_text(bool shuffled, bool keyed, bool drop_last) {
  return cat(keyed ? "by keys" : shuffled ? "shuffled" : "in order", drop_last ? ", whole batches" : "");
}

}  // namespace graft
