// Attention and rotary embedding as single nodes: ONNX's own (opset 23 on) and those that ONNX Runtime's optimiser
// writes.
#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/attention.h"

namespace graft::convert {
namespace {

Status attention_floats(NodeContext& c, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (c.has(i) && !is_float(c.type(i))) return unsupported("its input ", i, " is ", elem_name(c.type(i)));
  }
  return {};
}

/// Earlier keys or values [batch, heads, tokens, head] before these.
Result<ValueId> behind_past(NodeContext& c, std::size_t past, ValueId x) {
  if (!c.has(past)) return x;
  if (c.rank(past) != 4) return corrupt("its past has the shape ", c.shape(past).text(), " instead of four axes");
  if (c.shape(past)[2] == Dim(0)) return x;
  if (!c.status().ok()) return c.status();
  if (!c.shape(past)[2].is_constant() || !c.shape_of(x)[1].is_constant()) {
    return unsupported("its past of ", c.shape(past)[2].text(), " tokens and its ", c.shape_of(x)[1].text(),
                       " new ones cannot be added up as symbols; bind them (--bind NAME=SIZE)");
  }
  return c.emit(Op::concat, {c.in(past, kHeadsFirst), x}, {{"axis", std::int64_t{1}}});
}

/// A mask of fewer keys than there are hides the others.
ValueId with_all_keys(NodeContext& c, ValueId mask, const Attended& a) {
  if (!c.status().ok() || c.shape_of(mask).rank() == 0) return mask;
  const std::size_t rank = c.shape_of(mask).rank();
  const Dim have = c.shape_of(mask).back(), keys = c.shape_of(a.k)[1];
  if (!have.is_constant() || !keys.is_constant() || have.value() >= keys.value() || have.value() == 1) return mask;
  Ints pads(2 * rank, 0);
  pads.back() = keys.value() - have.value();
  const bool floats = c.dtype_of(mask) == DType::f32;
  return c.emit(Op::pad, {mask},
                {{"pads", pads}, {"mode", std::string("constant")}, {"value", floats ? kHiddenKey : 0.0}});
}

/// Queries, or keys or values, with their heads apart: an axis, or what an attribute makes of the last one.
Result<ValueId> heads_of(NodeContext& c, std::size_t i) {
  const char* const attribute = i == 0 ? "q_num_heads" : "kv_num_heads";
  const std::int64_t heads = c.attr(attribute, 0);
  if (c.rank(i) == 3) return parted(c, c.in(i), heads, i == 0 ? "query" : "key or value");
  const Dim& axis = c.shape(i)[1];
  if (c.has_attr(attribute) && axis.is_constant() && axis != Dim(heads)) {
    return corrupt("its ", attribute, " is ", heads, ", and its input ", i, " has ", axis.text(), " heads");
  }
  return c.in(i, kHeadsFirst);
}

/// Attention of ONNX.
Status attention(NodeContext& c) {
  GRAFT_TRY(attention_floats(c, 3));
  const std::size_t rank = c.rank(0);
  if ((rank != 3 && rank != 4) || c.rank(1) != rank || c.rank(2) != rank) {
    return corrupt("its queries, keys and values have ", rank, ", ", c.rank(1), " and ", c.rank(2), " axes");
  }
  Attended a;
  ValueId* const operands[] = {&a.q, &a.k, &a.v};
  for (std::size_t i = 0; i < 3; ++i) {
    GRAFT_TRY_ASSIGN(*operands[i], heads_of(c, i));
  }
  if (c.has(4) != c.has(5)) return corrupt("it has one of past_key and past_value alone");
  if (c.has(4) && c.has(6)) {
    return corrupt("it has both a past and nonpad_kv_seqlen, and ONNX allows one of them; leave one out");
  }
  GRAFT_TRY_ASSIGN(a.k, behind_past(c, 4, a.k));
  GRAFT_TRY_ASSIGN(a.v, behind_past(c, 5, a.v));
  a.scale = c.attr_number("scale", 0);
  if (c.has_attr("scale") && a.scale == 0) return unsupported("its scale is 0");
  a.softcap = c.attr_number("softcap", 0);
  a.causal = c.attr("is_causal", 0) != 0;
  a.past = c.has(4) ? c.shape(4)[2].value() : 0;  // known, or behind_past() refused it
  if (c.has(3)) {
    const bool boolean = c.type(3) == ElemType::boolean;
    if (!boolean && !is_float(c.type(3))) return unsupported("its mask is ", elem_name(c.type(3)));
    const ValueId given = with_all_keys(c, c.in(3), a);
    GRAFT_TRY_ASSIGN(const ValueId mask, spread_mask(c, boolean ? hiding(c, given, kHiddenKey) : given, a));
    a.masks.push_back(mask);
  }
  const bool causal = a.causal;
  if (c.has(6)) {
    // The last query is the last key that counts: that mask hides what is behind it, too.
    const bool by_lengths = a.causal;
    GRAFT_TRY_ASSIGN(const ValueId mask, by_lengths ? frontier_mask(c, c.in(6), a) : lengths_mask(c, c.in(6), a));
    a.masks.push_back(mask);
    if (by_lengths) a.causal = false;
  }
  const std::int64_t mode = c.attr("qk_matmul_output_mode", 0);
  const bool scores = c.wants(3);
  // Versions of the operator order softcap and mask differently: 2 is the same in all without a softcap, behind a mask
  // that is given as numbers; and with one where nothing is masked. So is 1 without either.
  const bool unmasked = !causal && !c.has(6) && !c.has(3);
  const bool masked = mode == 2 && a.softcap == 0 && !causal && !c.has(6) && (!c.has(3) || is_float(c.type(3)));
  const bool capped = mode == 2 && unmasked, plain = mode == 0 || (mode == 1 && unmasked && a.softcap == 0);
  if (scores && mode != 3 && !masked && !capped && !plain) {
    return unsupported("its output of scores has the mode ", mode, a.softcap > 0 ? " with a softcap" : "",
                       ", which versions of the operator mean differently; 0, 2 (without a softcap, and of a mask of "
                       "numbers alone, or without any mask) and 3 are supported");
  }
  GRAFT_TRY_ASSIGN(const AttentionResult made, attend(c, a, scores));
  if (rank == 4) {
    c.out(0, made.y, kHeadsFirst);
  } else {
    c.out(0, fused_heads(c, made.y));
  }
  if (c.wants(1)) c.out(1, a.k, kHeadsFirst);
  if (c.wants(2)) c.out(2, a.v, kHeadsFirst);
  if (!scores) return {};
  ValueId shown = mode == 3 ? made.weights : plain ? made.raw : made.scores;
  if (mode == 2 && c.has(3)) shown = c.emit(Op::add, {shown, a.masks[0]});
  c.out(3, shown);
  return {};
}

// --- com.microsoft

/// A mask of keys: lengths [batch], [batch, keys] or [batch, queries, keys], 0 where a key is hidden.
Status add_key_mask(NodeContext& c, std::size_t i, Attended& a) {
  if (!c.has(i)) return {};
  if (!is_integer(c.type(i))) return unsupported("its mask is ", elem_name(c.type(i)), " instead of int32");
  if (c.rank(i) == 1) {
    GRAFT_TRY_ASSIGN(const ValueId mask, lengths_mask(c, c.in(i), a));
    a.masks.push_back(mask);
    return {};
  }
  if (c.rank(i) != 2 && c.rank(i) != 3) return unsupported("its mask has ", c.rank(i), " axes");
  const Shape& shape = c.shape(i);
  const ValueId seen =
      c.reshape(c.in(i), c.rank(i) == 2 ? Shape{shape[0], 1, 1, shape[1]} : Shape{shape[0], 1, shape[1], shape[2]});
  GRAFT_TRY_ASSIGN(const ValueId mask,
                   spread_mask(c, hiding(c, seen, c.attr_number("mask_filter_value", -10000.0)), a));
  a.masks.push_back(mask);
  return {};
}

Status add_bias_mask(NodeContext& c, std::size_t i, Attended& a) {
  if (!c.has(i)) return {};
  GRAFT_TRY_ASSIGN(const ValueId mask, spread_mask(c, c.in(i), a));
  a.masks.push_back(mask);
  return {};
}

/// Q, K and V by one product of the input.
Status ms_attention(NodeContext& c) {
  GRAFT_TRY(attention_floats(c, 3));
  if (c.has(4)) return unsupported("its past is an input; graft keeps caches of its own");
  if (c.attr("do_rotary", 0) != 0) return unsupported("it turns queries and keys itself (do_rotary)");
  const std::int64_t heads = c.attr("num_heads", 0);
  const Shape& weights = c.shape(1);
  if (c.rank(0) != 3 || weights.rank() != 2 || !weights[1].is_constant()) {
    return corrupt("its input is ", c.shape(0).text(), " and its weights are ", weights.text());
  }
  const Ints given = c.attr_ints("qkv_hidden_sizes");
  const std::int64_t third = weights[1].value() / 3;
  const Ints sizes = given.empty() ? Ints{third, third, third} : given;
  const bool possible = sizes.size() == 3 && std::ranges::all_of(sizes, [&](std::int64_t size) {
                          return size >= 1 && size <= weights[1].value();
                        });
  if (!possible || sizes[0] != sizes[1] || sizes[0] + sizes[1] + sizes[2] != weights[1].value()) {
    return corrupt("its qkv_hidden_sizes do not add up to ", weights[1].text());
  }
  ValueId all = c.emit(Op::matmul, {c.in(0), c.in(1)}, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}});
  if (c.has(2)) all = c.emit(Op::add, {all, c.in(2)});
  Attended a;
  GRAFT_TRY_ASSIGN(a.q, parted(c, columns(c, all, 0, sizes[0]), heads, "query"));
  GRAFT_TRY_ASSIGN(a.k, parted(c, columns(c, all, sizes[0], sizes[1]), heads, "key"));
  GRAFT_TRY_ASSIGN(a.v, parted(c, columns(c, all, sizes[0] + sizes[1], sizes[2]), heads, "value"));
  a.scale = c.attr_number("scale", 0);
  a.causal = c.attr("unidirectional", 0) != 0;
  GRAFT_TRY(add_key_mask(c, 3, a));
  GRAFT_TRY(add_bias_mask(c, 5, a));
  GRAFT_TRY_ASSIGN(const AttentionResult made, attend(c, a));
  c.out(0, fused_heads(c, made.y));
  return {};
}

