// Generators: what their caches hold, and how it comes back where device memory was given back or lost.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/session/generator.h"
#include "runtime/session/session.h"
#include "shaders/cache/cache_base.h"

namespace graft {

using text::TokenId;

/// Computes tokens behind the cached ones. The program may take more tokens than there are; the rest is never seen,
/// because what the caches hold past the tokens that count is overwritten before a query may look there.
Status Generator::start(Program& program, std::span<const TokenId> tokens) {
  const auto staging = program.input(0);
  std::memcpy(staging.data(), tokens.data(), tokens.size_bytes());
  std::fill(staging.begin() + static_cast<std::ptrdiff_t>(tokens.size_bytes()), staging.end(), std::byte{0});
  StepState state;
  state.position = static_cast<std::uint32_t>(cached_.size());
  state.step = furthest_;
  const Status done = program.run({}, state);
  if (done.ok()) {
    furthest_ = std::max(furthest_, state.position);
  } else if (!windows_.empty()) {
    must_replay_ = !cached_.empty();  // whether the caches were moved is not known
  }
  return done;
}

/// Whether caches that forget still hold what a query behind so many tokens sees.
bool Generator::holds_what_is_seen(std::size_t tokens) const {
  return std::ranges::all_of(windows_, [&](std::uint32_t window) {
    return cache_base(furthest_, window) + std::size_t{window} <= std::max<std::size_t>(tokens + 1, window);
  });
}

void Generator::note_run(std::span<const TokenId> tokens, bool single) {
  cached_.insert(cached_.end(), tokens.begin(), tokens.end());
  runs_.push_back({static_cast<std::uint32_t>(tokens.size()), single});
}

/// Appends tokens to the cached ones.
Status Generator::try_run(std::span<const TokenId> tokens, bool single) {
  GRAFT_TRY(start(single ? *decode_ : *prefill_, tokens));
  note_run(tokens, single);
  return ok_status();
}

/// Appends the first token, and computes the others behind it: they count once the text is found to go on so. Their
/// bits are those of runs for one token, by which a lost cache is filled again.
Status Generator::try_verify(std::span<const TokenId> tokens) {
  GRAFT_TRY(start(*verify_, tokens));
  note_run(tokens.first(1), true);
  return ok_status();
}

/// Whether a row among several has the bits that it has alone: a comparison behind a prompt of made-up tokens, so that
/// all that prompt lookup may change is how long a text takes.
Status Generator::compare_verified() {
  const std::size_t count = verify_->plan().inputs[0].bytes / sizeof(TokenId);
  const std::size_t chunk = prefill_->plan().inputs[0].bytes / sizeof(TokenId);
  const auto width = static_cast<std::size_t>(vocabulary_);
  auto held = std::exchange(cached_, {});
  auto held_runs = std::exchange(runs_, {});
  furthest_ = 0;
  std::vector<TokenId> tokens(std::min<std::size_t>(chunk, context_ - count) + count);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>((7919 * (i + 1)) % width);
  }
  const auto rows = std::span<const TokenId>(tokens).last(count);
  if (tokens.size() > count) GRAFT_TRY(try_run(std::span<const TokenId>(tokens).first(tokens.size() - count), false));
  GRAFT_TRY(start(*verify_, rows));
  const auto* const first = logits_of(*verify_, 0).data();
  const std::vector<float> among(first, first + count * width);
  std::vector<float> alone;
  alone.reserve(count * width);
  for (const TokenId token : rows) {
    GRAFT_TRY(try_run({&token, 1}, true));
    const auto logits = logits_of(*decode_, 0);
    alone.insert(alone.end(), logits.begin(), logits.end());
  }
  verifies_drafts_ = std::memcmp(alone.data(), among.data(), alone.size() * sizeof(float)) == 0;
  furthest_ = 0;
  cached_ = std::move(held);
  runs_ = std::move(held_runs);
  return ok_status();
}

Status Generator::run(std::span<const TokenId> tokens) {
  return on_device([&]() -> Status {
    GRAFT_TRY(try_resume());
    return try_run(tokens, tokens.size() == 1);
  });
}

