#include "runtime/text/grammar/grammar.h"

#include <map>
#include <optional>

#include "runtime/text/grammar/grammar_builder.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

constexpr std::size_t kMostGrammarBytes = 1u << 20;
constexpr int kMostParentheses = 100;
constexpr std::uint32_t kMostRepeats = 1'000'000;
using Sequence = GrammarBuilder::Sequence;

bool is_rule_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class GrammarParser {
 public:
  explicit GrammarParser(std::string_view text) : text_(text) {}

  Result<Grammar> parse() {
    if (text_.size() > kMostGrammarBytes) {
      return unsupported("The grammar has ", text_.size(), " bytes; at most ", kMostGrammarBytes, " are read.");
    }
    for (skip(true); at_ < text_.size(); skip(true)) GRAFT_TRY(rule());
    for (const auto& [name, rule] : rules_) {
      if (!builder_.has_alternatives(rule)) return error_here("the rule \"", name, "\" is used and never defined");
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return invalid("The grammar has no rule \"root\", with which a text would begin.");
    if (const auto loops = builder_.find_left_recursion()) {
      // The rule may be one that stands for a part of another.
      std::string name = "a part in parentheses";
      for (const auto& [known, rule] : rules_) {
        if (rule == *loops) name = cat("the rule \"", known, "\"");
      }
      return invalid("In the grammar ", name, " begins with itself, so that nothing would be its first character.");
    }
    return std::move(builder_).finish(root->second);
  }

 private:
  template <typename... Parts>
  Status error_here(const Parts&... parts) const {
    std::size_t line = 1;
    for (const char c : text_.substr(0, at_)) line += c == '\n' ? 1 : 0;
    return invalid("Line ", line, " of the grammar: ", parts..., ".");
  }

  bool next_is(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  /// White space and comments; with `lines` their ends too.
  void skip(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
      } else if (c == ' ' || c == '\t' || (lines && (c == '\r' || c == '\n'))) {
        ++at_;
      } else {
        break;
      }
    }
  }

  std::string_view name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_rule_name(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  Result<std::uint32_t> rule_of(std::string_view name) {
    if (const auto known = rules_.find(name); known != rules_.end()) return known->second;
    GRAFT_TRY_ASSIGN(const std::uint32_t made, builder_.add_rule());
    rules_.emplace(std::string(name), made);
    return made;
  }

  Status rule() {
    const std::string_view called = name();
    if (called.empty()) return error_here("a rule begins with its name, of letters, digits and \"-\"");
    skip(false);
    if (!next_is("::=")) return error_here("\"::=\" is missing behind the name \"", called, "\"");
    at_ += 3;
    skip(true);
    GRAFT_TRY_ASSIGN(const std::uint32_t made, rule_of(called));
    if (builder_.has_alternatives(made)) return error_here("the rule \"", called, "\" is defined a second time");
    GRAFT_TRY(alternatives(made, 0));
    if (at_ < text_.size() && text_[at_] != '\r' && text_[at_] != '\n') {
      return error_here("\"", text_.substr(at_, 1), "\" cannot stand here");
    }
    return {};
  }

  Status alternatives(std::uint32_t rule, int depth) {
    for (;;) {
      GRAFT_TRY_ASSIGN(Sequence sequence, this->sequence(depth));
      GRAFT_TRY(builder_.add_alternative(rule, std::move(sequence)));
      if (!next_is("|")) return {};
      ++at_;
      skip(true);
    }
  }

  Result<Sequence> sequence(int depth) {
    Sequence out;
    std::size_t last = 0;  // where the last item begins
    bool has_item = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (!has_item) return error_here("\"", std::string_view(&c, 1), "\" repeats nothing");
        Sequence item(out.begin() + static_cast<std::ptrdiff_t>(last), out.end());
        out.resize(last);
        GRAFT_TRY_ASSIGN(const auto times, repetition());
        GRAFT_TRY_ASSIGN(item, builder_.repeated(std::move(item), times.first, times.second));
        out.insert(out.end(), item.begin(), item.end());
      } else {
        GRAFT_TRY_ASSIGN(const std::optional<Sequence> item, this->item(depth));
        if (!item) break;
        has_item = true;
        last = out.size();
        out.insert(out.end(), item->begin(), item->end());
      }
      skip(depth > 0);
    }
    return out;
  }

  /// Nothing where no item begins here.
  Result<std::optional<Sequence>> item(int depth) {
    const char c = text_[at_];
    if (c == '"') {
      GRAFT_TRY_ASSIGN(const std::string bytes, literal());
      return std::optional(builder_.text(bytes));
    }
    if (c == '[') {
      GRAFT_TRY_ASSIGN(Sequence set, characters());
      return std::optional(std::move(set));
    }
    if (c == '.') {
      ++at_;
      GRAFT_TRY_ASSIGN(Sequence any, builder_.characters({}, true));
      return std::optional(std::move(any));
    }
    if (c == '(') {
      if (depth >= kMostParentheses)
        return unsupported("The grammar has more than ", kMostParentheses, " nested parentheses.");
      ++at_;
      skip(true);
      GRAFT_TRY_ASSIGN(const std::uint32_t group, builder_.add_rule());
      GRAFT_TRY(alternatives(group, depth + 1));
      if (!next_is(")")) return error_here("\")\" is missing");
      ++at_;
      return std::optional(Sequence{{Grammar::Kind::rule, group}});
    }
    if (c == '<' || c == '!') return error_here("tokens by name or number are not read; write their text");
    if (!is_rule_name(c)) return std::optional<Sequence>();
    GRAFT_TRY_ASSIGN(const std::uint32_t rule, rule_of(name()));
    return std::optional(Sequence{{Grammar::Kind::rule, rule}});
  }

  Result<std::uint32_t> number() {
    const std::size_t start = at_;
    std::uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = 10 * value + static_cast<std::uint64_t>(text_[at_] - '0');
      if (value > kMostRepeats) return unsupported("The grammar repeats something more than ", kMostRepeats, " times.");
    }
    if (at_ == start) return error_here("a number is missing");
    return static_cast<std::uint32_t>(value);
  }

  Result<std::pair<std::uint32_t, std::uint32_t>> repetition() {
    const char c = text_[at_++];
    if (c == '*') return std::pair(0u, GrammarBuilder::kNoMost);
    if (c == '+') return std::pair(1u, GrammarBuilder::kNoMost);
    if (c == '?') return std::pair(0u, 1u);
    skip(false);
    std::uint32_t least = 0;
    if (!next_is(",")) {
      GRAFT_TRY_ASSIGN(least, number());
    }
    std::uint32_t most = least;
    skip(false);
    if (next_is(",")) {
      ++at_;
      skip(false);
      most = GrammarBuilder::kNoMost;
      if (!next_is("}")) {
        GRAFT_TRY_ASSIGN(most, number());
      }
      skip(false);
    }
    if (!next_is("}")) return error_here("\"}\" is missing");
    ++at_;
    if (most < least) return error_here("it repeats at least ", least, " and at most ", most, " times");
    return std::pair(least, most);
  }

  /// One character of a literal or class, escapes read.
  Result<std::uint32_t> character() {
    if (text_[at_] == '\\') return escape();
    if (text_[at_] == '\r' || text_[at_] == '\n') return error_here("the line ends within quotes or brackets");
    const CodePoint point = first_code_point(text_.substr(at_));
    if (point.value == kInvalidByte) return error_here("bytes that are no UTF-8");
    at_ += point.size;
    return static_cast<std::uint32_t>(point.value);
  }

  Result<std::uint32_t> escape() {
    ++at_;
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    switch (c) {
      case 'n': return std::uint32_t{'\n'};
      case 'r': return std::uint32_t{'\r'};
      case 't': return std::uint32_t{'\t'};
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<std::uint32_t>(c);
      case 'x': return hexadecimal(2);
      case 'u': return hexadecimal(4);
      case 'U': return hexadecimal(8);
      default: return error_here("an escape that is none of \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\x \\u \\U");
    }
  }

  Result<std::uint32_t> hexadecimal(int digits) {
    std::uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const int digit = at_ < text_.size() ? hex_value(text_[at_]) : -1;
      if (digit < 0) return error_here("an escape needs ", digits, " hexadecimal digits");
      value = 16 * value + static_cast<std::uint64_t>(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return error_here("an escape that is no character");
    return static_cast<std::uint32_t>(value);
  }

  Result<std::string> literal() {
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      GRAFT_TRY_ASSIGN(const std::uint32_t value, character());
      append_utf8(out, value);
    }
    if (at_ == text_.size()) return error_here("a closing quote is missing");
    ++at_;
    return out;
  }

  Result<Sequence> characters() {
    ++at_;
    const bool others = next_is("^");
    if (others) ++at_;
    std::vector<CharRange> ranges;
    while (at_ < text_.size() && text_[at_] != ']') {
      CharRange range;
      GRAFT_TRY_ASSIGN(range.first, character());
      range.last = range.first;
      if (next_is("-") && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        GRAFT_TRY_ASSIGN(range.last, character());
        if (range.last < range.first) return error_here("a range of characters that ends before it begins");
      }
      ranges.push_back(range);
    }
    if (at_ == text_.size()) return error_here("\"]\" is missing");
    ++at_;
    if (ranges.empty() && !others) return error_here("\"[]\" holds no character");
    return builder_.characters(std::move(ranges), others);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  GrammarBuilder builder_;
  std::map<std::string, std::uint32_t, std::less<>> rules_;
};

}  // namespace

Result<Grammar> Grammar::parse(std::string_view text) { return GrammarParser(text).parse(); }

}  // namespace graft::text
