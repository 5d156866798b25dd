#include "runtime/text/template/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/text/template/things.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text::jinja {

const MarkedText& Value::string() const { return static_cast<const StringObject*>(object_.get())->text; }
const ListObject& Value::list() const { return *static_cast<const ListObject*>(object_.get()); }
const DictObject& Value::dict() const { return *static_cast<const DictObject*>(object_.get()); }
const MethodObject& Value::method() const { return *static_cast<const MethodObject*>(object_.get()); }

std::string_view Value::name() const {
  return object_.get() == nullptr ? std::string_view() : std::string_view(string().bytes);
}

ListObject::ListObject(Heap& on, std::vector<Value> given, Flavor how)
    : Object(on, given.capacity() * sizeof(Value)), items(std::move(given)), flavor(how) {
  for (const Value& item : items) {
    depth = std::max(depth, item.depth() + 1);
    weight += item.weight();
  }
}

void DictObject::set(const Value& key, const Value& value) {
  const std::string hash = hash_key(key).value_or("");
  const auto [place, is_new] = index_.emplace(hash, items.size());
  if (is_new) {
    const std::size_t bytes = 4 * sizeof(Value) + hash.size() + 128;  // of a vector that grows, and of the index
    held += bytes;
    heap.held += bytes;
    items.emplace_back(key, value);
  } else {
    items[place->second].second = value;
  }
  depth = std::max({depth, key.depth() + 1, value.depth() + 1});
  weight += key.weight() + value.weight();
}

const Value* DictObject::find(const Value& key) const {
  const auto hash = hash_key(key);
  if (!hash) return nullptr;
  const auto found = index_.find(*hash);
  return found == index_.end() ? nullptr : &items[found->second].second;
}

const Value* DictObject::find(std::string_view key) const {
  const auto found = index_.find("s" + std::string(key));
  return found == index_.end() ? nullptr : &items[found->second].second;
}

std::optional<std::string> hash_key(const Value& value) {
  switch (value.kind()) {
    case Kind::string: return "s" + value.string().bytes;
    case Kind::none: return "-";
    case Kind::undefined: return "u";
    case Kind::boolean:
    case Kind::integer: return "n" + std::to_string(value.integer());
    case Kind::real: {
      const double number = value.real();
      if (number == std::floor(number) && std::fabs(number) < 9e18) {
        return "n" + std::to_string(static_cast<std::int64_t>(number));
      }
      return "n" + number_text(number);
    }
    case Kind::list: {
      const ListObject& list = value.list();
      if (list.flavor != Flavor::tuple && list.flavor != Flavor::group) return std::nullopt;
      std::string out = "t";
      for (const Value& item : list.items) {
        const auto hash = hash_key(item);
        if (!hash) return std::nullopt;
        out += std::to_string(hash->size()) + ":" + *hash;
      }
      return out;
    }
    default: return std::nullopt;
  }
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::absent:
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean:
    case Kind::integer: return value.integer() != 0;
    case Kind::real: return value.real() != 0;
    case Kind::string: return !value.string().empty();
    case Kind::list: return value.list().flavor == Flavor::lazy || !value.list().items.empty();
    case Kind::dict: return !value.dict().items.empty();
    default: return true;
  }
}

namespace {

/// Python's lists equal lists alone, tuples tuples.
int family_of(Flavor flavor) {
  if (flavor == Flavor::group) return static_cast<int>(Flavor::tuple);
  return static_cast<int>(flavor);
}

bool equal_dicts(const DictObject& a, const DictObject& b) {
  if (a.items.size() != b.items.size()) return false;
  return std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
    const Value* other = b.find(item.first);
    return other != nullptr && is_equal(item.second, *other);
  });
}

}  // namespace

bool is_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::string: return a.string().bytes == b.string().bytes;
    case Kind::list: {
      if (a.identity() == b.identity()) return true;
      const ListObject &left = a.list(), &right = b.list();
      if (family_of(left.flavor) != family_of(right.flavor) || left.flavor == Flavor::lazy) return false;
      return std::equal(left.items.begin(), left.items.end(), right.items.begin(), right.items.end(), is_equal);
    }
    case Kind::dict: return equal_dicts(a.dict(), b.dict());
    case Kind::thing: return a.thing() == b.thing();
    case Kind::function: return a.integer() == b.integer();
    case Kind::method: return a.identity() == b.identity();
    default: return true;
  }
}

