#include <algorithm>
#include <set>

#include "platform/base/stable_sort.h"
#include "runtime/text/template/text_tools.h"

namespace graft::text::jinja {
namespace {

using Given = std::vector<Value>;

bool is_left_out(const Value& value) { return value.is(Kind::absent) || value.is(Kind::none); }

Value filter_length(Run& run, const Value& value, const Given&) { return Value::integer(run.length_of(value)); }

Value filter_default(Run& run, const Value& value, const Given& given) {
  if (!value.is(Kind::undefined) && !(is_true(given[1]) && !is_true(value))) return value;
  return given[0].is(Kind::absent) ? run.text("") : given[0];
}

Value filter_first(Run& run, const Value& value, const Given&) {
  if (value.is(Kind::list) && value.list().flavor == Flavor::lazy) {
    const ListObject& list = value.list();
    return list.walked < list.items.size() ? list.items[list.walked++] : run.undefined("the first of nothing");
  }
  const auto items = run.walk(value);
  return items.empty() ? run.undefined("the first of nothing") : items.front();
}

Value filter_last(Run& run, const Value& value, const Given&) {
  if (value.is(Kind::list) && value.list().flavor == Flavor::lazy) return run.fail("an iterator has no last item");
  const auto items = run.walk(value);
  return items.empty() ? run.undefined("the last of nothing") : items.back();
}

Value filter_list(Run& run, const Value& value, const Given&) { return run.list(run.walk(value)); }

Value filter_reverse(Run& run, const Value& value, const Given&) {
  auto items = run.walk(value);
  std::reverse(items.begin(), items.end());
  if (value.is(Kind::string)) return joined(run, {}, items);
  const bool was_lazy = value.is(Kind::list) && value.list().flavor == Flavor::lazy;
  return run.list(std::move(items), was_lazy ? Flavor::list : Flavor::lazy);
}

Value filter_items(Run& run, const Value& value, const Given&) {
  if (value.is(Kind::undefined)) return run.list({}, Flavor::lazy);
  if (!value.is(Kind::dict)) return run.fail(kind_text(value), " has no pairs of keys and values");
  std::vector<Value> out;
  for (const auto& [key, item] : value.dict().items) out.push_back(run.list({key, item}, Flavor::tuple));
  return run.list(std::move(out), Flavor::lazy);
}

Value filter_attr(Run& run, const Value& value, const Given& given) {
  const std::string name = run.string_of(given[0]).bytes;
  if (value.is(Kind::dict) && !is_method(value, name)) return run.undefined(name);
  return run.attribute(value, name);
}

Value filter_join(Run& run, const Value& value, const Given& given) {
  auto items = run.walk(value);
  if (!is_left_out(given[1])) {
    for (Value& item : items) item = run.attribute_path(item, given[1]);
  }
  return joined(run, given[0].is(Kind::absent) ? MarkedText() : run.string_of(given[0]), items);
}

/// Texts in lower case, unless case counts: what values are sorted and told apart by.
Value key_of(Run& run, const Value& value, bool case_counts) {
  return value.is(Kind::string) && !case_counts ? run.text(lower_case(value.string())) : value;
}

/// Places of `keys` in their order.
std::vector<std::size_t> sorted_places(Run& run, const std::vector<Value>& keys, bool reverse) {
  std::vector<std::size_t> places(keys.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  // Whatever has no order with the first fails; an order that holds for some pairs alone would not sort.
  const auto check = [&](const auto& self, const Value& a, const Value& b) -> bool {
    run.compared(a, b);
    if (!a.is(Kind::list) || !b.is(Kind::list)) return !run.failed();
    for (std::size_t i = 0; i < std::min(a.list().items.size(), b.list().items.size()) && !run.failed(); ++i) {
      if (is_equal(a.list().items[i], b.list().items[i])) continue;
      self(self, a.list().items[i], b.list().items[i]);
    }
    return !run.failed();
  };
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (!check(check, keys[0], keys[i])) return {};
  }
  if (!run.step(keys.size() * 4)) return {};
  graft::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    const int how = order(keys[a], keys[b]).value_or(0);
    return reverse ? how > 0 : how < 0;
  });
  return places;
}

Value filter_sort(Run& run, const Value& value, const Given& given) {
  const auto items = run.walk(value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    if (is_left_out(given[2])) {
      keys.push_back(key_of(run, item, is_true(given[1])));
      continue;
    }
    std::vector<Value> parts;
    const std::vector<std::string> paths =
        given[2].is(Kind::string) ? graft::split_text(given[2].string().bytes, ',') : std::vector<std::string>{};
    if (paths.empty()) parts.push_back(key_of(run, run.attribute_path(item, given[2]), is_true(given[1])));
    for (const std::string& path : paths) {
      parts.push_back(key_of(run, run.attribute_path(item, run.text(path)), is_true(given[1])));
    }
    keys.push_back(run.list(std::move(parts), Flavor::list));
  }
  if (run.failed()) return {};
  std::vector<Value> out;
  for (const std::size_t place : sorted_places(run, keys, is_true(given[0]))) out.push_back(items[place]);
  return run.list(std::move(out));
}

