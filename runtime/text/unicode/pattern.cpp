// Runs a pattern: backtracking with a stack of its own, so that no text or pattern can exhaust the machine's.
#include "runtime/text/unicode/pattern.h"

#include <algorithm>

namespace graft::text {
namespace {

constexpr std::uint64_t kFreeSteps = 1'000'000, kStepsPerCharacter = 1000;
constexpr std::size_t kMostChoices = 1 << 22;  // open at the same time
constexpr std::uint32_t kNoEnd = UINT32_MAX;

}  // namespace

bool CharSet::holds_slowly(char32_t value) const {
  bool in = std::ranges::any_of(ranges, [&](const Range& r) { return value >= r.first && value <= r.last; });
  in = in || (categories >> static_cast<unsigned>(category(value)) & 1) != 0;
  for (const auto& [number, others] : scripts) in = in || (script(value) == number) != others;
  if (space || no_space) in = in || (is_white_space(value) ? space : no_space);
  if (word || no_word) in = in || (is_word(value) ? word : no_word);
  return in != negated;
}

bool CharSet::holds(char32_t value) const {
  return value < 128 ? (ascii[value >> 6] >> (value & 63) & 1) != 0 : holds_slowly(value);
}

void CharSet::index_ascii() {
  ascii[0] = ascii[1] = 0;
  for (char32_t c = 0; c < 128; ++c) {
    if (holds_slowly(c)) ascii[c >> 6] |= std::uint64_t{1} << (c & 63);
  }
}

class PatternSearch {
 public:
  PatternSearch(const Pattern& pattern, std::span<const CodePoint> points)
      : pattern_(pattern),
        points_(points),
        slots_(pattern.slots_, kNoEnd),
        left_(kFreeSteps + kStepsPerCharacter * points.size()) {}

  Status find_all(std::vector<PatternMatch>& out) {
    const auto size = static_cast<std::uint32_t>(points_.size());
    std::uint32_t last_end = kNoEnd;
    for (std::uint32_t at = 0; at <= size;) {
      const std::uint32_t end = run(0, at);
      if (too_long_) {
        return invalid("A pattern of the tokenizer takes too many steps on a text of ", size, " characters.");
      }
      if (end == kNoEnd || (end == at && at == last_end)) {
        ++at;
        continue;
      }
      out.push_back({at, end});
      last_end = end;
      at = end == at ? at + 1 : end;
    }
    return {};
  }

 private:
  using Op = Pattern::Op;
  using Step = Pattern::Step;

  /// Where to go on when a way fails.
  struct Choice {
    enum Kind : std::uint8_t { go, shorter, longer, restore } kind;
    std::uint32_t step;
    std::uint32_t at;
    std::uint32_t bound;  ///< of a run: its fewest characters end here (shorter), or its most (longer); a slot's value
  };

  bool holds(const Step& step, std::uint32_t at) const { return pattern_.sets_[step.set].holds(points_[at].value); }

  bool word_at(std::int64_t at) const {
    return at >= 0 && at < static_cast<std::int64_t>(points_.size()) &&
           is_word(points_[static_cast<std::size_t>(at)].value);
  }

  bool is_place(Pattern::Place place, std::uint32_t at) const {
    const auto size = static_cast<std::uint32_t>(points_.size());
    const auto line_feed = [&](std::uint32_t i) { return points_[i].value == '\n'; };
    switch (place) {
      case Pattern::Place::line_begin: return at == 0 || (line_feed(at - 1) && at < size);
      case Pattern::Place::line_end: return at == size || line_feed(at);
      case Pattern::Place::begin: return at == 0;
      case Pattern::Place::end: return at == size;
      case Pattern::Place::last_line_end: return at == size || (at + 1 == size && line_feed(at));
      default: return (word_at(std::int64_t{at} - 1) != word_at(at)) == (place == Pattern::Place::word_edge);
    }
  }

  bool push(const Choice& choice) {
    if (choices_.size() >= kMostChoices) too_long_ = true;
    choices_.push_back(choice);
    return !too_long_;
  }

  /// Where the program from `step` on ends when it begins at `at`; kNoEnd where it does not match. Calls itself for
  /// groups that look or are atomic, whose nesting the parser bounds.
  std::uint32_t run(std::uint32_t step, std::uint32_t at) {
    const std::size_t floor = choices_.size();
    for (;;) {
      const Advance next = advance(step, at);
      if (next == Advance::done) {
        choices_.resize(floor);
        return at;
      }
      if (too_long_) return kNoEnd;
      if (next == Advance::failed && !retry(floor, step, at)) return kNoEnd;
    }
  }

