// LSTM, GRU and RNN: per direction one product of all inputs with W and one op for the recurrence.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kWholeAxis = 2147483647;
enum Input : std::size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kP };

struct Layer {
  Op op = Op::lstm;
  std::int64_t gates = 4;
  std::int64_t hidden = 0;
  std::int64_t directions = 1;
  bool first_reverse = false;
  bool rows_first = false;  // layout 1
  bool resets_product = false;
  Dim steps, rows;
  std::vector<std::string> activations;  // a text for each direction
  double clip = 0;
  double cell_clip = 0;  // TFLite's

  bool reverse(std::int64_t direction) const { return first_reverse || direction == 1; }
};

// --- activations

struct Known {
  const char* name;
  int numbers;
};
constexpr Known kKnown[] = {{"Affine", 2},   {"Elu", 1},        {"HardSigmoid", 2},    {"LeakyRelu", 1},
                            {"Relu", 0},     {"ScaledTanh", 2}, {"Sigmoid", 0},        {"Softplus", 0},
                            {"Softsign", 0}, {"Tanh", 0},       {"ThresholdedRelu", 1}};

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string text_of(float number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

/// Numbers that a list gives in the order of the activations that take one; ONNX's own where it has no more.
class Numbers {
 public:
  Numbers(const NodeContext& c, std::string_view name) {
    const auto found = c.node.attrs.find(name);
    if (found != c.node.attrs.end()) numbers_ = found->second.numbers;
  }
  std::optional<float> next() { return at_ < numbers_.size() ? std::optional(numbers_[at_++]) : std::nullopt; }

 private:
  std::vector<float> numbers_;
  std::size_t at_ = 0;
};

/// The name and numbers as graft's ops have them. beta alone follows ONNX's own alpha.
Result<std::string> activation_text(std::string_view name, Numbers& alphas, Numbers& betas) {
  const auto known = std::ranges::find_if(kKnown, [&](const Known& k) { return same_name(k.name, name); });
  if (known == std::end(kKnown)) return unsupported("its activation \"", name, "\" is not supported");
  const auto alpha = known->numbers > 0 ? alphas.next() : std::nullopt;
  const auto beta = known->numbers > 1 ? betas.next() : std::nullopt;
  if (!alpha && !beta) return std::string(known->name);
  const float own_alpha = same_name(name, "HardSigmoid") ? 0.2F : 1;
  std::string text = cat(known->name, "(", text_of(alpha.value_or(own_alpha)));
  if (beta) text += cat(",", text_of(*beta));
  return text + ")";
}

Status read_activations(NodeContext& c, Layer& layer) {
  std::vector<std::string> names = {"Tanh"};
  if (layer.op == Op::lstm) names = {"Sigmoid", "Tanh", "Tanh"};
  if (layer.op == Op::gru) names = {"Sigmoid", "Tanh"};
  const std::size_t each = names.size();
  const auto all = each * static_cast<std::size_t>(layer.directions);
  if (const auto found = c.node.attrs.find("activations");
      found != c.node.attrs.end() && !found->second.texts.empty()) {
    names = found->second.texts;
    if (names.size() != all) return corrupt("it names ", names.size(), " activations instead of ", all);
  }
  Numbers alphas(c, "activation_alpha"), betas(c, "activation_beta");
  for (std::size_t i = 0; i < all; ++i) {
    GRAFT_TRY_ASSIGN(const std::string text, activation_text(names[i % names.size()], alphas, betas));
    if (i % each == 0) {
      layer.activations.push_back(text);
    } else {
      layer.activations.back() += "," + text;
    }
  }
  return {};
}

// --- shapes

Status expect_shape(NodeContext& c, std::size_t i, const Shape& wanted) {
  if (!c.has(i) || one_shape(c.shape(i), wanted)) return {};
  return corrupt("its input ", i, " has the shape ", c.shape(i).text(), " instead of ", wanted.text());
}

Status check_inputs(NodeContext& c, const Layer& l) {
  for (const std::size_t i : {kX, kW, kR, kB, kInitialH, kInitialC, kP}) {
    if (c.has(i) && i < c.inputs() && (i < kInitialC || l.op == Op::lstm) && !is_float(c.type(i))) {
      return unsupported("its input ", i, " is ", elem_name(c.type(i)), ", and only floats are supported");
    }
  }
  if (c.has(kLengths) && !is_integer(c.type(kLengths))) {
    return corrupt("its sequence lengths are ", elem_name(c.type(kLengths)), ", not integers");
  }
  const std::int64_t all = l.gates * l.hidden;
  GRAFT_TRY(expect_shape(c, kW, {l.directions, all, c.shape(kX)[2]}));
  GRAFT_TRY(expect_shape(c, kR, {l.directions, all, l.hidden}));
  GRAFT_TRY(expect_shape(c, kB, {l.directions, 2 * all}));
  GRAFT_TRY(expect_shape(c, kLengths, {l.rows}));
  const Shape state = l.rows_first ? Shape{l.rows, l.directions, l.hidden} : Shape{l.directions, l.rows, l.hidden};
  GRAFT_TRY(expect_shape(c, kInitialH, state));
  if (l.op != Op::lstm) return {};
  GRAFT_TRY(expect_shape(c, kInitialC, state));
  return expect_shape(c, kP, {l.directions, 3 * l.hidden});
}

Result<Layer> read_layer(NodeContext& c) {
  Layer l;
  l.op = c.target;
  l.gates = l.op == Op::lstm ? 4 : l.op == Op::gru ? 3 : 1;
  const std::string direction = c.attr_text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return corrupt("its direction is \"", direction, "\"");
  }
  l.directions = direction == "bidirectional" ? 2 : 1;
  l.first_reverse = direction == "reverse";
  const std::int64_t layout = c.attr("layout", 0);
  if (layout != 0 && layout != 1) return corrupt("its layout is ", layout, " instead of 0 or 1");
  l.rows_first = layout == 1;
  for (const std::size_t i : {kX, kW, kR}) {
    if (c.rank(i) != 3) return corrupt("its input ", i, " has ", c.rank(i), " axes instead of 3");
  }
  if (!c.shape(kR)[2].is_constant()) return unsupported("its number of hidden elements is symbolic");
  l.hidden = c.shape(kR)[2].value();
  if (l.hidden < 1 || l.hidden > kWholeAxis / 8) return corrupt("it has ", l.hidden, " hidden elements");
  if (c.attr("hidden_size", l.hidden) != l.hidden) {
    return corrupt("its hidden_size is ", c.attr("hidden_size", 0), ", but R has the shape ", c.shape(kR).text());
  }
  l.steps = c.shape(kX)[l.rows_first ? 1 : 0];
  l.rows = c.shape(kX)[l.rows_first ? 0 : 1];
  l.clip = c.attr_number("clip", 0);
  if (l.clip < 0) return corrupt("its clip is ", l.clip);
  if (c.node.domain == "tflite") l.cell_clip = c.attr_number("cell_clip", 0);
  if (!(l.cell_clip >= 0)) return corrupt("its cell_clip is ", l.cell_clip);
  l.resets_product = l.op == Op::gru && c.attr("linear_before_reset", 0) != 0;
  GRAFT_TRY(read_activations(c, l));
  GRAFT_TRY(check_inputs(c, l));
  return l;
}

