#include "runtime/core/attrs.h"

#include <algorithm>

namespace graft {
namespace {

template <typename T>
const T* get(const AttrValue* value) {
  if (value == nullptr) return nullptr;
  const T* typed = std::get_if<T>(value);
  GRAFT_CHECK(typed != nullptr);
  return typed;
}

/// The entry of an absent attribute; null if there is none.
const AttrSpec* declared(std::span<const AttrSpec> specs, std::string_view name) {
  const auto at = std::ranges::find(specs, name, &AttrSpec::name);
  return at == specs.end() ? nullptr : &*at;
}

}  // namespace

void Attrs::set(std::string_view name, AttrValue value) {
  const auto at = std::lower_bound(items_.begin(), items_.end(), name,
                                   [](const auto& item, std::string_view key) { return item.first < key; });
  if (at != items_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    items_.emplace(at, std::string(name), std::move(value));
  }
}

void Attrs::erase(std::string_view name) {
  std::erase_if(items_, [&](const auto& item) { return item.first == name; });
}

const AttrValue* Attrs::find(std::string_view name) const {
  for (const auto& item : items_) {
    if (item.first == name) return &item.second;
  }
  return nullptr;
}

std::int64_t Attrs::integer(std::string_view name) const {
  if (const auto* value = get<std::int64_t>(find(name))) return *value;
  const AttrSpec* const spec = declared(specs_, name);
  return spec == nullptr ? 0 : static_cast<std::int64_t>(spec->number);
}

double Attrs::number(std::string_view name) const {
  if (const auto* value = get<double>(find(name))) return *value;
  const AttrSpec* const spec = declared(specs_, name);
  return spec == nullptr ? 0 : spec->number;
}

std::string Attrs::text(std::string_view name) const {
  if (const auto* value = get<std::string>(find(name))) return *value;
  const AttrSpec* const spec = declared(specs_, name);
  return std::string(spec == nullptr ? std::string_view() : spec->text);
}

Ints Attrs::integers(std::string_view name) const {
  const auto* value = get<Ints>(find(name));
  return value == nullptr ? Ints() : *value;
}

Shape Attrs::shape(std::string_view name) const {
  const auto* value = get<Shape>(find(name));
  return value == nullptr ? Shape() : *value;
}

}  // namespace graft
