#include "tools/graft/train_flags.h"

#include <charconv>
#include <set>

#include "runtime/passes/precision.h"
#include "tools/graft/numbers.h"
#include "tools/graft/options.h"

namespace graft::cli {
namespace {

constexpr double kLargestInGroup = 1e30;  // as train::check() has it

Result<double> parse_number(std::string text, const std::string& what) {
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
    GRAFT_TRY_ASSIGN(const auto pair, parse_assignment(item, "--group PATTERN:"));
    if (pair.first != "lr" && pair.first != "weight_decay")
      return invalid("--group knows lr and weight_decay, not \"", pair.first, "\".");
    if (!given.insert(pair.first).second) return invalid("--group gives ", pair.first, " of one pattern twice.");
    GRAFT_TRY_ASSIGN(const double value, parse_number(pair.second, pair.first));
    if (pair.first == "lr") {
      group.learning_rate_scale = value;
    } else {
      group.weight_decay = value;
    }
  }
  return group;
}

}  // namespace

void add_loss_flags(CLI::App& app, TrainFlags& flags) {
  app.add_option("--loss", flags.loss, "ce, mse, l1 or bce (default ce)");
  app.add_option("--loss-of", flags.output, "The output that the loss is taken of (default: the first)");
  app.add_option("--label-smoothing", flags.label_smoothing, "For ce, from 0 to 1")->check(number(0, 1));
  app.add_option("--ignore-index", flags.ignore_index, "For ce: rows with this label count for nothing (-100)")
      ->check(whole(INT32_MIN, INT32_MAX));
  app.add_option("--seq", flags.seq, "Tokens of a sample, for language models: the dimension \"seq\"")->check(whole(1));
  add_adapter_flags(app, flags.adapter);
}

void add_train_flags(CLI::App& app, TrainFlags& flags) {
  add_loss_flags(app, flags);
  app.add_option("--optimizer", flags.optimizer, "sgd, adam, adamw or adamw8bit (default adamw)");
  app.add_option("--lr", flags.learning_rate, "Learning rate (default 1e-3)")->check(not_negative());
  app.add_option("--momentum", flags.momentum, "For sgd")->check(number(0, 1, Ends::open_above));
  app.add_flag("--nesterov", flags.nesterov, "For sgd with momentum");
  app.add_option("--beta1", flags.beta1, "For adam and adamw (0.9)")->check(number(0, 1, Ends::open_above));
  app.add_option("--beta2", flags.beta2, "For adam and adamw (0.999)")->check(number(0, 1, Ends::open_above));
  app.add_option("--eps", flags.epsilon, "For adam and adamw (1e-8)")->check(positive());
  app.add_option("--weight-decay", flags.weight_decay, "Default 0.01 for adamw, else 0")->check(not_negative());
  app.add_option("--proximal", flags.proximal, "Pull to the weights at the start: mu/2 |w - w0|^2 more loss (FedProx)")
      ->check(not_negative());
  app.add_option("--group", flags.groups, "PATTERN:lr=SCALE,weight_decay=X for parameters by name; repeatable");
  app.add_option("--freeze", flags.freeze, "Patterns of parameters that stay as they are, as in conv1.*,*.bias");
  add_precision_flag(app, flags.precision);
  app.add_option("--loss-scale", flags.loss_scale, "Initial dynamic loss scale, 0 for none (65536 for f16, else 0)")
      ->check(not_negative());
  app.add_option("--growth-interval", flags.growth_interval, "Steps without overflow that double the scale (2000)")
      ->check(whole(1));
  app.add_option("--clip-norm", flags.clip_norm, "Largest norm of all gradients together")->check(not_negative());
  app.add_option("--clip-value", flags.clip_value, "Largest absolute value of any gradient element")
      ->check(not_negative());
  app.add_flag("--optimizer-in-backward", flags.optimizer_in_backward,
               "A parameter takes its step as soon as its gradient is there: less memory; after a gradient that is not "
               "finite others may have moved");
  app.add_option("--schedule", flags.schedule, "constant, linear, cosine or step");
  app.add_option("--warmup", flags.warmup_steps, "Steps over which the learning rate rises")->check(whole(0));
  app.add_option("--final-lr", flags.final_lr_factor, "Share of the rate at the end of linear and cosine (0)")
      ->check(not_negative());
  app.add_option("--step-size", flags.step_size, "Steps between drops of the step schedule (1000)")->check(whole(1));
  app.add_option("--gamma", flags.gamma, "Factor of each drop (0.1)")->check(positive());
  app.add_option("--batch", flags.batch, "Samples on the device at once (32)")->check(whole(1, INT32_MAX));
  app.add_option("--accumulate", flags.accumulate, "Micro-batches per optimizer step (1)")->check(whole(1, INT32_MAX));
  app.add_flag("--frozen-statistics", flags.frozen_statistics, "Batch norm keeps and uses its running statistics");
  app.add_option("--lora", flags.lora,
                 "Train adapters of low rank and nothing else: r=8,alpha=16,dropout=0,targets=q_proj|v_proj");
  app.add_option("--seed", flags.seed, "Seed of shuffling, dropout and generated data")->check(whole(0, UINT32_MAX));
  app.add_option("--bind", flags.bind, "Sizes of named dimensions other than the batch");
}

