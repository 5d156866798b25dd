#include "runtime/text/grammar/schema_pattern.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

constexpr int kMostGroups = 50;
constexpr char32_t kLastPoint = 0x10FFFF;

struct PointRange {
  char32_t first;
  char32_t last;
};

std::string class_character(char32_t value) {
  std::array<char, 16> out{};
  std::snprintf(out.data(), out.size(), "\\U%08X", static_cast<unsigned>(value));
  return out.data();
}

/// What of some ranges needs no escape in JSON, as a class; empty for nothing.
std::string plain_class(const std::vector<PointRange>& ranges) {
  constexpr PointRange kPlain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, kLastPoint}};
  std::string out;
  for (const PointRange& range : ranges) {
    for (const PointRange& plain : kPlain) {
      const char32_t first = std::max(range.first, plain.first);
      const char32_t last = std::min(range.last, plain.last);
      if (first <= last) out += class_character(first) + "-" + class_character(last);
    }
  }
  return out.empty() ? out : "[" + out + "]";
}

std::vector<PointRange> other_points(std::vector<PointRange> ranges) {
  std::vector<PointRange> out;
  std::sort(ranges.begin(), ranges.end(), [](const PointRange& a, const PointRange& b) { return a.first < b.first; });
  char32_t next = 0;
  for (const PointRange& range : ranges) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = std::max<char32_t>(next, range.last + 1);
  }
  if (next <= kLastPoint) out.push_back({next, kLastPoint});
  return out;
}

const std::vector<PointRange> kDigitPoints = {{'0', '9'}};
const std::vector<PointRange> kWordPoints = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<PointRange> kSpacePoints = {{' ', ' '}, {'\t', '\r'}, {0xA0, 0xA0}};

