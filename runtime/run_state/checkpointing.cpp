#include "runtime/run_state/checkpointing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "platform/os/clock.h"
#include "runtime/core/features.h"
#include "runtime/run_state/configuration.h"

namespace graft {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& record) {
  return std::as_bytes(std::span(&record, 1));
}

std::string difference(std::span<const std::byte> known, std::span<const std::byte> now) {
  constexpr const char* kWhat[] = {"loss", "number of samples", "learning rate", "place in the data", "parameters"};
  if (known.size() < now.size()) return "journal's format";
  for (std::size_t i = 0; i < std::size(kWhat); ++i) {
    if (std::memcmp(known.data() + 8 * i, now.data() + 8 * i, 8) != 0) return kWhat[i];
  }
  return "nothing";
}

}  // namespace

Checkpointer::Checkpointer(checkpoint::Store store, const CheckpointOptions& options, train::Trainer& trainer,
                           const Model& model, Configuration configuration)
    : store_(std::move(store)),
      options_(options),
      trainer_(trainer),
      model_(model),
      head_(resized_head_of(model.metadata)),
      configuration_(std::move(configuration)),
      frozen_(frozen_of(trainer, model)) {
  if (head_) configuration_["head"] = head_->text;
  trainer_.set_before_invalidation([this] { wait_for_snapshot(); });
}

bool Checkpointer::wants_whole_state() const {
  const std::uint64_t next = trainer_.state().step + 1;
  const bool due = due_ || (options_.every != 0 && next % options_.every == 0);
  return due && next >= retry_at_ && !thread_->busy();
}

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(os::FileSystem& files, const CheckpointOptions& options,
                                                         train::Trainer& trainer, const Model& model,
                                                         Configuration configuration) {
  if (!trainer.plan().hash) return invalid("The trainer was not planned for checkpoints.");
  GRAFT_TRY_ASSIGN(checkpoint::Store store,
                   checkpoint::Store::open(files, options.folder,
                                           {.mode = checkpoint::StoreMode::create,
                                            .deep = options.looks_deep,
                                            .journal = options.journal,
                                            // The thread compacts while training runs.
                                            .compaction = {.automatic = false, .min_live = options.forgets ? 1 : 0.5},
                                            .cipher = options.cipher}));
  if (!options.resume && store.head() != 0) {
    return invalid("The checkpoint folder \"", options.folder, "\" holds a run at step ",
                   store.snapshots().at(store.head()).meta.step, " already; resume it, or take another folder.");
  }
  std::unique_ptr<Checkpointer> out(
      new Checkpointer(std::move(store), options, trainer, model, std::move(configuration)));
  for (const std::string& note : out->store_.notes()) out->report(note);
  GRAFT_TRY_ASSIGN(out->thread_,
                   SnapshotThread::create(out->store_, out->store_mutex_,
                                          checkpoint::Retention{.keep_last = options.keep, .keep_tagged = true},
                                          options.journal.max_delay_ms));
  return out;
}

void Checkpointer::report(const std::string& text) const {
  if (options_.report) options_.report(text);
}

const checkpoint::Store& Checkpointer::store() {
  if (auto result = thread_->wait()) note(std::move(*result));
  return store_;
}

Status Checkpointer::check_configuration(const checkpoint::Manifest& snapshot) const {
  const bool resized = head_ && is_before(snapshot, *head_);
  Configuration all = configuration_;  // and what the snapshot alone has, but for what a caller need not say again
  for (const auto& [key, value] : *snapshot.meta.metadata) {
    if (key.starts_with(kConfigPrefix)) all.try_emplace(key.substr(kConfigPrefix.size()));
  }
  for (const char* unsaid : {"data", "data contents", "order"}) {
    if (!configuration_.contains(unsaid)) all.erase(unsaid);
  }
  if (options_.forgets) all.erase("data contents");
  for (const auto& [name, value] : all) {
    const bool is_model = name == "model" || name == "head";
    if (resized && is_model) continue;
    const auto saved = snapshot.meta.metadata->find(cat(kConfigPrefix, name));
    const std::string then = saved == snapshot.meta.metadata->end() ? "" : plain_numbers(saved->second);
    const std::string now = plain_numbers(value);
    if (saved != snapshot.meta.metadata->end() && then == now) continue;
    const std::string text = cat("The checkpoint was made with another ", name, ": ", what_differs(name, then, now));
    if (is_model || !options_.with_changes) return invalid(text, "; a resume goes on with the same.");
    report(text + ".");
  }
  return check_frozen(snapshot, frozen_, resized ? &*head_ : nullptr);
}

