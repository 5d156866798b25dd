// Generators: what their caches hold, and how it comes back where device memory was given back or lost.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/language/generator.h"
#include "runtime/session/session.h"
#include "shaders/cache/cache_base.h"

namespace graft {

using text::TokenId;

/// Computes tokens behind the cached ones. The program may take more tokens than there are; the rest is never seen,
/// because what the caches hold past the tokens that count is overwritten before a query may look there.
Status Generator::start(std::size_t of, std::span<const TokenId> tokens) {
  Program& program = machine_->program(of);
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
  return graft::holds_what_is_seen(windows_, furthest_, tokens);
}

void Generator::note_run(std::span<const TokenId> tokens, bool single) {
  cached_.insert(cached_.end(), tokens.begin(), tokens.end());
  runs_.push_back({static_cast<std::uint32_t>(tokens.size()), single});
}

/// Appends tokens to the cached ones.
Status Generator::try_run(std::span<const TokenId> tokens, bool single) {
  GRAFT_TRY(start(single ? kDecode : kPrefill, tokens));
  note_run(tokens, single);
  return ok_status();
}

/// Appends the first token, and computes the others behind it: they count once the text is found to go on so. Their
/// bits are those of runs for one token, by which a lost cache is filled again.
Status Generator::try_verify(std::span<const TokenId> tokens) {
  GRAFT_TRY(start(kVerify, tokens));
  note_run(tokens.first(1), true);
  return ok_status();
}

/// Whether a row among several has the bits that it has alone: a comparison behind a prompt of made-up tokens, so that
/// all that prompt lookup may change is how long a text takes.
Status Generator::compare_verified() {
  const std::size_t count = machine_->program(kVerify).plan().inputs[0].bytes / sizeof(TokenId);
  const std::size_t chunk = machine_->program(kPrefill).plan().inputs[0].bytes / sizeof(TokenId);
  const auto width = static_cast<std::size_t>(model_.vocabulary());
  auto held = std::exchange(cached_, {});
  auto held_runs = std::exchange(runs_, {});
  furthest_ = 0;
  std::vector<TokenId> tokens(std::min<std::size_t>(chunk, context_ - count) + count);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>((7919 * (i + 1)) % width);
  }
  const auto rows = std::span<const TokenId>(tokens).last(count);
  if (tokens.size() > count) GRAFT_TRY(try_run(std::span<const TokenId>(tokens).first(tokens.size() - count), false));
  GRAFT_TRY(start(kVerify, rows));
  const auto* const first = logits_of(kVerify, 0).data();
  const std::vector<float> among(first, first + count * width);
  std::vector<float> alone;
  alone.reserve(count * width);
  for (const TokenId token : rows) {
    GRAFT_TRY(try_run({&token, 1}, true));
    const auto logits = logits_of(kDecode, 0);
    alone.insert(alone.end(), logits.begin(), logits.end());
  }
  verifies_drafts_ = std::memcmp(alone.data(), among.data(), alone.size() * sizeof(float)) == 0;
  furthest_ = 0;
  cached_ = std::move(held);
  runs_ = std::move(held_runs);
  return ok_status();
}

Status Generator::run(std::span<const TokenId> tokens) {
  return on_device([&] { return try_run(tokens, tokens.size() == 1); });
}

/// Only the first `tokens` count from now on; none, where caches have forgotten what would be seen from there.
void Generator::forget_from(std::size_t tokens) {
  if (!holds_what_is_seen(tokens)) tokens = 0;
  if (tokens == 0) furthest_ = 0;
  cached_.resize(tokens);
  cut_runs(runs_, tokens);
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

Status Generator::pause() {
  return machine_->pause([&] { must_replay_ = !cached_.empty(); });
}

Status Generator::resume() {
  return on_device([] { return ok_status(); });
}

Status Generator::swap_adapters(const Model* adapter) {
  forget_from(0);  // keys and values of the other adapters
  must_replay_ = false;
  return on_device([&] { return machine_->swap_adapters(adapter); });
}

}  // namespace graft