Status multi_head_attention(NodeContext& c) {
  GRAFT_TRY(attention_floats(c, 4));
  if (!c.has(1) || !c.has(2) || c.rank(0) != 3 || c.rank(1) != 3 || c.rank(2) != 3) {
    return unsupported("its queries, keys and values are not three tensors of three axes");
  }
  const std::int64_t heads = c.attr("num_heads", 0);
  Attended a;
  ValueId* const operands[] = {&a.q, &a.k, &a.v};
  std::int64_t at = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    ValueId x = c.in(i);
    const Dim& width = c.shape(i)[2];
    if (c.has(3)) {
      if (!width.is_constant()) return unsupported("its width ", width.text(), " is symbolic");
      x = c.emit(Op::add, {x, columns(c, c.in(3), at, width.value())});
      at += width.value();
    }
    GRAFT_TRY_ASSIGN(*operands[i], parted(c, x, heads, "input"));
  }
  GRAFT_TRY_ASSIGN(a.k, behind_past(c, 6, a.k));
  GRAFT_TRY_ASSIGN(a.v, behind_past(c, 7, a.v));
  a.scale = c.attr_number("scale", 0);
  a.causal = c.attr("unidirectional", 0) != 0;
  GRAFT_TRY(add_key_mask(c, 4, a));
  GRAFT_TRY(add_bias_mask(c, 5, a));
  GRAFT_TRY_ASSIGN(const AttentionResult made, attend(c, a));
  c.out(0, fused_heads(c, made.y));
  if (c.wants(1)) c.out(1, a.k, kHeadsFirst);
  if (c.wants(2)) c.out(2, a.v, kHeadsFirst);
  return {};
}

