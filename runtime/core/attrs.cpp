#include "runtime/core/attrs.h"

#include <algorithm>

namespace graft {
namespace {

template <typename T>
T get(const Attrs& attrs, std::string_view name, T fallback) {
  const AttrValue* value = attrs.find(name);
  if (value == nullptr) return fallback;
  const T* typed = std::get_if<T>(value);
  GRAFT_CHECK(typed != nullptr);
  return *typed;
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

std::int64_t Attrs::integer(std::string_view name, std::int64_t fallback) const { return get(*this, name, fallback); }
double Attrs::number(std::string_view name, double fallback) const { return get(*this, name, fallback); }
std::string Attrs::text(std::string_view name, std::string_view fallback) const {
  return get(*this, name, std::string(fallback));
}
Ints Attrs::integers(std::string_view name, Ints fallback) const { return get(*this, name, std::move(fallback)); }
Shape Attrs::shape(std::string_view name) const { return get(*this, name, Shape()); }

}  // namespace graft
