#include "runtime/text/grammar/matcher.h"

#include <algorithm>
#include <unordered_set>

namespace graft::text {
namespace {

constexpr std::uint64_t kMostMatchSteps = 4'000'000;  // of one call: a fraction of a second
constexpr std::size_t kMostPlaces = 1u << 18;
constexpr std::size_t kMostStates = 1u << 15;
constexpr std::size_t kMostTops = 1u << 22;        // of all states
constexpr std::size_t kMostMaskBytes = 64u << 20;  // bytes
constexpr std::uint32_t kBottom = 0;

std::uint64_t place_key(std::uint32_t place, std::uint32_t below) { return std::uint64_t{place} << 32 | below; }

std::uint64_t state_hash(const std::vector<std::uint32_t>& tops, bool may_end) {
  std::uint64_t hash = may_end ? 0x9E3779B97F4A7C15 : 0;
  for (const std::uint32_t top : tops) hash = (hash ^ top) * 0x100000001B3 + (hash >> 29);
  return hash;
}

}  // namespace

TokenTable::TokenTable(const Tokenizer& tokenizer) : tokenizer_(&tokenizer), size_(tokenizer.size()) {
  for (std::size_t i = 0; i < size_; ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view bytes = bytes_of(id);
    if (!bytes.empty()) entries_.push_back({bytes, id});
  }
  std::ranges::sort(entries_, {}, [](const Entry& e) { return std::pair(e.bytes, e.token); });
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    const std::string_view a = entries_[i - 1].bytes;
    const std::string_view b = entries_[i].bytes;
    entries_[i].shared = static_cast<std::uint32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  }
}

/// Empty for tokens that are no text: whoever reads them finds nothing.
std::string_view TokenTable::bytes_of(TokenId token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= size_) return {};
  const TokenKind kind = tokenizer_->vocabulary().tokens[static_cast<std::size_t>(token)].kind;
  const bool is_text = kind == TokenKind::normal || kind == TokenKind::user_defined || kind == TokenKind::byte;
  return is_text ? tokenizer_->bytes_of(token) : std::string_view();
}

GrammarMatcher::GrammarMatcher(const Grammar& grammar, const TokenTable& tokens) : grammar_(grammar), tokens_(tokens) {
  nodes_.push_back({});
  states_.push_back({.tops = {}, .may_end = true});  // until restart()
}

Status GrammarMatcher::spend(std::uint64_t steps) {
  steps_ += steps;
  if (steps_ <= kMostMatchSteps) return {};
  return unsupported("The grammar is too ambiguous: finding its next token takes more than ", kMostMatchSteps,
                     " steps.");
}

Result<std::uint32_t> GrammarMatcher::node(std::uint32_t place, std::uint32_t below) {
  const auto [at, added] = known_nodes_.emplace(place_key(place, below), static_cast<std::uint32_t>(nodes_.size()));
  if (!added) return at->second;
  if (nodes_.size() >= kMostPlaces) {
    known_nodes_.erase(at);
    return unsupported("The grammar is too ambiguous: what may follow takes more than ", kMostPlaces, " places.");
  }
  nodes_.push_back({place, below});
  return at->second;
}

/// Adds to a state all places with bytes that matching may come to from `place`, without a byte.
Status GrammarMatcher::open(std::uint32_t place, std::uint32_t below, State& into) {
  std::unordered_set<std::uint64_t> seen;
  open_.assign(1, {place, below});
  while (!open_.empty()) {
    const Node now = open_.back();
    open_.pop_back();
    GRAFT_TRY(spend(1));
    if (!seen.insert(place_key(now.place, now.below)).second) continue;
    const Grammar::Symbol& symbol = grammar_.symbol(now.place);
    if (symbol.kind == Grammar::Kind::bytes) {
      GRAFT_TRY_ASSIGN(const std::uint32_t top, node(now.place, now.below));
      into.tops.push_back(top);
    } else if (symbol.kind == Grammar::Kind::end) {
      if (now.below == kBottom) {
        into.may_end = true;
      } else {
        open_.push_back(nodes_[now.below]);
      }
    } else {
      // The last of an alternative leaves nothing to come back to.
      std::uint32_t under = now.below;
      if (grammar_.symbol(now.place + 1).kind != Grammar::Kind::end) {
        GRAFT_TRY_ASSIGN(under, node(now.place + 1, now.below));
      }
      for (const std::uint32_t alternative : grammar_.alternatives(symbol.index)) open_.push_back({alternative, under});
    }
  }
  return {};
}

/// The number of an equal state, or a new one.
Result<std::int32_t> GrammarMatcher::keep(State state) {
  std::ranges::sort(state.tops);
  state.tops.erase(std::unique(state.tops.begin(), state.tops.end()), state.tops.end());
  if (state.tops.empty() && !state.may_end) return kDead;
  const std::uint64_t hash = state_hash(state.tops, state.may_end);
  const auto [first, last] = known_states_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const State& known = states_[static_cast<std::size_t>(at->second)];
    if (known.tops == state.tops && known.may_end == state.may_end) return at->second;
  }
  held_tops_ += state.tops.size();
  if (states_.size() >= kMostStates || held_tops_ > kMostTops) {
    return unsupported("The grammar is too ambiguous: one token may lead to more than ", kMostStates, " states.");
  }
  const auto made = static_cast<std::int32_t>(states_.size());
  states_.push_back(std::move(state));
  known_states_.emplace(hash, made);
  return made;
}

