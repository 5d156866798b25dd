#include "tools/graft/checkpoint_flags.h"
#include "tools/common/numbers.h"

#include <charconv>

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

Result<checkpoint::JournalPolicy> parse_journal(const std::string& text) {
  if (text == "step") return checkpoint::JournalPolicy{};
  std::string rest;
  const auto number = leading_number(text, rest);
  if (number && *number > 0 && rest.empty()) return checkpoint::JournalPolicy{.every = *number};
  if (number && *number > 0 && rest == "ms") return checkpoint::JournalPolicy{.every = 0, .max_delay_ms = *number};
  return invalid("--journal takes step, a number of steps, or a time as in 500ms; \"", text, "\" is none of these.");
}

}  // namespace

void add_checkpoint_flags(CLI::App& app, CheckpointFlags& flags) {
  CheckpointOptions& options = flags.options;
  app.add_option("--checkpoint", options.folder, "Folder for checkpoints: every step is journalled there");
  app.add_option("--checkpoint-every", options.every, "Steps between snapshots (100)")->check(whole(0));
  app.add_option("--journal", flags.journal,
                 "When steps are durable: step (each, before the next begins), N (at each N-th) or Nms (by then)");
  app.add_option("--keep", options.keep, "Newest snapshots to keep (4); tagged ones always stay")->check(whole(1));
  app.add_flag("--resume", options.resume, "Go on from the checkpoint, bit for bit");
  app.add_option("--from", flags.from, "With --resume: go back to this snapshot, by number or tag, and on from there");
  app.add_flag("--with-changes", options.with_changes,
               "With --resume: go on although options or data are not what they were");
  app.add_option("--on-mismatch", flags.on_mismatch,
                 "Where a step that is run again differs from the journal: stop, or continue from the last snapshot")
      ->check(CLI::IsMember({"stop", "continue"}));
  app.add_option("--warm-start", flags.warm_start, "Begin with the parameters of a checkpoint: DIR or DIR@SNAPSHOT");
}

void refuse_idle_checkpoint_flags(const CLI::App& app, const CheckpointFlags& flags) {
  refuse_idle(app, flags.options.folder.empty(), {"--checkpoint-every", "--journal", "--keep"},
              "without --checkpoint DIR.");
  refuse_idle(app, !flags.options.resume, {"--on-mismatch"}, "without --resume.");
}

Result<CheckpointOptions> checkpoint_options(const CheckpointFlags& flags) {
  CheckpointOptions options = flags.options;
  TRY_ASSIGN(options.journal, parse_journal(flags.journal));
  if (options.folder.empty() && options.resume) return invalid("--resume needs --checkpoint DIR.");
  if (!options.resume && (!flags.from.empty() || options.with_changes)) {
    return invalid(flags.from.empty() ? "--with-changes" : "--from", " needs --resume.");
  }
  if (options.keep == 0) return invalid("--keep 0 would keep no snapshot; it must be at least 1.");
  if (options.resume && !flags.warm_start.empty()) return invalid("--resume and --warm-start exclude each other.");
  options.from = flags.from;
  options.stop_on_mismatch = flags.on_mismatch == "stop";
  return options;
}

Status warm_start(const std::string& place, train::Trainer& trainer) {
  const std::size_t at = place.rfind('@');
  const std::string folder = place.substr(0, at);
  TRY_ASSIGN(const auto store, checkpoint::Store::open(os::system_files(), folder, {}));
  TRY_ASSIGN(const std::uint64_t number, find_snapshot(store, at == std::string::npos ? "" : place.substr(at + 1)));
  return graft::warm_start(store, number, trainer);
}

}  // namespace graft::cli
