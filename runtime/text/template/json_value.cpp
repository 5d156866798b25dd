#include "runtime/text/template/json_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "platform/base/stable_sort.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text::jinja {
namespace {

constexpr int kDeepestJson = 100;

class JsonReader {
 public:
  JsonReader(Heap& heap, std::string_view json, char mark, const KnownRoles* conversation)
      : heap_(heap), json_(json), mark_(mark), conversation_(conversation) {}

  Result<Value> read() {
    GRAFT_TRY_ASSIGN(Value out, value(0));
    space();
    if (at_ != json_.size()) return wrong("something stands behind its end");
    return out;
  }

 private:
  Status wrong(std::string_view what) const { return invalid(what, " at byte ", at_, "."); }
  void space() {
    while (at_ < json_.size() && std::string_view(" \t\r\n").find(json_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(std::string_view token) {
    if (!json_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Result<Value> value(int depth) {
    space();
    if (depth > kDeepestJson) return wrong(cat("values are nested more than ", kDeepestJson, " deep"));
    if (!heap_.has_room(0)) return wrong("the text needs too much memory");
    if (at_ == json_.size()) return wrong("a value is missing");
    if (json_[at_] == '{') return object(depth);
    if (json_[at_] == '[') return array(depth);
    if (json_[at_] == '"') {
      GRAFT_TRY_ASSIGN(std::string text, string());
      return Value::object(Kind::string, new StringObject(heap_, marked(text, mark_)));
    }
    if (take("null")) return Value::none();
    if (take("true")) return Value::boolean(true);
    if (take("false")) return Value::boolean(false);
    return number();
  }

  Result<Value> array(int depth) {
    std::vector<Value> items;
    ++at_;
    space();
    if (!take("]")) {
      do {
        if (conversation_ != nullptr && depth == 0) mark_message();
        GRAFT_TRY_ASSIGN(Value item, value(depth + 1));
        items.push_back(std::move(item));
        space();
      } while (take(","));
      if (!take("]")) return wrong("a list does not end");
    }
    return Value::object(Kind::list, new ListObject(heap_, std::move(items), Flavor::list));
  }

  Result<Value> object(int depth) {
    auto* dict = new DictObject(heap_);
    const Value out = Value::object(Kind::dict, dict);
    ++at_;
    space();
    if (take("}")) return out;
    do {
      space();
      if (at_ == json_.size() || json_[at_] != '"') return wrong("a key is missing");
      GRAFT_TRY_ASSIGN(const std::string key, string());
      space();
      if (!take(":")) return wrong("a key has no value");
      const bool is_role = conversation_ != nullptr && depth == 1 && key == "role";
      const char mark = std::exchange(mark_, is_role ? kFromData : mark_);
      GRAFT_TRY_ASSIGN(Value item, value(depth + 1));
      mark_ = mark;
      if (is_role && item.is(Kind::string) && std::ranges::binary_search(*conversation_, item.string().bytes)) {
        item = Value::object(Kind::string, new StringObject(heap_, marked(item.string().bytes, kFromTemplate)));
      }
      dict->set(Value::object(Kind::string, new StringObject(heap_, marked(key, mark_))), item);
      space();
    } while (take(","));
    if (!take("}")) return wrong("an object does not end");
    return out;
  }

  /// The message that begins here: the assistant's gets a mark of its own. Its role may stand anywhere in it, so it is
  /// read twice.
  void mark_message() {
    mark_ = kFromData;
    const std::size_t begin = at_;
    const KnownRoles* const roles = std::exchange(conversation_, nullptr);
    const auto message = value(1);
    conversation_ = roles;
    at_ = begin;
    if (!message.ok() || !message->is(Kind::dict)) return;
    const Value* role = message->dict().find("role");
    if (role == nullptr || !role->is(Kind::string) || role->string().bytes != "assistant") return;
    mark_ = static_cast<char>(static_cast<unsigned char>(kFirstReply + replies_++ % kReplyMarks));
  }

  Result<Value> number() {
    const std::size_t end = std::min(json_.find_first_not_of("+-.0123456789eE", at_), json_.size());
    const std::string_view text = json_.substr(at_, end - at_);
    if (text.empty() || (text[0] != '-' && (text[0] < '0' || text[0] > '9'))) return wrong("no value begins there");
    std::int64_t whole = 0;
    if (const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), whole);
        failure == std::errc() && stop == text.data() + text.size()) {
      at_ = end;
      return Value::integer(whole);
    }
    double real = 0;
    const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), real);
    if (failure != std::errc() || stop != text.data() + text.size()) return wrong("a number is malformed");
    at_ = end;
    return Value::real(real);
  }

  Result<char32_t> unit() {
    unsigned out = 0;
    const std::string_view digits = json_.substr(std::min(at_, json_.size()), 4);
    const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
    if (digits.size() != 4 || failure != std::errc() || stop != digits.data() + 4) return wrong("\\u needs 4 digits");
    at_ += 4;
    return static_cast<char32_t>(out);
  }

  Status escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kBytes = "\"\\/\b\f\n\r\t";
    const char c = at_ < json_.size() ? json_[at_++] : '\0';
    if (const std::size_t known = kNames.find(c); c != '\0' && known != std::string_view::npos) {
      out += kBytes[known];
      return {};
    }
    if (c != 'u') return wrong("an escape is unknown");
    GRAFT_TRY_ASSIGN(char32_t value, unit());
    if (value >= 0xd800 && value < 0xdc00 && json_.substr(at_).starts_with("\\u")) {
      const std::size_t begin = at_;
      at_ += 2;
      GRAFT_TRY_ASSIGN(const char32_t low, unit());
      if (low >= 0xdc00 && low < 0xe000) {
        value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
      } else {
        at_ = begin;
      }
    }
    append_utf8(out, value >= 0xd800 && value < 0xe000 ? 0xfffd : value);
    return {};
  }