// --- rotary embedding

Status rotate_input(NodeContext& c, const RotaryTables& t, std::int64_t heads) {
  const std::size_t rank = c.rank(0);
  if (rank != 3 && rank != 4) return corrupt("its input has ", rank, " axes instead of 3 or 4");
  ValueId x = c.in(0);
  if (rank == 3) {
    GRAFT_TRY_ASSIGN(x, parted(c, x, heads, "input"));
  }
  GRAFT_TRY_ASSIGN(const ValueId y, turned_heads(c, x, rank == 4, t));
  c.out(0, rank == 3 ? fused_heads(c, y) : y);
  return {};
}

ValueId rows_of(NodeContext& c, std::size_t table, ValueId positions) {
  return c.emit(Op::gather, {c.in(table), positions}, {{"axis", std::int64_t{0}}});
}

Status rotary_embedding(NodeContext& c) {
  GRAFT_TRY(attention_floats(c, 3));
  RotaryTables t;
  t.interleaved = c.attr("interleaved", 0) != 0;
  t.turned = c.attr("rotary_embedding_dim", 0);
  t.cosine = c.has(3) ? rows_of(c, 1, c.in(3)) : c.in(1);
  t.sine = c.has(3) ? rows_of(c, 2, c.in(3)) : c.in(2);
  return rotate_input(c, t, c.attr("num_heads", 0));
}

