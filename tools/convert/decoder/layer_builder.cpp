#include "tools/convert/decoder/layer_builder.h"

#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"

namespace graft::convert {
ValueId LayerBuilder::weight(DecoderWeights::Member member, std::int64_t layer, std::string_view suffix,
                             const Shape& shape) {
  if (!b_.status().ok()) return kNoValue;
  auto value = weights_.add(member, layer, suffix, shape);
  if (value.ok()) return *value;
  b_.fail(std::move(value).status());
  return kNoValue;
}

ValueId LayerBuilder::linear(ValueId x, DecoderWeights::Member member, std::int64_t layer, std::int64_t in,
                             std::int64_t out, bool bias) {
  const bool transposed = spec_.transposed_weights && layer != kNoLayer;
  const Shape shape = transposed ? Shape{in, out} : Shape{out, in};
  std::vector<ValueId> inputs = {x, weight(member, layer, ".weight", shape)};
  if (bias) inputs.push_back(weight(member, layer, ".bias", {out}));
  return b_.node(Op::matmul, std::move(inputs), {{"trans_b", std::int64_t{!transposed}}}, weights_.name(member, layer));
}

ValueId LayerBuilder::norm(ValueId x, DecoderWeights::Member member, std::int64_t layer, std::int64_t size) {
  Attrs attrs = {{"axis", std::int64_t{-1}}, {"epsilon", spec_.epsilon}};
  std::vector<ValueId> inputs = {x};
  if (spec_.norm_weight) inputs.push_back(weight(member, layer, ".weight", {size}));
  if (spec_.layer_norm && spec_.norm_add_unit) {
    inputs.back() = b_.node(Op::affine, {inputs.back()}, {{"beta", 1.0}}, weights_.name(member, layer) + ".scale");
  } else if (spec_.norm_add_unit) {
    attrs.set("add_unit", std::int64_t{1});
  }
  if (spec_.layer_norm && spec_.norm_bias) inputs.push_back(weight(member, layer, ".bias", {size}));
  return b_.node(spec_.layer_norm ? Op::layer_norm : Op::rms_norm, std::move(inputs), std::move(attrs),
                 weights_.name(member, layer));
}

/// Columns [first, first + count) of the last of three axes.
ValueId LayerBuilder::columns(ValueId x, std::int64_t first, std::int64_t count, const std::string& name) {
  constexpr std::int64_t kToEnd = INT32_MAX;
  return b_.node(
      Op::slice, {x},
      {{"starts", Ints{0, 0, first}}, {"ends", Ints{kToEnd, kToEnd, first + count}}, {"steps", Ints{1, 1, 1}}}, name);
}

ValueId LayerBuilder::heads_of(ValueId x, std::int64_t heads, const std::string& name) {
  return b_.node(Op::reshape, {x}, {{"shape", Shape{batch_, seq_, heads, spec_.head_dim}}}, name);
}

ValueId LayerBuilder::rotate(ValueId x, const LayerSpec& layer, const std::string& name) {
  if (spec_.learned_positions || !layer.rotates) return x;
  const RopeSpec& rope = layer.local_rope ? spec_.local_rope : spec_.rope;
  const ValueId frequencies = layer.local_rope ? local_frequencies_ : frequencies_;
  Attrs attrs = {{"theta", rope.theta}};
  if (rope.rotated != 0) attrs.set("rotated", rope.rotated);
  if (rope.interleaved) attrs.set("interleaved", std::int64_t{1});
  if (rope.magnitude != 1) attrs.set("magnitude", rope.magnitude);
  if (!frequencies.valid()) return b_.node(Op::rope, {x}, std::move(attrs), name);
  return b_.node(Op::rope, {x, kNoValue, frequencies}, std::move(attrs), name);
}

ValueId LayerBuilder::scaled(ValueId x, double factor, const std::string& name) {
  return factor == 1 ? x : b_.node(Op::affine, {x}, {{"alpha", factor}}, name);
}

ValueId LayerBuilder::softcap(ValueId x, double cap, const std::string& name) {
  if (cap == 0) return x;
  return b_.scale(b_.node(Op::tanh, {b_.scale(x, 1 / cap)}, {}, name), cap);
}

ValueId LayerBuilder::activate(ValueId x, Activation activation, const std::string& name) {
  switch (activation) {
    case Activation::silu: return b_.node(Op::silu, {x}, {}, name);
    case Activation::relu: return b_.node(Op::relu, {x}, {}, name);
    case Activation::relu_squared: return b_.node(Op::square, {b_.node(Op::relu, {x}, {}, name + ".relu")}, {}, name);
    case Activation::tanh: return b_.node(Op::tanh, {x}, {}, name);
    case Activation::gelu: return b_.node(Op::gelu, {x}, {}, name);
    case Activation::gelu_tanh: return b_.node(Op::gelu, {x}, {{"approximate", std::string("tanh")}}, name);
  }
  return kNoValue;
}

ValueId LayerBuilder::gated(ValueId gate, ValueId up, const std::string& name) {
  if (spec_.activation == Activation::relu || spec_.activation == Activation::relu_squared) {
    return b_.node(Op::mul, {activate(gate, spec_.activation, name + ".activation"), up}, {}, name + ".gated");
  }
  const char* activation = spec_.activation == Activation::silu   ? "silu"
                           : spec_.activation == Activation::gelu ? "gelu"
                                                                  : "gelu_tanh";
  return b_.node(Op::gated, {gate, up}, {{"activation", std::string(activation)}}, name + ".gated");
}

LayerBuilder::Heads LayerBuilder::project(ValueId x, std::int64_t layer) {
  const std::int64_t query = spec_.heads * spec_.head_dim;
  const std::int64_t key = spec_.kv_heads * spec_.head_dim;
  if (!spec_.fused_qkv) {
    return {linear(x, &Names::query, layer, spec_.hidden, query, spec_.qkv_bias),
            linear(x, &Names::key, layer, spec_.hidden, key, spec_.qkv_bias),
            linear(x, &Names::value, layer, spec_.hidden, key, spec_.qkv_bias)};
  }
  if (spec_.grouped_qkv) return project_groups(x, layer);
  const ValueId all = linear(x, &Names::query_key_value, layer, spec_.hidden, query + 2 * key, spec_.qkv_bias);
  const std::string name = weights_.name(&Names::query_key_value, layer);
  return {columns(all, 0, query, name + ".q"), columns(all, query, key, name + ".k"),
          columns(all, query + key, key, name + ".v")};
}

LayerBuilder::Heads LayerBuilder::project_groups(ValueId x, std::int64_t layer) {
  constexpr std::int64_t kToEnd = INT32_MAX;
  const std::int64_t group = spec_.heads / spec_.kv_heads, parts = group + 2, dim = spec_.head_dim;
  const std::string name = weights_.name(&Names::query_key_value, layer);
  const ValueId all =
      linear(x, &Names::query_key_value, layer, spec_.hidden, spec_.kv_heads * parts * dim, spec_.qkv_bias);
  const ValueId groups =
      b_.node(Op::reshape, {all}, {{"shape", Shape{batch_, seq_, spec_.kv_heads, parts, dim}}}, name + ".groups");
  const auto part = [&](std::int64_t first, std::int64_t count, const char* what) {
    const ValueId cut = b_.node(Op::slice, {groups},
                                {{"starts", Ints{0, 0, 0, first, 0}},
                                 {"ends", Ints{kToEnd, kToEnd, kToEnd, first + count, kToEnd}},
                                 {"steps", Ints{1, 1, 1, 1, 1}}},
                                cat(name, ".", what, ".groups"));
    const Shape flat = {batch_, seq_, spec_.kv_heads * count * dim};
    return b_.node(Op::reshape, {cut}, {{"shape", flat}}, cat(name, ".", what));
  };
  const ValueId query = part(0, group, "q"), key = part(group, 1, "k");
  return {query, key, part(group + 1, 1, "v")};
}

ValueId LayerBuilder::attention(ValueId x, std::int64_t layer) {
  const LayerSpec& kind = spec_.layers[static_cast<std::size_t>(layer)];
  const std::string name = cat("layers.", layer, ".attention");
  Heads h = project(x, layer);
  if (spec_.whole_query_key_norm) {
    h.query = norm(h.query, &Names::query_norm, layer, spec_.heads * spec_.head_dim);
    h.key = norm(h.key, &Names::key_norm, layer, spec_.kv_heads * spec_.head_dim);
  }
  h.query = heads_of(h.query, spec_.heads, name + ".q");
  h.key = heads_of(h.key, spec_.kv_heads, name + ".k");
  h.value = heads_of(h.value, spec_.kv_heads, name + ".v");
  if (spec_.query_key_norm) {
    h.query = norm(h.query, &Names::query_norm, layer, spec_.head_dim);
    h.key = norm(h.key, &Names::key_norm, layer, spec_.head_dim);
  }
  h.query = rotate(h.query, kind, name + ".q_rope");
  h.key = rotate(h.key, kind, name + ".k_rope");
  Attrs attrs = {{"causal", std::int64_t{!mask_.valid()}}};
  if (spec_.attention_scale != 0) attrs.set("scale", spec_.attention_scale);
  if (spec_.attention_softcap != 0) attrs.set("softcap", spec_.attention_softcap);
  if (kind.window != 0) attrs.set("window", kind.window);
  std::vector<ValueId> inputs = {h.query, h.key, h.value};
  if (mask_.valid()) inputs.push_back(mask_);
  const ValueId mixed = b_.node(Op::attention, std::move(inputs), std::move(attrs), name);
  const std::int64_t width = spec_.heads * spec_.head_dim;
  const ValueId flat = b_.node(Op::reshape, {mixed}, {{"shape", Shape{batch_, seq_, width}}}, name + ".flat");
  return linear(flat, &Names::attention_output, layer, width, spec_.hidden, spec_.attention_output_bias);
}

ValueId LayerBuilder::feed_forward(ValueId x, std::int64_t layer) {
  const std::string name = cat("layers.", layer, ".mlp");
  ValueId inner;
  if (spec_.fused_gate_up) {
    const ValueId both = linear(x, &Names::gate_up, layer, spec_.hidden, 2 * spec_.ffn, spec_.ffn_bias);
    inner = gated(columns(both, 0, spec_.ffn, name + ".gate"), columns(both, spec_.ffn, spec_.ffn, name + ".up"), name);
  } else if (spec_.gated) {
    const ValueId gate = linear(x, &Names::gate, layer, spec_.hidden, spec_.ffn, spec_.ffn_bias);
    const ValueId up = linear(x, &Names::up, layer, spec_.hidden, spec_.ffn, spec_.ffn_bias);
    inner = gated(gate, up, name);
  } else {
    inner = activate(linear(x, &Names::up, layer, spec_.hidden, spec_.ffn, spec_.ffn_bias), spec_.activation,
                     name + ".activation");
  }
  return linear(inner, &Names::down, layer, spec_.ffn, spec_.hidden, spec_.ffn_bias);
}

ValueId LayerBuilder::add_positions(ValueId x, std::int64_t width) {
  const std::int64_t first = spec_.first_position;
  const ValueId table = weight(&Names::positions, kNoLayer, ".weight", {spec_.context + first, width});
  ValueId places = b_.node(Op::positions, {}, {{"shape", Shape{seq_}}}, "positions");
  if (first != 0) {
    const ValueId offset = b_.full({}, static_cast<double>(first), DType::i32);
    places = b_.node(Op::add, {places, offset}, {}, "positions.offset");
  }
  const std::string name = weights_.name(&Names::positions);
  return b_.node(Op::add, {x, b_.node(Op::gather, {table, places}, {{"axis", std::int64_t{0}}}, name)}, {},
                 name + ".added");
}

ValueId LayerBuilder::whole_layer(ValueId x, std::int64_t layer) {
  const std::string name = cat("layers.", layer);
  const bool normed = spec_.before_norms && !spec_.layers[static_cast<std::size_t>(layer)].raw;
  const ValueId read = normed ? norm(x, &Names::attention_norm, layer, spec_.hidden) : x;
  ValueId mixed = attention(read, layer);
  if (spec_.after_norms) mixed = norm(mixed, &Names::after_attention_norm, layer, spec_.hidden);
  mixed = scaled(mixed, spec_.residual_scale, name + ".attention.scaled");
  ValueId sum = b_.node(Op::add, {x, mixed}, {}, name + ".attention.residual");
  if (spec_.residual_norms) sum = norm(sum, &Names::after_attention_norm, layer, spec_.hidden);
  ValueId then = spec_.parallel ? read : sum;
  if (spec_.parallel && spec_.parallel_norms) then = norm(x, &Names::ffn_norm, layer, spec_.hidden);
  if (!spec_.parallel && spec_.before_norms) then = norm(sum, &Names::ffn_norm, layer, spec_.hidden);
  ValueId fed = feed_forward(then, layer);
  if (spec_.after_norms) fed = norm(fed, &Names::after_ffn_norm, layer, spec_.hidden);
  fed = scaled(fed, spec_.residual_scale, name + ".mlp.scaled");
  sum = b_.node(Op::add, {sum, fed}, {}, name + ".mlp.residual");
  return spec_.residual_norms ? norm(sum, &Names::after_ffn_norm, layer, spec_.hidden) : sum;
}

Status LayerBuilder::add_frequencies() {
  const std::pair<const RopeSpec*, ValueId*> ropes[] = {{&spec_.rope, &frequencies_},
                                                        {&spec_.local_rope, &local_frequencies_}};
  for (const auto& [rope, value] : ropes) {
    if (rope->frequencies.empty()) continue;
    const char* name = value == &frequencies_ ? "rope.frequencies" : "rope.local_frequencies";
    GRAFT_TRY_ASSIGN(*value, weights_.add_constant(name, rope->frequencies));
  }
  return {};
}

Status check_spec(const DecoderSpec& spec) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"hidden size", spec.hidden},           {"number of attention heads", spec.heads},
      {"number of key heads", spec.kv_heads}, {"size of a head", spec.head_dim},
      {"feed-forward size", spec.ffn},        {"vocabulary", spec.vocabulary}};
  for (const auto& [what, size] : sizes) {
    if (size < 1 || size > INT32_MAX) return invalid("The model's ", what, " is ", size, "; 1 to 2^31 - 1 can be.");
  }
  constexpr std::size_t kMostLayers = 1000;
  if (spec.layers.empty() || spec.layers.size() > kMostLayers) {
    return invalid("The model has ", spec.layers.size(), " layers; 1 to ", kMostLayers, " can be.");
  }
  if (spec.grouped_qkv && spec.heads % spec.kv_heads != 0) {
    return invalid("The model has ", spec.heads, " heads of queries for ", spec.kv_heads,
                   " of keys, no multiple of them.");
  }
  if (spec.learned_positions && spec.context < 1) return invalid("The model's number of positions is not known.");
  const double scales[] = {spec.attention_scale, spec.embedding_scale, spec.residual_scale, 1 / spec.logit_divisor};
  if (!(spec.epsilon >= 0) || !std::ranges::all_of(scales, [](double x) { return std::isfinite(x); })) {
    return invalid("One of the model's numbers (epsilon of norms, scales) is negative or not finite.");
  }
  return {};
}

}  // namespace graft::convert
