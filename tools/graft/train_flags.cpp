#include "tools/graft/train_flags.h"

#include <algorithm>
#include <array>
#include <optional>

#include "tools/common/numbers.h"
#include "tools/graft/put_adapters.h"
#include "tools/graft/text_flags.h"

namespace graft::cli {

void add_plain_loss_flags(CLI::App& app, TrainFlags& flags) {
  app.add_option("--loss", flags.loss,
                 cat(graft_loss_names(),
                     " (default ce); ce:LABEL+0.5*mse:BOX adds several up, each of an output of the "
                     "model or with a field of the data, or OUTPUT=FIELD"));
  app.add_option("--loss-of", flags.output, "The output that the loss is taken of (default: the first)");
  app.add_option("--label-smoothing", flags.label_smoothing,
                 "For ce, from 0 to 1; for dpo the share of wrong pairs, to 0.5")
      ->check(number(0, 1));
  app.add_option("--ignore-index", flags.ignore_index,
                 "For ce, focal and dice: rows with this label count for nothing (-100)")
      ->check(whole(INT32_MIN, INT32_MAX));
  app.add_option("--class-axis", flags.class_axis, "Axis of the classes (the one that the labels lack, else 1)")
      ->check(whole(-8, 7));
  app.add_option("--class-weights", flags.class_weights, "For ce and focal: a weight for each class, as in 1,2.5,1");
  app.add_option("--pos-weight", flags.pos_weight, "For bce: weight of ones, for all or for each of the last axis");
  app.add_option("--sample-weights", flags.sample_weights, "Field of the data by which each sample's loss counts");
  app.add_option("--focal-gamma", flags.focal_gamma, "For focal (2)")->check(number(0, 100));
  app.add_option("--focal-alpha", flags.focal_alpha, "For focal of targets: weight of ones against zeros (none)")
      ->check(number(0, 1));
  app.add_option("--huber-delta", flags.huber_delta, "For huber (1)")->check(positive());
  app.add_option("--smooth-l1-beta", flags.smooth_l1_beta, "For smooth_l1 (1)")->check(not_negative());
  app.add_option("--margin", flags.margin, "For cosine (0) and triplet (1)");
  app.add_option("--temperature", flags.temperature,
                 "For info_nce (0.07); of distillation, what logits are divided by (2)")
      ->check(positive());
  app.add_option("--distill-weight", flags.distill_weight,
                 "Of distillation: how much the teacher counts; the labels have the rest (0.5)")
      ->check(number(0, 1));
  app.add_option(
         "--pooling", flags.pooling,
         "For info_nce of texts: whose vectors stand for a text, mean, last or cls (as the model's file says, else "
         "mean)")
      ->check(CLI::IsMember({"mean", "last", "cls"}));
  app.add_option("--beta", flags.preference_beta, "For dpo, ipo, orpo and kto (0.1)")->check(positive());
  app.add_option("--desirable-weight", flags.desirable_weight, "For kto: of texts that are wanted (1)")
      ->check(not_negative());
  app.add_option("--undesirable-weight", flags.undesirable_weight, "For kto: of the others (1)")->check(not_negative());
  app.add_option("--blank", flags.blank, "For ctc: the class of the blank (0)")->check(whole(0, 1 << 24));
  app.add_flag("--zero-infinity", flags.zero_infinity, "For ctc: 0 where the labels do not fit the time");
  app.add_option("--seq", flags.seq, "Tokens of a sample, for language models: the dimension \"seq\"")->check(whole(1));
}

void add_loss_flags(CLI::App& app, TrainFlags& flags) {
  add_plain_loss_flags(app, flags);
  add_adapter_flags(app, flags.adapter);
}

void add_train_flags(CLI::App& app, TrainFlags& flags) {
  add_loss_flags(app, flags);
  app.add_option("--optimizer", flags.optimizer,
                 "sgd, adam, adamw, adamw8bit, lion, rmsprop, adagrad, adafactor, lamb or muon (default adamw)");
  app.add_option("--lr", flags.learning_rate, "Learning rate (default 1e-3; 1e-2 for adafactor)")
      ->check(not_negative());
  app.add_option("--momentum", flags.momentum, "For sgd, rmsprop and muon (0; 0.95 for muon)")
      ->check(number(0, 1, Ends::open_above));
  app.add_flag("--nesterov,!--no-nesterov", flags.nesterov, "For sgd with momentum; muon has it unless --no-nesterov");
  app.add_option("--beta1", flags.beta1, "For the Adams, lion, lamb and muon (0.9)")
      ->check(number(0, 1, Ends::open_above));
  app.add_option("--beta2", flags.beta2, "For the Adams, lion, lamb and muon (0.999; 0.99 for lion)")
      ->check(number(0, 1, Ends::open_above));
  app.add_option("--eps", flags.epsilon, "For the Adams, rmsprop and muon (1e-8), adagrad (1e-10) and lamb (1e-6)")
      ->check(positive());
  app.add_option("--alpha", flags.alpha, "For rmsprop: weight of the past (0.99)")
      ->check(number(0, 1, Ends::open_above));
  app.add_flag("--centered", flags.centered, "For rmsprop: squares about the mean");
  app.add_option("--lr-decay", flags.lr_decay, "For adagrad (0)")->check(not_negative());
  app.add_option("--initial-accumulator-value", flags.initial_accumulator_value, "For adagrad (0)")
      ->check(not_negative());
  app.add_option("--beta2-decay", flags.beta2_decay, "For adafactor (-0.8)")->check(number(-10, 0));
  app.add_option("--eps2", flags.epsilon2, "For adafactor: least size of a parameter (1e-3)")->check(not_negative());
  app.add_option("--clip-threshold", flags.clip_threshold, "For adafactor (1)")->check(positive());
  app.add_option("--ns-steps", flags.ns_steps, "For muon: steps of Newton and Schulz (5)")->check(whole(1, 100));
  app.add_option("--muon-adjust", flags.muon_adjust, "For muon: original or match_rms_adamw")
      ->check(CLI::IsMember({"original", "match_rms_adamw"}));
  app.add_option("--adamw-for", flags.adamw_for,
                 "For muon: patterns of matrices that adamw takes, as of embeddings and the last layer");
  app.add_option("--ema", flags.ema, "Keep a running mean of the weights, as in 0.999; evaluations are of it")
      ->check(number(0, 1, Ends::open));
  app.add_option("--layer-decay", flags.layer_decay,
                 "Learning rate of a layer over that of the layer behind it, as in 0.75")
      ->check(number(0, 1, Ends::closed));
  app.add_option("--weight-decay", flags.weight_decay, "Default 0.01 for adamw and lamb, 0.1 for muon, else 0")
      ->check(not_negative());
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
  app.add_option("--schedule", flags.schedule, "constant, linear, cosine, step, one-cycle, polynomial or plateau");
  app.add_option("--warmup", flags.warmup_steps, "Steps over which the learning rate rises")->check(whole(0));
  app.add_option("--final-lr", flags.final_lr_factor,
                 "Share of the rate at the end of linear, cosine and polynomial (0)")
      ->check(not_negative());
  app.add_option("--step-size", flags.step_size, "Steps between drops of the step schedule (1000)")->check(whole(1));
  app.add_option("--gamma", flags.gamma, "Factor of each drop of step and plateau (0.1)")->check(positive());
  app.add_option("--rise", flags.rise, "Share of the steps in which the rate of one-cycle rises (0.3)")
      ->check(number(0, 1, Ends::open));
  app.add_option("--div-factor", flags.div_factor, "Of one-cycle: the rate over the first one (25)");
  app.add_option("--final-div-factor", flags.final_div_factor, "Of one-cycle: the first rate over the last (1e4)");
  app.add_option("--power", flags.power, "Of polynomial (1)")->check(positive());
  app.add_option("--batch", flags.batch, "Samples on the device at once (32)")->check(whole(1, INT32_MAX));
  app.add_option("--accumulate", flags.accumulate, "Micro-batches per optimizer step (1)")->check(whole(1, INT32_MAX));
  app.add_flag("--frozen-statistics", flags.frozen_statistics, "Batch norm keeps and uses its running statistics");
  app.add_option("--lora", flags.lora,
                 "Train adapters of low rank and nothing else: "
                 "r=8,alpha=16,dropout=0,targets=q_proj|v_proj,dora=yes,rslora=yes,init=pissa");
  app.add_option("--add-tokens", flags.add_tokens, kAddTokensHelp);
  app.add_option("--neftune", flags.neftune,
                 "For language models: noise on embeddings in training, by NEFTune's alpha, as in 5")
      ->check(not_negative());
  app.add_option("--seed", flags.seed, "Seed of shuffling, dropout and generated data")->check(whole(0, UINT32_MAX));
  app.add_option("--bind", flags.bind, "Sizes of named dimensions other than the batch");
}

void add_teacher_flag(CLI::App& app, TrainFlags& flags) {
  app.add_option("--teacher", flags.teacher,
                 "Learn from this model's logits, too: one of the same vocabulary, run beside the trained one");
}

namespace {

/// What the terms of --loss are; nullopt: they are none, which is said once a trainer is made.
std::optional<std::vector<graft_loss>> losses_of(const TrainFlags& flags) {
  std::vector<graft_loss> kinds(64);
  std::size_t count = 0;
  if (graft_loss_kinds(flags.loss.c_str(), kinds.data(), kinds.size(), &count) != GRAFT_OK) return std::nullopt;
  kinds.resize(std::min(count, kinds.size()));
  return kinds;
}

graft_loss first_loss(const TrainFlags& flags) {
  const auto terms = losses_of(flags);
  return terms && !terms->empty() ? terms->front() : GRAFT_LOSS_CROSS_ENTROPY;
}

constexpr std::array kOptimizerNames = {"adamw",   "adam",    "sgd",       "adamw8bit", "lion",
                                        "rmsprop", "adagrad", "adafactor", "lamb",      "muon"};

}  // namespace

Result<graft_optimizer> parse_optimizer(const std::string& name) {
  const auto found = std::ranges::find(kOptimizerNames, name);
  if (found != kOptimizerNames.end()) return static_cast<graft_optimizer>(found - kOptimizerNames.begin());
  return invalid("There is no optimizer \"", name,
                 "\"; there are sgd, adam, adamw, adamw8bit, lion, rmsprop, adagrad, adafactor, lamb and muon.");
}

graft_preference preference_of(const TrainFlags& flags) {
  const graft_loss loss = first_loss(flags);
  if (loss == GRAFT_LOSS_KTO) return GRAFT_PREFERENCE_LABELLED;
  if (loss == GRAFT_LOSS_INFO_NCE) return GRAFT_PREFERENCE_GROUPS;
  return is_preference(flags) ? GRAFT_PREFERENCE_PAIRS : GRAFT_NO_PREFERENCE;
}

bool is_preference(const TrainFlags& flags) {
  const graft_loss loss = first_loss(flags);
  return loss == GRAFT_LOSS_DPO || loss == GRAFT_LOSS_IPO || loss == GRAFT_LOSS_ORPO || loss == GRAFT_LOSS_KTO;
}

bool needs_reference(const TrainFlags& flags) { return is_preference(flags) && first_loss(flags) != GRAFT_LOSS_ORPO; }

namespace {

void refuse_idle_loss_flags(const CLI::App& app, const TrainFlags& flags) {
  const auto terms = losses_of(flags);
  if (!terms) return;  // said once the options are made
  const auto only = [&](const std::vector<std::string>& names, std::initializer_list<graft_loss> kinds,
                        const char* with) {
    const bool used =
        std::ranges::any_of(*terms, [&](graft_loss term) { return std::ranges::find(kinds, term) != kinds.end(); });
    refuse_idle(app, !used, names, cat("with --loss ", flags.loss, ", only with ", with, "."));
  };
  only({"--label-smoothing"}, {GRAFT_LOSS_CROSS_ENTROPY, GRAFT_LOSS_DPO, GRAFT_LOSS_DISTILL}, "ce, dpo and distill");
  only({"--beta"}, {GRAFT_LOSS_DPO, GRAFT_LOSS_IPO, GRAFT_LOSS_ORPO, GRAFT_LOSS_KTO}, "dpo, ipo, orpo and kto");
  only({"--desirable-weight", "--undesirable-weight"}, {GRAFT_LOSS_KTO}, "kto");
  only({"--ignore-index"}, {GRAFT_LOSS_CROSS_ENTROPY, GRAFT_LOSS_FOCAL, GRAFT_LOSS_DICE, GRAFT_LOSS_DISTILL},
       "ce, focal, dice and distill");
  only({"--class-axis"},
       {GRAFT_LOSS_CROSS_ENTROPY, GRAFT_LOSS_FOCAL, GRAFT_LOSS_DICE, GRAFT_LOSS_KL, GRAFT_LOSS_CTC, GRAFT_LOSS_DISTILL},
       "ce, focal, dice, kl, ctc and distill");
  only({"--class-weights"}, {GRAFT_LOSS_CROSS_ENTROPY, GRAFT_LOSS_FOCAL}, "ce and focal");
  only({"--pos-weight"}, {GRAFT_LOSS_BCE}, "bce");
  only({"--focal-gamma", "--focal-alpha"}, {GRAFT_LOSS_FOCAL}, "focal");
  only({"--huber-delta"}, {GRAFT_LOSS_HUBER}, "huber");
  only({"--smooth-l1-beta"}, {GRAFT_LOSS_SMOOTH_L1}, "smooth_l1");
  only({"--margin"}, {GRAFT_LOSS_COSINE, GRAFT_LOSS_TRIPLET}, "cosine and triplet");
  if (flags.teacher.empty()) {
    only({"--temperature"}, {GRAFT_LOSS_INFO_NCE, GRAFT_LOSS_DISTILL}, "info_nce, distill and --teacher");
    only({"--distill-weight"}, {GRAFT_LOSS_DISTILL}, "distill and --teacher");
  }
  only({"--pooling"}, {GRAFT_LOSS_INFO_NCE}, "info_nce");
  only({"--blank", "--zero-infinity"}, {GRAFT_LOSS_CTC}, "ctc");
}

void refuse_idle_optimizer_flags(const CLI::App& app, const TrainFlags& flags) {
  const std::string& name = flags.optimizer;
  if (!parse_optimizer(name).ok()) return;  // said once the options are made
  const auto only = [&](const std::vector<std::string>& names, const std::vector<std::string>& with) {
    std::string list;
    for (std::size_t i = 0; i < with.size(); ++i)
      list += cat(i == 0 ? "" : i + 1 == with.size() ? " and " : ", ", with[i]);
    refuse_idle(app, std::ranges::find(with, name) == with.end(), names,
                cat("with --optimizer ", name, ", only with ", list, "."));
  };
  only({"--momentum"}, {"sgd", "rmsprop", "muon"});
  only({"--nesterov"}, {"sgd", "muon"});
  refuse_idle(app, name == "sgd" && flags.momentum <= 0, {"--nesterov"}, "without --momentum.");
  only({"--beta1", "--beta2"}, {"adam", "adamw", "adamw8bit", "lion", "lamb", "muon"});
  only({"--eps"}, {"adam", "adamw", "adamw8bit", "rmsprop", "adagrad", "lamb", "muon"});
  only({"--alpha", "--centered"}, {"rmsprop"});
  only({"--lr-decay", "--initial-accumulator-value"}, {"adagrad"});
  only({"--beta2-decay", "--eps2", "--clip-threshold"}, {"adafactor"});
  only({"--ns-steps", "--muon-adjust", "--adamw-for"}, {"muon"});
}

}  // namespace

void refuse_idle_train_flags(const CLI::App& app, TrainFlags& flags) {
  if (const auto* nesterov = app.get_option_no_throw("--nesterov")) flags.nesterov_given = nesterov->count() > 0;
  refuse_idle_optimizer_flags(app, flags);
  refuse_idle_loss_flags(app, flags);
  const std::string with_schedule = cat("with --schedule ", flags.schedule, ", only with ");
  const bool cycle = flags.schedule == "one-cycle" || flags.schedule == "one_cycle";
  const bool power = flags.schedule == "polynomial", plateau = flags.schedule == "plateau";
  const bool falls = flags.schedule == "linear" || flags.schedule == "cosine" || power;
  refuse_idle(app, !falls, {"--final-lr"}, with_schedule + "linear, cosine and polynomial.");
  refuse_idle(app, flags.schedule != "step", {"--step-size"}, with_schedule + "step.");
  refuse_idle(app, flags.schedule != "step" && !plateau, {"--gamma"}, with_schedule + "step and plateau.");
  refuse_idle(app, !cycle, {"--rise", "--div-factor", "--final-div-factor"}, with_schedule + "one-cycle.");
  refuse_idle(app, !power, {"--power"}, with_schedule + "polynomial.");
  const bool scales = flags.loss_scale > 0 || (flags.loss_scale < 0 && flags.precision == "f16");
  refuse_idle(app, !scales, {"--growth-interval"}, "without a loss scale.");
}

Result<Bindings> bindings_of(const TrainFlags& flags) {
  TRY_ASSIGN(Bindings bindings, parse_bindings(flags.bind));
  if (flags.seq > 0) bindings.insert_or_assign("seq", flags.seq);
  return bindings;
}

void add_long_flag(CLI::App& app, TextFlags& flags) {
  app.add_option("--on-long", flags.on_long,
                 "What becomes of texts of jsonl: that are longer than a sample: cut, drop, error or split (texts that "
                 "are learned as a whole are split, all others cut)")
      ->check(CLI::IsMember({"cut", "drop", "error", "split"}));
}

}  // namespace graft::cli
