// Attributes of a node: a small sorted list of named constants, checked against the op's table of AttrSpec.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
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

/// One attribute of an op. Each op has a table of them in runtime/ops/<family>/.
struct AttrSpec {
  std::string_view name;
  AttrType type;
  bool required = false;
  double number = 0;           ///< what an absent integer or number means
  std::string_view text = {};  ///< what an absent text means
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool checked = false;  ///< whether integers and numbers must lie in [low, high], and so are not NaN

  constexpr AttrSpec needed() const {
    AttrSpec spec = *this;
    spec.required = true;
    return spec;
  }
  constexpr AttrSpec within(double from, double to) const {
    AttrSpec spec = *this;
    spec.low = from;
    spec.high = to;
    spec.checked = true;
    return spec;
  }
  constexpr AttrSpec finite() const { return within(-kFinite, kFinite); }
  constexpr AttrSpec at_least(double from) const { return within(from, kFinite); }

  static constexpr double kFinite = std::numeric_limits<float>::max();  // numbers are f32 in kernels
};

/// Entries of such tables.
namespace attr {
constexpr AttrSpec integer(std::string_view name, std::int64_t absent = 0) {
  return {.name = name, .type = AttrType::integer, .number = static_cast<double>(absent)};
}
constexpr AttrSpec flag(std::string_view name, bool absent = false) { return integer(name, absent ? 1 : 0); }
constexpr AttrSpec number(std::string_view name, double absent = 0) {
  return {.name = name, .type = AttrType::number, .number = absent};
}
constexpr AttrSpec text(std::string_view name, std::string_view absent = {}) {
  return {.name = name, .type = AttrType::text, .text = absent};
}
constexpr AttrSpec integers(std::string_view name) { return {.name = name, .type = AttrType::integers}; }
constexpr AttrSpec shape(std::string_view name) { return {.name = name, .type = AttrType::shape}; }
}  // namespace attr

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

  /// Sets the table with the defaults, that of the op. Graph::add_node() calls it.
  void declared_by(std::span<const AttrSpec> specs) { specs_ = specs; }

  // Return the table's default if the attribute is absent; without a table, 0 or an empty value. The stored type must
  // match: Graph::add_node() checks it.
  std::int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const { return integer(name) != 0; }
  double number(std::string_view name) const;
  std::string text(std::string_view name) const;
  Ints integers(std::string_view name) const;
  Shape shape(std::string_view name) const;

  friend bool operator==(const Attrs& a, const Attrs& b) { return a.items_ == b.items_; }

 private:
  std::vector<std::pair<std::string, AttrValue>> items_;
  std::span<const AttrSpec> specs_;
};

}  // namespace graft
