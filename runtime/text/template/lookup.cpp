#include <algorithm>
#include <charconv>
#include <ctime>

#include "runtime/text/template/run.h"

namespace graft::text::jinja {
namespace {

constexpr std::int64_t kLongestRange = 100000;  // as Jinja's sandbox has it
constexpr std::string_view kLoopMethods[] = {"cycle", "changed"};

}  // namespace

std::vector<Value> Run::walk(const Value& value) {
  std::vector<Value> out;
  if (failed()) return out;
  switch (value.kind()) {
    case Kind::undefined: return out;
    case Kind::list: {
      const ListObject& list = value.list();
      if (!step(1 + list.items.size() / 8) || !room(list.items.size() * sizeof(Value))) return out;
      out.assign(list.items.begin() + static_cast<std::ptrdiff_t>(list.walked), list.items.end());
      if (list.flavor == Flavor::lazy) list.walked = list.items.size();
      return out;
    }
    case Kind::dict:
      if (!step(1 + value.dict().items.size() / 8)) return out;
      for (const auto& item : value.dict().items) out.push_back(item.first);
      return out;
    case Kind::string: {
      const auto starts = character_starts(value.string().bytes);
      if (!room(starts.size() * (sizeof(Value) + sizeof(StringObject)))) return out;
      for (std::size_t i = 0; i + 1 < starts.size() && step(); ++i) {
        out.push_back(text(value.string().part(starts[i], starts[i + 1] - starts[i])));
      }
      return out;
    }
    default: fail(kind_text(value), " cannot be gone over"); return out;
  }
}

std::int64_t Run::length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return 0;
    case Kind::string:
      step(value.string().size() / 64);
      return static_cast<std::int64_t>(count_characters(value.string().bytes));
    case Kind::dict: return static_cast<std::int64_t>(value.dict().items.size());
    case Kind::list:
      if (value.list().flavor != Flavor::lazy) return static_cast<std::int64_t>(value.list().items.size());
      break;
    case Kind::thing:
      if (const auto* loop = dynamic_cast<Loop*>(value.thing())) return static_cast<std::int64_t>(loop->items.size());
      break;
    default: break;
  }
  fail(kind_text(value), " has no length");
  return 0;
}

std::int64_t Run::integer_of(const Value& value, std::string_view what) {
  if (value.is_integer()) return value.integer();
  if (!failed()) fail(what, " is ", kind_text(value), ", not a whole number");
  return 0;
}

bool Run::contains(const Value& all, const Value& item) {
  if (failed()) return false;
  switch (all.kind()) {
    case Kind::undefined: return false;
    case Kind::string:
      if (!item.is(Kind::string)) {
        fail(kind_text(item), " cannot stand in a text");
        return false;
      }
      return step(all.string().size() / 16) && all.string().bytes.find(item.string().bytes) != std::string::npos;
    case Kind::dict:
      if (hash_key(item)) return all.dict().find(item) != nullptr;
      fail(kind_text(item), " cannot be a key");
      return false;
    case Kind::list: {
      const std::vector<Value>& items = all.list().items;
      if (!step(1 + items.size() / 8 + all.weight() / 64)) return false;
      return std::any_of(items.begin(), items.end(), [&](const Value& one) { return is_equal(one, item); });
    }
    default: fail("nothing can be searched in ", kind_text(all)); return false;
  }
}

Value Run::attribute(const Value& of, const std::string& name) {
  if (failed()) return {};
  if (of.is(Kind::undefined))
    return fail("\"", shown(of.name()), "\" is undefined, so that it has no \"", shown(name), "\"");
  if (is_method(of, name)) return bound(of, name);
  if (of.is(Kind::dict)) {
    if (const Value* known = of.dict().find(name)) return *known;
  } else if (of.is(Kind::thing)) {
    return thing_attribute(of, name);
  } else if (of.is(Kind::list) && of.list().flavor == Flavor::group) {
    if (name == "grouper") return of.list().items[0];
    if (name == "list") return of.list().items[1];
  }
  return undefined(name);
}

