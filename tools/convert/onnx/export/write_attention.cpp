// What transformers are made of, composed of ops that opset 17 has.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/export/onnx_writer.h"

namespace graft::convert {
namespace {

bool has_input(const Node& node, std::size_t i) { return i < node.inputs.size() && node.inputs[i].valid(); }

Status refuse_step(const Node& node) {
  if (!node.attrs.flag("from_step")) return {};
  return unsupported("it counts from the place that a text was written up to, which a graph by itself does not know");
}

std::string axes_added(OnnxWriter& w, const std::string& x, const Ints& axes) {
  return w.add("Unsqueeze", {x, w.ints(axes)});
}

std::string permuted(OnnxWriter& w, const std::string& x, const Ints& perm) {
  return w.add("Transpose", {x}, {{"perm", perm}});
}

std::string both(OnnxWriter& w, const std::string& a, const std::string& b) {
  return a.empty() ? b : w.add("And", {a, b});
}

/// first, first + 1, ... as int64; both are tensors of one number.
std::string counted(OnnxWriter& w, const std::string& first, const std::string& end) {
  const auto scalar = [&](const std::string& x) { return w.add("Squeeze", {x}); };
  return w.add("Range", {scalar(first), scalar(end), scalar(w.ints({1}))});
}

/// Which keys the queries see by their places: bool [queries, keys], or "" where all.
Result<std::string> seen_places(OnnxWriter& w, const Node& node) {
  const bool causal = node.attrs.flag("causal");
  const std::int64_t window = node.attrs.integer("window");
  if (!causal && window == 0) return std::string();
  GRAFT_TRY_ASSIGN(const std::string queries, w.sizes(Shape{w.shape(node.inputs[0])[1]}));
  GRAFT_TRY_ASSIGN(const std::string keys, w.sizes(Shape{w.shape(node.inputs[1])[1]}));
  const std::string key = counted(w, w.ints({0}), keys);
  const std::string query = axes_added(w, counted(w, w.add("Sub", {keys, queries}), keys), {1});
  std::string seen;
  if (causal) seen = w.add("LessOrEqual", {key, query});
  if (window != 0) {
    const std::string apart = w.add("Abs", {w.add("Sub", {key, query})});
    seen = both(w, seen, w.add("Less", {apart, w.ints({window})}));
  }
  return seen;
}

/// And by packed sequences, and where the mask is not as good as minus infinity. It broadcasts to the scores.
Result<std::string> seen_keys(OnnxWriter& w, const Node& node) {
  GRAFT_TRY_ASSIGN(std::string seen, seen_places(w, node));
  if (has_input(node, 3)) {
    const std::string all = w.name(node.inputs[3]);
    const std::string own = axes_added(w, all, {1, 3});
    seen = both(w, seen, w.add("Equal", {own, axes_added(w, all, {1, 2})}));
    seen = both(w, seen, w.add("GreaterOrEqual", {own, w.number(0, DType::i32)}));
  }
  if (has_input(node, 4)) seen = both(w, seen, w.add("Greater", {w.name(node.inputs[4]), w.number(-3e38)}));
  return seen;
}

/// softmax(q k^T * scale + mask) v; a query that sees no key gives zeros.
Status write_attention_op(OnnxWriter& w, const Node& node) {
  GRAFT_TRY(refuse_step(node));
  const Shape &q = w.shape(node.inputs[0]), &k = w.shape(node.inputs[1]);
  const std::int64_t heads = q[2].value(), kv_heads = k[2].value();
  const std::string queries = permuted(w, w.name(node.inputs[0]), {0, 2, 1, 3});
  std::string keys = permuted(w, w.name(node.inputs[1]), {0, 2, 3, 1});
  std::string values = permuted(w, w.name(node.inputs[2]), {0, 2, 1, 3});
  if (heads != kv_heads) {
    Ints group;
    for (std::int64_t head = 0; head < heads; ++head) group.push_back(head / (heads / kv_heads));
    const std::string index = w.ints(group);
    keys = w.add("Gather", {keys, index}, {{"axis", std::int64_t{1}}});
    values = w.add("Gather", {values, index}, {{"axis", std::int64_t{1}}});
  }
  const double scale =
      node.attrs.has("scale") ? node.attrs.number("scale") : 1 / std::sqrt(static_cast<double>(q[3].value()));
  std::string scores = w.add("Mul", {w.add("MatMul", {queries, keys}), w.number(scale)});
  if (const double cap = node.attrs.number("softcap"); cap > 0) {
    scores = w.add("Mul", {w.add("Tanh", {w.add("Div", {scores, w.number(cap)})}), w.number(cap)});
  }
  if (has_input(node, 4)) scores = w.add("Add", {scores, w.name(node.inputs[4])});
  GRAFT_TRY_ASSIGN(const std::string seen, seen_keys(w, node));
  if (!seen.empty()) scores = w.add("Where", {seen, scores, w.number(-3e38)});
  std::string weights = w.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  if (!seen.empty()) weights = w.add("Where", {seen, weights, w.number(0)});
  w.is(node.outputs[0], permuted(w, w.add("MatMul", {weights, values}), {0, 2, 1, 3}));
  return {};
}

/// Elements first, first + step, ... below end of the last axis.
std::string last_axis(OnnxWriter& w, const std::string& x, std::int64_t first, std::int64_t end, std::int64_t step) {
  return w.add("Slice", {x, w.ints({first}), w.ints({end}), w.ints({-1}), w.ints({step})});
}

/// The angles of rows of x [.., tokens, heads, elements], as a tensor that broadcasts to halves of it.
Result<std::string> rope_angles(OnnxWriter& w, const Node& node, std::int64_t half) {
  const Shape& x = w.shape(node.inputs[0]);
  std::string positions;
  if (has_input(node, 1)) {
    positions = w.name(node.inputs[1]);
  } else {
    GRAFT_TRY_ASSIGN(const std::string tokens, w.sizes(Shape{x[x.rank() - 3]}));
    positions = counted(w, w.ints({0}), tokens);
  }
  std::string frequencies;
  if (has_input(node, 2)) {
    frequencies = w.name(node.inputs[2]);
  } else {
    std::vector<float> numbers;
    const double theta = node.attrs.number("theta");
    for (std::int64_t i = 0; i < half; ++i) {
      numbers.push_back(static_cast<float>(std::pow(theta, -static_cast<double>(i) / static_cast<double>(half))));
    }
    frequencies = w.numbers({half}, numbers);
  }
  return w.add("Mul", {axes_added(w, w.cast(positions, onnx::TensorProto::FLOAT), {-1, -2}), frequencies});
}

Status write_rope(OnnxWriter& w, const Node& node) {
  GRAFT_TRY(refuse_step(node));
  const Shape& shape = w.shape(node.inputs[0]);
  const std::int64_t dim = shape.back().value(), given = node.attrs.integer("rotated");
  const std::int64_t half = (given == 0 ? dim : given) / 2;
  const bool interleaved = node.attrs.flag("interleaved");
  GRAFT_TRY_ASSIGN(const std::string angles, rope_angles(w, node, half));
  const double magnitude = node.attrs.number("magnitude");
  const std::string cosine = w.add("Mul", {w.add("Cos", {angles}), w.number(magnitude)});
  const double turn = node.attrs.flag("inverse") ? -magnitude : magnitude;
  const std::string sine = w.add("Mul", {w.add("Sin", {angles}), w.number(turn)});
  const std::string x = w.name(node.inputs[0]);
  const std::string a = interleaved ? last_axis(w, x, 0, 2 * half, 2) : last_axis(w, x, 0, half, 1);
  const std::string b = interleaved ? last_axis(w, x, 1, 2 * half, 2) : last_axis(w, x, half, 2 * half, 1);
  const std::string first = w.add("Sub", {w.add("Mul", {a, cosine}), w.add("Mul", {b, sine})});
  const std::string second = w.add("Add", {w.add("Mul", {b, cosine}), w.add("Mul", {a, sine})});
  std::vector<std::string> parts = {first, second};
  const std::vector<OnnxWriter::Attr> last = {{"axis", std::int64_t{-1}}};
  if (interleaved) {
    std::vector<Dim> dims(shape.begin(), shape.end());
    dims.back() = 2 * half;
    GRAFT_TRY_ASSIGN(const std::string sizes, w.reshape_sizes(Shape(std::move(dims))));
    const std::string pairs = w.add("Concat", {axes_added(w, first, {-1}), axes_added(w, second, {-1})}, last);
    parts = {w.add("Reshape", {pairs, sizes})};
  }
  if (2 * half < dim) parts.push_back(last_axis(w, x, 2 * half, dim, 1));
  w.is(node.outputs[0], parts.size() == 1 ? parts[0] : w.add("Concat", parts, last));
  return {};
}

Status write_positions(OnnxWriter& w, const Node& node) {
  GRAFT_TRY(refuse_step(node));
  const Shape& shape = w.shape(node.outputs[0]);
  GRAFT_TRY_ASSIGN(const std::string end, w.sizes(Shape{shape.back()}));
  std::string y = counted(w, w.ints({0}), end);
  if (shape.rank() > 1) {
    GRAFT_TRY_ASSIGN(const std::string sizes, w.sizes(shape));
    y = w.add("Expand", {y, sizes});
  }
  w.is(node.outputs[0], w.cast(y, onnx::TensorProto::INT32));
  return {};
}

void write_gated(OnnxWriter& w, const Node& node) {
  const std::string x = w.name(node.inputs[0]), how = node.attrs.text("activation");
  const std::string gate = how == "silu" ? w.add("Mul", {x, w.add("Sigmoid", {x})}) : w.gelu(x, how != "gelu");
  w.is(node.outputs[0], w.add("Mul", {gate, w.name(node.inputs[1])}));
}

/// y + scale * (x A^T) B^T.
void write_lora(OnnxWriter& w, const Node& node) {
  const std::string low = w.add("MatMul", {w.name(node.inputs[1]), permuted(w, w.name(node.inputs[2]), {1, 0})});
  const std::string high = w.add("MatMul", {low, permuted(w, w.name(node.inputs[3]), {1, 0})});
  const std::string scaled = w.add("Mul", {high, w.number(node.attrs.number("scale"))});
  w.is(node.outputs[0], w.add("Add", {w.name(node.inputs[0]), scaled}));
}

}  // namespace

Result<bool> write_transformer(OnnxWriter& w, const Node& node) {
  switch (node.op) {
    case Op::attention: GRAFT_TRY(write_attention_op(w, node)); return true;
    case Op::rope: GRAFT_TRY(write_rope(w, node)); return true;
    case Op::positions: GRAFT_TRY(write_positions(w, node)); return true;
    case Op::gated: write_gated(w, node); return true;
    case Op::lora: write_lora(w, node); return true;
    default: return false;
  }
}

}  // namespace graft::convert