/// The one to resume from.
Result<std::uint64_t> Checkpointer::finite_snapshot(std::uint64_t wanted) const {
  if (options_.allow_non_finite) return wanted;
  GRAFT_TRY_ASSIGN(const std::uint64_t number, newest_finite(store_, wanted));
  if (number == wanted) return number;
  const std::string text = cat("Snapshot ", wanted, " has parameters that are not finite");
  if (!options_.from.empty()) return corrupt(text, "; the newest before it that is finite is ", number, ".");
  report(cat(text, ": training goes on from snapshot ", number, ", the newest that is finite."));
  return number;
}

/// Where training goes on from another snapshot, or with changes, the steps journalled after the newest are not its
/// own.
Status Checkpointer::go_back_to(std::uint64_t number) {
  const bool resized = head_ && is_before(store_.snapshots().at(number), *head_);
  if (number == store_.head() && !options_.with_changes && options_.from.empty() && !resized) {
    for (const checkpoint::JournalRecord& record : store_.journal()) {
      if (record.kind == kStepRecord) to_replay_[record.step] = record.payload;
    }
    return ok_status();
  }
  std::lock_guard lock(store_mutex_);
  return store_.set_head(number);
}

/// Training continues from this snapshot (0: from the start), and no snapshot of a later step is left, nor a byte that
/// only such ones need.
Status Checkpointer::erase_after(std::uint64_t number) {
  std::lock_guard lock(store_mutex_);
  const auto& snapshots = store_.snapshots();
  checkpoint::Retention retention;
  retention.keep_last = 0;
  retention.drop_damaged = true;
  const std::uint64_t step = number == 0 ? 0 : snapshots.at(number).meta.step;
  for (const auto& [other, manifest] : snapshots) {
    if (number != 0 && other <= number && manifest.meta.step <= step) retention.keep_numbers.insert(other);
  }
  GRAFT_TRY(store_.set_head(number));
  GRAFT_TRY(detail::to_status(store_.prune(retention)));
  return detail::to_status(store_.compact());
}

Result<std::uint64_t> Checkpointer::begin(data::Loader* loader) {
  if (options_.forgets && (loader == nullptr || !loader->cursor().keyed)) {
    return invalid(
        "A run forgets a sample if its loader takes samples in an order by keys (graft_loader_options.keyed).");
  }
  if (options_.forgets && options_.from.empty() && store_.head() != 0) GRAFT_TRY(erase_after(0));
  if (store_.head() == 0 && options_.from.empty()) {
    // No step has told the trainer where its data stands.
    if (kHasData && loader != nullptr) trainer_.state().cursor = loader->cursor();
    GRAFT_TRY(save());
    return std::uint64_t{0};
  }
  GRAFT_TRY_ASSIGN(const std::uint64_t wanted, find_snapshot(store_, options_.from));
  GRAFT_TRY_ASSIGN(const std::uint64_t number, finite_snapshot(wanted));
  const checkpoint::Manifest& snapshot = store_.snapshots().at(number);
  GRAFT_TRY(check_configuration(snapshot));
  const bool resized = head_ && is_before(snapshot, *head_);
  GRAFT_TRY(restore_run(store_, number, trainer_, user_data_, resized ? &*head_ : nullptr));
  if (resized) {
    report(cat("The head was ", head_->replaced ? "replaced" : "widened", " since snapshot ", number, ", from ",
               head_->from, " to ", head_->to, " classes; the run goes on with the new one."));
  }
  // The order of what is left is what it was, up to the place where a sample is missing.
  if (options_.forgets) trainer_.state().cursor.samples = loader->cursor().samples;
  if (kHasData && loader != nullptr) GRAFT_TRY(loader->restore(trainer_.state().cursor));
  GRAFT_TRY(options_.forgets ? erase_after(number) : go_back_to(number));
  last_loss_ = snapshot.meta.loss;
  saved_ = position();
  return trainer_.state().step;
}