// --- operands

ValueId range_of(NodeContext& c, ValueId v, std::size_t axis, std::int64_t first, std::int64_t count) {
  if (!v.valid() || c.shape_of(v)[axis] == Dim(count)) return v;
  const std::size_t rank = c.shape_of(v).rank();
  Ints starts(rank, 0), ends(rank, kWholeAxis);
  starts[axis] = first;
  ends[axis] = first + count;
  return c.emit(Op::slice, {v}, {{"starts", starts}, {"ends", ends}, {"steps", Ints(rank, 1)}});
}

/// One direction's part of a weight, without the axis of directions.
ValueId of_direction(NodeContext& c, std::size_t input, std::int64_t direction) {
  const ValueId whole = c.in(input);
  if (!whole.valid()) return whole;
  const ValueId own = range_of(c, whole, 0, direction, 1);
  const Shape& shape = c.shape_of(own);
  return own.valid() ? c.reshape(own, Shape(std::vector<Dim>(shape.begin() + 1, shape.end()))) : own;
}

/// The state before the first step; kNoValue where it is zero.
ValueId initial(NodeContext& c, const Layer& l, std::size_t input, std::int64_t direction) {
  if (!c.has(input)) return kNoValue;
  const HostTensor* const host = c.host(input);
  if (host != nullptr && !c.record(input).trainable && !host->symbolic() &&
      std::ranges::all_of(host->floats, [](float x) { return x == 0; })) {
    return kNoValue;
  }
  const ValueId whole = c.in(input);
  if (!whole.valid() || c.is_zero(whole)) return kNoValue;
  const ValueId own = range_of(c, whole, l.rows_first ? 1 : 0, direction, 1);
  return c.reshape(own, Shape{l.rows, l.hidden});
}

