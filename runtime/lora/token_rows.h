// Rows for tokens that a model's vocabulary gets, beside its embedding and its head.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// What a table's name gets, in place of its ".weight": the trained rows, [tokens, width]; and, as a constant, the
/// table's own rows behind them.
inline constexpr std::string_view kNewRows = ".new_rows";
inline constexpr std::string_view kRowsBehind = ".rows_behind";

/// A table that goes on in another. Names of values.
struct TokenTable {
  std::string weight;  ///< [rows, width]; what it has from `first` on is read no more
  std::string rows;    ///< [count, width]: the trained ones
  std::string behind;  ///< [rows - first - count, width]; empty: the table has none there
  std::int64_t table_rows = 0;
  std::int64_t width = 0;
};

struct TokenRowsGraph {
  Graph graph;                     ///< values keep their names; all parameters but the new rows have become constants
  std::vector<TokenTable> tables;  ///< the embedding's and, where that is a matrix of its own, the head's
};

/// The graph of a language model whose tokens first .. first + count - 1 have rows of their own, in place of any that
/// its tables have there; its logits are of all of them. What is behind the new ones stays. It may have adapters, but
/// none of the embedding. unsupported: no embedding of tokens or no head that is found, a head with a bias.
Result<TokenRowsGraph> add_token_rows(const Graph& model, std::int64_t first, std::int64_t count);

/// The graph where the tables have so many rows, with logits of as many; all else is as it was.
Result<Graph> with_longer_tables(const Graph& model, const std::vector<TokenTable>& tables, std::int64_t rows);

}  // namespace graft