Value filter_dictsort(Run& run, const Value& value, const Given& given) {
  if (!value.is(Kind::dict)) return run.fail("the filter \"dictsort\" is given ", kind_text(value));
  const std::string by = given[1].is(Kind::absent) ? "key" : run.string_of(given[1]).bytes;
  if (by != "key" && by != "value") return run.fail("a mapping is sorted by key or value");
  std::vector<Value> keys, out;
  for (const auto& [key, item] : value.dict().items)
    keys.push_back(key_of(run, by == "key" ? key : item, is_true(given[0])));
  if (run.failed()) return {};
  for (const std::size_t place : sorted_places(run, keys, is_true(given[2]))) {
    const auto& [key, item] = value.dict().items[place];
    out.push_back(run.list({key, item}, Flavor::tuple));
  }
  return run.list(std::move(out));
}

Value filter_unique(Run& run, const Value& value, const Given& given) {
  std::set<std::string> seen;
  std::vector<Value> out;
  for (const Value& item : run.walk(value)) {
    const Value key = key_of(run, is_left_out(given[1]) ? item : run.attribute_path(item, given[1]), is_true(given[0]));
    const auto hash = hash_key(key);
    if (!hash) return run.fail(kind_text(key), " cannot be told apart from others");
    if (run.failed()) return {};
    if (seen.insert(*hash).second) out.push_back(item);
  }
  return run.list(std::move(out), Flavor::lazy);
}

Value extreme(Run& run, const Value& value, const Given& given, int sign) {
  Value best, best_key;
  bool is_first = true;
  for (const Value& item : run.walk(value)) {
    const Value key = key_of(run, is_left_out(given[1]) ? item : run.attribute_path(item, given[1]), is_true(given[0]));
    if (is_first || run.compared(key, best_key) * sign > 0) {
      best = item;
      best_key = key;
    }
    is_first = false;
    if (run.failed()) return {};
  }
  return is_first ? run.undefined("the best of nothing") : best;
}
Value filter_min(Run& run, const Value& value, const Given& given) { return extreme(run, value, given, -1); }
Value filter_max(Run& run, const Value& value, const Given& given) { return extreme(run, value, given, 1); }

Value filter_sum(Run& run, const Value& value, const Given& given) {
  Value out = given[1].is(Kind::absent) ? Value::integer(0) : given[1];
  if (out.is(Kind::string)) return run.fail("texts are joined, not summed");
  for (const Value& item : run.walk(value)) {
    const Value one = is_left_out(given[0]) ? item : run.attribute_path(item, given[0]);
    if (one.is(Kind::undefined)) return run.fail("\"", shown(one.name()), "\" is undefined");
    out = run.add(out, one);
    if (run.failed()) return {};
  }
  return out;
}

Value filter_batch(Run& run, const Value& value, const Given& given) {
  const std::int64_t count = run.integer_of(given[0], "the size of a batch");
  if (run.failed() || count <= 0) return run.fail("a batch has no items");
  std::vector<Value> out, batch;
  const auto items = run.walk(value);
  for (std::size_t i = 0; i < items.size(); ++i) {
    batch.push_back(items[i]);
    const bool is_full = batch.size() == static_cast<std::size_t>(count);
    if (!is_full && i + 1 < items.size()) continue;
    if (!is_full && !is_left_out(given[1])) {
      if (count > 100000) return run.fail("a batch has more than 100000 items");
      batch.resize(static_cast<std::size_t>(count), given[1]);
    }
    out.push_back(run.list(std::exchange(batch, {})));
  }
  return run.list(std::move(out), Flavor::lazy);
}

Value filter_slice(Run& run, const Value& value, const Given& given) {
  const std::int64_t count = run.integer_of(given[0], "a count of slices");
  if (run.failed() || count <= 0 || count > 100000) return run.fail("a list is cut into 1 to 100000 slices");
  const auto items = run.walk(value);
  const auto slices = static_cast<std::size_t>(count);
  const std::size_t each = items.size() / slices, longer = items.size() % slices;
  std::vector<Value> out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < slices && run.step(); ++i) {
    const std::size_t size = each + (i < longer ? 1 : 0);
    std::vector<Value> slice(items.begin() + static_cast<std::ptrdiff_t>(at),
                             items.begin() + static_cast<std::ptrdiff_t>(at + size));
    if (!is_left_out(given[1]) && i >= longer) slice.push_back(given[1]);
    out.push_back(run.list(std::move(slice)));
    at += size;
  }
  return run.list(std::move(out), Flavor::lazy);
}

Value filter_groupby(Run& run, const Value& value, const Given& given) {
  const auto items = run.walk(value);
  const bool case_counts = is_true(given[2]);
  std::vector<Value> keys, groupers, out;
  for (const Value& item : items) {
    Value grouper = run.attribute_path(item, given[0]);
    if (grouper.is(Kind::undefined) && !is_left_out(given[1])) grouper = given[1];
    keys.push_back(key_of(run, grouper, case_counts));
    groupers.push_back(std::move(grouper));
  }
  if (run.failed()) return {};
  const auto places = sorted_places(run, keys, false);
  for (std::size_t begin = 0; begin < places.size();) {
    std::vector<Value> group;
    std::size_t end = begin;
    for (; end < places.size() && is_equal(keys[places[end]], keys[places[begin]]); ++end)
      group.push_back(items[places[end]]);
    out.push_back(run.list({groupers[places[begin]], run.list(std::move(group))}, Flavor::group));
    if (end == begin) ++end;
    begin = end;
  }
  return run.list(std::move(out));
}

