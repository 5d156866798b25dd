// Python's pickles, read as data: no name is looked up, nothing is called. What a pickle would call is kept as the name
// of the call and its arguments; readers of tensors know a few of these, and all others hold nothing for them.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/base/byte_reader.h"
#include "platform/base/status.h"

namespace graft::convert {

using PickleId = std::uint32_t;

struct PickleValue {
  enum class Kind : std::uint8_t { none, boolean, integer, number, text, tuple, list, dict, global, call, persistent };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  ///< booleans too
  std::string text;  ///< of a global "module name", each cut to 32 bytes; of a number that does not fit, its bytes
  std::vector<PickleId> items;  ///< a tuple's or list's; of a call: callee, arguments, state (where it has one)
  std::vector<std::pair<PickleId, PickleId>> pairs;  ///< a dict's, and what a call's result was given as a dict
};

class Pickle {
 public:
  /// Reads one pickle, and leaves `in` behind it. corrupt: what is none; unsupported: opcodes that data does not need,
  /// and more values than files of weights have.
  static Result<Pickle> read(ByteReader& in);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& value(PickleId id) const { return values_[id]; }
  std::size_t count() const { return values_.size(); }
  /// The value of a key; nullptr where there is none.
  const PickleValue* find(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;  // grows without a copy of all
  PickleId root_ = 0;
};

}  // namespace graft::convert