Value Run::thing_attribute(const Value& of, const std::string& name) {
  Thing* thing = of.thing();
  if (const auto* space = dynamic_cast<Namespace*>(thing)) {
    for (const auto& [known, value] : space->names) {
      if (known == name) return value;
    }
  } else if (const auto* macro = dynamic_cast<Macro*>(thing)) {
    if (name == "name") return text(macro->node->text);
  } else if (const auto* turns = dynamic_cast<Turns*>(thing)) {
    if (!turns->is_joiner && name == "current") return turns->items[turns->next];
    if (!turns->is_joiner && (name == "next" || name == "reset")) return bound(of, name);
  } else if (const auto* loop = dynamic_cast<Loop*>(thing)) {
    const auto index = static_cast<std::int64_t>(loop->index), count = static_cast<std::int64_t>(loop->items.size());
    if (name == "index") return Value::integer(index + 1);
    if (name == "index0") return Value::integer(index);
    if (name == "revindex") return Value::integer(count - index);
    if (name == "revindex0") return Value::integer(count - index - 1);
    if (name == "first") return Value::boolean(index == 0);
    if (name == "last") return Value::boolean(index + 1 == count);
    if (name == "length") return Value::integer(count);
    if (name == "depth") return Value::integer(loop->depth + 1);
    if (name == "depth0") return Value::integer(loop->depth);
    if (name == "previtem")
      return index > 0 && index <= count ? loop->items[loop->index - 1] : undefined("loop.previtem");
    if (name == "nextitem") return index + 1 < count ? loop->items[loop->index + 1] : undefined("loop.nextitem");
    if (std::find(std::begin(kLoopMethods), std::end(kLoopMethods), name) != std::end(kLoopMethods))
      return bound(of, name);
  }
  return undefined(name);
}

Value Run::item(const Value& of, const Value& key) {
  if (failed()) return {};
  switch (of.kind()) {
    case Kind::undefined: return fail("\"", shown(of.name()), "\" is undefined, so that it has no items");
    case Kind::dict:
      if (const Value* known = of.dict().find(key)) return *known;
      break;
    case Kind::list:
    case Kind::string: {
      if (!key.is_integer() || (of.is(Kind::list) && of.list().flavor > Flavor::range)) break;
      const std::vector<std::size_t> starts =
          of.is(Kind::string) ? character_starts(of.string().bytes) : std::vector<std::size_t>();
      if (!step(starts.size() / 64)) return {};
      const auto count = static_cast<std::int64_t>(of.is(Kind::string) ? starts.size() - 1 : of.list().items.size());
      std::int64_t at = key.integer();
      if (at < -count || at >= count) return undefined("an item behind the end");
      if (at < 0) at += count;
      const auto place = static_cast<std::size_t>(at);
      if (of.is(Kind::list)) return of.list().items[place];
      return text(of.string().part(starts[place], starts[place + 1] - starts[place]));
    }
    default: break;
  }
  if (!key.is(Kind::string)) return undefined("an item");
  if (of.is(Kind::dict))
    return is_method(of, key.string().bytes) ? bound(of, key.string().bytes) : undefined(key.string().bytes);
  return attribute(of, key.string().bytes);
}

Value Run::attribute_path(const Value& of, const Value& path) {
  if (path.is_integer()) return item(of, path);
  const MarkedText names = string_of(path);
  Value at = of;
  for (std::size_t begin = 0; begin <= names.size() && !failed();) {
    const std::size_t end = std::min(names.bytes.find('.', begin), names.size());
    const std::string_view name = std::string_view(names.bytes).substr(begin, end - begin);
    std::int64_t number = 0;
    const auto [stop, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = failure == std::errc() && stop == name.data() + name.size() && name[0] != '-';
    at = item(at, is_number ? Value::integer(number) : text(name));
    begin = end + 1;
  }
  return at;
}

std::vector<Value> Run::bind(std::string_view what, std::string_view parameters, const Arguments& arguments) {
  const std::vector<std::string> names = graft::split_text(parameters, ',');
  std::vector<Value> out(names.size(), Value::absent());
  if (arguments.positional.size() > names.size()) {
    fail(what, " takes ", names.size(), " arguments at most, and gets ", arguments.positional.size());
    return out;
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), out.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end() || !out[static_cast<std::size_t>(found - names.begin())].is(Kind::absent)) {
      fail(what, " has no argument \"", shown(name), "\", or gets it twice");
      break;
    }
    out[static_cast<std::size_t>(found - names.begin())] = value;
  }
  return out;
}

Value Run::call(const Value& what, const Arguments& arguments) {
  if (failed()) return {};
  switch (what.kind()) {
    case Kind::undefined: return fail("\"", shown(what.name()), "\" is undefined, so that it cannot be called");
    case Kind::function: return call_function(static_cast<Function>(what.integer()), arguments);
    case Kind::method:
      return what.method().self.is(Kind::thing) ? call_thing_method(what.method(), arguments)
                                                : call_method(*this, what.method(), arguments);
    case Kind::thing:
      if (const auto* macro = dynamic_cast<Macro*>(what.thing())) {
        if (++depth_ > 400) fail("macros call each other without end");
        Value out = failed() ? Value() : call_macro(*macro, arguments);
        --depth_;
        return out;
      }
      if (const auto* loop = dynamic_cast<Loop*>(what.thing())) return call_loop(*loop, arguments);
      if (auto* turns = dynamic_cast<Turns*>(what.thing()); turns != nullptr && turns->is_joiner) {
        return turns->next++ == 0 ? text("") : turns->items[0];
      }
      [[fallthrough]];
    default: return fail(kind_text(what), " cannot be called");
  }
}