/// Of the gates: W's and R's bias together. Where a GRU's reset gate comes behind the product, the hidden gate's R bias
/// is given apart.
struct Biases {
  ValueId gates;
  ValueId inner;
};
Biases biases_of(NodeContext& c, const Layer& l, std::int64_t direction) {
  if (!c.has(kB)) return {};
  const std::int64_t all = l.gates * l.hidden;
  const ValueId both = of_direction(c, kB, direction);
  const ValueId of_w = range_of(c, both, 0, 0, all);
  if (!l.resets_product) return {c.emit(Op::add, {of_w, range_of(c, both, 0, all, all)}), kNoValue};
  const std::int64_t first = 2 * l.hidden;
  const ValueId sum = c.emit(Op::add, {range_of(c, both, 0, 0, first), range_of(c, both, 0, all, first)});
  return {c.emit(Op::concat, {sum, range_of(c, both, 0, first, l.hidden)}, {{"axis", std::int64_t{0}}}),
          range_of(c, both, 0, all + first, l.hidden)};
}

Attrs attrs_of(const NodeContext& c, const Layer& l, std::int64_t direction) {
  Attrs attrs;
  if (l.reverse(direction)) attrs.set("reverse", std::int64_t{1});
  if (l.clip > 0) attrs.set("clip", l.clip);
  if (l.cell_clip > 0) attrs.set("cell_clip", l.cell_clip);
  attrs.set("activations", l.activations[static_cast<std::size_t>(direction)]);
  if (l.op == Op::lstm && c.attr("input_forget", 0) != 0) attrs.set("input_forget", std::int64_t{1});
  if (l.resets_product) attrs.set("linear_before_reset", std::int64_t{1});
  return attrs;
}

/// y [steps, rows, hidden], y_h and (LSTM) y_c [rows, hidden].
std::vector<ValueId> run_direction(NodeContext& c, const Layer& l, ValueId x, std::int64_t direction) {
  const Biases bias = biases_of(c, l, direction);
  std::vector<ValueId> factors = {x, of_direction(c, kW, direction)};
  if (bias.gates.valid()) factors.push_back(bias.gates);
  const ValueId gates = c.emit(Op::matmul, factors, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{1}}});
  std::vector<ValueId> inputs = {gates, of_direction(c, kR, direction), initial(c, l, kInitialH, direction)};
  if (l.op == Op::lstm) inputs.push_back(initial(c, l, kInitialC, direction));
  inputs.push_back(c.has(kLengths) ? c.in(kLengths) : kNoValue);
  if (l.op == Op::lstm) inputs.push_back(c.has(kP) ? of_direction(c, kP, direction) : kNoValue);
  if (l.op == Op::gru) inputs.push_back(bias.inner);
  while (!inputs.back().valid() && inputs.size() > 2) inputs.pop_back();
  return c.emit_all(l.op, std::move(inputs), attrs_of(c, l, direction));
}

/// The directions' results side by side along a new axis.
ValueId side_by_side(NodeContext& c, const std::vector<ValueId>& parts, std::size_t axis) {
  std::vector<ValueId> spread;
  for (const ValueId v : parts) {
    if (!v.valid()) return v;
    std::vector<Dim> dims = c.shape_of(v).dims();
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
    spread.push_back(c.reshape(v, Shape(std::move(dims))));
  }
  if (spread.size() == 1) return spread[0];
  return c.emit(Op::concat, spread, {{"axis", static_cast<std::int64_t>(axis)}});
}

Status recurrent(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Layer l, read_layer(c));
  const ValueId x = c.in(kX, l.rows_first ? Perm{1, 0, 2} : Perm{});
  std::array<std::vector<ValueId>, 3> results;
  for (std::int64_t direction = 0; direction < l.directions; ++direction) {
    const std::vector<ValueId> made = run_direction(c, l, x, direction);
    if (made.empty()) return c.status();
    for (std::size_t k = 0; k < results.size(); ++k) results[k].push_back(made[k]);
  }
  const std::size_t states = l.op == Op::lstm ? 3 : 2;
  if (c.node.outputs.size() > states) return corrupt("it has ", c.node.outputs.size(), " outputs");
  const Perm rows_first_y = {2, 0, 1, 3}, rows_first_state = {1, 0, 2};
  for (std::size_t k = 0; k < c.node.outputs.size(); ++k) {
    if (c.node.outputs[k].empty()) continue;
    ValueId value = side_by_side(c, results[k], k == 0 ? 1 : 0);
    if (l.rows_first && value.valid()) value = c.transpose(value, k == 0 ? rows_first_y : rows_first_state);
    c.out(k, value);
  }
  return {};
}

}  // namespace

const RuleEntry kRecurrentRules[] = {
    {"LSTM", 3, 8, recurrent, Op::lstm},
    {"tflite.LSTM", 3, 8, recurrent, Op::lstm},
    {"GRU", 3, 6, recurrent, Op::gru},
    {"RNN", 3, 6, recurrent, Op::rnn},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
