// Attributes of a node: a small sorted list of named constants, checked against the op's table of AttrSpec.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/core/shape.h"

namespace graft {

using Ints = std::vector<std::int64_t>;
/// Booleans are integers 0 and 1. A Shape may hold symbols. Order is that of AttrType.
using AttrValue = std::variant<std::int64_t, double, std::string, Ints, Shape>;
enum class AttrType : std::uint8_t { integer, number, text, integers, shape };

struct AttrSpec {
  std::string_view name;
  AttrType type;
  bool required = false;
};

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string_view, AttrValue>> items) {
    for (const auto& [name, value] : items) set(name, value);
  }

  void set(std::string_view name, AttrValue value);
  void erase(std::string_view name);  ///< nothing where it is absent
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const AttrValue* find(std::string_view name) const;
  const std::vector<std::pair<std::string, AttrValue>>& items() const { return items_; }  ///< sorted by name

  // The fallback is returned where the attribute is absent. Requires the stored type to match (validate() saw to it).
  std::int64_t integer(std::string_view name, std::int64_t fallback = 0) const;
  bool flag(std::string_view name, bool fallback = false) const { return integer(name, fallback ? 1 : 0) != 0; }
  double number(std::string_view name, double fallback = 0) const;
  std::string text(std::string_view name, std::string_view fallback = {}) const;
  Ints integers(std::string_view name, Ints fallback = {}) const;
  Shape shape(std::string_view name) const;

  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  std::vector<std::pair<std::string, AttrValue>> items_;
};

}  // namespace graft