/// Positions as ONNX Runtime gives them: [batch, tokens], or the first one's alone.
Result<ValueId> ms_positions(NodeContext& c, std::size_t i, const Dim& tokens) {
  if (c.rank(i) == 2) return c.in(i);
  if (c.rank(i) != 1) return unsupported("its positions have the shape ", c.shape(i).text());
  GRAFT_TRY_ASSIGN(const ValueId row, places(c, tokens));
  return c.reshape(c.emit(Op::add, {c.in(i), row}), Shape{1, tokens});
}

Status ms_rotary_embedding(NodeContext& c) {
  if (c.attr_number("scale", 1.0) != 1) return unsupported("its scale is ", c.attr_number("scale", 1.0));
  if (c.attr("is_packed_batching", 0) != 0) return unsupported("its batch is packed");
  RotaryTables t;
  t.interleaved = c.attr("interleaved", 0) != 0;
  t.turned = c.attr("rotary_embedding_dim", 0);
  if (c.rank(2) != 2 || !c.shape(2)[1].is_constant()) return corrupt("its tables are ", c.shape(2).text());
  if (c.rank(0) != 3 && c.rank(0) != 4) return corrupt("its input has ", c.rank(0), " axes instead of 3 or 4");
  GRAFT_TRY_ASSIGN(const ValueId positions, ms_positions(c, 1, c.shape(0)[c.rank(0) - 2]));
  t.cosine = rows_of(c, 2, positions);
  t.sine = rows_of(c, 3, positions);
  std::int64_t heads = c.attr("num_heads", 0);
  const Dim& width = c.shape(0).back();
  const std::int64_t head = 2 * c.shape(2)[1].value();
  if (heads == 0 && width.is_constant() && head > 0) heads = width.value() / head;
  return rotate_input(c, t, heads);
}

