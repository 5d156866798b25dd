#include "tools/convert/onnx/nodes/attention.h"

#include <cmath>
#include <limits>

#include "runtime/core/op_id.gen.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kMaxHead = 256;                        // of the op attention
constexpr std::int64_t kMaxTriangle = std::int64_t{1} << 12;  // tokens of a mask that is written out

}  // namespace

ValueId columns(NodeContext& c, ValueId x, std::int64_t start, std::int64_t count, std::int64_t step) {
  if (!c.status().ok()) return kNoValue;
  const std::size_t rank = c.shape_of(x).rank();
  if (rank == 0) {
    c.fail(corrupt("what it takes columns of has no axes"));
    return kNoValue;
  }
  Ints starts(rank, 0), ends(rank, std::numeric_limits<std::int32_t>::max()), steps(rank, 1);
  starts.back() = start;
  ends.back() = start + (count - 1) * step + 1;
  steps.back() = step;
  return c.emit(Op::slice, {x}, {{"starts", starts}, {"ends", ends}, {"steps", steps}});
}

Result<ValueId> parted(NodeContext& c, ValueId x, std::int64_t heads, std::string_view what) {
  if (!c.status().ok()) return c.status();
  const Shape shape = c.shape_of(x);
  if (shape.rank() != 3) return unsupported("its ", what, " has the shape ", shape.text(), " instead of three axes");
  const Dim& width = shape[2];
  if (heads < 1 || !width.is_constant() || width.value() % heads != 0) {
    return corrupt("its ", what, " of width ", width.text(), " cannot be parted into ", heads, " heads");
  }
  return c.reshape(x, Shape{shape[0], shape[1], heads, width.value() / heads});
}

ValueId fused_heads(NodeContext& c, ValueId x) {
  const Shape shape = c.shape_of(x);
  if (!c.status().ok()) return kNoValue;
  return c.reshape(x, Shape{shape[0], shape[1], shape[2].value() * shape[3].value()});
}

ValueId hiding(NodeContext& c, ValueId seen, double hidden) {
  if (c.dtype_of(seen) == DType::i32) seen = c.cast(seen, DType::boolean);
  return c.emit(Op::affine, {c.cast(seen, DType::f32)}, {{"alpha", -hidden}, {"beta", hidden}});
}

Result<ValueId> spread_mask(NodeContext& c, ValueId mask, const Attended& a) {
  if (!c.status().ok()) return c.status();
  const Shape &q = c.shape_of(a.q), &k = c.shape_of(a.k);
  const Shape full = {q[0], q[2], q[1], k[1]};
  std::vector<Dim> dims(c.shape_of(mask).begin(), c.shape_of(mask).end());
  if (dims.size() < 2 || dims.size() > 4) return corrupt("its mask has ", dims.size(), " axes");
  dims.insert(dims.begin(), 4 - dims.size(), Dim(1));
  for (std::size_t i = 0; i < 4; ++i) {
    if (dims[i] == full[i] || dims[i] == Dim(1)) continue;
    return unsupported("its mask has the shape ", c.shape_of(mask).text(), ", which does not broadcast to ",
                       full.text());
  }
  ValueId x = c.reshape(mask, Shape(dims));
  dims.back() = full[3];
  return c.expand(x, Shape(dims));
}

Result<ValueId> places(NodeContext& c, const Dim& tokens) {
  constexpr std::int64_t kMost = 1 << 20;
  if (!tokens.is_constant() || tokens.value() > kMost) {
    return unsupported("its number of tokens is ", tokens.text(), "; constants up to ", kMost,
                       " are supported (--bind NAME=SIZE)");
  }
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < tokens.value(); ++i) all.push_back(i);
  return c.constant(HostTensor::of_ints(std::move(all)));
}

Result<ValueId> lengths_mask(NodeContext& c, ValueId lengths, const Attended& a) {
  if (!c.status().ok()) return c.status();
  const Dim batch = c.shape_of(a.k)[0], keys = c.shape_of(a.k)[1];
  if (c.shape_of(lengths).rank() != 1 || c.shape_of(lengths)[0] != batch) {
    return unsupported("its lengths have the shape ", c.shape_of(lengths).text(), " instead of [", batch.text(), "]");
  }
  GRAFT_TRY_ASSIGN(const ValueId row, places(c, keys));
  const ValueId all = c.reshape(row, Shape{1, 1, 1, keys});
  return hiding(c, c.emit(Op::less, {all, c.reshape(lengths, Shape{batch, 1, 1, 1})}), kHiddenKey);
}

