// JSON for what the runtime itself reads: records of data sets, lists in a model's metadata. Contents are hostile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/base/status.h"

namespace graft::json {

/// One value, as RFC 8259 has it.
struct Value {
  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool truth = false;
  double number = 0;
  std::string text = {};
  std::vector<Value> items = {};
  std::vector<std::pair<std::string, Value>> members = {};  ///< in the text's order

  bool is_string() const { return kind == Kind::string; }
  bool is_array() const { return kind == Kind::array; }
  bool is_object() const { return kind == Kind::object; }
  /// The member of this name, of several the last; null where there is none, or the value is no object.
  const Value* find(std::string_view name) const;
};

/// Deeper texts are refused: whoever walks them calls itself.
inline constexpr int kMaxDepth = 64;

/// corrupt where `text` is no JSON, or no UTF-8, or nests deeper than kMaxDepth; the sentence says where.
Result<Value> parse(std::string_view text);

/// `text` as a JSON string, quotes included; a byte that is no UTF-8 becomes U+FFFD.
std::string quoted(std::string_view text);

}  // namespace graft::json
