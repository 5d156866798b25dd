#include "runtime/text/grammar/grammar_builder.h"

#include <algorithm>
#include <optional>

#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

constexpr std::size_t kMostRules = 1u << 17;
constexpr std::size_t kMostSymbols = 1u << 19;
constexpr std::uint32_t kLastCharacter = 0x10FFFF;

/// Overlapping and neighbouring ranges become one; in rising order.
std::vector<CharRange> merged_ranges(std::vector<CharRange> ranges) {
  std::ranges::sort(ranges, {}, &CharRange::first);
  std::vector<CharRange> out;
  for (const CharRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

std::vector<CharRange> ranges_without(const std::vector<CharRange>& ranges) {
  std::vector<CharRange> out;
  std::uint32_t next = 0;
  for (const CharRange& range : ranges) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) out.push_back({next, kLastCharacter});
  return out;
}

ByteSet bytes_between(std::uint32_t first, std::uint32_t last) {
  ByteSet set{};
  for (std::uint32_t byte = first; byte <= last; ++byte) set[byte / 64] |= std::uint64_t{1} << (byte % 64);
  return set;
}

std::string utf8_of(std::uint32_t value) {
  std::string out;
  append_utf8(out, value);
  return out;
}

/// Whether each rule may stand for nothing. Each reference is looked at once, in whatever order rules stand.
std::vector<char> empty_rules(const std::vector<std::vector<GrammarBuilder::Sequence>>& rules) {
  struct Waiting {
    std::uint32_t rule;
    std::size_t left;  ///< references that are not known to stand for nothing
  };
  std::vector<Waiting> sequences;
  std::vector<std::vector<std::size_t>> used_by(rules.size());
  std::vector<char> empty(rules.size(), 0);
  std::vector<std::uint32_t> found;
  const auto find = [&](std::uint32_t rule) {
    if (empty[rule] == 0) found.push_back(rule);
    empty[rule] = 1;
  };
  for (std::uint32_t rule = 0; rule < rules.size(); ++rule) {
    for (const GrammarBuilder::Sequence& s : rules[rule]) {
      const bool may = std::ranges::all_of(s, [](const Grammar::Symbol& x) { return x.kind == Grammar::Kind::rule; });
      if (!may) continue;
      if (s.empty()) find(rule);
      for (const Grammar::Symbol& x : s) used_by[x.index].push_back(sequences.size());
      sequences.push_back({rule, s.size()});
    }
  }
  while (!found.empty()) {
    const std::uint32_t rule = found.back();
    found.pop_back();
    for (const std::size_t use : used_by[rule]) {
      if (--sequences[use].left == 0) find(sequences[use].rule);
    }
  }
  return empty;
}

/// What each rule begins with, and whether that is all of an alternative's end.
using Beginnings = std::vector<std::vector<std::pair<std::uint32_t, bool>>>;

/// The strongly connected component of each rule (Tarjan), without recursion.
std::vector<std::uint32_t> components_of(const Beginnings& begins) {
  const std::size_t count = begins.size();
  std::vector<std::uint32_t> index(count, 0), low(count, 0), component(count, 0), path, at(count, 0), waiting;
  std::vector<char> is_waiting(count, 0);
  std::uint32_t next = 1, components = 0;
  for (std::uint32_t start = 0; start < count; ++start) {
    if (index[start] != 0) continue;
    path.push_back(start);
    while (!path.empty()) {
      const std::uint32_t r = path.back();
      if (index[r] == 0) {
        index[r] = low[r] = next++;
        waiting.push_back(r);
        is_waiting[r] = 1;
      }
      if (at[r] < begins[r].size()) {
        const std::uint32_t to = begins[r][at[r]++].first;
        if (index[to] == 0) {
          path.push_back(to);
        } else if (is_waiting[to] != 0) {
          low[r] = std::min(low[r], index[to]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[r]);
      if (low[r] != index[r]) continue;
      ++components;
      std::uint32_t member = 0;
      do {
        member = waiting.back();
        waiting.pop_back();
        is_waiting[member] = 0;
        component[member] = components;
      } while (member != r);
    }
  }
  return component;
}

}  // namespace

Status GrammarBuilder::count(std::size_t symbols) {
  symbols_ += symbols;
  if (symbols_ <= kMostSymbols && rules_.size() <= kMostRules) return {};
  return unsupported("The grammar is too large: it has more than ", kMostSymbols, " symbols or ", kMostRules,
                     " rules, repetitions written out.");
}

Result<std::uint32_t> GrammarBuilder::add_rule() {
  GRAFT_TRY(count(1));
  rules_.emplace_back();
  return static_cast<std::uint32_t>(rules_.size() - 1);
}

Status GrammarBuilder::add_alternative(std::uint32_t rule, Sequence sequence) {
  GRAFT_TRY(count(sequence.size() + 1));
  rules_[rule].push_back(std::move(sequence));
  return {};
}

Grammar::Symbol GrammarBuilder::bytes(const ByteSet& set) {
  const auto [at, added] = known_sets_.emplace(set, static_cast<std::uint32_t>(sets_.size()));
  if (added) sets_.push_back(set);
  return {Grammar::Kind::bytes, at->second};
}

GrammarBuilder::Sequence GrammarBuilder::text(std::string_view text) {
  Sequence out;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    out.push_back(bytes(bytes_between(byte, byte)));
  }
  return out;
}

/// Alternatives for code points whose encodings have as many bytes, cut until each byte is one of a range whatever the
/// others are; a single byte goes to `single`.
Status GrammarBuilder::add_encoded(std::uint32_t first, std::uint32_t last, std::uint32_t rule, ByteSet& single) {
  const std::string low = utf8_of(first);
  const std::string high = utf8_of(last);
  if (low.size() == 1) {
    const ByteSet more = bytes_between(first, last);
    for (std::size_t i = 0; i < single.size(); ++i) single[i] |= more[i];
    return {};
  }
  for (std::size_t tail = low.size() - 1; tail > 0; --tail) {  // bytes behind the one that may differ
    const std::uint32_t span = 1u << (6 * tail);
    if (first / span == last / span) continue;
    // What differs here wants all of what follows.
    if (first % span != 0) {
      const std::uint32_t end = first / span * span + span - 1;
      GRAFT_TRY(add_encoded(first, end, rule, single));
      return add_encoded(end + 1, last, rule, single);
    }
    if (last % span != span - 1) {
      const std::uint32_t begin = last / span * span;
      GRAFT_TRY(add_encoded(first, begin - 1, rule, single));
      return add_encoded(begin, last, rule, single);
    }
    break;
  }
  Sequence sequence;
  for (std::size_t i = 0; i < low.size(); ++i) {
    sequence.push_back(bytes(bytes_between(static_cast<std::uint8_t>(low[i]), static_cast<std::uint8_t>(high[i]))));
  }
  return add_alternative(rule, std::move(sequence));
}

Result<GrammarBuilder::Sequence> GrammarBuilder::characters(std::vector<CharRange> ranges, bool others) {
  ranges = merged_ranges(std::move(ranges));
  if (others) ranges = ranges_without(ranges);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> key;
  for (const CharRange& range : ranges) key.emplace_back(range.first, range.last);
  if (const auto known = known_characters_.find(key); known != known_characters_.end()) return known->second;
  GRAFT_TRY_ASSIGN(const std::uint32_t rule, add_rule());
  ByteSet single{};
  // Where encodings grow by a byte; surrogates have none.
  constexpr CharRange kSizes[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLastCharacter}};
  for (const CharRange& range : ranges) {
    for (const CharRange& size : kSizes) {
      const std::uint32_t first = std::max(range.first, size.first);
      const std::uint32_t last = std::min(range.last, size.last);
      if (first <= last) GRAFT_TRY(add_encoded(first, last, rule, single));
    }
  }
  Sequence out = {{Grammar::Kind::rule, rule}};
  if (single != ByteSet{}) {
    Sequence one = {bytes(single)};
    if (!has_alternatives(rule)) {
      out = one;  // the rule is not needed
    } else {
      GRAFT_TRY(add_alternative(rule, std::move(one)));
    }
  }
  known_characters_.emplace(std::move(key), out);
  return out;
}