/// Only the first `tokens` count from now on; none, where caches have forgotten what would be seen from there.
void Generator::forget_from(std::size_t tokens) {
  if (!holds_what_is_seen(tokens)) tokens = 0;
  if (tokens == 0) furthest_ = 0;
  cached_.resize(tokens);
  for (CachedRun& run : runs_) {
    run.tokens = static_cast<std::uint32_t>(std::min<std::size_t>(run.tokens, tokens));
    tokens -= run.tokens;
  }
  std::erase_if(runs_, [](const CachedRun& run) { return run.tokens == 0; });
}

/// Fills lost caches by the runs that filled them, and so with the same bits.
Status Generator::replay() {
  const std::vector<TokenId> tokens = std::exchange(cached_, {});
  const std::vector<CachedRun> runs = std::exchange(runs_, {});
  furthest_ = 0;
  Status done;
  for (const CachedRun& run : runs) {
    done = try_run(std::span(tokens).subspan(cached_.size(), run.tokens), run.single);
    if (done.ok()) continue;
    cached_ = tokens;
    runs_ = runs;
    return done;
  }
  must_replay_ = false;
  return ok_status();
}

Status Generator::try_pause() {
  if (paused_) return ok_status();
  GRAFT_TRY(prefill_->settle());
  GRAFT_TRY(decode_->settle());
  if (verify_ != nullptr) GRAFT_TRY(verify_->settle());
  Paused paused = as_paused({}, false);
  GRAFT_TRY(read_residents(*memory_, changes_on_device, paused.state));
  give_back();
  paused_ = std::move(paused);
  return ok_status();
}

Generator::Paused Generator::as_paused(HostState state, bool lost) const {
  std::optional<Plan> verify;
  if (verify_plan() != nullptr) verify = *verify_plan();
  return {residents(), prefill_plan(), decode_plan(), std::move(verify), std::move(state), lost};
}

void Generator::give_back() {
  prefill_.reset();
  decode_.reset();
  verify_.reset();
  memory_.reset();
}

Status Generator::try_resume() {
  if (paused_) {
    GRAFT_TRY_ASSIGN(memory_, Memory::create(*device_, paused_->residents, plans()));
    const auto restore = [&]() -> Status {
      GRAFT_TRY(upload_weights(*memory_, *model_, decoding_));
      GRAFT_TRY(write_residents(*memory_, paused_->state));
      GRAFT_TRY(create_programs(paused_->prefill, paused_->decode, paused_->verify, program_options_));
      return paused_->lost && verify_ != nullptr ? compare_verified() : ok_status();  // on what may be another device
    };
    if (const Status done = restore(); !done.ok()) {
      give_back();
      return done;
    }
    if (paused_->lost) kept_ = std::move(paused_->state);
    paused_.reset();
  }
  return must_replay_ ? replay() : ok_status();
}

Status Generator::pause() {
  return on_device([&] { return try_pause(); });
}

Status Generator::resume() {
  return on_device([&] { return try_resume(); });
}

Status Generator::swap_adapters(const Model* adapter) {
  forget_from(0);  // keys and values of the other adapters
  must_replay_ = false;
  return on_device([&]() -> Status {
    GRAFT_TRY(try_resume());
    GRAFT_TRY(adapters_.swap(*memory_, adapter));
    return reopen_ ? keep_adapters() : ok_status();
  });
}

/// What the device alone has but for the caches: all of it or, where a call fails, none.
Status Generator::keep_adapters() {
  const auto wanted = [](const Resident& of) { return changes_on_device(of) && of.kind != ValueKind::state; };
  GRAFT_TRY(read_residents(*memory_, wanted, next_kept_));
  std::swap(kept_, next_kept_);
  return ok_status();
}

/// As if it were paused, on a new device, but for what the caches held.
Status Generator::recover() {
  if (!paused_) {
    Paused paused = as_paused(std::exchange(kept_, {}), true);
    give_back();
    paused_ = std::move(paused);
    must_replay_ = !cached_.empty();
  }
  GRAFT_TRY_ASSIGN(device_, reopen_(*device_));
  return ok_status();
}

}  // namespace graft
