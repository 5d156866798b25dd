// Several texts at once: what their caches hold, how it is shared, and how it comes back.
#include <algorithm>
#include <cstring>
#include <utility>

#include "platform/base/checked.h"
#include "runtime/core/dtype.h"
#include "runtime/language/batch_generator.h"
#include "runtime/language/batch_text.h"

namespace graft {

using text::TokenId;

void BatchGenerator::find_caches(const Graph& graph) {
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::state) continue;
    Cache cache = {.name = value.name};
    cache.slot_bytes = storage_bytes(stored_dtype(value), value.shape.elements()) / slots_.size();
    const auto places = static_cast<std::uint64_t>(value.shape[1].value());
    if (places == context_) cache.row_bytes = cache.slot_bytes / places;
    can_share_ = can_share_ && cache.slot_bytes % 4 == 0;
    caches_.push_back(std::move(cache));
  }
}

/// Runs a program for the next tokens of rows. What it takes more than there are is never seen: tokens behind a prompt
/// are overwritten before a query may look there, and rows without a text have no place.
Status BatchGenerator::start(std::size_t of, std::span<Slot* const> rows, std::span<const TokenId> tokens) {
  Program& program = machine_->program(of);
  const auto& inputs = program.plan().inputs;
  std::vector<std::int32_t> places;
  for (std::size_t i = 0; i < rows_[of]; ++i) {
    const auto index = i < rows.size() ? rows[i] - slots_.data() : 0;
    places.push_back(static_cast<std::int32_t>(index));
    places.push_back(i < rows.size() ? static_cast<std::int32_t>(rows[i]->furthest) : 0);
    places.push_back(0);
    places.push_back(i < rows.size() ? static_cast<std::int32_t>(rows[i]->cached.size()) : -1);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto from = std::as_bytes(inputs[i].name == passes::kPlacesInput ? std::span<const std::int32_t>(places)
                                                                           : std::span<const std::int32_t>(tokens));
    const auto staging = program.input(i);
    std::memcpy(staging.data(), from.data(), from.size());
    std::fill(staging.begin() + static_cast<std::ptrdiff_t>(from.size()), staging.end(), std::byte{0});
  }
  const Status done = program.run({}, {});
  for (Slot* slot : rows) {
    if (done.ok()) {
      slot->furthest = std::max(slot->furthest, static_cast<std::uint32_t>(slot->cached.size()));
    } else if (!windows_.empty()) {
      slot->must_replay = !slot->cached.empty();  // whether its caches were moved is not known
    }
  }
  return done;
}

/// Appends some of a prompt.
Status BatchGenerator::run_prompt(Slot& slot, std::span<const TokenId> tokens) {
  Slot* const rows[] = {&slot};
  GRAFT_TRY(start(kPrefill, rows, tokens));
  slot.cached.insert(slot.cached.end(), tokens.begin(), tokens.end());
  slot.runs.push_back({static_cast<std::uint32_t>(tokens.size()), false});
  return ok_status();
}

/// Appends a token to each row.
Status BatchGenerator::run_rows(std::span<Slot* const> rows, std::span<const TokenId> tokens, std::size_t program) {
  GRAFT_TRY(start(program, rows, tokens));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i]->cached.push_back(tokens[i]);
    rows[i]->runs.push_back({1, true});
  }
  return ok_status();
}

/// The one for the fewest rows.
std::size_t BatchGenerator::program_for(std::size_t rows) const {
  std::size_t best = kOne;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (i == kPrefill || rows_[i] < rows) continue;
    if (rows_[best] < rows || rows_[i] < rows_[best]) best = i;
  }
  return best;
}

std::span<const float> BatchGenerator::logits_of(std::size_t program, std::size_t row) const {
  return machine_->output_row(program, row, static_cast<std::size_t>(model_.vocabulary()));
}

/// Tokens of a prompt, but for its last, that a slot holds.
std::size_t BatchGenerator::common(const Slot& slot, std::span<const TokenId> prompt) const {
  const auto end = std::mismatch(slot.cached.begin(), slot.cached.end(), prompt.begin(), prompt.end() - 1).first;
  const auto count = static_cast<std::size_t>(end - slot.cached.begin());
  return !slot.must_replay && holds_what_is_seen(windows_, slot.furthest, count) ? count : 0;
}

void BatchGenerator::forget_from(Slot& slot, std::size_t tokens) const {
  if (!holds_what_is_seen(windows_, slot.furthest, tokens)) tokens = 0;
  if (tokens == 0) {
    slot.furthest = 0;
    slot.must_replay = false;
  }
  slot.cached.resize(tokens);
  cut_runs(slot.runs, tokens);
}

