#include "platform/base/json.h"

#include <charconv>
#include <cmath>

namespace graft::json {
namespace {

constexpr std::uint32_t kNoDigit = 16;
constexpr std::uint32_t kReplacement = 0xfffd;

std::uint32_t hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint32_t>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<std::uint32_t>(c - 'A') + 10;
  return kNoDigit;
}

void append(std::string& out, std::uint32_t c) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

/// Bytes of the UTF-8 character at the start of `text`; 0 where there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xc2 && lead < 0xe0   ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool outside = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);  // surrogates, too large
  return overlong || outside ? 0 : length;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Value> parse() {
    Value value;
    GRAFT_TRY(read(value, 0));
    skip_space();
    if (at_ != text_.size()) return wrong("something stands behind the value");
    return value;
  }

 private:
  Status wrong(const char* why) const { return corrupt("This is no JSON: at byte ", at_, " ", why, "."); }
  bool ends() const { return at_ == text_.size(); }
  bool take(char c) {
    if (ends() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (!ends() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
  }

  Status read(Value& out, int depth) {
    skip_space();
    if (ends()) return wrong("it ends");
    switch (text_[at_]) {
      case '{': return read_object(out, depth);
      case '[': return read_array(out, depth);
      case '"': return read_string(out.held.emplace<std::string>());
      case 't': out.held = true; return read_word("true");
      case 'f': out.held = false; return read_word("false");
      case 'n': return read_word("null");
      case 'N':
      case 'I': return wrong("stands NaN or Infinity, which JSON does not have");
      default: return read_number(out);
    }
  }

  Status read_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return wrong("stands no value");
    at_ += word.size();
    return ok_status();
  }

  Status read_digits() {
    const std::size_t first = at_;
    while (!ends() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > first ? ok_status() : wrong("stands no value");
  }

  Status read_number(Value& out) {
    const std::size_t first = at_;
    take('-');
    if (!ends() && text_[at_] == 'I') return wrong("stands NaN or Infinity, which JSON does not have");
    const bool zero = !ends() && text_[at_] == '0';
    const std::size_t digits = at_;
    GRAFT_TRY(read_digits());
    if (zero && at_ > digits + 1) return wrong("a number begins with 0");
    if (take('.')) GRAFT_TRY(read_digits());
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      GRAFT_TRY(read_digits());
    }
    double& number = out.held.emplace<double>();
    const auto read = std::from_chars(text_.data() + first, text_.data() + at_, number);
    if (read.ec != std::errc() || !std::isfinite(number)) return wrong("stands a number that no double holds");
    return ok_status();
  }

  Result<std::uint32_t> read_escape_number() {
    std::uint32_t number = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t digit = ends() ? kNoDigit : hex_digit(text_[at_]);
      if (digit == kNoDigit) return wrong("\\u lacks four digits");
      number = number << 4 | digit;
      ++at_;
    }
    return number;
  }

  Status read_escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char c = ends() ? '\0' : text_[at_++];
    if (const auto simple = kNames.find(c); simple != std::string_view::npos) {
      out += kMeanings[simple];
      return ok_status();
    }
    if (c != 'u') return wrong("stands an unknown escape");
    GRAFT_TRY_ASSIGN(std::uint32_t number, read_escape_number());
    if (number >= 0xd800 && number < 0xdc00) {
      if (!take('\\') || !take('u')) return wrong("stands half a surrogate pair");
      GRAFT_TRY_ASSIGN(const std::uint32_t low, read_escape_number());
      if (low < 0xdc00 || low > 0xdfff) return wrong("stands half a surrogate pair");
      number = 0x10000 + ((number - 0xd800) << 10) + (low - 0xdc00);
    } else if (number >= 0xdc00 && number < 0xe000) {
      return wrong("stands half a surrogate pair");
    }
    append(out, number);
    return ok_status();
  }

  Status read_string(std::string& out) {
    ++at_;
    for (;;) {
      if (ends()) return wrong("a string does not end");
      const char c = text_[at_];
      if (c == '"') break;
      if (c == '\\') {
        ++at_;
        GRAFT_TRY(read_escape(out));
        continue;
      }
      if (static_cast<unsigned char>(c) < 0x20) return wrong("a string holds a control character");
      const std::size_t length = utf8_length(text_.substr(at_));
      if (length == 0) return wrong("stands a byte that is no UTF-8");
      out += text_.substr(at_, length);
      at_ += length;
    }
    ++at_;
    return ok_status();
  }

  Status enter(int depth) {
    if (depth == kMaxDepth) return wrong("it nests more than 64 deep");
    ++at_;
    skip_space();
    return ok_status();
  }

  Status read_array(Value& out, int depth) {
    GRAFT_TRY(enter(depth));
    auto& items = out.held.emplace<Value::Items>();
    if (take(']')) return ok_status();
    do {
      GRAFT_TRY(read(items.emplace_back(), depth + 1));
      skip_space();
    } while (take(','));
    return take(']') ? ok_status() : wrong("an array does not end");
  }

  Status read_object(Value& out, int depth) {
    GRAFT_TRY(enter(depth));
    auto& members = out.held.emplace<Value::Members>();
    if (take('}')) return ok_status();
    do {
      skip_space();
      if (ends() || text_[at_] != '"') return wrong("a member has no name");
      // Both are named: clang 14 has no pair() of a type that is not complete where the pair is first named.
      auto& [name, value] = members.emplace_back(std::string(), Value());
      GRAFT_TRY(read_string(name));
      skip_space();
      if (!take(':')) return wrong("a member has no value");
      GRAFT_TRY(read(value, depth + 1));
      skip_space();
    } while (take(','));
    return take('}') ? ok_status() : wrong("an object does not end");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

const Value::Items& Value::items() const {
  static const Items none;
  const Items* const found = std::get_if<Items>(&held);
  return found != nullptr ? *found : none;
}

const Value::Members& Value::members() const {
  static const Members none;
  const Members* const found = std::get_if<Members>(&held);
  return found != nullptr ? *found : none;
}

const Value* Value::find(std::string_view name) const {
  const Members& all = members();
  for (std::size_t i = all.size(); i-- > 0;) {
    if (all[i].first == name) return &all[i].second;
  }
  return nullptr;
}

Result<Value> parse(std::string_view text) { return Parser(text).parse(); }

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    length = utf8_length(text.substr(at));
    if (length == 0) return false;
  }
  return true;
}

std::string quoted(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr std::string_view kNames = "bfnrt", kMeanings = "\b\f\n\r\t";
  std::string out = "\"";
  for (std::size_t at = 0, length = 1; at < text.size(); at += length) {
    const char c = text[at];
    const std::size_t whole = utf8_length(text.substr(at));
    length = whole == 0 ? 1 : whole;
    if (whole == 0) {
      append(out, kReplacement);
    } else if (const auto short_one = kMeanings.find(c); short_one != std::string_view::npos) {
      out += '\\';
      out += kNames[short_one];
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kDigits[c >> 4];
      out += kDigits[c & 15];
    } else {
      out += text.substr(at, length);
    }
  }
  return out + '"';
}

}  // namespace graft::json
