#include "tools/graft/shared/checkpoint_flags.h"

#include <charconv>
#include <optional>

#include "tools/common/help.h"
#include "tools/common/numbers.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

// A whole number; what follows it goes to `rest`.
std::optional<std::uint64_t> leading_number(const std::string& text, std::string& rest) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return std::nullopt;
  rest.assign(end, text.data() + text.size());
  return number;
}

Status parse_journal(const std::string& text, graft_checkpoint_options& options) {
  if (text == "step") return ok_status();
  std::string rest;
  const auto number = leading_number(text, rest);
  if (number && *number > 0 && rest.empty()) {
    options.journal_every = *number;
    return ok_status();
  }
  if (number && *number > 0 && rest == "ms") {
    options.journal_ms = *number;
    return ok_status();
  }
  return invalid("--journal takes step, a number of steps, or a time as in 500ms; \"", text, "\" is none of these.");
}

}  // namespace

void add_checkpoint_flags(CLI::App& app, CheckpointFlags& flags) {
  const HelpGroup group(app, "Checkpoints");
  app.add_option("--checkpoint", flags.folder, "Folder for checkpoints: every step is journalled there");
  app.add_option("--checkpoint-every", flags.every, "Steps between snapshots (100)")->check(whole(0));
  app.add_option("--journal", flags.journal,
                 "When steps are durable: step (each, before the next begins), N (at each N-th) or Nms (by then)");
  app.add_option("--keep", flags.keep, "Newest snapshots to keep (4); tagged ones always stay")->check(whole(1));
  app.add_flag("--resume", flags.resume, "Go on from the checkpoint, bit for bit");
  app.add_option("--from", flags.from, "With --resume: go back to this snapshot, by number or tag, and on from there");
  app.add_flag("--with-changes", flags.with_changes,
               "With --resume: go on although options or data are not what they were");
  app.add_option("--on-mismatch", flags.on_mismatch,
                 "Where a step that is run again differs from the journal: stop, or continue from the last snapshot")
      ->check(CLI::IsMember({"stop", "continue"}));
  app.add_option("--warm-start", flags.warm_start, "Begin with the parameters of a checkpoint: DIR or DIR@SNAPSHOT");
}

void refuse_idle_checkpoint_flags(const CLI::App& app, const CheckpointFlags& flags) {
  refuse_idle(app, flags.folder.empty(), {"--checkpoint-every", "--journal", "--keep"}, "without --checkpoint DIR.");
  refuse_idle(app, !flags.resume, {"--on-mismatch"}, "without --resume.");
}

Result<graft_checkpoint_options> checkpoint_options(const CheckpointFlags& flags) {
  auto options = sized<graft_checkpoint_options>();
  TRY(parse_journal(flags.journal, options));
  if (flags.folder.empty() && flags.resume) return invalid("--resume needs --checkpoint DIR.");
  if (!flags.resume && (!flags.from.empty() || flags.with_changes)) {
    return invalid(flags.from.empty() ? "--with-changes" : "--from", " needs --resume.");
  }
  if (flags.keep == 0) return invalid("--keep 0 would keep no snapshot; it must be at least 1.");
  options.folder = flags.folder.c_str();
  options.every = flags.every;
  options.keep = flags.keep;
  options.resume = flags.resume ? 1 : 0;
  if (!flags.from.empty()) options.from = flags.from.c_str();
  options.with_changes = flags.with_changes ? 1 : 0;
  options.forget = flags.forget ? 1 : 0;
  options.continue_on_mismatch = flags.on_mismatch == "stop" ? 0 : 1;
  return options;
}

Status warm_start(graft_context* context, const std::string& place, graft_trainer* trainer) {
  const std::size_t at = place.rfind('@');
  const std::string folder = place.substr(0, at);
  const std::string snapshot = at == std::string::npos ? "" : place.substr(at + 1);
  return checked(graft_warm_start(trainer, folder.c_str(), snapshot.c_str(), nullptr), context);
}

}  // namespace graft::cli