Result<GrammarBuilder::Sequence> GrammarBuilder::repeated(Sequence item, std::uint32_t least, std::uint32_t most) {
  if (item.size() != 1) {
    GRAFT_TRY_ASSIGN(const std::uint32_t rule, add_rule());
    GRAFT_TRY(add_alternative(rule, std::move(item)));
    item = {{Grammar::Kind::rule, rule}};
  }
  // Counted before anything is made of it.
  GRAFT_TRY(count(least));
  Sequence out(least, item[0]);
  if (most == kNoMost) {
    GRAFT_TRY_ASSIGN(const std::uint32_t rule, add_rule());
    GRAFT_TRY(add_alternative(rule, {item[0], {Grammar::Kind::rule, rule}}));
    GRAFT_TRY(add_alternative(rule, {}));
    out.push_back({Grammar::Kind::rule, rule});
    return out;
  }
  // x (x (x)?)?: the innermost first.
  std::optional<std::uint32_t> inner;
  for (std::uint32_t i = least; i < most; ++i) {
    GRAFT_TRY_ASSIGN(const std::uint32_t rule, add_rule());
    Sequence more = {item[0]};
    if (inner) more.push_back({Grammar::Kind::rule, *inner});
    GRAFT_TRY(add_alternative(rule, std::move(more)));
    GRAFT_TRY(add_alternative(rule, {}));
    inner = rule;
  }
  if (inner) out.push_back({Grammar::Kind::rule, *inner});
  return out;
}

std::optional<std::uint32_t> GrammarBuilder::find_left_recursion() const {
  const std::size_t count = rules_.size();
  const std::vector<char> empty = empty_rules(rules_);
  // With what rules begin. A rule that ends with another leaves no trace of itself: only other references grow a stack.
  Beginnings begins(count);
  for (std::size_t r = 0; r < count; ++r) {
    for (const Sequence& s : rules_[r]) {
      for (std::size_t i = 0; i < s.size() && s[i].kind == Grammar::Kind::rule; ++i) {
        begins[r].emplace_back(s[i].index, i + 1 == s.size());
        if (empty[s[i].index] == 0) break;
      }
    }
  }
  const std::vector<std::uint32_t> component = components_of(begins);
  for (std::uint32_t r = 0; r < count; ++r) {
    for (const auto& [to, last] : begins[r]) {
      if (!last && component[to] == component[r]) return r;
    }
  }
  return std::nullopt;
}

Grammar GrammarBuilder::finish(std::uint32_t root) && {
  Grammar out;
  out.root_ = root;
  for (const auto& rule : rules_) {
    out.rules_.push_back(static_cast<std::uint32_t>(out.alternatives_.size()));
    for (const Sequence& sequence : rule) {
      out.alternatives_.push_back(static_cast<std::uint32_t>(out.symbols_.size()));
      out.symbols_.insert(out.symbols_.end(), sequence.begin(), sequence.end());
      out.symbols_.push_back({Grammar::Kind::end, 0});
    }
  }
  out.rules_.push_back(static_cast<std::uint32_t>(out.alternatives_.size()));
  out.sets_ = std::move(sets_);
  return out;
}

}  // namespace graft::text
