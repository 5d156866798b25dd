#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/text/template/json_value.h"
#include "runtime/text/template/text_tools.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text::jinja {
namespace {

using Given = std::vector<Value>;

Value filter_upper(Run& run, const Value& value, const Given&) { return run.text(upper_case(run.string_of(value))); }
Value filter_lower(Run& run, const Value& value, const Given&) { return run.text(lower_case(run.string_of(value))); }
Value filter_capitalize(Run& run, const Value& value, const Given&) {
  return run.text(capitalized(run.string_of(value)));
}
Value filter_string(Run& run, const Value& value, const Given&) { return run.text(run.string_of(value)); }

Value filter_title(Run& run, const Value& value, const Given&) {
  const MarkedText text = run.string_of(value);
  MarkedText out, word;
  const auto flush = [&] {
    out.add(capitalized(word));
    word = {};
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (text.bytes[end] & 0xc0) == 0x80) ++end;
    const std::string one = text.bytes.substr(at, end - at);
    const bool parts = one == "-" || one == "(" || one == "{" || one == "[" || one == "<" || space_before(one) > 0;
    if (parts) {
      flush();
      out.add(text, at, end - at);
    } else {
      word.add(text, at, end - at);
    }
    at = end;
  }
  flush();
  return run.text(std::move(out));
}

Value filter_trim(Run& run, const Value& value, const Given& given) {
  const MarkedText text = run.string_of(value);
  if (given[0].is(Kind::absent) || given[0].is(Kind::none)) return run.text(stripped(text, true, true));
  const std::string chars = run.string_of(given[0]).bytes;
  return run.text(stripped(text, true, true, &chars));
}

Value filter_replace(Run& run, const Value& value, const Given& given) {
  if (given[0].is(Kind::absent) || given[1].is(Kind::absent)) return run.fail("the filter \"replace\" needs two texts");
  const bool all = given[2].is(Kind::absent) || given[2].is(Kind::none);
  const std::int64_t most = all ? -1 : run.integer_of(given[2], "a count");
  return replaced(run, run.string_of(value), run.string_of(given[0]), run.string_of(given[1]), most);
}

Value filter_indent(Run& run, const Value& value, const Given& given) {
  if (!value.is(Kind::string)) return run.fail("the filter \"indent\" is given ", kind_text(value), ", not a text");
  MarkedText indent = given[0].is(Kind::string) ? given[0].string() : MarkedText();
  if (!given[0].is(Kind::string)) {
    const std::int64_t width = given[0].is(Kind::absent) ? 4 : run.integer_of(given[0], "a width");
    if (width > 1024) return run.fail("a text is indented by more than 1024");
    indent = marked(std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' '));
  }
  MarkedText whole = value.string();
  whole.add("\n");
  const std::vector<MarkedText> lines = split_lines(whole);
  if (!run.room(2 * (whole.size() + lines.size() * (indent.size() + 1)))) return {};
  MarkedText out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.add("\n");
    const bool is_indented = i == 0 ? is_true(given[1]) : is_true(given[2]) || !lines[i].empty();
    if (is_indented) out.add(indent);
    out.add(lines[i]);
  }
  return run.text(std::move(out));
}

Value filter_center(Run& run, const Value& value, const Given& given) {
  const std::int64_t width = given[0].is(Kind::absent) ? 80 : run.integer_of(given[0], "a width");
  return padded(run, run.string_of(value), width, true, true, marked(" "));
}

Value filter_truncate(Run& run, const Value& value, const Given& given) {
  if (!value.is(Kind::string)) return run.fail("the filter \"truncate\" is given ", kind_text(value), ", not a text");
  const MarkedText& text = value.string();
  const std::int64_t length = given[0].is(Kind::absent) ? 255 : run.integer_of(given[0], "a length");
  const MarkedText end = given[2].is(Kind::absent) ? marked("...") : run.string_of(given[2]);
  const std::int64_t leeway =
      given[3].is(Kind::absent) || given[3].is(Kind::none) ? 5 : run.integer_of(given[3], "a leeway");
  const auto tail = static_cast<std::int64_t>(count_characters(end.bytes));
  if (length < tail || leeway < 0) return run.fail("a text is cut to less than what stands for the rest");
  const std::vector<std::size_t> starts = character_starts(text.bytes);
  if (static_cast<std::int64_t>(starts.size()) - 1 - leeway <= length) return value;
  MarkedText out = text.part(0, starts[static_cast<std::size_t>(length - tail)]);
  if (!is_true(given[1])) out = out.part(0, out.bytes.rfind(' '));
  out.add(end);
  return run.text(std::move(out));
}