/// Keeps what the slot holds of its text's prompt, or takes over what another holds more of it.
Status BatchGenerator::begin_reading(Slot& slot) {
  const std::span<const TokenId> prompt = slot.text->writer.tokens();
  std::size_t most = common(slot, prompt);
  const Slot* from = nullptr;
  for (const Slot& other : slots_) {
    const std::size_t held = &other != &slot && can_share_ ? common(other, prompt) : 0;
    if (held <= most) continue;
    most = held;
    from = &other;
  }
  if (from != nullptr) {
    GRAFT_TRY(share(slot, *from, most));
  } else {
    forget_from(slot, most);
  }
  slot.text->begun = true;
  slot.text->writer.result().reused_tokens = static_cast<std::uint32_t>(slot.cached.size());
  return ok_status();
}

/// Copies the first tokens that another slot holds. Caches that forget are copied whole, so that they stand where those
/// of the other do.
Status BatchGenerator::share(Slot& slot, const Slot& from, std::size_t tokens) {
  forget_from(slot, 0);
  const auto index = [&](const Slot& of) { return static_cast<std::uint64_t>(&of - slots_.data()); };
  std::vector<Memory::Move> moves;
  for (const Cache& cache : caches_) {
    const std::uint64_t bytes = cache.row_bytes == 0 ? cache.slot_bytes : align_up(tokens * cache.row_bytes, 4);
    moves.push_back({cache.name, index(from) * cache.slot_bytes, index(slot) * cache.slot_bytes, bytes});
  }
  GRAFT_TRY(machine_->memory().move(moves));
  slot.cached.assign(from.cached.begin(), from.cached.begin() + static_cast<std::ptrdiff_t>(tokens));
  slot.runs = from.runs;
  cut_runs(slot.runs, tokens);
  slot.furthest = from.furthest;
  return ok_status();
}

void BatchGenerator::note_loss() {
  for (Slot& slot : slots_) slot.must_replay = !slot.cached.empty();
  rows_agree_.reset();  // what comes may be another device
}

/// Fills lost caches of texts under way by the runs that filled them; what is of no text is forgotten.
Status BatchGenerator::replay_lost() {
  for (Slot& slot : slots_) {
    if (!slot.must_replay) continue;
    if (slot.text && slot.text->begun) {
      GRAFT_TRY(replay(slot));
    } else {
      forget_from(slot, 0);
    }
  }
  return ok_status();
}

Status BatchGenerator::replay(Slot& slot) {
  const std::vector<TokenId> tokens = std::exchange(slot.cached, {});
  const std::vector<CachedRun> runs = std::exchange(slot.runs, {});
  slot.furthest = 0;
  for (const CachedRun& run : runs) {
    Slot* const rows[] = {&slot};
    const auto some = std::span(tokens).subspan(slot.cached.size(), run.tokens);
    const Status done = run.single ? run_rows(rows, some, kOne) : run_prompt(slot, some);
    if (done.ok()) continue;
    slot.cached = tokens;
    slot.runs = runs;
    slot.must_replay = true;
    return done;
  }
  slot.must_replay = false;
  return ok_status();
}

Result<bool> BatchGenerator::rows_agree() {
  if (rows_agree_) return *rows_agree_;
  if (unfinished() != 0)
    return invalid("Rows are compared between texts, and ", unfinished(), " are queued or under way.");
  bool same = true;
  const Status compared = on_device([&]() -> Status {
    same = true;
    for (std::size_t program = 0; program < rows_.size() && same; ++program) {
      if (rows_[program] > 1) GRAFT_TRY(compare(program, same));
    }
    return ok_status();
  });
  for (Slot& slot : slots_) forget_from(slot, 0);
  GRAFT_TRY(compared);
  rows_agree_ = same;
  return same;
}

/// Whether rows of this program have the bits that they have alone, behind made-up tokens of several lengths.
Status BatchGenerator::compare(std::size_t program, bool& same) {
  const auto width = static_cast<std::size_t>(model_.vocabulary());
  const std::size_t longest = std::min<std::size_t>(chunk_, context_ - 1);
  std::vector<TokenId> tokens(longest + rows_[program]);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>((7919 * (i + 1)) % width);
  const auto next = std::span<const TokenId>(tokens).last(rows_[program]);
  std::vector<Slot*> rows;
  for (std::size_t i = 0; i < rows_[program]; ++i) {
    Slot& slot = *rows.emplace_back(&slots_[i]);
    forget_from(slot, 0);
    const std::size_t count = longest - i % longest;
    GRAFT_TRY(run_prompt(slot, std::span<const TokenId>(tokens).first(count)));
  }
  GRAFT_TRY(run_rows(rows, next, program));
  const auto* const first = logits_of(program, 0).data();
  const std::vector<float> among(first, first + rows.size() * width);
  for (std::size_t i = 0; i < rows.size() && same; ++i) {
    forget_from(*rows[i], rows[i]->cached.size() - 1);
    GRAFT_TRY(run_rows({&rows[i], 1}, next.subspan(i, 1), kOne));
    const auto alone = logits_of(kOne, 0);
    same = std::memcmp(alone.data(), among.data() + i * width, width * sizeof(float)) == 0;
  }
  return ok_status();
}

Status BatchGenerator::pause() {
  return machine_->pause([&] { note_loss(); });
}

Status BatchGenerator::resume() {
  return on_device([] { return ok_status(); });
}

}  // namespace graft
