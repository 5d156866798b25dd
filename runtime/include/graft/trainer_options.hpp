// Options of trainers: see trainer.hpp. Include graft/graft.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/base.hpp"
#include "graft/data.hpp"
#include "graft/distribute.h"
#include "graft/session.hpp"

namespace graft {
inline namespace v0 {

/// As graft_parameter_group.
struct ParameterGroup {
  std::string pattern;  ///< of names: '*' any characters, '?' one; the first group that matches decides
  double learning_rate_scale = 1;
  std::optional<double> weight_decay = {};  ///< default: the trainer's
};

/// As graft_trainer_options.
struct TrainerOptions {
  graft_loss loss = GRAFT_LOSS_CROSS_ENTROPY;
  graft_optimizer optimizer = GRAFT_ADAMW;
  double learning_rate = 1e-3;
  double momentum = 0;    ///< SGD
  bool nesterov = false;  ///< SGD
  double weight_decay = 0;
  double clip_norm = 0;        ///< of all gradients together; 0: none
  double label_smoothing = 0;  ///< cross entropy
  graft_schedule schedule = GRAFT_CONSTANT;
  std::uint64_t warmup_steps = 0;
  std::uint64_t total_steps = 0;
  std::uint32_t batch = 32;       ///< samples of one optimizer step
  std::uint32_t micro_batch = 0;  ///< samples on the device at once; 0: the whole batch, or as many as fit the budget
  std::uint32_t seed = 0;
  std::string freeze = {};              ///< patterns of parameter names ('*', '?') separated by commas
  std::vector<Binding> bindings = {};   ///< named dimensions other than the batch
  bool packed_sequences = false;        ///< packed sequences: an input says where texts begin
  std::uint64_t budget = 0;             ///< bytes of device memory; 0: no limit
  std::vector<std::string> fetch = {};  ///< values of the forward pass that Trainer::fetch() gives after each step
  bool checkpoints = false;             ///< open_checkpoint() will be called: takes memory for a copy of the state
  graft_precision precision = GRAFT_PRECISION_F32;
  double loss_scale = 0;  ///< initial; 0: 65536 for GRAFT_PRECISION_F16, else none; below 0: none
  std::vector<ParameterGroup> groups = {};
  const DataSet* data = nullptr;     ///< whose samples it takes, for train_next(); null: the model's own
  double beta1 = 0.9;                ///< of the Adams
  double beta2 = 0;                  ///< of the Adams; 0: 0.999, 0.99 of Lion
  double epsilon = 0;                ///< of the Adams and others; 0: the optimizer's default
  double clip_value = 0;             ///< largest absolute value of an element of a gradient, before clip_norm; 0: none
  std::int32_t ignore_index = -100;  ///< cross entropy: rows with this label count for nothing
  double final_lr_factor = 0;        ///< share of the rate at the end of GRAFT_LINEAR and GRAFT_COSINE
  std::uint64_t step_size = 1000;    ///< of GRAFT_STEP
  double gamma = 0.1;                ///< of GRAFT_STEP
  std::uint64_t growth_interval = 2000;         ///< steps without overflow that double the loss scale
  bool frozen_statistics = false;               ///< batch norm uses its running statistics and does not move them
  bool optimizer_in_backward = false;           ///< parameters take their step one by one: see graft_trainer_options
  bool recover_device = false;                  ///< goes on on a new device after a loss: see graft_trainer_options
  const graft_group* group = nullptr;           ///< the other workers, with whom steps are taken; outlives the trainer
  std::uint64_t group_timeout_ms = 0;           ///< longest wait for them within a step; 0: none
  std::string losses = {};                      ///< "ce:label+0.5*mse:box", instead of loss: see graft_trainer_options
  std::optional<std::int64_t> class_axis = {};  ///< of labels; default: the one that they lack, else 1
  std::vector<double> class_weights = {};       ///< cross entropy, focal: one for each class
  std::vector<double> pos_weight = {};          ///< binary cross entropy: of ones
  std::string sample_weights = {};              ///< the target that holds a weight for each sample
  double focal_gamma = 2;
  double focal_alpha = 0;  ///< 0: none
  double huber_delta = 1;
  double smooth_l1_beta = 1;
  std::optional<double> margin = {};     ///< default: 0 of the cosine embedding, 1 of triplets
  double temperature = 0;                ///< InfoNCE (0: 0.07), distillation (0: 2)
  double preference_beta = 0.1;          ///< DPO, IPO, ORPO, KTO
  double desirable_weight = 1;           ///< KTO: of texts that are wanted
  double undesirable_weight = 1;         ///< KTO: of the others
  std::int32_t blank = 0;                ///< CTC
  bool zero_infinity = false;            ///< CTC
  std::uint32_t target_length = 0;       ///< CTC: labels of a sample; 0: half the time, or what `data` says
  double alpha = 0.99;                   ///< RMSprop
  bool centered = false;                 ///< RMSprop
  double lr_decay = 0;                   ///< Adagrad
  double initial_accumulator_value = 0;  ///< Adagrad
  double beta2_decay = -0.8;             ///< Adafactor
  double epsilon2 = 1e-3;                ///< Adafactor
  double clip_threshold = 1;             ///< Adafactor
  std::uint32_t ns_steps = 5;            ///< Muon
  bool match_rms_adamw = false;          ///< Muon
  std::string adamw_for = {};            ///< Muon: patterns of matrices that AdamW takes, separated by commas
  double ema = 0;                        ///< weight of the past in a running mean of the parameters; 0: none
  double layer_decay = 1;                ///< learning rate of a layer over that of the layer behind it
  double rise = 0.3;                     ///< of GRAFT_ONE_CYCLE
  double div_factor = 25;                ///< of GRAFT_ONE_CYCLE
  double final_div_factor = 1e4;         ///< of GRAFT_ONE_CYCLE
  double power = 1;                      ///< of GRAFT_POLYNOMIAL
  double proximal = 0;                   ///< pulls to the weights at the start (FedProx)
  bool predictions = false;              ///< Evaluation::of() gives metrics of predictions, too
  bool no_fusion = false;                ///< dispatches of its own for every op and tensor
  std::vector<InputFormat> inputs = {};  ///< of samples that are given as bytes or halves
  double neftune_alpha = 0;              ///< of noise on the embeddings of tokens: see graft_trainer_options
  graft_model* teacher = nullptr;     ///< Model::get() of one whose logits are learned from: see graft_trainer_options
  double distill_weight = 0.5;        ///< how much it counts beside the labels
  const DataSet* held_out = nullptr;  ///< that evaluations will be of: planned for
  bool no_evaluation = false;         ///< nothing will be evaluated
  bool drop_last = false;             ///< as the loader's
  bool shrinkable = false;            ///< a budget, or the device, may make micro_batch smaller
  std::uint64_t budget_beside_weights = 0;  ///< bytes beside the weights that are not trained, in place of `budget`
  graft_profile* profile = nullptr;         ///< measures the steps
  std::uint64_t group_pause_ms = 0;         ///< longest wait between two steps; 0: ten times group_timeout_ms
};

namespace detail {

inline std::vector<graft_parameter_group> raw_groups(const std::vector<ParameterGroup>& groups) {
  std::vector<graft_parameter_group> raw;
  raw.reserve(groups.size());
  for (const ParameterGroup& group : groups) {
    raw.push_back(
        {group.pattern.c_str(), group.learning_rate_scale, group.weight_decay.value_or(0), group.weight_decay ? 1 : 0});
  }
  return raw;
}

inline void add_loss_options(const TrainerOptions& options, graft_trainer_options& raw) {
  raw.losses = or_null(options.losses);
  raw.own_class_axis = options.class_axis ? 1 : 0;
  raw.class_axis = options.class_axis.value_or(0);
  raw.class_weights = options.class_weights.data();
  raw.class_weight_count = options.class_weights.size();
  raw.pos_weight = options.pos_weight.data();
  raw.pos_weight_count = options.pos_weight.size();
  raw.sample_weights = or_null(options.sample_weights);
  raw.own_focal_gamma = 1;
  raw.focal_gamma = options.focal_gamma;
  raw.focal_alpha = options.focal_alpha;
  raw.huber_delta = options.huber_delta;
  raw.own_smooth_l1_beta = 1;
  raw.smooth_l1_beta = options.smooth_l1_beta;
  raw.own_margin = options.margin ? 1 : 0;
  raw.margin = options.margin.value_or(0);
  raw.temperature = options.temperature;
  raw.teacher = options.teacher;
  raw.own_distill_weight = 1;
  raw.distill_weight = options.distill_weight;
  raw.preference_beta = options.preference_beta;
  raw.own_kto_weights = 1;
  raw.desirable_weight = options.desirable_weight;
  raw.undesirable_weight = options.undesirable_weight;
  raw.blank = options.blank;
  raw.zero_infinity = options.zero_infinity ? 1 : 0;
  raw.target_length = options.target_length;
}

/// `bindings`, `fetch`, `groups` and `inputs` must outlive the result.
inline graft_trainer_options raw_options(const TrainerOptions& options, const std::vector<graft_binding>& bindings,
                                         const std::string& fetch, const std::vector<graft_parameter_group>& groups,
                                         const std::vector<graft_input_format>& inputs) {
  auto raw = detail::sized<graft_trainer_options>();
  raw.loss = options.loss;
  raw.optimizer = options.optimizer;
  raw.learning_rate = options.learning_rate;
  raw.momentum = options.momentum;
  raw.nesterov = options.nesterov ? 1 : 0;
  raw.weight_decay = options.weight_decay;
  raw.clip_norm = options.clip_norm;
  raw.label_smoothing = options.label_smoothing;
  raw.schedule = options.schedule;
  raw.warmup_steps = options.warmup_steps;
  raw.total_steps = options.total_steps;
  raw.batch = options.batch;
  raw.micro_batch = options.micro_batch;
  raw.seed = options.seed;
  raw.freeze = detail::or_null(options.freeze);
  raw.bindings = bindings.data();
  raw.binding_count = bindings.size();
  raw.packed_sequences = options.packed_sequences ? 1 : 0;
  raw.budget = options.budget;
  raw.checkpoints = options.checkpoints ? 1 : 0;
  raw.fetch = detail::or_null(fetch);
  raw.precision = options.precision;
  raw.loss_scale = options.loss_scale;
  raw.groups = groups.data();
  raw.group_count = groups.size();
  raw.data = options.data == nullptr ? nullptr : options.data->get();
  raw.beta1 = options.beta1;
  raw.beta2 = options.beta2;
  raw.epsilon = options.epsilon;
  raw.clip_value = options.clip_value;
  raw.own_ignore_index = 1;
  raw.ignore_index = options.ignore_index;
  raw.final_lr_factor = options.final_lr_factor;
  raw.step_size = options.step_size;
  raw.gamma = options.gamma;
  raw.growth_interval = options.growth_interval;
  raw.frozen_statistics = options.frozen_statistics ? 1 : 0;
  raw.optimizer_in_backward = options.optimizer_in_backward ? 1 : 0;
  raw.recover_device = options.recover_device ? 1 : 0;
  raw.group = options.group;
  raw.group_timeout_ms = options.group_timeout_ms;
  add_loss_options(options, raw);
  raw.alpha = options.alpha;
  raw.centered = options.centered ? 1 : 0;
  raw.lr_decay = options.lr_decay;
  raw.initial_accumulator_value = options.initial_accumulator_value;
  raw.beta2_decay = options.beta2_decay;
  raw.epsilon2 = options.epsilon2;
  raw.clip_threshold = options.clip_threshold;
  raw.ns_steps = options.ns_steps;
  raw.match_rms_adamw = options.match_rms_adamw ? 1 : 0;
  raw.adamw_for = detail::or_null(options.adamw_for);
  raw.ema = options.ema;
  raw.layer_decay = options.layer_decay;
  raw.rise = options.rise;
  raw.div_factor = options.div_factor;
  raw.final_div_factor = options.final_div_factor;
  raw.power = options.power;
  raw.proximal = options.proximal;
  raw.predictions = options.predictions ? 1 : 0;
  raw.no_fusion = options.no_fusion ? 1 : 0;
  raw.inputs = inputs.data();
  raw.input_count = inputs.size();
  raw.neftune_alpha = options.neftune_alpha;
  raw.held_out = options.held_out == nullptr ? nullptr : options.held_out->get();
  raw.no_evaluation = options.no_evaluation ? 1 : 0;
  raw.drop_last = options.drop_last ? 1 : 0;
  raw.shrinkable = options.shrinkable ? 1 : 0;
  raw.budget_beside_weights = options.budget_beside_weights;
  raw.profile = options.profile;
  raw.group_pause_ms = options.group_pause_ms;
  return raw;
}

inline std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ",") + name;
  return all;
}

}  // namespace detail

}  // namespace v0
}  // namespace graft