Value filter_escape(Run& run, const Value& value, const Given&) {
  const MarkedText text = run.string_of(value);
  MarkedText out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes[i];
    const char* form = c == '&'    ? "&amp;"
                       : c == '<'  ? "&lt;"
                       : c == '>'  ? "&gt;"
                       : c == '\'' ? "&#39;"
                       : c == '"'  ? "&#34;"
                                   : nullptr;
    if (form == nullptr) {
      out.add(text, i, 1);
    } else {
      out.add(form, text.marks[i]);
    }
  }
  return run.text(std::move(out));
}

Value filter_wordcount(Run& run, const Value& value, const Given&) {
  const MarkedText text = run.string_of(value);
  std::int64_t count = 0;
  bool inside = false;
  for (const CodePoint& point : code_points(text.bytes)) {
    const CharClass kind = char_class(point.value);
    const bool is_word = kind == CharClass::letter || kind == CharClass::number || point.value == '_';
    count += is_word && !inside ? 1 : 0;
    inside = is_word;
  }
  return Value::integer(count);
}

Value filter_urlencode(Run& run, const Value& value, const Given&) {
  if (value.is(Kind::dict) || value.is(Kind::list))
    return run.fail("the filter \"urlencode\" is known for texts alone");
  const MarkedText text = run.string_of(value);
  MarkedText out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes[i];
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          std::string_view("_.-~/").find(c) != std::string_view::npos;
    char form[8];
    std::snprintf(form, sizeof form, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    is_plain ? out.add(text, i, 1) : out.add(form, text.marks[i]);
  }
  return run.text(std::move(out));
}

/// A number that a text spells, with white space around it and underscores within.
std::optional<double> real_in(std::string text) {
  text = stripped(marked(text), true, true).bytes;
  std::erase(text, '_');
  const char* first = text.data() + (text.starts_with('+') ? 1 : 0);
  double out = 0;
  const auto [stop, failure] = std::from_chars(first, text.data() + text.size(), out);
  if (failure != std::errc() || stop != text.data() + text.size() || text.empty()) return std::nullopt;
  return out;
}

std::optional<std::int64_t> whole_in(std::string text, int base) {
  text = stripped(marked(text), true, true).bytes;
  std::erase(text, '_');
  const bool is_negative = text.starts_with('-');
  std::string_view digits = text;
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (!prefix.empty() && digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == prefix[1])
    digits.remove_prefix(2);
  std::int64_t out = 0;
  const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  if (failure != std::errc() || stop != digits.data() + digits.size() || digits.starts_with('-')) return std::nullopt;
  return is_negative ? -out : out;
}

Value filter_int(Run& run, const Value& value, const Given& given) {
  const Value other = given[0].is(Kind::absent) ? Value::integer(0) : given[0];
  const std::int64_t base = given[1].is(Kind::absent) ? 10 : run.integer_of(given[1], "a base");
  if (base < 2 || base > 36) return run.fail("a base is ", base, "; 2 to 36 are possible");
  if (value.is_integer()) return Value::integer(value.integer());
  if (value.is(Kind::undefined)) return run.fail("\"", shown(value.name()), "\" is undefined");
  std::optional<double> real;
  if (value.is(Kind::real)) real = value.real();
  if (value.is(Kind::string)) {
    if (const auto whole = whole_in(value.string().bytes, static_cast<int>(base))) return Value::integer(*whole);
    real = real_in(value.string().bytes);
  }
  if (!real || std::isnan(*real)) return other;
  if (std::isinf(*real) || std::fabs(*real) > 9e18) return run.fail("a number is too large to be a whole one");
  return Value::integer(static_cast<std::int64_t>(*real));
}

