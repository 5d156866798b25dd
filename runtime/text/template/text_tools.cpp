#include "runtime/text/template/text_tools.h"

#include <algorithm>
#include <charconv>

#include "runtime/text/unicode/unicode.h"

namespace graft::text::jinja {

MarkedText stripped(const MarkedText& text, bool left, bool right, const std::string* chars) {
  const std::size_t end = right ? size_without_space_after(text.bytes, chars) : text.size();
  const std::size_t begin = left ? space_before(std::string_view(text.bytes).substr(0, end), chars) : 0;
  return text.part(begin, end - begin);
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  std::vector<MarkedText> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(std::string_view(text.bytes).substr(at));
    const char32_t c = point.value;
    std::size_t end = at + point.size;
    const bool is_end = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (is_end) {
      if (c == '\r' && end < text.size() && text.bytes[end] == '\n') ++end;
      out.push_back(text.part(begin, (keep_ends ? end : at) - begin));
      begin = end;
    }
    at = end;
  }
  if (begin < text.size()) out.push_back(text.part(begin));
  return out;
}

Value replaced(Run& run, const MarkedText& text, const MarkedText& from, const MarkedText& to, std::int64_t most) {
  if (!run.step(1 + text.size() / 16)) return {};
  std::vector<std::size_t> places;
  const auto is_full = [&] { return most >= 0 && places.size() >= static_cast<std::size_t>(most); };
  if (from.empty()) {
    for (const std::size_t at : character_starts(text.bytes)) {
      if (!is_full()) places.push_back(at);
    }
  } else {
    for (std::size_t at = 0; !is_full() && (at = text.bytes.find(from.bytes, at)) != std::string::npos;
         at += from.size()) {
      places.push_back(at);
    }
  }
  if (to.size() > 0 && places.size() > run.limits().memory / to.size()) return run.fail("a text becomes too large");
  if (!run.room(2 * (text.size() + places.size() * to.size()))) return {};
  MarkedText out;
  std::size_t begin = 0;
  for (const std::size_t place : places) {
    out.add(text, begin, place - begin);
    out.add(to);
    begin = place + from.size();
  }
  out.add(text, begin, text.size() - begin);
  return run.text(std::move(out));
}

Value joined(Run& run, const MarkedText& between, const std::vector<Value>& items) {
  MarkedText out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(between);
    out.add(run.string_of(items[i]));
    if (!run.step() || !run.room(2 * out.size())) return {};
  }
  return run.text(std::move(out));
}

Value padded(Run& run, const MarkedText& text, std::int64_t width, bool left, bool right, const MarkedText& fill) {
  const auto count = static_cast<std::int64_t>(count_characters(text.bytes));
  const std::int64_t missing = std::max<std::int64_t>(width - count, 0);
  if (static_cast<std::uint64_t>(missing) > run.limits().memory || !run.room(8 * static_cast<std::size_t>(missing))) {
    return run.fail("a text becomes too large");
  }
  // Python puts the odd space of an even width before the text, that of an odd width behind it.
  const std::int64_t before = left && right ? missing / 2 + (missing & width & 1) : left ? missing : 0;
  MarkedText out;
  for (std::int64_t i = 0; i < before; ++i) out.add(fill);
  out.add(text);
  for (std::int64_t i = before; i < missing; ++i) out.add(fill);
  return run.text(std::move(out));
}

