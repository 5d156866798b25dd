#include "tools/graft/train_wishes.h"

#include <charconv>
#include <cmath>
#include <set>

#include "tools/common/numbers.h"
#include "tools/common/text.h"

namespace graft::cli {
namespace {

constexpr double kLargestOfGroup = 1e30;  // as graft takes it

Result<double> group_value(std::string text, const std::string& what) {
  const std::string wrong = cli::number(0, kLargestOfGroup)(text);
  if (!wrong.empty()) return invalid("--group ", what, " ", wrong, ".");
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "*.bias:weight_decay=0,lr=0.1"; the pattern goes to `pattern`.
Result<graft_parameter_group> parse_parameter_group(const std::string& text, std::string& pattern) {
  const std::size_t colon = text.rfind(':');
  const std::vector<std::string> items = split_list(colon == std::string::npos ? "" : text.substr(colon + 1));
  if (items.empty() || colon == 0) {
    return invalid("--group takes PATTERN:lr=SCALE,weight_decay=X; \"", text, "\" is not that.");
  }
  graft_parameter_group group = {};
  group.learning_rate_scale = 1;
  pattern = text.substr(0, colon);
  std::set<std::string> given;
  for (const std::string& item : items) {
    TRY_ASSIGN(const auto pair, parse_assignment(item, "--group PATTERN:"));
    if (pair.first != "lr" && pair.first != "weight_decay")
      return invalid("--group knows lr and weight_decay, not \"", pair.first, "\".");
    if (!given.insert(pair.first).second) return invalid("--group gives ", pair.first, " of one pattern twice.");
    TRY_ASSIGN(const double value, group_value(pair.second, pair.first));
    if (pair.first == "lr") {
      group.learning_rate_scale = value;
    } else {
      group.own_weight_decay = 1;
      group.weight_decay = value;
    }
  }
  return group;
}

std::string in_one_list(const std::vector<std::string>& lists) {
  std::string all;
  for (const std::string& one : split_items(lists)) all += (all.empty() ? "" : ",") + one;
  return all;
}

void set_where_given(double& option, double given) {
  if (given >= 0) option = given;
}

}  // namespace

Status TrainWishes::read_groups() {
  for (const std::string& text : flags_->groups) {
    std::string pattern;
    TRY_ASSIGN(groups_.emplace_back(), parse_parameter_group(text, pattern));
    patterns_.push_back(std::move(pattern));
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].pattern = patterns_[i].c_str();
  return ok_status();
}

Status TrainWishes::read_schedule(std::uint64_t total_steps) {
  constexpr const char* kNames[] = {"constant", "linear", "cosine", "step", "one-cycle", "polynomial", "plateau"};
  total_steps_ = total_steps;
  const std::string name = flags_->schedule == "one_cycle" ? "one-cycle" : flags_->schedule;
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (name != kNames[i]) continue;
    schedule_ = static_cast<graft_schedule>(i);
    return ok_status();
  }
  return invalid("There is no schedule \"", flags_->schedule,
                 "\"; there are constant, linear, cosine, step, one-cycle, polynomial and plateau.");
}

Status TrainWishes::read(const TrainFlags& flags, std::uint64_t total_steps) {
  flags_ = &flags;
  TRY(loss_.read(flags));
  TRY_ASSIGN(optimizer_, parse_optimizer(flags.optimizer));
  TRY(read_groups());
  freeze_ = in_one_list(flags.freeze);
  adamw_for_ = in_one_list(flags.adamw_for);
  TRY(read_schedule(total_steps));
  if (flags.batch < 1 || flags.accumulate < 1 || flags.batch > (std::int64_t{1} << 31) / flags.accumulate) {
    return invalid("--batch ", flags.batch, " and --accumulate ", flags.accumulate,
                   " must be at least 1, and their product at most 2^31.");
  }
  return ok_status();
}

// Numbers of the optimizer that nobody gave are its own.
graft_trainer_options TrainWishes::with_optimizer() const {
  const TrainFlags& flags = *flags_;
  graft_trainer_options out = loss_.options();
  static_cast<void>(graft_trainer_defaults(optimizer_, &out));  // there is such a one
  set_where_given(out.learning_rate, flags.learning_rate);
  set_where_given(out.momentum, flags.momentum);
  if (flags.nesterov_given) out.nesterov = flags.nesterov ? 1 : 0;
  if (optimizer_ == GRAFT_MUON && out.momentum == 0) out.nesterov = 0;
  set_where_given(out.beta1, flags.beta1);
  set_where_given(out.beta2, flags.beta2);
  set_where_given(out.epsilon, flags.epsilon);
  set_where_given(out.alpha, flags.alpha);
  out.centered = flags.centered ? 1 : 0;
  set_where_given(out.lr_decay, flags.lr_decay);
  set_where_given(out.initial_accumulator_value, flags.initial_accumulator_value);
  if (!std::isnan(flags.beta2_decay)) out.beta2_decay = flags.beta2_decay;
  set_where_given(out.epsilon2, flags.epsilon2);
  set_where_given(out.clip_threshold, flags.clip_threshold);
  if (flags.ns_steps > 0) out.ns_steps = flags.ns_steps;
  out.match_rms_adamw = flags.muon_adjust == "match_rms_adamw" ? 1 : 0;
  if (!adamw_for_.empty()) out.adamw_for = adamw_for_.c_str();
  set_where_given(out.weight_decay, flags.weight_decay);
  out.layer_decay = flags.layer_decay;
  return out;
}

graft_trainer_options TrainWishes::options() const {
  const TrainFlags& flags = *flags_;
  graft_trainer_options out = with_optimizer();
  out.ema = flags.ema;
  out.proximal = flags.proximal;
  out.groups = groups_.data();
  out.group_count = groups_.size();
  if (!freeze_.empty()) out.freeze = freeze_.c_str();
  if (flags.loss_scale >= 0 || out.precision == GRAFT_PRECISION_F16) out.growth_interval = flags.growth_interval;
  if (flags.loss_scale >= 0) out.loss_scale = flags.loss_scale == 0 ? -1 : flags.loss_scale;  // below 0: none
  out.clip_norm = flags.clip_norm;
  out.clip_value = flags.clip_value;
  out.optimizer_in_backward = flags.optimizer_in_backward ? 1 : 0;
  out.schedule = schedule_;
  out.warmup_steps = flags.warmup_steps;
  out.total_steps = total_steps_;
  out.final_lr_factor = flags.final_lr_factor;
  out.step_size = flags.step_size;
  out.gamma = flags.gamma;
  out.rise = flags.rise;
  out.div_factor = flags.div_factor;
  out.final_div_factor = flags.final_div_factor;
  out.power = flags.power;
  out.batch = static_cast<std::uint32_t>(flags.batch * flags.accumulate);
  out.micro_batch = static_cast<std::uint32_t>(flags.batch);
  out.frozen_statistics = flags.frozen_statistics ? 1 : 0;
  out.neftune_alpha = flags.neftune;
  out.seed = flags.seed;
  return out;
}

graft_trainer_options TrainWishes::of_evaluation() const {
  graft_trainer_options out = options();
  out.ema = 0;  // of the weights as they are in the model
  out.freeze = nullptr;
  return out;
}

}  // namespace graft::cli