Result<ValueId> frontier_mask(NodeContext& c, ValueId lengths, const Attended& a) {
  if (!c.status().ok()) return c.status();
  const Dim batch = c.shape_of(a.k)[0], queries = c.shape_of(a.q)[1], keys = c.shape_of(a.k)[1];
  if (c.shape_of(lengths).rank() != 1 || c.shape_of(lengths)[0] != batch) {
    return unsupported("its lengths have the shape ", c.shape_of(lengths).text(), " instead of [", batch.text(), "]");
  }
  GRAFT_TRY_ASSIGN(const ValueId key, places(c, keys));
  GRAFT_TRY_ASSIGN(const ValueId query, places(c, queries));
  const ValueId ahead =
      c.emit(Op::sub, {c.reshape(key, Shape{1, 1, 1, keys}), c.reshape(query, Shape{1, 1, queries, 1})});
  const ValueId most =
      c.emit(Op::sub, {c.cast(lengths, DType::i32), c.full(Shape{}, static_cast<double>(queries.value()), DType::i32)});
  return hiding(c, c.emit(Op::less_equal, {ahead, c.reshape(most, Shape{batch, 1, 1, 1})}), kHiddenKey);
}

namespace {

/// Hides the keys behind the last one that each query sees.
Result<ValueId> triangle(NodeContext& c, const Attended& a) {
  if (!c.status().ok()) return c.status();
  const Dim queries = c.shape_of(a.q)[1], keys = c.shape_of(a.k)[1];
  if (!queries.is_constant() || !keys.is_constant() || queries.value() > kMaxTriangle || keys.value() > kMaxTriangle) {
    return unsupported("its causal mask of ", queries.text(), " by ", keys.text(),
                       " tokens has to be written out, and up to ", kMaxTriangle, " are, where they are constant");
  }
  const std::int64_t past = a.past.value_or(keys.value() - queries.value());
  std::vector<float> table;
  for (std::int64_t i = 0; i < queries.value(); ++i) {
    for (std::int64_t j = 0; j < keys.value(); ++j) {
      table.push_back(j > i + past ? static_cast<float>(kHiddenKey) : 0.0F);
    }
  }
  return c.constant(HostTensor::of_floats({1, 1, queries.value(), keys.value()}, std::move(table)));
}

/// [batch, heads, tokens, head], each key head repeated for the query heads that read it.
ValueId all_heads(NodeContext& c, ValueId x, std::int64_t times) {
  x = c.transpose(x, kHeadsFirst);
  if (times == 1 || !c.status().ok()) return x;
  const Shape s = c.shape_of(x);
  const ValueId apart = c.reshape(x, Shape{s[0], s[1], 1, s[2], s[3]});
  const ValueId more = c.expand(apart, Shape{s[0], s[1], times, s[2], s[3]});
  return c.reshape(more, Shape{s[0], s[1].value() * times, s[2], s[3]});
}

/// Whether a query sees any key, with a last axis of 1. kNoValue if the masks cannot hide all keys: a triangle alone,
/// or masks that are trained.
ValueId sees_any(NodeContext& c, const Attended& a, bool has_triangle) {
  constexpr double kUnseen = -3e38;  // of the op attention
  ValueId sum;
  std::size_t frozen = 0;
  for (const ValueId mask : a.masks) {
    if (c.is_trained(mask)) continue;
    ++frozen;
    sum = sum.valid() ? c.emit(Op::add, {sum, mask}) : mask;
  }
  if (frozen <= (has_triangle ? 1U : 0U)) return kNoValue;
  const ValueId largest = c.emit(Op::reduce_max, {sum}, {{"axes", Ints{3}}, {"keepdims", std::int64_t{1}}});
  return c.emit(Op::greater, {largest, c.full(Shape{}, kUnseen)});
}

/// As products and a softmax. A query that sees no key gets zeros, as in ONNX Runtime and the op attention.
Result<AttentionResult> spelled_out(NodeContext& c, Attended a, std::int64_t times, bool whole) {
  if (a.window != 0) return unsupported("its window needs heads of at most ", kMaxHead, " elements");
  if (a.causal) {
    GRAFT_TRY_ASSIGN(const ValueId mask, triangle(c, a));
    a.masks.push_back(mask);
  }
  const ValueId sees = sees_any(c, a, a.causal);
  AttentionResult out;
  const ValueId q = c.transpose(a.q, kHeadsFirst), k = all_heads(c, a.k, times), v = all_heads(c, a.v, times);
  ValueId x = c.emit(Op::matmul, {q, k}, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{1}}});
  const auto scaled = [&](double alpha) { x = c.emit(Op::affine, {x}, {{"alpha", alpha}, {"beta", 0.0}}); };
  if (a.softcap > 0 && whole) out.raw = c.emit(Op::affine, {x}, {{"alpha", a.scale}, {"beta", 0.0}});
  scaled(a.softcap > 0 ? a.scale / a.softcap : a.scale);
  if (a.softcap == 0) out.raw = x;
  if (a.softcap > 0) {
    x = c.emit(Op::tanh, {x});
    scaled(a.softcap);
  }
  out.scores = x;
  for (const ValueId mask : a.masks) x = c.emit(Op::add, {x, mask});
  const auto or_zero = [&](ValueId value) {
    return sees.valid() ? c.emit(Op::where, {sees, value, c.full(Shape{}, 0)}) : value;
  };
  out.weights = or_zero(c.emit(Op::softmax, {or_zero(x)}, {{"axis", std::int64_t{3}}}));
  const ValueId y = c.emit(Op::matmul, {out.weights, v}, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}});
  out.y = c.transpose(y, kHeadsFirst);
  return out;
}

}  // namespace

