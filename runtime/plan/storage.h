// Storages: pieces of transient memory, each shared by a value, its views and the results written over it.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/graph.h"
#include "runtime/plan/arena.h"

namespace graft {

/// Comes into being in each run; all else stays from run to run.
inline bool transient(const Value& value) {
  return value.kind == ValueKind::temporary || value.kind == ValueKind::input;
}

/// Times: 0 is before the first node (uploads), 1 + i is position i of the order, order.size() + 1 is after the last
/// (readbacks).
struct Storages {
  std::vector<Block> blocks;
  std::vector<std::uint32_t> of_value;  ///< per value of the graph; kNoStorage for residents and unused values
  std::vector<std::uint32_t> first;     ///< per value: when it comes into being and when it is last needed
  std::vector<std::uint32_t> last;
};
inline constexpr std::uint32_t kNoStorage = 0xffffffffu;

/// `order` is an order of candidate_orders(), `roots` alias_roots(graph), `bytes` the device bytes of each value.
Storages find_storages(const Graph& graph, const std::vector<NodeId>& order, const std::vector<std::uint32_t>& roots,
                       const std::vector<std::uint64_t>& bytes, bool in_place);

/// Bytes of the blocks alive at each time 0..times-1.
std::vector<std::uint64_t> live_bytes(const std::vector<Block>& blocks, std::uint32_t times);

}  // namespace graft
