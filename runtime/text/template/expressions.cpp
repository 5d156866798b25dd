#include <algorithm>
#include <cmath>

#include "runtime/text/template/run.h"

namespace graft::text::jinja {
namespace {

constexpr int kDeepestExpression = 400;
constexpr std::int64_t kEnd = INT64_MAX;

std::optional<Function> function_named(std::string_view name) {
  constexpr std::pair<std::string_view, Function> kFunctions[] = {{"range", Function::range},
                                                                  {"namespace", Function::make_namespace},
                                                                  {"dict", Function::dict},
                                                                  {"raise_exception", Function::raise_exception},
                                                                  {"strftime_now", Function::strftime_now},
                                                                  {"joiner", Function::joiner},
                                                                  {"cycler", Function::cycler}};
  for (const auto& [known, function] : kFunctions) {
    if (known == name) return function;
  }
  return std::nullopt;
}

}  // namespace

Value Run::eval(const Node& node) {
  line_ = node.line;
  if (!step()) return {};
  if (depth_ > kDeepestExpression) return fail("it is nested more than ", kDeepestExpression, " deep");
  ++depth_;
  Value out;
  switch (node.kind) {
    case NodeKind::none: out = Value::none(); break;
    case NodeKind::boolean: out = Value::boolean(node.integer != 0); break;
    case NodeKind::integer: out = Value::integer(node.integer); break;
    case NodeKind::real: out = Value::real(node.real); break;
    case NodeKind::string: out = text(std::string_view(node.text)); break;
    case NodeKind::name: out = eval_name(node); break;
    case NodeKind::list:
    case NodeKind::tuple: out = eval_items(node); break;
    case NodeKind::dict: out = eval_dict(node); break;
    case NodeKind::attribute: out = attribute(eval(*node.parts[0]), node.text); break;
    case NodeKind::item: out = eval_item(node); break;
    case NodeKind::call: out = eval_call(node); break;
    case NodeKind::filter: out = eval_filter(node); break;
    case NodeKind::test: out = eval_test(node); break;
    case NodeKind::negation: out = Value::boolean(!is_true(eval(*node.parts[0]))); break;
    case NodeKind::conjunction:
      out = eval(*node.parts[0]);
      if (is_true(out)) out = eval(*node.parts[1]);
      break;
    case NodeKind::disjunction:
      out = eval(*node.parts[0]);
      if (!is_true(out)) out = eval(*node.parts[1]);
      break;
    case NodeKind::condition:
      if (is_true(eval(*node.parts[0]))) {
        out = eval(*node.parts[1]);
      } else if (node.parts[2] != nullptr) {
        out = eval(*node.parts[2]);
      } else {
        out = undefined("the other case of an expression with if");
      }
      break;
    case NodeKind::unary: out = eval_unary(node); break;
    case NodeKind::binary: out = eval_binary(node); break;
    case NodeKind::comparison: out = eval_comparison(node); break;
    default: out = fail("a slice stands where none can"); break;
  }
  --depth_;
  if (!failed()) line_ = node.line;
  return out;
}

Value Run::eval_name(const Node& node) {
  for (Scope* at = scope_; at != nullptr; at = at->parent) {
    if (const Value* known = at->find(node.text)) return *known;
  }
  if (const auto function = function_named(node.text)) return Value::function(*function);
  return undefined(node.text);
}

Value Run::eval_items(const Node& node) {
  std::vector<Value> items;
  for (const NodePtr& part : node.parts) {
    items.push_back(part->kind == NodeKind::slice ? fail("a slice of several axes is not known") : eval(*part));
  }
  return list(std::move(items), node.kind == NodeKind::tuple ? Flavor::tuple : Flavor::list);
}

Value Run::eval_dict(const Node& node) {
  DictObject* dict = new_dict();
  const Value out = Value::object(Kind::dict, dict);
  for (std::size_t i = 0; i + 1 < node.parts.size(); i += 2) {
    const Value key = eval(*node.parts[i]);
    const Value value = eval(*node.parts[i + 1]);
    if (failed() || !set_item(*dict, key, value)) break;
  }
  return out;
}

Value Run::eval_item(const Node& node) {
  const Value of = eval(*node.parts[0]);
  if (node.parts[1]->kind == NodeKind::slice) return eval_slice(of, *node.parts[1]);
  return item(of, eval(*node.parts[1]));
}

Value Run::eval_slice(const Value& of, const Node& node) {
  std::int64_t given[3] = {kEnd, kEnd, kEnd};
  for (std::size_t i = 0; i < 3; ++i) {
    if (node.parts[i] == nullptr) continue;
    const Value value = eval(*node.parts[i]);
    if (value.is(Kind::none)) continue;
    if (!value.is_integer()) return fail("a slice's place is ", kind_text(value), ", not a whole number");
    given[i] = value.integer();
  }
  if (failed()) return {};
  if (of.is(Kind::undefined)) return fail("\"", shown(of.name()), "\" is undefined");
  const std::int64_t stride = given[2] == kEnd ? 1 : given[2];
  const bool sliced = of.is(Kind::string) || (of.is(Kind::list) && of.list().flavor <= Flavor::range);
  if (!sliced) return undefined("a slice");
  if (stride == 0) return fail("a slice's step is zero");
  const std::vector<std::size_t> starts =
      of.is(Kind::string) ? character_starts(of.string().bytes) : std::vector<std::size_t>();
  const auto count = static_cast<std::int64_t>(of.is(Kind::string) ? starts.size() - 1 : of.list().items.size());
  const std::int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? count : count - 1;
  const auto place = [&](std::int64_t at, std::int64_t missing) {
    if (at == kEnd) return missing;
    if (at < 0) at = at < -count ? -count - 1 + count : at + count;
    return std::clamp(at, low, high);
  };
  const std::int64_t begin = place(given[0], stride > 0 ? 0 : count - 1);
  const std::int64_t end = place(given[1], stride > 0 ? count : -1);
  std::vector<std::size_t> places;
  const std::int64_t most = stride > 0 ? end - begin : begin - end;
  if (!step(1 + static_cast<std::size_t>(count) / 64)) return {};
  if (of.is(Kind::string) && stride == 1) {
    if (most <= 0) return text("");
    const std::size_t first = starts[static_cast<std::size_t>(begin)];
    return text(of.string().part(first, starts[static_cast<std::size_t>(end)] - first));
  }
  for (std::int64_t taken = 0; taken < most;) {
    places.push_back(static_cast<std::size_t>(stride > 0 ? begin + taken : begin - taken));
    const std::int64_t by = stride > 0 ? stride : stride == INT64_MIN ? kEnd : -stride;
    if (by >= most - taken) break;
    taken += by;
  }
  if (of.is(Kind::list)) {
    std::vector<Value> items;
    for (const std::size_t at : places) items.push_back(of.list().items[at]);
    return list(std::move(items), of.list().flavor == Flavor::group ? Flavor::tuple : of.list().flavor);
  }
  MarkedText out;
  for (const std::size_t at : places) out.add(of.string(), starts[at], starts[at + 1] - starts[at]);
  return text(std::move(out));
}

Arguments Run::eval_arguments(const Node& node) {
  Arguments out;
  for (const Argument& argument : node.arguments) {
    Value value = eval(*argument.value);
    if (failed()) break;
    switch (argument.passing) {
      case Passing::positional: out.positional.push_back(std::move(value)); break;
      case Passing::named: out.named.emplace_back(argument.name, std::move(value)); break;
      case Passing::all_positional:
        for (Value& one : walk(value)) out.positional.push_back(std::move(one));
        break;
      case Passing::all_named:
        if (!value.is(Kind::dict)) {
          fail("arguments by name are ", kind_text(value), ", not a mapping");
          break;
        }
        for (const auto& [key, one] : value.dict().items) {
          if (!key.is(Kind::string)) fail("an argument's name is ", kind_text(key));
          if (!failed()) out.named.emplace_back(key.string().bytes, one);
        }
        break;
    }
  }
  return out;
}

Value Run::eval_call(const Node& node, const Value* caller) {
  const Value what = eval(*node.parts[0]);
  Arguments arguments = eval_arguments(node);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  if (failed()) return {};
  line_ = node.line;
  return call(what, arguments);
}

Value Run::eval_filter(const Node& node, const Value* block) {
  // The first of a block's filters has no operand of its own.
  const Value value = node.parts[0] != nullptr ? (node.parts[0]->kind == NodeKind::filter && block != nullptr
                                                      ? eval_filter(*node.parts[0], block)
                                                      : eval(*node.parts[0]))
                      : block != nullptr       ? *block
                                               : Value();
  const Arguments arguments = eval_arguments(node);
  if (failed()) return {};
  line_ = node.line;
  return apply_filter(node.text, value, arguments);
}

Value Run::eval_test(const Node& node) {
  const Value value = eval(*node.parts[0]);
  const Arguments arguments = eval_arguments(node);
  if (failed()) return {};
  return Value::boolean(apply_test(node.text, value, arguments));
}

Value Run::eval_unary(const Node& node) {
  const Value value = eval(*node.parts[0]);
  if (!value.is_number()) return failed() ? Value() : fail("a sign stands before ", kind_text(value));
  if (value.is(Kind::real)) return Value::real(node.text == "-" ? -value.real() : value.real());
  if (node.text == "-" && value.integer() == INT64_MIN) return fail("a whole number is too large");
  return Value::integer(node.text == "-" ? -value.integer() : value.integer());
}

Value Run::eval_binary(const Node& node) {
  const Value a = eval(*node.parts[0]);
  const Value b = eval(*node.parts[1]);
  if (failed()) return {};
  line_ = node.line;
  if (node.text == "~") {
    MarkedText out = string_of(a);
    out.add(string_of(b));
    return text(std::move(out));
  }
  for (const Value* one : {&a, &b}) {
    if (one->is(Kind::undefined)) return fail("\"", shown(one->name()), "\" is undefined");
  }
  if (node.text == "+") return add(a, b);
  if (node.text == "*") return multiply(a, b);
  if (node.text == "%" && a.is(Kind::string)) return formatted(a.string(), b);
  return arithmetic(node.text, a, b);
}

Value Run::add(const Value& a, const Value& b) {
  if (a.is(Kind::string) && b.is(Kind::string)) {
    if (!room(2 * (a.string().size() + b.string().size()))) return {};
    MarkedText out = a.string();
    out.add(b.string());
    return text(std::move(out));
  }
  const auto flavor = [](const Value& value) {
    const Flavor own = value.list().flavor;
    return own == Flavor::group ? Flavor::tuple : own;
  };
  if (a.is(Kind::list) && b.is(Kind::list) && flavor(a) == flavor(b) && flavor(a) <= Flavor::tuple) {
    std::vector<Value> items = a.list().items;
    items.insert(items.end(), b.list().items.begin(), b.list().items.end());
    return list(std::move(items), flavor(a));
  }
  return arithmetic("+", a, b);
}

Value Run::multiply(const Value& a, const Value& b) {
  if (b.is(Kind::string) || b.is(Kind::list))
    return a.is(Kind::string) || a.is(Kind::list) ? arithmetic("*", a, b) : multiply(b, a);
  if (!a.is(Kind::string) && !(a.is(Kind::list) && a.list().flavor <= Flavor::tuple)) return arithmetic("*", a, b);
  if (!b.is_integer()) return arithmetic("*", a, b);
  const std::size_t one = a.is(Kind::string) ? 2 * a.string().size() : a.list().items.size() * sizeof(Value);
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(b.integer(), 0));
  if (one > 0 && times > limits_.memory / one)
    return fail("it needs more than ", bytes_text(limits_.memory), " of memory");
  if (!room(one * times)) return {};
  if (a.is(Kind::list)) {
    std::vector<Value> items;
    for (std::size_t i = 0; i < times && one > 0; ++i)
      items.insert(items.end(), a.list().items.begin(), a.list().items.end());
    return list(std::move(items), a.list().flavor);
  }
  MarkedText out;
  for (std::size_t i = 0; i < times && one > 0; ++i) out.add(a.string());
  return text(std::move(out));
}

