// Reads a regular expression and writes its program.
#include <algorithm>
#include <optional>

#include "runtime/text/unicode/pattern.h"

namespace graft::text {
namespace {

constexpr std::size_t kLongestProgram = 20000;
constexpr std::uint32_t kMostRepeats = 1000;
constexpr int kMostDepth = 50;

constexpr std::string_view kCategoryNames[] = {"Cn", "Cc", "Cf", "Co", "Cs", "Lu", "Ll", "Lt", "Lm", "Lo",
                                               "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
                                               "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"};
constexpr std::uint32_t kAllCategories = (1u << std::size(kCategoryNames)) - 1;

/// Longer names of properties, without case and marks between words.
constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {{"letter", "L"},
                                                                        {"mark", "M"},
                                                                        {"number", "N"},
                                                                        {"punctuation", "P"},
                                                                        {"punct", "P"},
                                                                        {"symbol", "S"},
                                                                        {"separator", "Z"},
                                                                        {"other", "C"},
                                                                        {"uppercaseletter", "Lu"},
                                                                        {"lowercaseletter", "Ll"},
                                                                        {"titlecaseletter", "Lt"},
                                                                        {"modifierletter", "Lm"},
                                                                        {"otherletter", "Lo"},
                                                                        {"nonspacingmark", "Mn"},
                                                                        {"decimalnumber", "Nd"},
                                                                        {"digit", "Nd"},
                                                                        {"cntrl", "Cc"}};

/// The categories of "L", "Lu" or "Letter"; 0 where that is no such name.
std::uint32_t categories_of(std::string_view name) {
  std::uint32_t out = 0;
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  for (std::size_t i = 0; i < std::size(kCategoryNames); ++i) {
    if (name.size() <= 2 && !name.empty() && std::ranges::equal(kCategoryNames[i].substr(0, name.size()), name, same)) {
      out |= 1u << i;
    }
  }
  if (out != 0 || name.size() <= 2) return out;
  std::string plain;
  for (const char c : name) {
    if (c != '_' && c != ' ' && c != '-') plain += static_cast<char>(c | 0x20);
  }
  for (const auto& [full, brief] : kLongNames) {
    if (full == plain) return categories_of(brief);
  }
  return 0;
}

}  // namespace

class PatternParser {
 public:
  explicit PatternParser(std::string_view regex) : text_(regex) {
    for (const CodePoint& point : code_points(regex)) points_.push_back(point.value);
  }

  Result<Pattern> parse() {
    GRAFT_TRY(alternatives(0, false));
    if (at_ != points_.size()) return wrong("a \")\" that nothing opened");
    emit({.op = Op::done});
    return std::move(out_);
  }

 private:
  using Op = Pattern::Op;
  using Step = Pattern::Step;
  using Place = Pattern::Place;
  using Greed = Pattern::Greed;

  Status wrong(std::string_view what) const {
    return corrupt("The tokenizer's pattern \"", valid_utf8(text_.substr(0, 200)), "\" has ", what, ".");
  }
  Status lacks(std::string_view what) const {
    return unsupported("The tokenizer's pattern \"", valid_utf8(text_.substr(0, 200)), "\" has ", what,
                       ", which graft does not support.");
  }

  bool more() const { return at_ < points_.size(); }
  char32_t peek(std::size_t ahead = 0) const { return at_ + ahead < points_.size() ? points_[at_ + ahead] : 0; }
  bool take(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (at_ + i >= points_.size() || points_[at_ + i] != static_cast<unsigned char>(text[i])) return false;
    }
    at_ += text.size();
    return true;
  }

  std::uint32_t here() const { return static_cast<std::uint32_t>(out_.steps_.size()); }
  void emit(const Step& step) { out_.steps_.push_back(step); }

  std::uint32_t add_set(CharSet set, bool fold) {
    if (fold) fold_case(set);
    set.index_ascii();
    out_.sets_.push_back(std::move(set));
    return static_cast<std::uint32_t>(out_.sets_.size() - 1);
  }

  /// The other case of ASCII letters, and the two characters beyond ASCII that fold to one of them.
  static void fold_case(CharSet& set) {
    const std::vector<CharSet::Range> given = set.ranges;
    for (char32_t lower = 'a'; lower <= 'z'; ++lower) {
      const char32_t upper = lower - ('a' - 'A');
      const char32_t third = lower == 's' ? 0x17F : lower == 'k' ? 0x212A : upper;
      const bool in = std::ranges::any_of(given, [&](const CharSet::Range& r) {
        const auto within = [&](char32_t v) { return v >= r.first && v <= r.last; };
        return within(lower) || within(upper) || within(third);
      });
      if (!in) continue;
      for (const char32_t v : {lower, upper, third}) set.ranges.push_back({v, v});
    }
    for (const CharSet::Range& r : given) {
      if (r.first == r.last && r.first >= 128) set.ranges.push_back({to_lower(r.first), to_lower(r.first)});
    }
  }

