#include "platform/android/jni/options.h"

#include <cmath>
#include <cstdint>

namespace graft::jni {
namespace {

void read_loss(Fields& fields, graft_trainer_options& options) {
  options.losses = fields.text("losses");
  options.class_axis = static_cast<int32_t>(fields.bits("classAxis"));
  options.own_class_axis = options.class_axis != INT32_MIN;  // AXIS_OF_LABELS
  const std::span<const double> classes = fields.reals("classWeights"), ones = fields.reals("posWeight");
  options.class_weights = classes.data();
  options.class_weight_count = classes.size();
  options.pos_weight = ones.data();
  options.pos_weight_count = ones.size();
  options.sample_weights = fields.text("sampleWeights");
  options.own_focal_gamma = 1;
  options.focal_gamma = fields.real("focalGamma");
  options.focal_alpha = fields.real("focalAlpha");
  options.huber_delta = fields.real("huberDelta");
  options.own_smooth_l1_beta = 1;
  options.smooth_l1_beta = fields.real("smoothL1Beta");
  options.margin = fields.real("margin");
  options.own_margin = !std::isnan(options.margin);
  options.temperature = fields.real("temperature");
  options.preference_beta = fields.real("preferenceBeta");
  options.own_kto_weights = 1;
  options.desirable_weight = fields.real("desirableWeight");
  options.undesirable_weight = fields.real("undesirableWeight");
  options.own_distill_weight = 1;
  options.distill_weight = fields.real("distillWeight");
  options.blank = static_cast<int32_t>(fields.bits("blank"));
  options.zero_infinity = fields.flag("zeroInfinity");
  options.target_length = fields.count("targetLength");
}

void read_other_optimizers(Fields& fields, graft_trainer_options& options) {
  options.alpha = fields.real("alpha");
  options.centered = fields.flag("centered");
  options.lr_decay = fields.real("lrDecay");
  options.initial_accumulator_value = fields.real("initialAccumulatorValue");
  options.beta2_decay = fields.real("beta2Decay");
  options.epsilon2 = fields.real("epsilon2");
  options.clip_threshold = fields.real("clipThreshold");
  options.ns_steps = fields.count("nsSteps");
  options.match_rms_adamw = fields.flag("matchRmsAdamw");
  options.adamw_for = fields.text("adamwFor");
  options.ema = fields.real("ema");
  options.layer_decay = fields.real("layerDecay");
  options.rise = fields.real("rise");
  options.div_factor = fields.real("divFactor");
  options.final_div_factor = fields.real("finalDivFactor");
  options.power = fields.real("power");
  options.proximal = fields.real("proximal");
  options.neftune_alpha = fields.real("neftuneAlpha");
}

/// The next `count` numbers of a list of all.
const float* take(std::vector<float>& out, std::span<const double>& all, std::int32_t count) {
  const auto wanted = std::min(static_cast<std::size_t>(count), all.size());
  out.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(wanted));
  all = all.subspan(wanted);
  return wanted == 0 ? nullptr : out.data();
}

}  // namespace

Formats::Formats(Fields& lists) {
  const Texts& names = lists.texts("formats");
  const auto elements = lists.ints("elements"), last = lists.ints("channelsLast");
  const auto scales = lists.ints("scaleCounts"), offsets = lists.ints("offsetCounts");
  auto scale = lists.reals("scales"), offset = lists.reals("offsets");
  if (!lists.ok()) return;
  for (std::size_t i = 0; i < names.size(); ++i) {
    graft_input_format format{};
    format.name = names.data()[i];
    format.element = static_cast<graft_element>(elements[i]);
    format.channels_last = last[i];
    format.scale = take(numbers_.emplace_back(), scale, scales[i]);
    format.scale_count = numbers_.back().size();
    format.offset = take(numbers_.emplace_back(), offset, offsets[i]);
    format.offset_count = numbers_.back().size();
    formats_.push_back(format);
  }
}

DimensionSizes::DimensionSizes(Fields& lists) {
  const Texts& names = lists.texts("dimensions");
  const auto sizes = lists.reals("sizes");
  if (!lists.ok()) return;
  for (std::size_t i = 0; i < names.size(); ++i) {
    graft_binding binding{};
    binding.name = names.data()[i];
    binding.size = static_cast<std::int64_t>(sizes[i]);
    bindings_.push_back(binding);
  }
}

