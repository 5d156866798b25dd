// What rules of attention and of rotary embeddings emit.
#pragma once

#include <optional>

#include "tools/convert/onnx/import/import.h"

namespace graft::convert {

inline constexpr double kHiddenKey = -3.4028234663852886e38;  ///< the lowest f32: such a key is not seen
inline const Perm kHeadsFirst = {0, 2, 1, 3};

/// Queries, keys and values with their tokens before their heads.
struct Attended {
  ValueId q, k, v;
  double scale = 0;  ///< 0: 1 / sqrt(head)
  double softcap = 0;
  bool causal = false;
  /// Causal: query i sees the key that many behind key i. Without: the last query sees the last key.
  std::optional<std::int64_t> past;
  std::int64_t window = 0;
  std::vector<ValueId> masks;  ///< f32 [batch or 1, heads or 1, queries or 1, keys]
};

struct AttentionResult {
  ValueId y;        ///< [batch, queries, heads, head of the values]
  ValueId scores;   ///< [batch, heads, queries, keys], where asked for: with no mask, capped
  ValueId raw;      ///< the same before the cap
  ValueId weights;  ///< the same after the softmax
};

struct RotaryTables {
  ValueId cosine, sine;  ///< [batch or 1, tokens, pairs]
  bool interleaved = false;
  std::int64_t turned = 0;  ///< elements of a head; 0: all
};

/// [batch, tokens, heads, head] of [batch, tokens, heads * head], and the other way round.
Result<ValueId> parted(NodeContext& c, ValueId x, std::int64_t heads, std::string_view what);
ValueId fused_heads(NodeContext& c, ValueId x);
/// Columns from `start` on of a value's last axis.
ValueId columns(NodeContext& c, ValueId x, std::int64_t start, std::int64_t count, std::int64_t step = 1);
/// 0, 1, 2, .. for each token.
Result<ValueId> places(NodeContext& c, const Dim& tokens);

/// Booleans, or integers of which 0 hides a key, as what is added to scores.
ValueId hiding(NodeContext& c, ValueId seen, double hidden);
/// A mask that broadcasts to [batch, heads, queries, keys], with all keys named.
Result<ValueId> spread_mask(NodeContext& c, ValueId mask, const Attended& a);
/// Keys from `lengths` [batch] on are hidden.
Result<ValueId> lengths_mask(NodeContext& c, ValueId lengths, const Attended& a);
/// The same and causal: the last query is the last key that counts.
Result<ValueId> frontier_mask(NodeContext& c, ValueId lengths, const Attended& a);

/// As the op attention where that says the same, else as products and a softmax. `whole`: scores and weights are wanted
/// beside the result.
Result<AttentionResult> attend(NodeContext& c, Attended a, bool whole = false);

/// x [batch, tokens, heads, head], or with `heads_first` [batch, heads, tokens, head], turned: arithmetic, of which
/// passes find out what angles its tables hold.
Result<ValueId> turned_heads(NodeContext& c, ValueId x, bool heads_first, const RotaryTables& t);

}  // namespace graft::convert