  /// a|b|c
  Status alternatives(int depth, bool fold) {
    if (depth > kMostDepth) return lacks("groups that are nested too deeply");
    std::vector<std::uint32_t> ends;
    for (;;) {
      const std::uint32_t begin = here();
      GRAFT_TRY(sequence(depth, fold));
      if (!take("|")) break;
      out_.steps_.insert(out_.steps_.begin() + begin, Step{.op = Op::either});
      relocate(begin + 1, begin, 1);
      ends.push_back(here());
      emit({.op = Op::jump});
      out_.steps_[begin].to = begin + 1;
      out_.steps_[begin].other = here();
    }
    for (const std::uint32_t end : ends) out_.steps_[end].to = here();
    return {};
  }

  /// Targets of the steps from `from` on that lie at or behind `place` move by `by`.
  void relocate(std::uint32_t from, std::uint32_t place, std::uint32_t by) {
    for (std::uint32_t i = from; i < here(); ++i) {
      Step& step = out_.steps_[i];
      if (step.op == Op::either || step.op == Op::jump || step.op == Op::look || step.op == Op::atomic) {
        if (step.to >= place) step.to += by;
        if (step.op == Op::either && step.other >= place) step.other += by;
      }
    }
  }

  Status sequence(int depth, bool fold) {
    while (more() && peek() != '|' && peek() != ')') {
      const std::uint32_t begin = here();
      const std::uint32_t slots = out_.slots_;
      if (take("(?i)")) {
        fold = true;
        continue;
      }
      GRAFT_TRY(atom(depth, fold));
      GRAFT_TRY(quantifiers(begin, slots));
      if (out_.steps_.size() > kLongestProgram) return lacks("too many parts or repetitions");
    }
    return {};
  }

  struct Repeat {
    std::uint32_t least;
    std::uint32_t most;  ///< UINT32_MAX for no limit
    Greed greed = Greed::most;
  };

  std::optional<std::uint32_t> number() {
    std::uint32_t out = 0;
    const std::size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9' && at_ - begin < 6; ++at_) out = out * 10 + (peek() - '0');
    return at_ == begin ? std::nullopt : std::optional(out);
  }

  /// The quantifier that stands here; nullopt where none does. A "{" that begins none stands for itself.
  std::optional<Repeat> quantifier() {
    Repeat out{0, UINT32_MAX};
    const std::size_t begin = at_;
    if (take("{")) {
      const auto least = number();
      const bool comma = take(",");
      const auto most = comma ? number() : least;
      if ((!least && !most) || !take("}")) {
        at_ = begin;
        return std::nullopt;
      }
      out.least = least.value_or(0);
      if (most) out.most = *most;
      if (take("?")) out.greed = Greed::least;  // "+" after braces repeats them, and is no greed
      return out;
    }
    if (take("*")) {
    } else if (take("+")) {
      out.least = 1;
    } else if (take("?")) {
      out.most = 1;
    } else {
      return std::nullopt;
    }
    if (take("?")) {
      out.greed = Greed::least;
    } else if (take("+")) {
      out.greed = Greed::possessive;
    }
    return out;
  }

  Status quantifiers(std::uint32_t begin, std::uint32_t slots) {
    while (const auto repeat = quantifier()) {
      if (repeat->most < repeat->least) return wrong("a repetition with its limits the wrong way round");
      if (repeat->least > kMostRepeats || (repeat->most != UINT32_MAX && repeat->most > kMostRepeats)) {
        return lacks("a repetition of more than 1000 times");
      }
      GRAFT_TRY(apply(begin, slots, *repeat));
    }
    return {};
  }

