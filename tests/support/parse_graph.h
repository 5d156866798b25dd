// Graphs from text, as graph_text() writes it: tests of passes say what they begin with and what they expect.
#pragma once

#include <cstddef>
#include <deque>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"

namespace graft::test {

struct ParsedGraph {
  Graph graph;
  std::deque<std::vector<std::byte>> contents;  ///< of constants; the graph's values borrow them
};

/// Types behind "->" may be left out; where they stand, inference must agree. "constant c: f32[2] = 1.0, 2.0" gives a
/// constant contents. An error quotes the line.
Result<ParsedGraph> parse_graph(std::string_view text);

}  // namespace graft::test