Value Run::formatted(const MarkedText& pattern, const Value& values) {
  const bool is_tuple =
      values.is(Kind::list) && (values.list().flavor == Flavor::tuple || values.list().flavor == Flavor::group);
  const std::vector<Value> given = is_tuple ? values.list().items : std::vector<Value>{values};
  std::size_t used = 0;
  MarkedText out;
  for (std::size_t at = 0; at < pattern.size() && step(); ++at) {
    if (pattern.bytes[at] != '%') {
      out.add(pattern, at, 1);
      continue;
    }
    std::size_t end = at + 1;
    while (end < pattern.size() &&
           std::string_view("-+ 0#.123456789").find(pattern.bytes[end]) != std::string_view::npos)
      ++end;
    if (end >= pattern.size()) return fail("a form of text ends within a place");
    const char kind = pattern.bytes[end];
    const std::string form = pattern.bytes.substr(at, end - at);
    at = end;
    if (kind == '%') {
      out.add("%");
      continue;
    }
    if (used == given.size()) return fail("a form of text has more places than values");
    const Value& value = given[used++];
    char buffer[512];
    if (form.size() > 6) return fail("a place in a form of text is too wide");
    if (kind == 's' || kind == 'r') {
      auto said = kind == 's' ? string_of(value) : literal_of(value).value_or(MarkedText());
      if (form != "%") return fail("a place in a form of text has a width, which is not known for texts");
      out.add(said);
    } else if ((kind == 'd' || kind == 'i' || kind == 'x' || kind == 'X') && value.is_number()) {
      if (value.is(Kind::real) && (kind == 'x' || kind == 'X' || !(value.real() > -9e18 && value.real() < 9e18)))
        return fail("a number does not fit its place");
      const long long whole = value.is(Kind::real) ? static_cast<long long>(value.real()) : value.integer();
      if ((kind == 'x' || kind == 'X') && whole < 0) return fail("a number below zero has no such form");
      const std::string full = form + "ll" + (kind == 'i' ? 'd' : kind);
      const int size = std::snprintf(buffer, sizeof buffer, full.c_str(), whole);
      if (size < 0 || static_cast<std::size_t>(size) >= sizeof buffer)
        return fail("a place in a form of text is too wide");
      out.add(buffer);
    } else if ((kind == 'f' || kind == 'F' || kind == 'e' || kind == 'g') && value.is_number()) {
      const int size = std::snprintf(buffer, sizeof buffer, (form + kind).c_str(), value.real());
      if (size < 0 || static_cast<std::size_t>(size) >= sizeof buffer)
        return fail("a place in a form of text is too wide");
      out.add(buffer);
    } else {
      return fail("'%", pattern.bytes.substr(end, 1), "' has no form for ", kind_text(value));
    }
    if (!room(2 * out.size())) return {};
  }
  if (is_tuple && used < given.size()) return fail("a form of text has fewer places than values");
  if (!is_tuple && used == 0 && !values.is(Kind::dict) && !values.is(Kind::list))
    return fail("a form of text has fewer places than values");
  return text(std::move(out));
}

Value braces_filled(Run& run, const MarkedText& pattern, const Arguments& arguments) {
  MarkedText out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < pattern.size() && run.step(); ++at) {
    const char c = pattern.bytes[at];
    if (c != '{' && c != '}') {
      out.add(pattern, at, 1);
      continue;
    }
    if (at + 1 < pattern.size() && pattern.bytes[at + 1] == c) {
      out.add(pattern, at++, 1);
      continue;
    }
    const std::size_t end = pattern.bytes.find('}', at);
    if (c == '}' || end == std::string::npos) return run.fail("a form of text has a brace without another");
    const std::string name = pattern.bytes.substr(at + 1, end - at - 1);
    at = end;
    if (name.find_first_of(":!.[{") != std::string::npos)
      return run.fail("the place \"", shown(name), "\" in a form of text is not known");
    std::size_t number = 0;
    const auto [stop, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = failure == std::errc() && stop == name.data() + name.size();
    const Value* value = arguments.find(name);
    if (name.empty()) number = next++;
    if (name.empty() || is_number)
      value = number < arguments.positional.size() ? &arguments.positional[number] : nullptr;
    if (value == nullptr) return run.fail("a form of text has no value for \"", shown(name), "\"");
    out.add(run.string_of(*value));
    if (!run.room(2 * out.size())) return {};
  }
  return run.text(std::move(out));
}

}  // namespace graft::text::jinja