Result<std::int32_t> GrammarMatcher::step(std::int32_t from, std::uint8_t byte) {
  {
    State& state = states_[static_cast<std::size_t>(from)];
    if (state.next == nullptr) {
      state.next = std::make_unique<std::int32_t[]>(256);
      std::fill_n(state.next.get(), 256, kUnknown);
    }
    if (state.next[byte] != kUnknown) return state.next[byte];
    GRAFT_TRY(spend(state.tops.size()));
  }
  State made;
  for (std::size_t i = 0; i < states_[static_cast<std::size_t>(from)].tops.size(); ++i) {
    const Node top = nodes_[states_[static_cast<std::size_t>(from)].tops[i]];
    if (!holds(grammar_.set(grammar_.symbol(top.place).index), byte)) continue;
    GRAFT_TRY(open(top.place + 1, top.below, made));
  }
  GRAFT_TRY_ASSIGN(const std::int32_t to, keep(std::move(made)));
  states_[static_cast<std::size_t>(from)].next[byte] = to;
  return to;
}

Status GrammarMatcher::restart() {
  steps_ = 0;
  GRAFT_TRY(forget());
  State first;
  for (const std::uint32_t alternative : grammar_.alternatives(grammar_.root())) {
    GRAFT_TRY(open(alternative, kBottom, first));
  }
  GRAFT_TRY_ASSIGN(state_, keep(std::move(first)));
  if (state_ != kDead) return {};
  state_ = 0;
  return invalid("The grammar allows no text at all.");
}

/// Where half of what may be kept is used, all goes but for the state that counts.
Status GrammarMatcher::forget() {
  if (nodes_.size() < kMostPlaces / 2 && states_.size() < kMostStates / 2 && held_tops_ < kMostTops / 2 &&
      held_masks_ < kMostMaskBytes) {
    return {};
  }
  const State old = std::move(states_[static_cast<std::size_t>(state_)]);
  const std::vector<Node> old_nodes = std::exchange(nodes_, {{}});
  known_nodes_.clear();
  states_.clear();
  known_states_.clear();
  held_tops_ = held_masks_ = 0;
  states_.push_back({.tops = {}, .may_end = true});
  State kept{.tops = {}, .may_end = old.may_end};
  std::vector<Node> chain;
  for (const std::uint32_t top : old.tops) {
    chain.clear();
    for (std::uint32_t at = top; at != kBottom; at = old_nodes[at].below) chain.push_back(old_nodes[at]);
    std::uint32_t below = kBottom;
    for (std::size_t i = chain.size(); i-- > 0;) {
      GRAFT_TRY_ASSIGN(below, node(chain[i].place, below));
    }
    kept.tops.push_back(below);
  }
  GRAFT_TRY_ASSIGN(state_, keep(std::move(kept)));
  return {};
}

Result<std::span<const std::uint64_t>> GrammarMatcher::allowed() {
  steps_ = 0;
  GRAFT_TRY(forget());
  if (!states_[static_cast<std::size_t>(state_)].allowed.empty()) {
    return std::span<const std::uint64_t>(states_[static_cast<std::size_t>(state_)].allowed);
  }
  std::vector<std::uint64_t> mask((tokens_.size() + 63) / 64 + 1);
  path_.assign(1, state_);
  std::size_t shared = 0;  // of the entry and the last one that was walked along
  bool dead = false;       // that one ended at a byte that may not follow, the one behind path_
  for (const TokenTable::Entry& entry : tokens_.entries()) {
    shared = std::min<std::size_t>(shared, entry.shared);
    if (dead && shared >= path_.size()) continue;
    path_.resize(shared + 1);
    dead = false;
    while (path_.size() <= entry.bytes.size() && !dead) {
      GRAFT_TRY_ASSIGN(const std::int32_t next,
                       step(path_.back(), static_cast<std::uint8_t>(entry.bytes[path_.size() - 1])));
      dead = next == kDead;
      if (!dead) path_.push_back(next);
    }
    GRAFT_TRY(spend(1));
    shared = entry.bytes.size();
    if (!dead) mask[static_cast<std::size_t>(entry.token) / 64] |= std::uint64_t{1} << (entry.token % 64);
  }
  held_masks_ += mask.size() * sizeof(mask[0]);
  State& state = states_[static_cast<std::size_t>(state_)];
  state.allowed = std::move(mask);
  return std::span<const std::uint64_t>(state.allowed);
}

Status GrammarMatcher::accept(TokenId token) {
  steps_ = 0;
  const std::string_view bytes = tokens_.bytes_of(token);
  std::int32_t state = bytes.empty() ? kDead : state_;
  for (const char c : bytes) {
    if (state == kDead) break;
    GRAFT_TRY_ASSIGN(state, step(state, static_cast<std::uint8_t>(c)));
  }
  if (state == kDead) return invalid("The grammar does not allow token ", token, " here.");
  state_ = state;
  return {};
}

}  // namespace graft::text