Result<AttentionResult> attend(NodeContext& c, Attended a, bool whole) {
  if (!c.status().ok()) return c.status();
  const Shape q = c.shape_of(a.q), k = c.shape_of(a.k), v = c.shape_of(a.v);
  for (const Shape* shape : {&q, &k, &v}) {
    if (!(*shape)[2].is_constant() || !(*shape)[3].is_constant() || (*shape)[2].value() < 1 ||
        (*shape)[3].value() < 1) {
      return unsupported("its heads are ", shape->text(), ", and their number and size must be constant");
    }
  }
  if (q[3] != k[3] || k[2] != v[2] || k[1] != v[1] || q[0] != k[0] || k[0] != v[0]) {
    return corrupt("its queries ", q.text(), ", keys ", k.text(), " and values ", v.text(), " do not fit each other");
  }
  if (q[2].value() % k[2].value() != 0) {
    return corrupt("its ", q[2].text(), " query heads are no multiple of its ", k[2].text(), " key heads");
  }
  if (a.scale == 0) a.scale = 1 / std::sqrt(static_cast<double>(q[3].value()));
  // With as many keys as the past and the queries both ways of counting are one.
  if (a.past && add(q[1], Dim(*a.past)) == k[1]) a.past.reset();
  bool trained = false;
  for (const ValueId mask : a.masks) trained = trained || c.is_trained(mask);
  // The op has no gradient with respect to its mask.
  if (whole || trained || q[3] != v[3] || q[3].value() > kMaxHead) {
    return spelled_out(c, std::move(a), q[2].value() / k[2].value(), whole);
  }
  if (a.causal && a.past) {
    GRAFT_TRY_ASSIGN(const ValueId mask, triangle(c, a));
    a.masks.push_back(mask);
    a.causal = false;
  }
  Attrs attrs = {{"scale", a.scale}, {"causal", std::int64_t{a.causal}}, {"window", a.window}};
  if (a.softcap > 0) attrs.set("softcap", a.softcap);
  std::vector<ValueId> inputs = {a.q, a.k, a.v};
  if (!a.masks.empty()) {
    ValueId sum = a.masks[0];
    for (std::size_t i = 1; i < a.masks.size(); ++i) sum = c.emit(Op::add, {sum, a.masks[i]});
    inputs.insert(inputs.end(), {kNoValue, sum});
  }
  return AttentionResult{c.emit(Op::attention, std::move(inputs), std::move(attrs)), kNoValue, kNoValue};
}

Result<ValueId> turned_heads(NodeContext& c, ValueId x, bool heads_first, const RotaryTables& t) {
  if (!c.status().ok()) return c.status();
  const Shape shape = c.shape_of(x), table = c.shape_of(t.cosine);
  if (!shape.back().is_constant()) return unsupported("its heads have the size ", shape.back().text());
  const std::int64_t head = shape.back().value(), turned = t.turned == 0 ? head : t.turned, half = turned / 2;
  if (turned < 2 || turned % 2 != 0 || turned > head) {
    return corrupt("it turns ", turned, " elements of heads of ", head);
  }
  if (table.rank() != 3 || table[2] != Dim(half) || c.shape_of(t.sine) != table) {
    return corrupt("its tables are ", table.text(), " and ", c.shape_of(t.sine).text(), " for ", half, " pairs");
  }
  const Shape apart = heads_first ? Shape{table[0], 1, table[1], table[2]} : Shape{table[0], table[1], 1, table[2]};
  const ValueId cosine = c.reshape(t.cosine, apart), sine = c.reshape(t.sine, apart);
  const ValueId part = turned == head ? x : columns(c, x, 0, turned);
  const std::int64_t step = t.interleaved ? 2 : 1;
  const ValueId a = columns(c, part, 0, half, step), b = columns(c, part, t.interleaved ? 1 : half, half, step);
  const auto times = [&](ValueId left, ValueId right) { return c.emit(Op::mul, {left, right}); };
  ValueId first = c.emit(Op::sub, {times(a, cosine), times(b, sine)});
  ValueId second = c.emit(Op::add, {times(a, sine), times(b, cosine)});
  std::vector<Dim> dims(shape.begin(), shape.end());
  dims.back() = half;
  if (t.interleaved) {
    dims.push_back(1);
    first = c.reshape(first, Shape(dims));
    second = c.reshape(second, Shape(dims));
    dims.pop_back();
  }
  ValueId y = c.emit(Op::concat, {first, second}, {{"axis", std::int64_t{t.interleaved ? 4 : 3}}});
  dims.back() = turned;
  y = c.reshape(y, Shape(dims));
  if (turned == head) return y;
  return c.emit(Op::concat, {y, columns(c, x, turned, head - turned)}, {{"axis", std::int64_t{3}}});
}

}  // namespace graft::convert
