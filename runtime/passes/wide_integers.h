// Arithmetic that a source computes in 64 bits and graft in 32: whether a result can be beyond them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "runtime/core/graph.h"

namespace graft::passes {

struct IntegerSpan {
  std::int64_t least = 0, most = 0;
};

/// Follows the ranges of integers through a bound graph. Values whose range is not known, such as integers cast from
/// floats, are not checked (see cast_from_floats()).
class WideIntegers {
 public:
  /// `contents` gives the bytes of a constant, or nothing. The graph before passes, with all sizes bound.
  template <typename Contents>
  WideIntegers(Graph graph, const Contents& contents) : WideIntegers(std::move(graph)) {
    if (!is_needed()) return;
    for (std::uint32_t v = 0; v < graph_.values().size(); ++v) {
      const Value& value = graph_.values()[v];
      if (value.kind != ValueKind::constant || value.dtype == DType::f32) continue;
      if (const auto bytes = contents(value.name)) set_constant({v}, *bytes);
    }
  }

  /// Whether the graph computes with such integers at all.
  static bool computes(const Graph& graph);
  bool is_needed() const { return needed_; }
  /// What the input holds now; nullopt: not known.
  void set_input(const std::string& input, const std::optional<IntegerSpan>& range);
  /// A sentence about the first node whose result may need more than 32 bits; empty without one, or if no input changed
  /// since the last call that found none.
  std::string find_overflow();

 private:
  explicit WideIntegers(Graph graph);
  void set_constant(ValueId value, std::span<const std::byte> bytes);

  Graph graph_;
  bool needed_ = false;
  bool changed_ = true;
  std::map<std::string, std::optional<IntegerSpan>> inputs_;
  std::map<std::uint32_t, IntegerSpan> constants_;  ///< by value
};

/// Values that the source casts from floats to more than 32 bits, or moves and compares such numbers: the cast ends at
/// the limits of 32 bits, so a number there may be larger in the source. By name.
std::set<std::string, std::less<>> cast_from_floats(const Graph& graph);
/// The index of the first word at either limit of 32 bits; nullopt without one.
std::optional<std::size_t> find_limit(std::span<const std::byte> words);

/// The least and the greatest of the words of an i32 tensor; nullopt of an empty one.
std::optional<IntegerSpan> span_of(std::span<const std::byte> words);

}  // namespace graft::passes
