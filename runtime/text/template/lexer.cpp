#include "runtime/text/template/lexer.h"

#include <algorithm>
#include <charconv>

#include "runtime/text/template/marked_text.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text::jinja {
namespace {

/// Line ends as "\n", and none at the very end.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_lines(source)) {}

  Result<std::vector<TemplateToken>> run() {
    while (at_ < source_.size()) GRAFT_TRY(root());
    add(TokenType::end, "");
    return std::move(tokens_);
  }

 private:
  Status wrong(std::string_view what) const { return invalid("line ", line_, ": ", what); }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void skip(std::size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
    if (bytes > 0) starts_line_ = source_[at_ - 1] == '\n';
  }
  void add(TokenType type, std::string_view text) { tokens_.push_back({type, std::string(text), 0, 0, line_}); }

  /// Text up to the next tag, and that tag.
  Status root() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        add(TokenType::data, rest());
        skip(source_.size() - at_);
        return {};
      }
      if (source_[tag + 1] == '{' || source_[tag + 1] == '%' || source_[tag + 1] == '#') break;
    }
    const char kind = source_[tag + 1];
    const char sign =
        tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+') ? source_[tag + 2] : ' ';
    add_data(tag, sign, kind != '{');
    skip(tag - at_ + 2 + (sign == ' ' ? 0 : 1));
    if (kind == '#') return comment();
    if (kind == '%' && is_raw()) return raw();
    return code(kind == '%');
  }

  void add_data(std::size_t end, char sign, bool strips_line) {
    std::string_view text = rest().substr(0, end - at_);
    if (sign == '-') {
      text = text.substr(0, size_without_space_after(text));
    } else if (sign != '+' && strips_line) {
      const std::size_t line = text.rfind('\n') + 1;  // 0 where there is none
      if ((line > 0 || starts_line_) && space_before(text.substr(line)) == text.size() - line)
        text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenType::data, text);
  }

  /// Where a tag's end, of two bytes, begins here: its length with the white space that it takes; 0 elsewhere.
  std::size_t end_of_tag(std::string_view end, bool takes_line, bool has_plus) const {
    const std::string_view text = rest();
    if (text.starts_with('-') && text.substr(1).starts_with(end)) return 3 + space_before(text.substr(3));
    if (has_plus && text.starts_with('+') && text.substr(1).starts_with(end)) return 3;
    if (!text.starts_with(end)) return 0;
    return takes_line && text.size() > 2 && text[2] == '\n' ? 3 : 2;
  }

  Status comment() {
    for (; at_ < source_.size(); skip(1)) {
      if (const std::size_t end = end_of_tag("#}", true, true); end > 0) {
        skip(end);
        return {};
      }
    }
    return wrong("a comment does not end");
  }

  bool is_raw() const {
    std::string_view text = rest();
    text.remove_prefix(space_before(text));
    if (!text.starts_with("raw")) return false;
    text.remove_prefix(3);
    text.remove_prefix(space_before(text));
    return text.starts_with("%}") || text.starts_with("-%}");
  }

  Status raw() {
    skip(rest().find("%}") - (rest()[rest().find("%}") - 1] == '-' ? 1 : 0));
    skip(end_of_tag("%}", false, false));
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      std::size_t word = tag + 2;
      const char sign = word < source_.size() && (source_[word] == '-' || source_[word] == '+') ? source_[word++] : ' ';
      word += space_before(std::string_view(source_).substr(word));
      if (!std::string_view(source_).substr(word).starts_with("endraw")) continue;
      word += 6;
      word += space_before(std::string_view(source_).substr(word));
      const std::size_t begin = std::exchange(at_, word);
      const std::size_t end = end_of_tag("%}", true, true);
      at_ = begin;
      if (end == 0) continue;
      add_data(tag, sign, true);
      skip(word + end - at_);
      return {};
    }
    return wrong("a raw block does not end");
  }

  Status code(bool is_block) {
    add(is_block ? TokenType::block_begin : TokenType::variable_begin, "");
    std::string open;
    while (at_ < source_.size()) {
      if (open.empty()) {
        if (const std::size_t end = end_of_tag(is_block ? "%}" : "}}", is_block, is_block); end > 0) {
          add(is_block ? TokenType::block_end : TokenType::variable_end, "");
          skip(end);
          return {};
        }
      }
      if (const std::size_t space = space_before(rest()); space > 0) {
        skip(space);
        continue;
      }
      GRAFT_TRY(token(open));
    }
    return wrong("a tag does not end");
  }

  Status token(std::string& open) {
    const char c = source_[at_];
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return string();
    if (is_name_start(c)) {
      std::size_t end = at_;
      while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
      add(TokenType::name, rest().substr(0, end - at_));
      skip(end - at_);
      return {};
    }
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!rest().starts_with(two)) continue;
      add(TokenType::symbol, two);
      skip(2);
      return {};
    }
    constexpr std::string_view kSymbols = "+-*/%~[](){}><=.:|,;", kOpen = "([{", kClose = ")]}";
    if (kSymbols.find(c) == std::string_view::npos)
      return wrong(cat("'", rest().substr(0, first_code_point(rest()).size), "' is unexpected"));
    if (const std::size_t kind = kOpen.find(c); kind != std::string_view::npos) open += kClose[kind];
    if (kClose.find(c) != std::string_view::npos) {
      if (open.empty() || open.back() != c) return wrong(cat("'", rest().substr(0, 1), "' closes nothing"));
      open.pop_back();
    }
    add(TokenType::symbol, rest().substr(0, 1));
    skip(1);
    return {};
  }

  /// Digits with single underscores between them.
  std::size_t digits(std::size_t from, std::string_view known = "0123456789") const {
    std::size_t end = from;
    const auto is_one = [&](std::size_t i) {
      return i < source_.size() && known.find(source_[i]) != std::string_view::npos;
    };
    while (is_one(end) || (end > from && end < source_.size() && source_[end] == '_' && is_one(end + 1))) ++end;
    return end;
  }

  Status number() {
    int base = 10;
    std::size_t begin = at_, end = digits(at_);
    bool is_real = false;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char kind = static_cast<char>(source_[at_ + 1] | 0x20);
      base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
      if (base != 10) {
        begin = at_ + 2;
        end = digits(
            begin,
            std::string_view("0123456789abcdefABCDEF").substr(0, base == 16 ? 22 : static_cast<std::size_t>(base)));
      }
    }
    const bool may_be_real = base == 10 && (at_ == 0 || source_[at_ - 1] != '.');
    if (may_be_real && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits(end + 1);
      is_real = true;
    }
    if (may_be_real && end < source_.size() && (source_[end] | 0x20) == 'e') {
      std::size_t power = end + 1;
      if (power < source_.size() && (source_[power] == '+' || source_[power] == '-')) ++power;
      if (digits(power) > power) {
        end = digits(power);
        is_real = true;
      }
    }
    std::string text = source_.substr(begin, end - begin);
    std::erase(text, '_');
    TemplateToken token{is_real ? TokenType::real : TokenType::integer, text, 0, 0, line_};
    const char *first = text.data(), *last = text.data() + text.size();
    const auto read =
        is_real ? std::from_chars(first, last, token.real) : std::from_chars(first, last, token.integer, base);
    if (read.ec != std::errc() || read.ptr != last) return wrong("a number is malformed or too large");
    tokens_.push_back(std::move(token));
    skip(end - at_);
    return {};
  }

  Status string() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return wrong("a text does not end");
    GRAFT_TRY_ASSIGN(const std::string text, unescaped(rest().substr(1, end - at_ - 1)));
    add(TokenType::string, text);
    skip(end + 1 - at_);
    return {};
  }

  Result<std::string> unescaped(std::string_view text) const {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      constexpr std::string_view kNames = "\\'\"abfnrtv", kBytes = "\\'\"\a\b\f\n\r\t\v";
      if (const std::size_t known = kNames.find(c); known != std::string_view::npos) {
        out += kBytes[known];
      } else if (c == '\n') {
        continue;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const std::string_view digits = text.substr(i + 1, count);
        std::uint32_t value = 0;
        const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (digits.size() != count || failure != std::errc() || stop != digits.data() + count || value > 0x10ffff)
          return wrong("an escape in a text is malformed");
        append_utf8(out, value >= 0xd800 && value < 0xe000 ? 0xfffd : static_cast<char32_t>(value));
        i += count;
      } else if (c >= '0' && c <= '7') {
        std::uint32_t value = 0;
        std::size_t end = i;
        while (end < text.size() && end < i + 3 && text[end] >= '0' && text[end] <= '7')
          value = value * 8 + static_cast<std::uint32_t>(text[end++] - '0');
        append_utf8(out, static_cast<char32_t>(value));
        i = end - 1;
      } else if (c == 'N') {
        return wrong("characters by name (\\N) are not known");
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
  std::vector<TemplateToken> tokens_;
};

}  // namespace

Result<std::vector<TemplateToken>> template_tokens(std::string_view source) { return Lexer(valid_utf8(source)).run(); }

}  // namespace graft::text::jinja