  Result<std::string> string() {
    ++at_;
    std::string out;
    while (true) {
      if (at_ == json_.size()) return wrong("a text does not end");
      const char c = json_[at_++];
      if (c == '"') return valid_utf8(out);
      if (c != '\\') {
        out += c;
        continue;
      }
      GRAFT_TRY(escape(out));
    }
  }

  Heap& heap_;
  std::string_view json_;
  char mark_;
  const KnownRoles* conversation_;  ///< null: this is none
  int replies_ = 0;
  std::size_t at_ = 0;
};

class JsonWriter {
 public:
  JsonWriter(const JsonForm& form, std::size_t limit) : form_(form), limit_(limit) {}

  Status write(const Value& value, int depth) {
    if (out.size() > limit_) return invalid("a text of JSON would be larger than ", bytes_text(limit_));
    switch (value.kind()) {
      case Kind::none: out.add("null"); return {};
      case Kind::boolean: out.add(value.integer() != 0 ? "true" : "false"); return {};
      case Kind::integer: out.add(std::to_string(value.integer())); return {};
      case Kind::real: out.add(real_text(value.real())); return {};
      case Kind::string: out.add(json_string(value.string(), form_.ascii)); return {};
      case Kind::dict: return write_dict(value.dict(), depth);
      case Kind::list:
        if (value.list().flavor <= Flavor::group) return write_list(value.list().items, depth);
        [[fallthrough]];
      default: return invalid("JSON has no form for ", kind_text(value));
    }
  }

  MarkedText out;

 private:
  static std::string real_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return number_text(value);
  }
  void line(int depth) {
    if (form_.one_line) return;
    out.add("\n");
    for (int i = 0; i < depth; ++i) out.add(form_.indent);
  }

  Status write_list(const std::vector<Value>& items, int depth) {
    out.add("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.add(form_.item_separator);
      line(depth + 1);
      GRAFT_TRY(write(items[i], depth + 1));
    }
    if (!items.empty()) line(depth);
    out.add("]");
    return {};
  }

  static Result<MarkedText> key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::string: return key.string();
      case Kind::none: return marked("null");
      case Kind::boolean: return marked(key.integer() != 0 ? "true" : "false");
      case Kind::integer: return marked(std::to_string(key.integer()));
      case Kind::real: return marked(real_text(key.real()));
      default: return invalid("JSON has no key for ", kind_text(key));
    }
  }

  Status write_dict(const DictObject& dict, int depth) {
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (form_.sort_keys) {
      for (const auto* item : items) {
        if (!order(item->first, items[0]->first)) return invalid("the keys of a mapping have no order");
      }
      graft::stable_sort(items.begin(), items.end(),
                         [](const auto* a, const auto* b) { return order(a->first, b->first).value_or(0) < 0; });
    }
    out.add("{");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.add(form_.item_separator);
      line(depth + 1);
      GRAFT_TRY_ASSIGN(const MarkedText key, key_text(items[i]->first));
      out.add(json_string(key, form_.ascii));
      out.add(form_.key_separator);
      GRAFT_TRY(write(items[i]->second, depth + 1));
    }
    if (!items.empty()) line(depth);
    out.add("}");
    return {};
  }

  const JsonForm& form_;
  std::size_t limit_;
};

}  // namespace

Result<Value> value_of_json(Heap& heap, std::string_view json, char mark, const KnownRoles* conversation) {
  return JsonReader(heap, json, mark, conversation).read();
}

MarkedText json_string(const MarkedText& text, bool ascii) {
  MarkedText out = marked("\"");
  char escape[16];
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(std::string_view(text.bytes).substr(at));
    const char32_t c = point.value;
    const char mark = text.marks[at];
    constexpr std::string_view kBytes = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt";
    const std::size_t known = c < 0x80 ? kBytes.find(static_cast<char>(c)) : std::string_view::npos;
    if (known != std::string_view::npos && c != 0) {
      out.add("\\", mark);
      out.add(kNames.substr(known, 1), mark);
    } else if (c < 0x20 || (ascii && c >= 0x7f && c < 0x10000 && c != 0x7f)) {
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out.add(escape, mark);
    } else if (ascii && c >= 0x10000) {
      std::snprintf(escape, sizeof escape, "\\u%04x\\u%04x", static_cast<unsigned>(0xd800 + ((c - 0x10000) >> 10)),
                    static_cast<unsigned>(0xdc00 + ((c - 0x10000) & 0x3ff)));
      out.add(escape, mark);
    } else {
      out.add(text, at, point.size);
    }
    at += point.size;
  }
  out.add("\"");
  return out;
}

Result<MarkedText> json_text(const Value& value, const JsonForm& form, std::size_t limit) {
  JsonWriter writer(form, limit);
  GRAFT_TRY(writer.write(value, 0));
  return std::move(writer.out);
}

}  // namespace graft::text::jinja