  enum class Advance : std::uint8_t { went_on, failed, done };

  Advance advance(std::uint32_t& step, std::uint32_t& at) {
    if (left_ == 0) too_long_ = true;
    if (too_long_) return Advance::failed;
    --left_;
    const Step& now = pattern_.steps_[step];
    const auto on_if = [&](bool good) {
      ++step;
      return good ? Advance::went_on : Advance::failed;
    };
    switch (now.op) {
      case Op::one: {
        const bool good = at < points_.size() && holds(now, at);
        if (good) ++at;
        return on_if(good);
      }
      case Op::run: return on_if(take_run(now, step, at));
      case Op::either:
        if (!push({Choice::go, now.other, at, 0})) return Advance::failed;
        step = now.to;
        return Advance::went_on;
      case Op::jump: step = now.to; return Advance::went_on;
      case Op::enter:
        if (!push({Choice::restore, now.set, 0, slots_[now.set]})) return Advance::failed;
        slots_[now.set] = at;
        return on_if(true);
      case Op::progress: return on_if(slots_[now.set] != at);
      case Op::look: {
        const bool room = !now.behind || at > 0;
        const bool found = room && run(step + 1, now.behind ? at - 1 : at) != kNoEnd;
        step = now.to;
        return found != now.inverse ? Advance::went_on : Advance::failed;
      }
      case Op::atomic: {
        const std::uint32_t end = run(step + 1, at);
        step = now.to;
        if (end == kNoEnd) return Advance::failed;
        at = end;
        return Advance::went_on;
      }
      case Op::at: return on_if(is_place(now.place, at));
      case Op::done: return Advance::done;
    }
    return Advance::failed;
  }

  bool take_run(const Step& now, std::uint32_t step, std::uint32_t& at) {
    const std::uint32_t most = static_cast<std::uint32_t>(std::min<std::uint64_t>(points_.size() - at, now.most));
    if (most < now.least) return false;
    const std::uint32_t wanted = now.greed == Pattern::Greed::least ? now.least : most;
    std::uint32_t taken = 0;
    while (taken < wanted && holds(now, at + taken)) ++taken;
    left_ -= std::min<std::uint64_t>(left_, taken);
    if (taken < now.least) return false;
    const std::uint32_t begin = at;
    at += taken;
    if (now.greed == Pattern::Greed::most && taken > now.least) {
      return push({Choice::shorter, step, at, begin + now.least});
    }
    if (now.greed == Pattern::Greed::least && most > taken) return push({Choice::longer, step, at, begin + most});
    return true;
  }

  /// Takes up the last choice above `floor`.
  bool retry(std::size_t floor, std::uint32_t& step, std::uint32_t& at) {
    while (choices_.size() > floor) {
      Choice& choice = choices_.back();
      if (choice.kind == Choice::restore) {
        slots_[choice.step] = choice.bound;
        choices_.pop_back();
        continue;
      }
      if (choice.kind == Choice::go) {
        step = choice.step;
        at = choice.at;
        choices_.pop_back();
        return true;
      }
      step = choice.step + 1;
      if (choice.kind == Choice::shorter) {
        at = --choice.at;
        if (choice.at == choice.bound) choices_.pop_back();
        return true;
      }
      if (!holds(pattern_.steps_[choice.step], choice.at)) {
        choices_.pop_back();
        continue;
      }
      at = ++choice.at;
      if (choice.at == choice.bound) choices_.pop_back();
      return true;
    }
    return false;
  }

  const Pattern& pattern_;
  std::span<const CodePoint> points_;
  std::vector<std::uint32_t> slots_;
  std::vector<Choice> choices_;
  std::uint64_t left_;
  bool too_long_ = false;
};

Status Pattern::find_all(std::span<const CodePoint> points, std::vector<PatternMatch>& out) const {
  return PatternSearch(*this, points).find_all(out);
}

Pattern Pattern::literal(std::string_view text) {
  Pattern out;
  for (const CodePoint& point : code_points(text)) {
    CharSet& set = out.sets_.emplace_back();
    set.ranges.push_back({point.value, point.value});
    set.index_ascii();
    out.steps_.push_back({.op = Op::one, .set = static_cast<std::uint32_t>(out.sets_.size() - 1)});
  }
  out.steps_.push_back({.op = Op::done});
  return out;
}

}  // namespace graft::text