class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  Result<std::string> read() {
    // Without anchors a pattern may match anywhere.
    const std::string any = plain_class({{0, kLastPoint}}) + "*";
    std::string before = any;
    std::string after = any;
    if (next_is('^')) {
      ++at_;
      before.clear();
    }
    GRAFT_TRY_ASSIGN(const std::string inner, alternatives(0));
    if (next_is('$')) {
      ++at_;
      after.clear();
    }
    if (at_ < text_.size()) return refused("has \"", text_.substr(at_, 1), "\" where it cannot stand");
    if (alternatives_ > 1 && before.empty() != after.empty()) return refused("has an anchor in one alternative only");
    if (alternatives_ > 1 && before.empty())
      return refused("has anchors beside alternatives: put these in parentheses");
    return before + " (" + inner + ") " + after;
  }

 private:
  template <typename... Parts>
  Status refused(const Parts&... parts) const {
    return unsupported("The pattern \"", text_, "\" ", parts..., ".");
  }
  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }

  Result<std::string> alternatives(int depth) {
    std::string out;
    for (std::size_t count = 1;; ++count) {
      GRAFT_TRY_ASSIGN(const std::string one, sequence(depth));
      out += one.empty() ? "\"\"" : one;
      if (depth == 0) alternatives_ = count;
      if (!next_is('|')) return out;
      ++at_;
      out += " | ";
    }
  }

  Result<std::string> sequence(int depth) {
    std::string out;
    while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')' && text_[at_] != '$') {
      GRAFT_TRY_ASSIGN(std::string item, this->item(depth));
      GRAFT_TRY_ASSIGN(const std::string times, this->times());
      out += (out.empty() ? "" : " ") + item + times;
    }
    return out;
  }

  /// * + ? {m,n}, whose lazy forms match the same texts.
  Result<std::string> times() {
    std::string out;
    if (next_is('*') || next_is('+') || next_is('?')) {
      out = text_[at_++];
    } else if (next_is('{')) {
      const std::size_t end = text_.find('}', at_);
      if (end == std::string_view::npos) return refused("has a \"{\" without its \"}\"");
      out = text_.substr(at_, end + 1 - at_);
      at_ = end + 1;
      const std::string_view inner = std::string_view(out).substr(1, out.size() - 2);
      if (inner.empty() || inner[0] == ',' || inner.find_first_not_of("0123456789,") != std::string_view::npos) {
        return refused("repeats something ", out, " times");
      }
    } else {
      return out;
    }
    if (next_is('?')) ++at_;
    if (next_is('+') || next_is('*') || next_is('{')) return refused("repeats a repetition");
    return out;
  }

  Result<std::string> item(int depth) {
    const char c = text_[at_];
    if (c == '(') return group(depth);
    if (c == '[') return bracket();
    if (c == '.') {
      ++at_;
      return plain_class({{0, kLastPoint}});
    }
    if (c == '^') return refused("has \"^\" within it");
    if (c == '*' || c == '+' || c == '?' || c == '{') return refused("repeats nothing");
    if (c == '\\') {
      std::vector<PointRange> set;
      bool single = false;
      GRAFT_TRY(escape(set, single));
      if (single) return literal(set[0].first);
      const std::string out = plain_class(set);
      return out.empty() ? Result<std::string>(refused("has a class of characters that JSON escapes")) : out;
    }
    GRAFT_TRY_ASSIGN(const char32_t value, character());
    return literal(value);
  }

  /// One character, escaped as JSON has it.
  static Result<std::string> literal(char32_t value) {
    std::string text;
    if (value == '"' || value == '\\') {
      text = std::string("\\") + static_cast<char>(value);
    } else if (value == '\n' || value == '\r' || value == '\t') {
      text = value == '\n' ? "\\n" : value == '\r' ? "\\r" : "\\t";
    } else if (value < 0x20) {
      std::array<char, 8> out{};
      std::snprintf(out.data(), out.size(), "\\u%04X", static_cast<unsigned>(value));
      text = out.data();
    } else {
      append_utf8(text, value);
    }
    return grammar_literal(text);
  }

  Result<std::string> group(int depth) {
    if (depth >= kMostGroups) return refused("has more than ", kMostGroups, " nested parentheses");
    ++at_;
    if (next_is('?')) {
      if (!text_.substr(at_).starts_with("?:")) return refused("looks ahead or behind, or names a group");
      at_ += 2;
    }
    GRAFT_TRY_ASSIGN(const std::string inner, alternatives(depth + 1));
    if (!next_is(')')) return refused("has a \"(\" without its \")\"");
    ++at_;
    return "(" + inner + ")";
  }

  Result<char32_t> character() {
    const CodePoint point = first_code_point(text_.substr(at_));
    if (point.value == kInvalidByte) return refused("is no UTF-8");
    at_ += point.size;
    return point.value;
  }

  /// Behind "\": a character (`single`) or a class of them.
  Status escape(std::vector<PointRange>& out, bool& single) {
    ++at_;
    if (at_ >= text_.size()) return refused("ends with \"\\\"");
    const char c = text_[at_++];
    single = false;
    const auto add = [&](const std::vector<PointRange>& ranges) {
      out.insert(out.end(), ranges.begin(), ranges.end());
    };
    switch (c) {
      case 'd': add(kDigitPoints); return {};
      case 'D': add(other_points(kDigitPoints)); return {};
      case 'w': add(kWordPoints); return {};
      case 'W': add(other_points(kWordPoints)); return {};
      case 's': add(kSpacePoints); return {};
      case 'S': add(other_points(kSpacePoints)); return {};
      default: break;
    }
    single = true;
    char32_t value = static_cast<unsigned char>(c);
    if (c == 'n' || c == 'r' || c == 't' || c == 'f' || c == 'v') {
      value = c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c == 'f' ? '\f' : '\v';
    } else if (c == 'x' || c == 'u') {
      const std::size_t digits = c == 'x' ? 2 : 4;
      const std::string hex(text_.substr(at_, digits));
      if (hex.size() != digits || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
        return refused("has an escape \"\\", std::string_view(&c, 1), "\" without its ", digits, " digits");
      }
      value = static_cast<char32_t>(std::stoul(hex, nullptr, 16));
      if (value >= 0xD800 && value <= 0xDFFF) return refused("has an escape that is half a character");
      at_ += digits;
    } else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0) {
      return refused("has \"\\", std::string_view(&c, (c & 0x80) != 0 ? 0 : 1), "\", which is not read");
    }
    out.push_back({value, value});
    return {};
  }

  Result<std::string> bracket() {
    ++at_;
    const bool negated = next_is('^');
    if (negated) ++at_;
    std::vector<PointRange> ranges;
    while (at_ < text_.size() && text_[at_] != ']') {
      std::vector<PointRange> one;
      bool single = true;
      GRAFT_TRY(class_item(one, single));
      if (single && next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        std::vector<PointRange> end;
        bool single_end = true;
        GRAFT_TRY(class_item(end, single_end));
        if (!single_end || end[0].first < one[0].first) return refused("has a range of characters that is none");
        one[0].last = end[0].first;
      }
      ranges.insert(ranges.end(), one.begin(), one.end());
    }
    if (at_ >= text_.size()) return refused("has a \"[\" without its \"]\"");
    ++at_;
    const std::string out = plain_class(negated ? other_points(std::move(ranges)) : std::move(ranges));
    return out.empty()
               ? Result<std::string>(refused("has a class that holds no character, or only such that JSON escapes"))
               : out;
  }

  Status class_item(std::vector<PointRange>& out, bool& single) {
    if (text_[at_] == '\\') return escape(out, single);
    GRAFT_TRY_ASSIGN(const char32_t value, character());
    out.push_back({value, value});
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t alternatives_ = 1;  // of the whole
};

}  // namespace

std::string grammar_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else {
      out += c;
    }
  }
  return out + '"';
}

Result<std::string> grammar_of_pattern(std::string_view pattern) { return PatternReader(pattern).read(); }

}  // namespace graft::text
