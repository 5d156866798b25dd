#include "tools/graft/training/train_flags.h"

#include "interface/flags.h"

#include <algorithm>
#include <optional>

#include "tools/common/help.h"
#include "tools/common/numbers.h"
#include "tools/graft/shared/put_adapters.h"
#include "tools/graft/shared/text_flags.h"

namespace graft::cli {

void add_plain_loss_flags(CLI::App& app, TrainFlags& flags) {
  const HelpGroup group(app, "Loss");
  app.add_option("--loss", flags.loss,
                 cat(graft_loss_names(),
                     " (default ce); ce:LABEL+0.5*mse:BOX adds several up, each of an output of the "
                     "model or with a field of the data, or OUTPUT=FIELD"));
  app.add_option("--loss-of", flags.output, "The output that the loss is taken of (default: the first)");
  add_loss_flags(app, flags.options);
  app.add_option(
         "--pooling", flags.pooling,
         "For info_nce of texts: whose vectors stand for a text, mean, last or cls (as the model's file says, else "
         "mean)")
      ->check(CLI::IsMember({"mean", "last", "cls"}));
  app.add_option("--seq", flags.seq, "Tokens of a sample, for language models: the dimension \"seq\"")->check(whole(1));
}

void add_loss_and_adapter_flags(CLI::App& app, TrainFlags& flags) {
  add_plain_loss_flags(app, flags);
  add_adapter_flags(app, flags.adapter);
}

void add_train_flags(CLI::App& app, TrainFlags& flags) {
  add_loss_and_adapter_flags(app, flags);
  {
    const HelpGroup group(app, "Adapters");
    app.add_option("--lora", flags.lora,
                   "Train adapters of low rank and nothing else: "
                   "r=8,alpha=16,dropout=0,targets=q_proj|v_proj,dora=yes,rslora=yes,init=pissa");
    app.add_option("--add-tokens", flags.add_tokens, kAddTokensHelp);
  }
  add_optimizer_flags(app, flags.options);
  {
    const HelpGroup group(app, "Optimizer");
    app.add_option("--group", flags.groups, "PATTERN:lr=SCALE,weight_decay=X for parameters by name; repeatable");
  }
  add_schedule_flags(app, flags.options);
  add_memory_flags(app, flags.options);
  {
    const HelpGroup group(app, "Precision");
    add_precision_flag(app, flags.precision);
  }
  add_precision_flags(app, flags.options);
  add_steps_flags(app, flags.options);
  const HelpGroup group(app, "Steps");
  app.add_option("--batch", flags.batch, "Samples on the device at once (32)")->check(whole(1, INT32_MAX));
  app.add_option("--accumulate", flags.accumulate, "Micro-batches per optimizer step (1)")->check(whole(1, INT32_MAX));
  app.add_option("--bind", flags.bind, "Sizes of named dimensions other than the batch");
}

void add_teacher_flag(CLI::App& app, TrainFlags& flags) {
  const HelpGroup group(app, "Loss");
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

}  // namespace

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

std::uint32_t bit(int value) { return std::uint32_t{1} << value; }

}  // namespace

void refuse_idle_train_flags(const CLI::App& app, const TrainFlags& flags) {
  const TrainerOptions& given = flags.options;
  std::uint32_t losses = 0;
  const auto terms = losses_of(flags);
  for (const graft_loss loss : terms.value_or(std::vector<graft_loss>())) losses |= bit(loss);
  const auto is_given = [&](const char* flag) {
    const CLI::Option* const option = app.get_option_no_throw(flag);
    return option != nullptr && option->count() > 0;
  };
  for (const Readers& readers : kReaders) {
    if (readers.choice == Choice::losses && !terms) continue;  // said once the options are made
    if (readers.or_with != nullptr && is_given(readers.or_with)) continue;
    const auto [chosen, with] =
        readers.choice == Choice::losses ? std::pair(losses, cat("--loss ", flags.loss))
        : readers.choice == Choice::optimizers
            ? std::pair(bit(given.optimizer), cat("--optimizer ", word_of(kOptimizerWords, given.optimizer)))
            : std::pair(bit(given.schedule), cat("--schedule ", word_of(kScheduleWords, given.schedule)));
    refuse_idle(app, (readers.values & chosen) == 0, {readers.flag},
                cat("with ", with, ", only with ", readers.words, "."));
  }
  refuse_idle(app, terms && (losses & bit(GRAFT_LOSS_INFO_NCE)) == 0, {"--pooling"},
              cat("with --loss ", flags.loss, ", only with info_nce."));
  refuse_idle(app, given.optimizer == GRAFT_SGD && given.momentum.value_or(0) == 0, {"--nesterov"},
              "without --momentum.");
  const bool scales = given.loss_scale > 0 || (given.loss_scale < 0 && flags.precision == "f16");
  refuse_idle(app, !scales, {"--growth-interval"}, "without a loss scale.");
}

Result<Bindings> bindings_of(const TrainFlags& flags) {
  TRY_ASSIGN(Bindings bindings, parse_bindings(flags.bind));
  if (flags.seq > 0) bindings.insert_or_assign("seq", flags.seq);
  return bindings;
}

void add_long_flag(CLI::App& app, TextFlags& flags) {
  const HelpGroup group(app, "Data");
  app.add_option("--on-long", flags.on_long,
                 "What becomes of texts of jsonl: that are longer than a sample: cut, drop, error or split (texts that "
                 "are learned as a whole are split, all others cut)")
      ->check(CLI::IsMember({"cut", "drop", "error", "split"}));
}

}  // namespace graft::cli