TrainingOptions::TrainingOptions(JNIEnv* env, jobject java, jobject java_lists)
    : fields_(env, java), lists_(env, java_lists), bindings_(lists_), formats_(lists_) {
  Fields &fields = fields_, &lists = lists_;
  graft_trainer_options& options = options_;
  options.loss = fields.choice<graft_loss>("loss", "Lai/graft/TrainerOptions$Loss;");
  options.optimizer = fields.choice<graft_optimizer>("optimizer", "Lai/graft/TrainerOptions$Optimizer;");
  options.learning_rate = fields.real("learningRate");
  options.momentum = fields.real("momentum");
  options.nesterov = fields.flag("nesterov");
  options.weight_decay = fields.real("weightDecay");
  options.clip_norm = fields.real("clipNorm");
  options.label_smoothing = fields.real("labelSmoothing");
  options.schedule = fields.choice<graft_schedule>("schedule", "Lai/graft/TrainerOptions$Schedule;");
  options.warmup_steps = fields.number("warmupSteps");
  options.total_steps = fields.number("totalSteps");
  options.batch = fields.count("batch");
  options.micro_batch = fields.count("microBatch");
  options.seed = fields.bits("seed");
  options.freeze = fields.text("freeze");
  options.packed_sequences = fields.flag("packedSequences");
  options.budget = fields.number("budget");
  options.checkpoints = fields.flag("checkpoints");
  options.fetch = lists.text("fetch");
  options.precision = fields.choice<graft_precision>("precision", "Lai/graft/Precision;");
  options.loss_scale = fields.real("lossScale");
  options.beta1 = fields.real("beta1");
  options.beta2 = fields.real("beta2");
  options.epsilon = fields.real("epsilon");
  options.clip_value = fields.real("clipValue");
  options.own_ignore_index = 1;
  options.ignore_index = static_cast<int32_t>(fields.bits("ignoreIndex"));
  options.final_lr_factor = fields.real("finalLrFactor");
  options.step_size = fields.number("stepSize");
  options.gamma = fields.real("gamma");
  options.growth_interval = fields.number("growthInterval");
  options.frozen_statistics = fields.flag("frozenStatistics");
  options.optimizer_in_backward = fields.flag("optimizerInBackward");
  options.recover_device = fields.flag("recoverDevice");
  read_loss(fields, options);
  read_other_optimizers(fields, options);
  options.predictions = fields.flag("predictions");
  options.no_fusion = fields.flag("noFusion");
  options.bindings = bindings_.data();
  options.binding_count = bindings_.size();
  options.inputs = formats_.data();
  options.input_count = formats_.size();
  options.data = lists.handle<graft_data_set>("data");
  options.teacher = lists.handle<graft_model>("teacher");
  const Texts& patterns = lists.texts("patterns");
  const auto scales = lists.reals("rateScales"), decays = lists.reals("decays");
  for (std::size_t i = 0; lists.ok() && i < patterns.size(); ++i) {
    graft_parameter_group group{};
    group.pattern = patterns.data()[i];
    group.learning_rate_scale = scales[i];
    group.own_weight_decay = std::isnan(decays[i]) ? 0 : 1;
    group.weight_decay = group.own_weight_decay != 0 ? decays[i] : 0;
    groups_.push_back(group);
  }
  options.groups = groups_.data();
  options.group_count = groups_.size();
}

PlannedOptions::PlannedOptions(JNIEnv* env, jobject java, jobject java_lists)
    : fields_(env, java), lists_(env, java_lists), bindings_(lists_), formats_(lists_) {
  Fields &fields = fields_, &lists = lists_;
  graft_session_options& options = options_;
  options.bindings = bindings_.data();
  options.binding_count = bindings_.size();
  options.budget = fields.number("budget");
  options.of = fields.text("of");
  const Texts& wrt = lists.texts("wrt");
  options.wrt = wrt.data();
  options.wrt_count = wrt.size();
  options.precision = fields.choice<graft_precision>("precision", "Lai/graft/Precision;");
  options.allow_non_finite = fields.flag("allowNonFinite");
  const Texts& fetch = lists.texts("fetched");
  options.fetch = fetch.data();
  options.fetch_count = fetch.size();
  options.train_mode = fields.flag("trainMode");
  options.resizable = fields.flag("resizable");
  options.inputs = formats_.data();
  options.input_count = formats_.size();
  options.signature = fields.text("signature");
  options.recover_device = fields.flag("recoverDevice");
}

}  // namespace graft::jni