Value Run::call_thing_method(const MethodObject& method, const Arguments& arguments) {
  Thing* thing = method.self.thing();
  if (auto* turns = dynamic_cast<Turns*>(thing)) {
    if (method.name == "reset") {
      turns->next = 0;
      return Value::none();
    }
    Value out = turns->items[turns->next];
    turns->next = (turns->next + 1) % turns->items.size();
    return out;
  }
  auto* loop = dynamic_cast<Loop*>(thing);
  if (loop == nullptr) return fail("a function of nothing is called");
  if (method.name == "cycle") {
    if (arguments.positional.empty()) return fail("loop.cycle needs what it goes through");
    return arguments.positional[loop->index % arguments.positional.size()];
  }
  const Value given = list(arguments.positional, Flavor::tuple);
  if (failed()) return {};
  const bool is_new = loop->last_changed.is(Kind::absent) || !is_equal(loop->last_changed, given);
  loop->last_changed = given;
  return Value::boolean(is_new);
}

Value Run::call_function(Function function, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  switch (function) {
    case Function::range: {
      if (given.empty() || given.size() > 3 || !arguments.named.empty())
        return fail("range takes one to three whole numbers");
      std::int64_t numbers[3] = {0, 0, 1};
      for (std::size_t i = 0; i < given.size(); ++i) numbers[i] = integer_of(given[i], "an argument of range");
      if (given.size() == 1) std::swap(numbers[0], numbers[1]);
      if (numbers[2] == 0) return fail("range has a step of zero");
      std::vector<Value> items;
      for (std::int64_t at = numbers[0]; numbers[2] > 0 ? at < numbers[1] : at > numbers[1];) {
        if (items.size() == static_cast<std::size_t>(kLongestRange))
          return fail("range has more than ", kLongestRange, " numbers");
        if (!step()) return {};
        items.push_back(Value::integer(at));
        if (__builtin_add_overflow(at, numbers[2], &at)) break;
      }
      return list(std::move(items), Flavor::range);
    }
    case Function::make_namespace:
    case Function::dict: {
      DictObject* dict = new_dict();
      const Value out = Value::object(Kind::dict, dict);
      if (given.size() > 1) return fail("a mapping is made of one other at most");
      if (!given.empty()) {
        if (!given[0].is(Kind::dict)) return fail("a mapping cannot be made of ", kind_text(given[0]));
        for (const auto& [key, value] : given[0].dict().items) set_item(*dict, key, value);
      }
      for (const auto& [key, value] : arguments.named) set_item(*dict, text(key), value);
      if (failed() || function == Function::dict) return out;
      auto space = std::make_unique<Namespace>();
      for (const auto& [key, value] : dict->items) space->names.emplace_back(string_of(key).bytes, value);
      return Value::thing(own(std::move(space)));
    }
    case Function::raise_exception: {
      const std::vector<Value> message = bind("raise_exception", "message", arguments);
      std::string said = message[0].is(Kind::absent) ? "" : string_of(message[0]).bytes;
      return fail("it refuses the conversation: ", shown(said));
    }
    case Function::strftime_now: {
      const std::vector<Value> format = bind("strftime_now", "format", arguments);
      if (!format[0].is(Kind::string)) return fail("strftime_now needs a text");
      const std::time_t moment = now();
      std::tm local{};
#ifdef _WIN32
      localtime_s(&local, &moment);
#else
      localtime_r(&moment, &local);
#endif
      if (format[0].string().size() > 256) return fail("the form of strftime_now is longer than 256 bytes");
      char buffer[2048];
      const std::size_t size = std::strftime(buffer, sizeof buffer, format[0].string().bytes.c_str(), &local);
      return text(std::string_view(buffer, size));
    }
    case Function::joiner:
    case Function::cycler: {
      auto turns = std::make_unique<Turns>();
      turns->is_joiner = function == Function::joiner;
      turns->items = given;
      if (turns->is_joiner && given.empty()) turns->items.push_back(text(", "));
      if (turns->items.empty()) return fail("cycler needs what it goes through");
      return Value::thing(own(std::move(turns)));
    }
  }
  return {};
}

Value Run::apply_filter(const std::string& name, const Value& value, const Arguments& arguments) {
  if (failed()) return {};
  if (const OpenFilter open = find_open_filter(name)) return open(*this, value, arguments);
  const FilterRow* row = find_text_filter(name);
  if (row == nullptr) row = find_list_filter(name);
  if (row == nullptr) return fail("the filter \"", shown(name), "\" is not known");
  const std::vector<Value> given = bind(cat("the filter \"", name, "\""), row->parameters, arguments);
  if (failed() || !step(1 + (value.is(Kind::string) ? value.string().size() / 64 : 0))) return {};
  return row->apply(*this, value, given);
}

}  // namespace graft::text::jinja