  Status apply(std::uint32_t begin, std::uint32_t slots, const Repeat& repeat) {
    if (here() == begin + 1 && out_.steps_[begin].op == Op::one) {
      Step& step = out_.steps_[begin];
      step = {.op = Op::run, .greed = repeat.greed, .set = step.set, .least = repeat.least, .most = repeat.most};
      return {};
    }
    const std::vector<Step> body(out_.steps_.begin() + begin, out_.steps_.end());
    const std::uint32_t body_slots = out_.slots_ - slots;
    out_.steps_.resize(begin);
    out_.slots_ = slots;
    const std::size_t copies = std::size_t{repeat.least} + (repeat.most == UINT32_MAX ? 1 : repeat.most - repeat.least);
    if (out_.steps_.size() + copies * (body.size() + 4) > kLongestProgram)
      return lacks("too many parts or repetitions");
    const bool possessive = repeat.greed == Greed::possessive;
    if (possessive) emit({.op = Op::atomic});
    const auto copy = [&] {
      const std::uint32_t by = here() - begin;
      const std::uint32_t first = here();
      for (Step step : body) {
        if (step.op == Op::enter || step.op == Op::progress) step.set = step.set - slots + out_.slots_;
        emit(step);
      }
      relocate(first, begin, by);
      out_.slots_ += body_slots;
    };
    for (std::uint32_t i = 0; i < repeat.least; ++i) copy();
    std::vector<std::uint32_t> exits;
    const auto offer = [&] {  // one more, or none
      exits.push_back(here());
      emit({.op = Op::either});
    };
    if (repeat.most == UINT32_MAX) {
      const std::uint32_t loop = here();
      offer();
      const std::uint32_t slot = out_.slots_++;
      emit({.op = Op::enter, .set = slot});
      copy();
      emit({.op = Op::progress, .set = slot});
      emit({.op = Op::jump, .to = loop});
    } else {
      for (std::uint32_t i = repeat.least; i < repeat.most; ++i) {
        offer();
        copy();
      }
    }
    for (const std::uint32_t at : exits) {
      Step& step = out_.steps_[at];
      step.to = at + 1;
      step.other = here();
      if (repeat.greed == Greed::least) std::swap(step.to, step.other);
    }
    if (possessive) {
      emit({.op = Op::done});
      out_.steps_[begin].to = here();
    }
    return {};
  }

  Status atom(int depth, bool fold) {
    if (take("(")) return group(depth, fold);
    if (take("[")) {
      CharSet set;
      GRAFT_TRY(bracket(set, depth));
      emit({.op = Op::one, .set = add_set(std::move(set), fold)});
      return {};
    }
    if (take(".")) {
      CharSet set;
      set.negated = true;
      set.ranges.push_back({'\n', '\n'});
      emit({.op = Op::one, .set = add_set(std::move(set), false)});
      return {};
    }
    if (take("^")) return place(Place::line_begin);
    if (take("$")) return place(Place::line_end);
    if (take("\\A")) return place(Place::begin);
    if (take("\\z")) return place(Place::end);
    if (take("\\Z")) return place(Place::last_line_end);
    if (take("\\b")) return place(Place::word_edge);
    if (take("\\B")) return place(Place::no_word_edge);
    if (peek() == '*' || peek() == '+' || peek() == '?') return wrong("a quantifier with nothing to repeat");
    CharSet set;
    GRAFT_TRY(member(set));
    emit({.op = Op::one, .set = add_set(std::move(set), fold)});
    return {};
  }

  Status place(Place where) {
    emit({.op = Op::at, .place = where});
    return {};
  }

  Status group(int depth, bool fold) {
    Step step{.op = Op::jump};
    bool plain = false;
    if (take("?=")) {
      step = {.op = Op::look};
    } else if (take("?!")) {
      step = {.op = Op::look, .inverse = true};
    } else if (take("?<=")) {
      step = {.op = Op::look, .behind = true};
    } else if (take("?<!")) {
      step = {.op = Op::look, .inverse = true, .behind = true};
    } else if (take("?>")) {
      step = {.op = Op::atomic};
    } else {
      plain = true;
      if (take("?i:")) {
        fold = true;
      } else if (take("?-i:")) {
        fold = false;
      } else if (!take("?:") && peek() == '?') {
        return lacks("a kind of group");
      }
    }
    const std::uint32_t begin = here();
    if (!plain) emit(step);
    GRAFT_TRY(alternatives(depth + 1, fold));
    if (!take(")")) return wrong("a group that is not closed");
    if (plain) return {};
    if (step.behind && !(here() == begin + 2 && out_.steps_[begin + 1].op == Op::one)) {
      return lacks("a lookbehind of more than one character");
    }
    emit({.op = Op::done});
    out_.steps_[begin].to = here();
    return {};
  }

  /// [...], after its opening bracket.
  Status bracket(CharSet& out, int depth) {
    if (depth > kMostDepth) return lacks("classes that are nested too deeply");
    out.negated = take("^");
    for (bool first = true; first || peek() != ']'; first = false) {
      if (!more()) return wrong("a class that is not closed");
      if (peek() == '&' && peek(1) == '&') return lacks("an intersection of classes");
      if (peek() == '[') {
        if (peek(1) != ':') return lacks("a class within a class");
        GRAFT_TRY(posix(out));
        continue;
      }
      const std::size_t ranges = out.ranges.size();
      GRAFT_TRY(member(out));
      const bool single = out.ranges.size() == ranges + 1 && out.ranges.back().first == out.ranges.back().last;
      if (!single || peek() != '-' || peek(1) == ']' || peek(1) == 0) continue;
      ++at_;
      CharSet last;
      GRAFT_TRY(member(last));
      if (last.ranges.size() != 1 || last.ranges[0].first < out.ranges.back().first) return wrong("an empty range");
      out.ranges.back().last = last.ranges[0].first;
    }
    ++at_;
    return {};
  }

