// Generators: what their caches hold, and how it comes back where device memory was given back or lost.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/session/generator.h"
#include "runtime/session/session.h"

namespace graft {

using text::TokenId;

/// Appends tokens to the cached ones. The program may take more tokens than there are; the rest is never seen, because
/// what the caches hold past the tokens that count is overwritten before a query may look there.
Status Generator::try_run(std::span<const TokenId> tokens, bool single) {
  Program& program = single ? *decode_ : *prefill_;
  const auto staging = program.input(0);
  std::memcpy(staging.data(), tokens.data(), tokens.size_bytes());
  std::fill(staging.begin() + static_cast<std::ptrdiff_t>(tokens.size_bytes()), staging.end(), std::byte{0});
  StepState state;
  state.position = static_cast<std::uint32_t>(cached_.size());
  GRAFT_TRY(program.run({}, state));
  cached_.insert(cached_.end(), tokens.begin(), tokens.end());
  runs_.push_back({static_cast<std::uint32_t>(tokens.size()), single});
  return ok_status();
}

Status Generator::run(std::span<const TokenId> tokens) {
  return on_device([&]() -> Status {
    GRAFT_TRY(try_resume());
    return try_run(tokens, tokens.size() == 1);
  });
}

/// Only the first `tokens` count from now on.
void Generator::forget_from(std::size_t tokens) {
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
  Paused paused{residents(), prefill_plan(), decode_plan(), {}, false};
  GRAFT_TRY(read_residents(*memory_, changes_on_device, paused.state));
  prefill_.reset();
  decode_.reset();
  memory_.reset();
  paused_ = std::move(paused);
  return ok_status();
}

Status Generator::try_resume() {
  if (paused_) {
    const Plan* const plans[] = {&paused_->prefill, &paused_->decode};
    GRAFT_TRY_ASSIGN(auto memory, Memory::create(*device_, paused_->residents, plans));
    GRAFT_TRY(upload_weights(*memory, *model_, decoding_));
    GRAFT_TRY(write_residents(*memory, paused_->state));
    GRAFT_TRY_ASSIGN(auto prefill, Program::create(*memory, paused_->prefill, program_options_));
    GRAFT_TRY_ASSIGN(decode_, Program::create(*memory, paused_->decode, program_options_));
    memory_ = std::move(memory);
    prefill_ = std::move(prefill);
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
    Paused paused{residents(), prefill_plan(), decode_plan(), std::exchange(kept_, {}), true};
    prefill_.reset();
    decode_.reset();
    memory_.reset();
    paused_ = std::move(paused);
    must_replay_ = !cached_.empty();
  }
  GRAFT_TRY_ASSIGN(device_, reopen_(*device_));
  return ok_status();
}

}  // namespace graft