/// Whether it holds all steps from the snapshot's to the trainer's. Those behind it come again.
Result<bool> Checkpointer::follow_journal(std::uint64_t from) {
  const std::uint64_t now = trainer_.state().step;
  std::uint64_t last = from;
  bool whole = true;
  for (const checkpoint::JournalRecord& record : store_.journal()) {
    if (record.kind != kStepRecord || record.step <= from) continue;
    if (record.step > now) {
      to_replay_[record.step] = record.payload;
      continue;
    }
    whole = whole && record.step == last + 1;
    last = record.step;
    StepRecord known;
    if (record.step != now || record.payload.size() < sizeof known) continue;
    std::memcpy(&known, record.payload.data(), sizeof known);
    GRAFT_TRY_ASSIGN(const std::uint64_t hash, trainer_.state_hash());
    if (hash == known.state_hash) continue;
    return corrupt("The checkpoint folder \"", options_.folder, "\" has other parameters of step ", now,
                   " than this worker: it is another run's.");
  }
  return whole && last == now;
}

Status Checkpointer::take_over(data::Loader* loader) {
  if (store_.head() == 0) return detail::to_status(begin(loader));
  const checkpoint::Manifest& snapshot = store_.snapshots().at(store_.head());
  if (snapshot.meta.step > trainer_.state().step) return detail::to_status(begin(loader));
  GRAFT_TRY(check_configuration(snapshot));
  const std::uint64_t from = snapshot.meta.step;
  GRAFT_TRY_ASSIGN(const bool whole, follow_journal(from));
  if (from == trainer_.state().step) saved_ = position();
  if (whole) return ok_status();
  to_replay_.clear();
  return start_snapshot({});
}

Status Checkpointer::replay(std::span<const std::byte> known, std::span<const std::byte> now) {
  if (known.size() >= now.size() && std::ranges::equal(known.first(now.size()), now)) {
    ++replayed_;
    to_replay_.erase(trainer_.state().step);
    return ok_status();
  }
  const std::string text = cat("Step ", trainer_.state().step, " gives another result than the journal has of it (the ",
                               difference(known, now), "): the device, the driver or the data is not what it was");
  if (options_.stop_on_mismatch) {
    return corrupt(text, ". The checkpoint is untouched; training can go on from the last snapshot on request.");
  }
  report(text + "; training goes on from the last snapshot without the journal.");
  to_replay_.clear();
  due_ = true;
  std::lock_guard lock(store_mutex_);
  return store_.set_head(store_.head());
}

/// A step that could not be journalled is still part of the run: a resume takes it again, only unchecked.
void Checkpointer::journal(std::span<const std::byte> now) {
  checkpoint::JournalRecord record{kStepRecord, trainer_.state().step, {now.begin(), now.end()}};
  // Of the step, or of the one before where the run has gone on alone.
  const std::span<const std::byte> sections = std::as_bytes(trainer_.sections());
  record.payload.insert(record.payload.end(), sections.begin(), sections.end());
  const checkpoint::JournalPolicy& policy = options_.journal;
  // The thread syncs, but not while it writes a snapshot.
  const bool each = policy.every == 1 && policy.max_delay_ms == 0;
  const bool later = ((each && options_.late_sync) || policy.max_delay_ms != 0) && !thread_->busy();
  Status status;
  {
    std::lock_guard lock(store_mutex_);
    status = later ? store_.append(record, false) : store_.append(record);
  }
  if (later && each) thread_->start_sync();
  note_journal(status);
}

void Checkpointer::note_journal(const Status& status) {
  if (status.ok() == !journal_fails_) return;
  journal_fails_ = !status.ok();
  if (status.ok()) return report(cat("Step ", trainer_.state().step, " is journalled again."));
  report(status.message() + " The last snapshot is as it was.");
}

void Checkpointer::wait_for_sync() {
  if (const Status status = thread_->wait_for_sync(); !status.ok()) note_journal(status);
}

void Checkpointer::acknowledge() {
  const std::int64_t start = os::monotonic_ns();
  wait_for_sync();
  nanoseconds_ += os::monotonic_ns() - start;
}

Status Checkpointer::record(const train::StepResult& result) {
  const std::int64_t start = os::monotonic_ns();
  Status status = record_step(result);
  nanoseconds_ += os::monotonic_ns() - start;
  return status;
}