namespace {

/// nullopt: it does not fit.
std::optional<std::int64_t> whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(out, base, &out)) return std::nullopt;
  }
  return out;
}

std::optional<std::int64_t> whole_result(const std::string& how, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (how == "+" && !__builtin_add_overflow(a, b, &out)) return out;
  if (how == "-" && !__builtin_sub_overflow(a, b, &out)) return out;
  if (how == "*" && !__builtin_mul_overflow(a, b, &out)) return out;
  if ((how == "//" || how == "%") && !(a == INT64_MIN && b == -1)) {
    const std::int64_t rest = a % b, below = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
    return how == "//" ? a / b - below : rest + below * b;
  }
  if (how == "**") return whole_power(a, b);
  return std::nullopt;
}

double real_result(const std::string& how, double a, double b) {
  if (how == "+") return a + b;
  if (how == "-") return a - b;
  if (how == "*") return a * b;
  if (how == "/") return a / b;
  if (how == "//") return std::floor(a / b);
  if (how == "**") return std::pow(a, b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace

Value Run::arithmetic(const std::string& how, const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number())
    return fail("'", how, "' has no meaning for ", kind_text(a), " and ", kind_text(b));
  const bool divides = how == "/" || how == "//" || how == "%";
  if (divides && b.real() == 0) return fail("it divides by zero");
  const bool is_whole = a.is_integer() && b.is_integer() && how != "/" && !(how == "**" && b.integer() < 0);
  if (!is_whole) return Value::real(real_result(how, a.real(), b.real()));
  const auto out = whole_result(how, a.integer(), b.integer());
  return out ? Value::integer(*out) : fail("a whole number is too large");
}

int Run::compared(const Value& a, const Value& b) {
  if (!step(1 + std::min(a.weight(), b.weight()) / 64)) return 0;
  const auto out = order(a, b);
  if (out) return *out;
  if (a.is(Kind::undefined) || b.is(Kind::undefined)) {
    fail("\"", shown((a.is(Kind::undefined) ? a : b).name()), "\" is undefined");
  } else {
    fail(kind_text(a), " and ", kind_text(b), " have no order");
  }
  return 0;
}

bool Run::compare(const std::string& how, const Value& a, const Value& b) {
  if (failed() || !step(1 + std::min(a.weight(), b.weight()) / 64)) return false;
  if (how == "==") return is_equal(a, b);
  if (how == "!=") return !is_equal(a, b);
  if (how == "in") return contains(b, a);
  if (how == "not in") return !contains(b, a);
  const int order = compared(a, b);
  if (how == "<") return order < 0;
  if (how == "<=") return order <= 0;
  return how == ">" ? order > 0 : order >= 0;
}

Value Run::eval_comparison(const Node& node) {
  Value left = eval(*node.parts[0]);
  for (std::size_t i = 0; i < node.texts.size(); ++i) {
    Value right = eval(*node.parts[i + 1]);
    line_ = failed() ? line_ : node.line;
    if (!compare(node.texts[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

}  // namespace graft::text::jinja