  Status posix(CharSet& out) {
    for (const auto& [name, categories] :
         {std::pair{"[:alpha:]", categories_of("L") | categories_of("M")}, std::pair{"[:digit:]", categories_of("Nd")},
          std::pair{"[:punct:]", categories_of("P")}, std::pair{"[:upper:]", categories_of("Lu")},
          std::pair{"[:lower:]", categories_of("Ll")}, std::pair{"[:cntrl:]", categories_of("Cc")}}) {
      if (!take(name)) continue;
      out.categories |= categories;
      return {};
    }
    if (take("[:space:]")) {
      out.space = true;
      return {};
    }
    return lacks("a POSIX class");
  }

  /// A character or an escape, added to `out`.
  Status member(CharSet& out) {
    const char32_t c = points_[at_++];
    if (c != '\\') {
      out.ranges.push_back({c, c});
      return {};
    }
    if (!more()) return wrong("a \"\\\" at its end");
    const char32_t escaped = points_[at_++];
    switch (escaped) {
      case 's': out.space = true; return {};
      case 'S': out.no_space = true; return {};
      case 'w': out.word = true; return {};
      case 'W': out.no_word = true; return {};
      case 'd': out.categories |= categories_of("Nd"); return {};
      case 'D': out.categories |= kAllCategories & ~categories_of("Nd"); return {};
      case 'h':
        for (const auto& [a, b] : {std::pair{'0', '9'}, std::pair{'a', 'f'}, std::pair{'A', 'F'}}) {
          out.ranges.push_back({static_cast<char32_t>(a), static_cast<char32_t>(b)});
        }
        return {};
      case 'p':
      case 'P': return property(out, escaped == 'P');
      case 'x':
      case 'u': return by_number(out, escaped == 'u');
      default: break;
    }
    constexpr std::pair<char32_t, char32_t> kControls[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'},
                                                           {'v', '\v'}, {'a', '\a'}, {'e', 0x1B}, {'0', 0}};
    for (const auto& [letter, value] : kControls) {
      if (escaped == letter) {
        out.ranges.push_back({value, value});
        return {};
      }
    }
    if (escaped < 128 && (char_class(escaped) == CharClass::letter || char_class(escaped) == CharClass::number)) {
      return lacks("an escape");
    }
    out.ranges.push_back({escaped, escaped});
    return {};
  }

  Status property(CharSet& out, bool inverse) {
    std::string name;
    if (take("{")) {
      inverse = take("^") != inverse;
      while (more() && peek() != '}') append_utf8(name, points_[at_++]);
      if (!take("}")) return wrong("a property that is not closed");
    } else if (more()) {
      append_utf8(name, points_[at_++]);
    }
    if (const std::uint32_t categories = categories_of(name); categories != 0) {
      out.categories |= inverse ? kAllCategories & ~categories : categories;
      return {};
    }
    for (const std::string_view prefix : {"Script=", "script=", "sc="}) {
      if (name.starts_with(prefix)) name.erase(0, prefix.size());
    }
    if (const std::uint8_t number = script_number(name); number != 0) {
      out.scripts.emplace_back(number, inverse);
      return {};
    }
    return lacks(cat("the property \"", valid_utf8(name.substr(0, 40)), "\""));
  }

  /// \xHH, \x{H...}, \uHHHH
  Status by_number(CharSet& out, bool four) {
    const bool braces = !four && take("{");
    const std::size_t most = braces ? 8 : four ? 4 : 2;
    char32_t value = 0;
    std::size_t digits = 0;
    for (; digits < most && more(); ++digits, ++at_) {
      const char32_t c = peek() | 0x20;
      if (peek() >= '0' && peek() <= '9') {
        value = value * 16 + (peek() - '0');
      } else if (c >= 'a' && c <= 'f') {
        value = value * 16 + (c - 'a' + 10);
      } else {
        break;
      }
    }
    if (digits == 0 || (braces && !take("}")) || value >= kInvalidByte) return wrong("a number that is no character");
    out.ranges.push_back({value, value});
    return {};
  }

  std::string_view text_;
  std::u32string points_;
  std::size_t at_ = 0;
  Pattern out_;
};

Result<Pattern> Pattern::parse(std::string_view regex) {
  constexpr std::size_t kLongest = 1 << 16;
  if (regex.size() > kLongest) return unsupported("A pattern of ", regex.size(), " bytes is too long for a tokenizer.");
  return PatternParser(regex).parse();
}

}  // namespace graft::text
