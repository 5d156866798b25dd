#include <algorithm>

#include "runtime/text/template/text_tools.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text::jinja {
namespace {

bool is_digit_class(char32_t c) { return char_class(c) == CharClass::number; }
bool is_letter(char32_t c) { return char_class(c) == CharClass::letter; }

template <typename Test>
Value all_characters(const MarkedText& text, Test test) {
  if (text.empty()) return Value::boolean(false);
  const auto points = code_points(text.bytes);
  return Value::boolean(
      std::all_of(points.begin(), points.end(), [&](const CodePoint& point) { return test(point.value); }));
}

const MarkedText* text_or_null(Run& run, const Value& value, std::string_view what) {
  if (value.is(Kind::string)) return &value.string();
  if (!value.is(Kind::absent) && !value.is(Kind::none)) run.fail(what, " is ", kind_text(value), ", not a text");
  return nullptr;
}

/// A text or several: for startswith and endswith.
template <typename Test>
Value any_of_texts(Run& run, const Value& given, Test test) {
  if (given.is(Kind::string)) return Value::boolean(test(given.string().bytes));
  if (!given.is(Kind::list) || given.list().flavor != Flavor::tuple)
    return run.fail("a text is needed where ", kind_text(given), " stands");
  for (const Value& one : given.list().items) {
    if (!one.is(Kind::string)) return run.fail("a text is needed where ", kind_text(one), " stands");
    if (test(one.string().bytes)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value method_of_case(Run& run, std::string_view name, const MarkedText& text) {
  if (name == "upper") return run.text(upper_case(text));
  if (name == "lower" || name == "casefold") return run.text(lower_case(text));
  if (name == "capitalize") return run.text(capitalized(text));
  MarkedText out;
  bool inside = false;
  for (const CodePoint& point : code_points(text.bytes)) {
    const char32_t c = point.value, lower = to_lower(c), upper = to_upper(c);
    std::string form;
    append_utf8(form, name == "swapcase" ? (lower != c ? lower : upper) : inside ? lower : upper);
    out.add(form, text.marks[point.begin]);
    inside = is_letter(c);
  }
  return run.text(std::move(out));
}

Value split_by_space(Run& run, const MarkedText& text, std::int64_t most, bool from_right) {
  std::vector<Value> out;
  const MarkedText rest = stripped(text, !from_right, true);
  const auto is_full = [&] { return most >= 0 && out.size() >= static_cast<std::size_t>(most); };
  if (from_right) {
    std::size_t end = rest.size();
    while (end > 0 && !is_full() && run.step()) {
      std::size_t begin = end;
      while (begin > 0) {
        std::size_t before = begin - 1;
        while (before > 0 && (rest.bytes[before] & 0xc0) == 0x80) --before;
        if (is_python_space(first_code_point(std::string_view(rest.bytes).substr(before)).value)) break;
        begin = before;
      }
      out.push_back(run.text(rest.part(begin, end - begin)));
      end = size_without_space_after(std::string_view(rest.bytes).substr(0, begin));
    }
    if (end > 0) out.push_back(run.text(rest.part(0, end)));
    std::reverse(out.begin(), out.end());
    return run.list(std::move(out));
  }
  std::size_t at = 0;
  while (at < rest.size() && !is_full() && run.step()) {
    std::size_t end = at;
    while (end < rest.size()) {
      const CodePoint point = first_code_point(std::string_view(rest.bytes).substr(end));
      if (is_python_space(point.value)) break;
      end += point.size;
    }
    out.push_back(run.text(rest.part(at, end - at)));
    at = end + space_before(std::string_view(rest.bytes).substr(end));
  }
  // What is left keeps the white space at its end.
  if (at < rest.size()) out.push_back(run.text(stripped(text, true, false).part(at)));
  return run.list(std::move(out));
}

Value split(Run& run, const MarkedText& text, const Value& separator, std::int64_t most, bool from_right) {
  const MarkedText* by = text_or_null(run, separator, "a separator");
  if (run.failed()) return {};
  if (by == nullptr) return split_by_space(run, text, most, from_right);
  if (by->empty()) return run.fail("a text is split at an empty separator");
  std::vector<Value> out;
  const auto is_full = [&] { return most >= 0 && out.size() >= static_cast<std::size_t>(most); };
  if (from_right) {
    std::size_t end = text.size();
    while (!is_full() && end >= by->size() && run.step()) {
      const std::size_t at = text.bytes.rfind(by->bytes, end - by->size());
      if (at == std::string::npos) break;
      out.push_back(run.text(text.part(at + by->size(), end - at - by->size())));
      end = at;
    }
    out.push_back(run.text(text.part(0, end)));
    std::reverse(out.begin(), out.end());
  } else {
    std::size_t begin = 0;
    while (!is_full() && run.step()) {
      const std::size_t at = text.bytes.find(by->bytes, begin);
      if (at == std::string::npos) break;
      out.push_back(run.text(text.part(begin, at - begin)));
      begin = at + by->size();
    }
    out.push_back(run.text(text.part(begin)));
  }
  return run.list(std::move(out));
}

Value partition(Run& run, const MarkedText& text, const Value& separator, bool from_right) {
  if (!separator.is(Kind::string) || separator.string().empty()) return run.fail("a text is parted at no text");
  const std::string& by = separator.string().bytes;
  const std::size_t at = from_right ? text.bytes.rfind(by) : text.bytes.find(by);
  std::vector<Value> out;
  if (at == std::string::npos) {
    out = {run.text(text), run.text(""), run.text("")};
    if (from_right) std::swap(out[0], out[2]);
  } else {
    out = {run.text(text.part(0, at)), separator, run.text(text.part(at + by.size()))};
  }
  return run.list(std::move(out), Flavor::tuple);
}

Value find_in(Run& run, const MarkedText& text, std::string_view name, const std::vector<Value>& given) {
  const MarkedText* what = text_or_null(run, given[0], "what is searched");
  if (what == nullptr) return run.fail("nothing is searched");
  if (!given[1].is(Kind::absent) || !given[2].is(Kind::absent))
    return run.fail("a search within a part of a text is not known");
  const std::string_view all = text.bytes;
  if (name == "count") {
    std::int64_t count = 0;
    if (what->empty()) return Value::integer(static_cast<std::int64_t>(count_characters(all)) + 1);
    for (std::size_t at = 0; (at = all.find(what->bytes, at)) != std::string_view::npos; at += what->size()) ++count;
    return Value::integer(count);
  }
  const std::size_t at = name[0] == 'r' ? all.rfind(what->bytes) : all.find(what->bytes);
  if (at == std::string_view::npos)
    return name.ends_with("index") ? run.fail("a text does not hold what is searched") : Value::integer(-1);
  return Value::integer(static_cast<std::int64_t>(count_characters(all.substr(0, at))));
}

constexpr std::string_view kTextMethods[] = {
    "strip",    "lstrip",  "rstrip",  "upper",      "lower",      "capitalize",   "title",        "swapcase",
    "casefold", "split",   "rsplit",  "splitlines", "startswith", "endswith",     "replace",      "join",
    "find",     "rfind",   "index",   "rindex",     "count",      "isdigit",      "isnumeric",    "isdecimal",
    "isalpha",  "isalnum", "isspace", "isupper",    "islower",    "removeprefix", "removesuffix", "zfill",
    "ljust",    "rjust",   "center",  "partition",  "rpartition", "format"};
constexpr std::string_view kListMethods[] = {"index", "count", "copy"};
constexpr std::string_view kDictMethods[] = {"items", "keys", "values", "get", "copy"};
constexpr std::string_view kChanging[] = {"append", "extend", "insert", "remove",  "reverse",   "sort",
                                          "pop",    "clear",  "update", "popitem", "setdefault"};

template <std::size_t kCount>
bool is_one_of(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Value pad_method(Run& run, std::string_view name, const MarkedText& text, const Arguments& arguments) {
  const auto given = run.bind(name, "width,fillchar", arguments);
  const MarkedText* fill = text_or_null(run, given[1], "what fills a text");
  if (fill != nullptr && count_characters(fill->bytes) != 1) return run.fail("a text is filled with one character");
  const std::int64_t width = run.integer_of(given[0], "a width");
  if (name == "zfill") {
    const bool has_sign = !text.empty() && (text.bytes[0] == '-' || text.bytes[0] == '+');
    const Value rest = padded(run, text.part(has_sign ? 1 : 0), width - (has_sign ? 1 : 0), true, false, marked("0"));
    return has_sign && !run.failed() ? run.add(run.text(text.part(0, 1)), rest) : rest;
  }
  return padded(run, text, width, name != "ljust", name != "rjust", fill == nullptr ? marked(" ") : *fill);
}

Value text_method(Run& run, const std::string& name, const MarkedText& text, const Arguments& arguments) {
  if (!run.step(1 + text.size() / 32)) return {};
  if (name == "format") return braces_filled(run, text, arguments);
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const auto given = run.bind(name, "chars", arguments);
    const MarkedText* chars = text_or_null(run, given[0], "what is taken away");
    return run.text(stripped(text, name != "rstrip", name != "lstrip", chars == nullptr ? nullptr : &chars->bytes));
  }
  if (name == "split" || name == "rsplit") {
    const auto given = run.bind(name, "sep,maxsplit", arguments);
    const std::int64_t most = given[1].is(Kind::absent) ? -1 : run.integer_of(given[1], "a count");
    return split(run, text, given[0], most, name == "rsplit");
  }
  if (name == "splitlines") {
    const auto given = run.bind(name, "keepends", arguments);
    std::vector<Value> lines;
    for (MarkedText& line : split_lines(text, is_true(given[0]))) lines.push_back(run.text(std::move(line)));
    return run.list(std::move(lines));
  }
  if (name == "startswith" || name == "endswith") {
    const auto given = run.bind(name, "prefix,start,end", arguments);
    if (!given[1].is(Kind::absent)) return run.fail("a comparison within a part of a text is not known");
    return any_of_texts(run, given[0], [&](const std::string& with) {
      return name == "startswith" ? text.bytes.starts_with(with) : text.bytes.ends_with(with);
    });
  }
  if (name == "removeprefix" || name == "removesuffix") {
    const auto given = run.bind(name, "prefix", arguments);
    const MarkedText* with = text_or_null(run, given[0], "what is taken away");
    if (with == nullptr) return run.fail("nothing is taken away");
    if (name == "removeprefix" && text.bytes.starts_with(with->bytes)) return run.text(text.part(with->size()));
    if (name == "removesuffix" && text.bytes.ends_with(with->bytes))
      return run.text(text.part(0, text.size() - with->size()));
    return run.text(text);
  }
  if (name == "replace") {
    const auto given = run.bind(name, "old,new,count", arguments);
    const MarkedText *from = text_or_null(run, given[0], "what is replaced"),
                     *to = text_or_null(run, given[1], "a replacement");
    if (from == nullptr || to == nullptr) return run.fail("replace needs two texts");
    return replaced(run, text, *from, *to, given[2].is(Kind::absent) ? -1 : run.integer_of(given[2], "a count"));
  }
  if (name == "join") {
    const auto given = run.bind(name, "iterable", arguments);
    if (given[0].is(Kind::absent)) return run.fail("join needs what it joins");
    const auto items = run.walk(given[0]);
    for (const Value& item : items) {
      if (!item.is(Kind::string)) return run.fail("join is given ", kind_text(item), ", not a text");
    }
    return joined(run, text, items);
  }
  if (is_one_of({"find", "rfind", "index", "rindex", "count"}, name)) {
    const auto given = run.bind(name, "sub,start,end", arguments);
    return find_in(run, text, name, given);
  }
  if (is_one_of({"zfill", "ljust", "rjust", "center"}, name)) return pad_method(run, name, text, arguments);
  const bool parts = name == "partition" || name == "rpartition";
  const auto given = run.bind(name, parts ? "sep" : "", arguments);
  if (run.failed()) return {};
  if (parts) return partition(run, text, given[0], name[0] == 'r');
  if (name == "isdigit" || name == "isnumeric" || name == "isdecimal") return all_characters(text, is_digit_class);
  if (name == "isalpha") return all_characters(text, is_letter);
  if (name == "isalnum") return all_characters(text, [](char32_t c) { return is_letter(c) || is_digit_class(c); });
  if (name == "isspace") return all_characters(text, is_python_space);
  if (name == "isupper" || name == "islower") {
    const Value self = run.text(text);
    return Value::boolean(run.apply_test(name.substr(2), self, {}));
  }
  return method_of_case(run, name, text);
}

Value list_method(Run& run, const std::string& name, const Value& self, const Arguments& arguments) {
  const std::vector<Value>& items = self.list().items;
  if (name == "copy") return run.list(items);
  const auto given = run.bind(name, "value", arguments);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < items.size() && run.step(); ++i) {
    if (!is_equal(items[i], given[0])) continue;
    if (name == "index") return Value::integer(static_cast<std::int64_t>(i));
    ++count;
  }
  return name == "index" ? run.fail("a list does not hold what is searched") : Value::integer(count);
}

Value dict_method(Run& run, const std::string& name, const Value& self, const Arguments& arguments) {
  if (name == "copy") return self;
  if (name == "get") {
    const auto given = run.bind(name, "key,default", arguments);
    if (!hash_key(given[0])) return run.fail(kind_text(given[0]), " cannot be a key");
    if (const Value* known = self.dict().find(given[0])) return *known;
    return given[1].is(Kind::absent) ? Value::none() : given[1];
  }
  run.bind(name, "", arguments);
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict().items) {
    if (!run.step()) return {};
    if (name == "items") {
      out.push_back(run.list({key, value}, Flavor::tuple));
    } else {
      out.push_back(name == "keys" ? key : value);
    }
  }
  return run.list(std::move(out), name == "items" ? Flavor::items : name == "keys" ? Flavor::keys : Flavor::values);
}

}  // namespace

bool is_method(const Value& of, std::string_view name) {
  switch (of.kind()) {
    case Kind::string: return is_one_of(kTextMethods, name);
    case Kind::list:
      return of.list().flavor <= Flavor::group &&
             (is_one_of(kListMethods, name) || (of.list().flavor == Flavor::list && is_one_of(kChanging, name)));
    case Kind::dict:
      return is_one_of(kDictMethods, name) ||
             (name != "append" && name != "extend" && name != "insert" && name != "remove" && name != "reverse" &&
              name != "sort" && is_one_of(kChanging, name));
    default: return false;
  }
}

Value call_method(Run& run, const MethodObject& method, const Arguments& arguments) {
  const Value& self = method.self;
  if (self.is(Kind::string)) return text_method(run, method.name, self.string(), arguments);
  if (is_one_of(kChanging, method.name))
    return run.fail("\"", method.name, "\" would change ", kind_text(self), ", which templates may not");
  return self.is(Kind::list) ? list_method(run, method.name, self, arguments)
                             : dict_method(run, method.name, self, arguments);
}

}  // namespace graft::text::jinja
