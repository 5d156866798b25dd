#include <algorithm>

#include "runtime/text/template/run.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text::jinja {
namespace {

constexpr std::string_view kTests[] = {
    "odd",     "even",   "divisibleby", "defined",  "undefined", "filter", "test",    "none",
    "boolean", "false",  "true",        "integer",  "float",     "lower",  "upper",   "string",
    "mapping", "number", "sequence",    "iterable", "callable",  "sameas", "escaped", "in",
    "==",      "eq",     "equalto",     "!=",       "ne",        ">",      "gt",      "greaterthan",
    "ge",      ">=",     "<",           "lt",       "lessthan",  "<=",     "le"};

/// Whether there are letters, and none of the other case.
bool is_cased(std::string_view text, bool upper) {
  bool found = false;
  for (const CodePoint& point : code_points(text)) {
    const bool is_upper = to_lower(point.value) != point.value, is_lower = to_upper(point.value) != point.value;
    if (upper ? is_lower : is_upper) return false;
    found = found || (upper ? is_upper : is_lower);
  }
  return found;
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::string:
    case Kind::boolean:
    case Kind::integer:
    case Kind::none: return is_equal(a, b);
    case Kind::thing: return a.thing() == b.thing();
    default: return a.identity() != nullptr && a.identity() == b.identity();
  }
}

}  // namespace

bool is_test(std::string_view name) {
  return std::find(std::begin(kTests), std::end(kTests), name) != std::end(kTests);
}

bool Run::apply_test(const std::string& name, const Value& value, const Arguments& arguments) {
  if (failed()) return false;
  if (!is_test(name)) {
    fail("the test \"", shown(name), "\" is not known");
    return false;
  }
  const std::vector<Value>& given = arguments.positional;
  const Kind kind = value.kind();
  const auto is = [&](std::string_view known) { return name == known; };
  const bool takes_one = is("divisibleby") || is("sameas") || is("in") || is("==") || is("eq") || is("equalto") ||
                         is("!=") || is("ne") || is(">") || is("gt") || is("greaterthan") || is("ge") || is(">=") ||
                         is("<") || is("lt") || is("lessthan") || is("<=") || is("le");
  if (given.size() != (takes_one ? 1 : 0) || !arguments.named.empty()) {
    fail("the test \"", name, "\" takes ", takes_one ? "one argument" : "no argument");
    return false;
  }
  if (is("defined")) return kind != Kind::undefined;
  if (is("undefined")) return kind == Kind::undefined;
  if (is("none")) return kind == Kind::none;
  if (is("boolean")) return kind == Kind::boolean;
  if (is("true")) return kind == Kind::boolean && value.integer() != 0;
  if (is("false")) return kind == Kind::boolean && value.integer() == 0;
  if (is("integer")) return kind == Kind::integer;
  if (is("float")) return kind == Kind::real;
  if (is("number")) return value.is_number();
  if (is("string")) return kind == Kind::string;
  if (is("mapping")) return kind == Kind::dict;
  if (is("escaped")) return false;
  if (is("iterable"))
    return kind == Kind::undefined || kind == Kind::string || kind == Kind::list || kind == Kind::dict;
  if (is("sequence")) {
    return kind == Kind::undefined || kind == Kind::string || kind == Kind::dict ||
           (kind == Kind::list && value.list().flavor <= Flavor::range);
  }
  if (is("callable")) {
    return kind == Kind::function || kind == Kind::method || kind == Kind::undefined ||
           (kind == Kind::thing && dynamic_cast<Namespace*>(value.thing()) == nullptr);
  }
  if (is("lower") || is("upper")) return is_cased(string_of(value).bytes, is("upper"));
  if (is("filter")) {
    const std::string filter = string_of(value).bytes;
    return find_open_filter(filter) != nullptr || find_text_filter(filter) != nullptr ||
           find_list_filter(filter) != nullptr;
  }
  if (is("test")) return is_test(string_of(value).bytes);
  if (is("odd") || is("even") || is("divisibleby")) {
    const Value rest = arithmetic("%", value, is("divisibleby") ? given[0] : Value::integer(2));
    return !failed() && is_equal(rest, Value::integer(is("odd") ? 1 : 0));
  }
  if (is("sameas")) return is_same(value, given[0]);
  if (is("in")) return contains(given[0], value);
  if (is("==") || is("eq") || is("equalto")) return compare("==", value, given[0]);
  if (is("!=") || is("ne")) return compare("!=", value, given[0]);
  if (is(">") || is("gt") || is("greaterthan")) return compare(">", value, given[0]);
  if (is(">=") || is("ge")) return compare(">=", value, given[0]);
  if (is("<") || is("lt") || is("lessthan")) return compare("<", value, given[0]);
  return compare("<=", value, given[0]);
}

}  // namespace graft::text::jinja