std::optional<int> order(const Value& a, const Value& b) {
  const auto sign = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return sign(a.integer(), b.integer());
    return sign(a.real(), b.real());
  }
  if (a.is(Kind::string) && b.is(Kind::string)) return sign(a.string().bytes, b.string().bytes);
  if (!a.is(Kind::list) || !b.is(Kind::list)) return std::nullopt;
  const ListObject &left = a.list(), &right = b.list();
  const bool ordered = left.flavor == Flavor::list || family_of(left.flavor) == static_cast<int>(Flavor::tuple);
  if (!ordered || family_of(left.flavor) != family_of(right.flavor)) return std::nullopt;
  for (std::size_t i = 0; i < std::min(left.items.size(), right.items.size()); ++i) {
    if (!is_equal(left.items[i], right.items[i])) return order(left.items[i], right.items[i]);
  }
  return sign(left.items.size(), right.items.size());
}

std::string_view kind_text(const Value& value) {
  switch (value.kind()) {
    case Kind::none: return "none";
    case Kind::boolean: return "a truth value";
    case Kind::integer: return "a whole number";
    case Kind::real: return "a number";
    case Kind::string: return "a text";
    case Kind::list: return value.list().flavor == Flavor::lazy ? "an iterator" : "a list";
    case Kind::dict: return "a mapping";
    case Kind::method:
    case Kind::function: return "a function";
    case Kind::thing: return value.thing()->what();
    default: return "undefined";
  }
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string whole(buffer, end);
  const std::size_t mark = whole.find('e');
  std::string digits = whole.substr(0, mark);
  int exponent = 0;
  const char* first = whole.data() + mark + 1;
  std::from_chars(*first == '+' ? first + 1 : first, whole.data() + whole.size(), exponent);
  const std::string minus = digits[0] == '-' ? "-" : "";
  std::erase_if(digits, [](char c) { return c == '.' || c == '-'; });
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) digits.insert(1, ".");
    const std::string size = std::to_string(std::abs(exponent));
    return minus + digits + (exponent < 0 ? "e-" : "e+") + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0) return minus + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return minus + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  return minus + digits.insert(static_cast<std::size_t>(exponent + 1), ".");
}

namespace {

MarkedText quoted(const MarkedText& text) {
  const bool doubled = text.bytes.find('\'') != std::string::npos && text.bytes.find('"') == std::string::npos;
  const char quote = doubled ? '"' : '\'';
  MarkedText out = marked(std::string(1, quote));
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(std::string_view(text.bytes).substr(at));
    const char32_t c = point.value;
    const char mark = text.marks[at];
    char escape[16];
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out.add("\\", mark);
      out.add(text, at, 1);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.add(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", mark);
    } else if (c != ' ' && (char_class(c) == CharClass::other || char_class(c) == CharClass::separator)) {
      const char* form = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(escape, sizeof escape, form, static_cast<unsigned>(c));
      out.add(escape, mark);
    } else {
      out.add(text, at, point.size);
    }
    at += point.size;
  }
  out.add(std::string_view(&quote, 1));
  return out;
}

std::optional<MarkedText> sequence_text(const std::vector<Value>& items, std::string_view before,
                                        std::string_view after, bool is_tuple) {
  MarkedText out = marked(before);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(", ");
    const auto one = literal_of(items[i]);
    if (!one) return std::nullopt;
    out.add(*one);
  }
  if (is_tuple && items.size() == 1) out.add(",");
  out.add(after);
  return out;
}

std::optional<MarkedText> list_text(const ListObject& list) {
  switch (list.flavor) {
    case Flavor::list: return sequence_text(list.items, "[", "]", false);
    case Flavor::tuple:
    case Flavor::group: return sequence_text(list.items, "(", ")", true);
    case Flavor::keys: return sequence_text(list.items, "dict_keys([", "])", false);
    case Flavor::values: return sequence_text(list.items, "dict_values([", "])", false);
    case Flavor::items: return sequence_text(list.items, "dict_items([", "])", false);
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<MarkedText> literal_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return marked("Undefined");
    case Kind::none: return marked("None");
    case Kind::boolean: return marked(value.integer() != 0 ? "True" : "False");
    case Kind::integer: return marked(std::to_string(value.integer()));
    case Kind::real: return marked(number_text(value.real()));
    case Kind::string: return quoted(value.string());
    case Kind::list: return list_text(value.list());
    case Kind::dict: {
      MarkedText out = marked("{");
      for (const auto& [key, item] : value.dict().items) {
        if (out.size() > 1) out.add(", ");
        const auto left = literal_of(key), right = literal_of(item);
        if (!left || !right) return std::nullopt;
        out.add(*left);
        out.add(": ");
        out.add(*right);
      }
      out.add("}");
      return out;
    }
    default: return std::nullopt;
  }
}

std::optional<MarkedText> text_of(const Value& value) {
  if (value.is(Kind::string)) return value.string();
  if (value.is(Kind::undefined)) return MarkedText();
  return literal_of(value);
}

}  // namespace graft::text::jinja