void refuse_idle_train_flags(const CLI::App& app, const TrainFlags& flags) {
  const bool sgd = flags.optimizer == "sgd";
  refuse_idle(app, !sgd, {"--momentum", "--nesterov"}, cat("with --optimizer ", flags.optimizer, ", only with sgd."));
  refuse_idle(app, sgd && flags.momentum == 0, {"--nesterov"}, "without --momentum.");
  refuse_idle(app, sgd, {"--beta1", "--beta2", "--eps"}, "with --optimizer sgd.");
  refuse_idle(app, flags.loss != "ce", {"--label-smoothing", "--ignore-index"},
              cat("with --loss ", flags.loss, ", only with ce."));
  const bool falls = flags.schedule == "linear" || flags.schedule == "cosine";
  refuse_idle(app, !falls, {"--final-lr"}, cat("with --schedule ", flags.schedule, ", only with linear and cosine."));
  refuse_idle(app, flags.schedule != "step", {"--step-size", "--gamma"},
              cat("with --schedule ", flags.schedule, ", only with step."));
  const bool scales = flags.loss_scale > 0 || (flags.loss_scale < 0 && flags.precision == "f16");
  refuse_idle(app, !scales, {"--growth-interval"}, "without a loss scale.");
}

Result<Bindings> bindings_of(const TrainFlags& flags) {
  GRAFT_TRY_ASSIGN(Bindings bindings, parse_bindings(flags.bind));
  if (flags.seq > 0) bindings.insert_or_assign("seq", flags.seq);
  return bindings;
}

Result<train::TrainOptions> train_options(const TrainFlags& flags, std::uint64_t total_steps) {
  train::TrainOptions options;
  GRAFT_TRY_ASSIGN(options.loss.kind, train::parse_loss(flags.loss));
  options.loss.output = flags.output;
  options.loss.label_smoothing = flags.label_smoothing;
  if (flags.ignore_index < INT32_MIN || flags.ignore_index > INT32_MAX) {
    return invalid("--ignore-index ", flags.ignore_index, " does not fit 32 bits.");
  }
  options.loss.ignore_index = static_cast<std::int32_t>(flags.ignore_index);
  GRAFT_TRY_ASSIGN(options.optimizer.kind, train::parse_optimizer(flags.optimizer));
  options.optimizer.learning_rate = flags.learning_rate;
  options.optimizer.momentum = flags.momentum;
  options.optimizer.nesterov = flags.nesterov;
  options.optimizer.beta1 = flags.beta1;
  options.optimizer.beta2 = flags.beta2;
  options.optimizer.epsilon = flags.epsilon;
  options.optimizer.proximal = flags.proximal;
  const bool decoupled = options.optimizer.kind == train::OptimizerKind::adamw ||
                         options.optimizer.kind == train::OptimizerKind::adamw8bit;
  options.optimizer.weight_decay = flags.weight_decay >= 0 ? flags.weight_decay : decoupled ? 0.01 : 0.0;
  for (const std::string& text : flags.groups) {
    GRAFT_TRY_ASSIGN(auto group, parse_group(text));
    options.groups.push_back(std::move(group));
  }
  options.freeze = split_lists(flags.freeze);
  GRAFT_TRY_ASSIGN(options.precision, passes::parse_precision(flags.precision));
  if (flags.loss_scale >= 0 || options.precision == DType::f16) {
    options.loss_scaling = train::LossScaling{.growth_interval = flags.growth_interval};
    if (flags.loss_scale >= 0) options.loss_scaling->initial = flags.loss_scale;
  }
  options.clip_norm = flags.clip_norm;
  options.clip_value = flags.clip_value;
  options.optimizer_in_backward = flags.optimizer_in_backward;
  GRAFT_TRY_ASSIGN(options.schedule.kind, train::parse_schedule(flags.schedule));
  options.schedule.warmup_steps = flags.warmup_steps;
  options.schedule.total_steps = total_steps;
  options.schedule.final_factor = flags.final_lr_factor;
  options.schedule.step_size = flags.step_size;
  options.schedule.gamma = flags.gamma;
  if (flags.batch < 1 || flags.accumulate < 1 || flags.batch > (std::int64_t{1} << 31) / flags.accumulate) {
    return invalid("--batch ", flags.batch, " and --accumulate ", flags.accumulate,
                   " must be at least 1, and their product at most 2^31.");
  }
  options.batch = flags.batch * flags.accumulate;
  options.micro_batch = flags.batch;
  options.batch_statistics = !flags.frozen_statistics;
  options.seed = flags.seed;
  GRAFT_TRY_ASSIGN(options.bindings, bindings_of(flags));
  GRAFT_TRY(train::check(options));
  return options;
}

}  // namespace graft::cli