constexpr FilterRow kListFilters[] = {
    {"length", "", filter_length},
    {"count", "", filter_length},
    {"default", "default_value,boolean", filter_default},
    {"d", "default_value,boolean", filter_default},
    {"first", "", filter_first},
    {"last", "", filter_last},
    {"list", "", filter_list},
    {"reverse", "", filter_reverse},
    {"items", "", filter_items},
    {"attr", "name", filter_attr},
    {"join", "d,attribute", filter_join},
    {"sort", "reverse,case_sensitive,attribute", filter_sort},
    {"dictsort", "case_sensitive,by,reverse", filter_dictsort},
    {"unique", "case_sensitive,attribute", filter_unique},
    {"min", "case_sensitive,attribute", filter_min},
    {"max", "case_sensitive,attribute", filter_max},
    {"sum", "attribute,start", filter_sum},
    {"batch", "linecount,fill_with", filter_batch},
    {"slice", "slices,fill_with", filter_slice},
    {"groupby", "attribute,default,case_sensitive", filter_groupby},
};

Value open_map(Run& run, const Value& value, const Arguments& arguments) {
  std::vector<Value> out;
  const Value* path = arguments.find("attribute");
  if (!is_true(value)) return run.list({}, Flavor::lazy);
  if (arguments.positional.empty() && path != nullptr) {
    const Value* other = arguments.find("default");
    if (arguments.named.size() > (other == nullptr ? 1U : 2U))
      return run.fail("the filter \"map\" has an argument that is not known");
    for (const Value& item : run.walk(value)) {
      Value one = run.attribute_path(item, *path);
      out.push_back(one.is(Kind::undefined) && other != nullptr && !is_left_out(*other) ? *other : std::move(one));
    }
    return run.list(std::move(out), Flavor::lazy);
  }
  if (arguments.positional.empty()) return run.fail("the filter \"map\" needs a filter or an attribute");
  const std::string filter = run.string_of(arguments.positional[0]).bytes;
  const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const Value& item : run.walk(value)) out.push_back(run.apply_filter(filter, item, rest));
  return run.list(std::move(out), Flavor::lazy);
}

Value chosen(Run& run, const Value& value, const Arguments& arguments, bool by_attribute, bool kept) {
  if (!is_true(value)) return run.list({}, Flavor::lazy);
  const std::vector<Value>& given = arguments.positional;
  const std::size_t first = by_attribute ? 1 : 0;
  if (given.size() < first) return run.fail("an attribute to choose by is missing");
  const std::string test = given.size() > first ? run.string_of(given[first]).bytes : "";
  Arguments rest;
  if (given.size() > first)
    rest = {{given.begin() + static_cast<std::ptrdiff_t>(first) + 1, given.end()}, arguments.named};
  std::vector<Value> out;
  for (const Value& item : run.walk(value)) {
    const Value looked = by_attribute ? run.attribute_path(item, given[0]) : item;
    const bool is_so = test.empty() ? is_true(looked) : run.apply_test(test, looked, rest);
    if (run.failed()) return {};
    if (is_so == kept) out.push_back(item);
  }
  return run.list(std::move(out), Flavor::lazy);
}

Value open_select(Run& run, const Value& value, const Arguments& a) { return chosen(run, value, a, false, true); }
Value open_reject(Run& run, const Value& value, const Arguments& a) { return chosen(run, value, a, false, false); }
Value open_selectattr(Run& run, const Value& value, const Arguments& a) { return chosen(run, value, a, true, true); }
Value open_rejectattr(Run& run, const Value& value, const Arguments& a) { return chosen(run, value, a, true, false); }

Value open_format(Run& run, const Value& value, const Arguments& arguments) {
  if (!arguments.named.empty()) return run.fail("the filter \"format\" takes values by their places");
  return run.formatted(run.string_of(value), run.list(arguments.positional, Flavor::tuple));
}

}  // namespace

const FilterRow* find_list_filter(std::string_view name) {
  const auto found = std::find_if(std::begin(kListFilters), std::end(kListFilters),
                                  [&](const FilterRow& row) { return row.name == name; });
  return found == std::end(kListFilters) ? nullptr : found;
}

OpenFilter find_open_filter(std::string_view name) {
  constexpr std::pair<std::string_view, OpenFilter> kOpen[] = {{"map", open_map},
                                                               {"select", open_select},
                                                               {"reject", open_reject},
                                                               {"selectattr", open_selectattr},
                                                               {"rejectattr", open_rejectattr},
                                                               {"format", open_format}};
  for (const auto& [known, filter] : kOpen) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace graft::text::jinja