/// Causal, by lengths of sequences that are padded behind: what is padded sees and is seen by nobody that counts.
Status group_query_attention(NodeContext& c) {
  GRAFT_TRY(attention_floats(c, 5));
  for (const std::size_t past : {3, 4}) {
    if (c.has(past) && !(c.rank(past) == 4 && c.shape(past)[2] == Dim(0))) {
      return unsupported("its past is an input; graft keeps caches of its own");
    }
  }
  if (c.attr("smooth_softmax", 0) != 0 || c.has(11)) return unsupported("its softmax is a smooth one");
  const std::int64_t heads = c.attr("num_heads", 0), key_heads = c.attr("kv_num_heads", 0);
  Attended a;
  if (!c.has(1)) {
    const Dim width = c.rank(0) == 3 ? c.shape(0)[2] : Dim(0);
    constexpr std::int64_t kMostHeads = 1 << 20;
    const std::int64_t total = std::min(heads, kMostHeads) + 2 * std::min(key_heads, kMostHeads);
    if (heads < 1 || key_heads < 1 || heads > kMostHeads || key_heads > kMostHeads || !width.is_constant() ||
        width.value() < 1 || width.value() % total != 0) {
      return corrupt("its input is ", c.shape(0).text(), " for ", heads, " and twice ", key_heads, " heads");
    }
    const std::int64_t head = width.value() / total;
    const ValueId all = c.in(0);
    GRAFT_TRY_ASSIGN(a.q, parted(c, columns(c, all, 0, heads * head), heads, "query"));
    GRAFT_TRY_ASSIGN(a.k, parted(c, columns(c, all, heads * head, key_heads * head), key_heads, "key"));
    GRAFT_TRY_ASSIGN(a.v, parted(c, columns(c, all, (heads + key_heads) * head, key_heads * head), key_heads, "value"));
  } else {
    GRAFT_TRY_ASSIGN(a.q, parted(c, c.in(0), heads, "query"));
    GRAFT_TRY_ASSIGN(a.k, parted(c, c.in(1), key_heads, "key"));
    GRAFT_TRY_ASSIGN(a.v, parted(c, c.in(2), key_heads, "value"));
  }
  if (c.attr("do_rotary", 0) != 0) {
    if (!c.has(7) || !c.has(8) || c.rank(7) != 2 || c.rank(8) != 2) return corrupt("its tables of angles are missing");
    if (!c.status().ok()) return c.status();
    const Dim tokens = c.shape_of(a.q)[1];
    ValueId positions = kNoValue;
    if (c.has(9)) {
      positions = c.in(9);
    } else {
      GRAFT_TRY_ASSIGN(const ValueId row, places(c, tokens));
      positions = c.reshape(row, Shape{1, tokens});
    }
    RotaryTables t{rows_of(c, 7, positions), rows_of(c, 8, positions), c.attr("rotary_interleaved", 0) != 0,
                   2 * (c.shape(7)[1].is_constant() ? c.shape(7)[1].value() : 0)};
    GRAFT_TRY_ASSIGN(a.q, turned_heads(c, a.q, false, t));
    GRAFT_TRY_ASSIGN(a.k, turned_heads(c, a.k, false, t));
  }
  a.scale = c.attr_number("scale", 0);
  a.softcap = c.attr_number("softcap", 0);
  a.causal = true;
  a.window = std::max<std::int64_t>(0, c.attr("local_window_size", -1));
  GRAFT_TRY(add_bias_mask(c, 10, a));
  GRAFT_TRY_ASSIGN(const AttentionResult made, attend(c, a));
  c.out(0, fused_heads(c, made.y));
  if (c.wants(1)) c.out(1, a.k, kHeadsFirst);
  if (c.wants(2)) c.out(2, a.v, kHeadsFirst);
  return {};
}

}  // namespace

const RuleEntry kAttentionRules[] = {
    {"Attention", 3, 7, attention},
    {"RotaryEmbedding", 3, 4, rotary_embedding},
    {"com.microsoft.Attention", 2, 7, ms_attention},
    {"com.microsoft.MultiHeadAttention", 1, 10, multi_head_attention},
    {"com.microsoft.GroupQueryAttention", 1, 14, group_query_attention},
    {"com.microsoft.RotaryEmbedding", 4, 4, ms_rotary_embedding},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
