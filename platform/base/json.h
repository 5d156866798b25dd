// JSON for what the runtime itself reads: records of data sets, lists in a model's metadata. Contents are hostile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "platform/base/status.h"

namespace graft::json {

/// One value, as RFC 8259 has it.
struct Value {
  using Items = std::vector<Value>;
  using Members = std::vector<std::pair<std::string, Value>>;  ///< in the text's order
  /// monostate is null. One of them at a time: a file may hold millions of numbers.
  std::variant<std::monostate, bool, double, std::string, Items, Members> held = {};

  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };  ///< in the order of `held`
  Kind kind() const { return static_cast<Kind>(held.index()); }
  bool is_string() const { return std::holds_alternative<std::string>(held); }
  bool is_array() const { return std::holds_alternative<Items>(held); }
  bool is_object() const { return std::holds_alternative<Members>(held); }
  // Requires the kind; items and members are none where it is another.
  bool truth() const { return std::get<bool>(held); }
  double number() const { return std::get<double>(held); }
  const std::string& text() const { return std::get<std::string>(held); }
  const Items& items() const;
  const Members& members() const;
  /// The member of this name, of several the last; null where there is none, or the value is no object.
  const Value* find(std::string_view name) const;
};

/// Deeper texts are refused: whoever walks them calls itself.
inline constexpr int kMaxDepth = 64;

/// corrupt where `text` is no JSON, or no UTF-8, or nests deeper than kMaxDepth; the sentence says where.
Result<Value> parse(std::string_view text);

bool is_utf8(std::string_view text);

/// `text` as a JSON string, quotes included; a byte that is no UTF-8 becomes U+FFFD.
std::string quoted(std::string_view text);

}  // namespace graft::json