Value filter_float(Run& run, const Value& value, const Given& given) {
  if (value.is_number()) return Value::real(value.real());
  if (value.is(Kind::undefined)) return run.fail("\"", shown(value.name()), "\" is undefined");
  if (value.is(Kind::string)) {
    if (const auto real = real_in(value.string().bytes)) return Value::real(*real);
  }
  return given[0].is(Kind::absent) ? Value::real(0) : given[0];
}

Value filter_abs(Run& run, const Value& value, const Given&) {
  if (!value.is_number()) return run.fail("the filter \"abs\" is given ", kind_text(value));
  if (value.is(Kind::real)) return Value::real(std::fabs(value.real()));
  if (value.integer() == INT64_MIN) return run.fail("a whole number is too large");
  return Value::integer(std::abs(value.integer()));
}

Value filter_round(Run& run, const Value& value, const Given& given) {
  const std::int64_t digits = given[0].is(Kind::absent) ? 0 : run.integer_of(given[0], "a precision");
  const std::string how = given[1].is(Kind::absent) ? "common" : run.string_of(given[1]).bytes;
  if (how != "common" && how != "ceil" && how != "floor")
    return run.fail("numbers are rounded by common, ceil or floor");
  if (!value.is_number()) return run.fail("the filter \"round\" is given ", kind_text(value));
  if (digits < -15 || digits > 15) return run.fail("a precision is ", digits, "; -15 to 15 are possible");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (how != "common") {
    const double scaled = how == "ceil" ? std::ceil(value.real() * scale) : std::floor(value.real() * scale);
    return Value::real(scaled / scale);
  }
  if (value.is_integer()) {
    if (digits >= 0) return Value::integer(value.integer());
    return run.fail("whole numbers are not rounded to tens");
  }
  if (digits < 0) return Value::real(std::nearbyint(value.real() * scale) / scale);
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), value.real());
  return Value::real(real_in(buffer).value_or(value.real()));
}

Value filter_tojson(Run& run, const Value& value, const Given& given) {
  JsonForm form;
  form.ascii = is_true(given[0]);
  if (!given[1].is(Kind::absent) && !given[1].is(Kind::none)) {
    form.one_line = false;
    form.item_separator = marked(",");
    if (given[1].is(Kind::string)) {
      form.indent = given[1].string().bytes;
    } else {
      const std::int64_t width = run.integer_of(given[1], "an indent");
      if (width > 64) return run.fail("JSON is indented by more than 64");
      form.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
  }
  if (!given[2].is(Kind::absent) && !given[2].is(Kind::none)) {
    const auto separators = run.walk(given[2]);
    if (separators.size() != 2) return run.fail("JSON has two separators");
    form.item_separator = run.string_of(separators[0]);
    form.key_separator = run.string_of(separators[1]);
  }
  form.sort_keys = is_true(given[3]);
  if (run.failed() || !run.step(value.weight() / 16)) return {};
  auto out = json_text(value, form, run.limits().memory / 16);
  return out.ok() ? run.text(std::move(*out)) : run.fail(out.status().message());
}

Value filter_safe(Run& run, const Value& value, const Given& given) { return filter_string(run, value, given); }

constexpr FilterRow kTextFilters[] = {
    {"upper", "", filter_upper},
    {"lower", "", filter_lower},
    {"capitalize", "", filter_capitalize},
    {"title", "", filter_title},
    {"string", "", filter_string},
    {"safe", "", filter_safe},
    {"trim", "chars", filter_trim},
    {"replace", "old,new,count", filter_replace},
    {"indent", "width,first,blank", filter_indent},
    {"center", "width", filter_center},
    {"truncate", "length,killwords,end,leeway", filter_truncate},
    {"e", "", filter_escape},
    {"escape", "", filter_escape},
    {"forceescape", "", filter_escape},
    {"wordcount", "", filter_wordcount},
    {"urlencode", "", filter_urlencode},
    {"int", "default,base", filter_int},
    {"float", "default", filter_float},
    {"abs", "", filter_abs},
    {"round", "precision,method", filter_round},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", filter_tojson},
};

}  // namespace

const FilterRow* find_text_filter(std::string_view name) {
  const auto found = std::find_if(std::begin(kTextFilters), std::end(kTextFilters),
                                  [&](const FilterRow& row) { return row.name == name; });
  return found == std::end(kTextFilters) ? nullptr : found;
}

}  // namespace graft::text::jinja