Status Checkpointer::record_step(const train::StepResult& result) {
  const train::TrainingState& state = trainer_.state();
  last_loss_ = result.metrics.loss();
  GRAFT_TRY_ASSIGN(const std::uint64_t hash, trainer_.state_hash());
  const StepRecord now{std::bit_cast<std::uint64_t>(result.metrics.loss_sum), result.metrics.count,
                       std::bit_cast<std::uint64_t>(result.learning_rate), state.cursor.position, hash};
  wait_for_sync();
  if (auto written = thread_->take_result()) note(std::move(*written));
  if (options_.every != 0 && state.step % options_.every == 0) {
    if (due_ && to_replay_.empty()) ++skipped_;
    due_ = true;
  }
  const auto known = to_replay_.find(state.step);
  if (known != to_replay_.end()) {
    GRAFT_TRY(replay(known->second, bytes_of(now)));
    // A snapshot now would need the journal of the steps that are still to be run again.
    if (!to_replay_.empty()) return ok_status();
  } else {
    journal(bytes_of(now));
  }
  if (!due_ || !to_replay_.empty() || state.step < retry_at_ || thread_->busy()) return ok_status();
  if (!trainer_.has_whole_state()) return ok_status();  // the next step brings it
  return start_snapshot({});
}

checkpoint::SnapshotMeta Checkpointer::meta(const std::string& tag) const {
  checkpoint::SnapshotMeta meta;
  meta.step = trainer_.state().step;
  meta.loss = last_loss_;
  meta.wall_clock_ms = os::wall_clock_ms();
  if (!tag.empty()) meta.tags.push_back(tag);
  auto& metadata = meta.metadata.edit();
  for (const auto& [name, value] : configuration_) metadata[cat(kConfigPrefix, name)] = value;
  for (const auto& [name, value] : options_.metadata) metadata[cat(kUserPrefix, name)] = value;
  if (!options_.model_file.empty()) metadata[std::string(kModelFile)] = options_.model_file;
  return meta;
}

/// Fails only where the device does.
Status Checkpointer::start_snapshot(const std::string& tag) {
  GRAFT_TRY(trainer_.capture());
  writing_ = position();
  Result<std::unique_ptr<checkpoint::SnapshotWriter>> writer = [&] {
    std::lock_guard lock(store_mutex_);
    return store_.begin_snapshot(meta(tag));
  }();
  if (!writer.ok()) {
    note(writer.status());
    return ok_status();
  }
  due_ = false;
  thread_->start(std::move(writer).value(), std::make_unique<RunStreams>(trainer_, model_, user_data_, frozen_),
                 options_.allow_non_finite);
  return ok_status();
}

/// What became of the snapshot that was started last.
void Checkpointer::note(Status result) {
  if (result.ok()) {
    saved_ = writing_;
    failures_ = retry_at_ = 0;
    last_failure_ = {};
    return;
  }
  due_ = true;
  constexpr std::uint64_t kMostDoublings = 10;
  retry_at_ = writing_.first + (std::uint64_t{1} << std::min(failures_++, kMostDoublings));
  report(result.message() + " The last snapshot is as it was.");
  last_failure_ = std::move(result);
}

void Checkpointer::wait_for_snapshot() {
  if (!thread_) return;
  if (auto written = thread_->wait()) note(std::move(*written));
}

Status Checkpointer::flush() {
  wait_for_snapshot();
  GRAFT_TRY(Status(last_failure_));
  std::lock_guard lock(store_mutex_);
  return store_.sync_journal();
}

Status Checkpointer::save_change() {
  wait_for_snapshot();
  saved_.reset();
  return save();
}

Status Checkpointer::save(const std::string& tag) {
  // The journal is ahead: a resume runs these steps anyway.
  if (!to_replay_.empty() && tag.empty()) return ok_status();
  wait_for_snapshot();
  if (saved_ == position()) {
    if (tag.empty()) return ok_status();
    std::lock_guard lock(store_mutex_);
    return store_.tag(store_.head(), tag);
  }
  if (!to_replay_.empty()) {
    return invalid("Step ", trainer_.state().step, " is run again, and the journal has steps up to ",
                   to_replay_.rbegin()->first, ", which a snapshot of now would lose; ask for \"", tag,
                   "\" after them.");
  }
  GRAFT_TRY(start_snapshot(tag));
  if (auto written = thread_->wait()) note(std::move(*written));
  return last_failure_;
}

}  // namespace graft
