#include "runtime/passes/input_rules.h"

#include <algorithm>
#include <cstring>

#include "platform/base/text.h"
#include "runtime/core/finite.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"

namespace graft::passes {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;  // bits of an f32

/// Whether the op gives numbers of its first input, each as it is.
bool moves(Op op) {
  switch (op) {
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::expand: return true;
    default: return false;
  }
}

class Reader {
 public:
  explicit Reader(const Graph& graph) : graph_(graph), readers_(graph.values().size()) {
    for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) {
      const Node& node = graph.nodes()[n];
      for (std::uint32_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i].valid()) readers_[node.inputs[i].index].push_back({n, i});
      }
    }
  }

  std::optional<InputRule> rule_of(ValueId input) {
    rule_ = InputRule{graph_.value(input).name, graph_.value(input).dtype, 0, 0, {}, false, {}};
    known_ = rule_.dtype == DType::f32;
    follow(input);
    if (!known_) return std::nullopt;
    if (rule_.dtype == DType::f32) rule_.why = rule_.infinity ? "it must be a number" : "numbers must be finite";
    return rule_;
  }

 private:
  struct Use {
    std::uint32_t node, input;
  };

  void follow(ValueId v) {
    for (const Use use : readers_[v.index]) {
      const Node& node = graph_.nodes()[use.node];
      if (moves(node.op) && use.input == 0) {
        follow(node.outputs[0]);
      } else if (rule_.dtype == DType::f32) {
        read_number(node, use.input);
      } else if (rule_.dtype == DType::i32) {
        read_index(node, use.input);
      }
    }
  }

  void read_number(const Node& node, std::uint32_t input) {
    if (node.op == Op::is_nan || node.op == Op::is_inf) known_ = false;
    const bool mask = node.op == Op::attention && input == 4;
    rule_.infinity = rule_.infinity || mask || node.op == Op::is_inf || (node.op == Op::add && feeds_softmax(node));
  }

  /// Whether a sum goes into a softmax, so that one operand is a mask of scores.
  bool feeds_softmax(const Node& sum) const {
    return std::ranges::any_of(readers_[sum.outputs[0].index], [&](const Use use) {
      const Op op = graph_.nodes()[use.node].op;
      return op == Op::softmax || op == Op::log_softmax;
    });
  }

  void read_index(const Node& node, std::uint32_t input) {
    const auto shape = [&](std::size_t i) -> const Shape& { return graph_.value(node.inputs[i]).shape; };
    if (node.op == Op::gather && input == 1) {
      const auto axis = normalize_axis(node.attrs.integer("axis"), shape(0).rank());
      if (!axis.ok() || !shape(0)[*axis].is_constant()) return;
      std::int64_t rows = shape(0)[*axis].value();
      if (node.inputs.size() > 2) rows = rows_together(node, shape(2));
      const std::string& table = graph_.value(node.inputs[0]).name;
      restrict(-rows, rows - 1, cat("\"", table, "\" has ", rows, rows == 1 ? " row" : " rows"));
    } else if ((node.op == Op::cross_entropy && input == 1) || (node.op == Op::linear_cross_entropy && input == 2)) {
      Dim dim = node.op == Op::cross_entropy ? shape(0).back() : shape(1)[0];
      if (!dim.is_constant()) return;
      if (node.op == Op::linear_cross_entropy && node.inputs.size() > 3) dim = Dim(rows_together(node, shape(3)));
      const std::int64_t ignored = node.attrs.integer("ignore_index");
      if (ignored >= INT32_MIN && ignored <= INT32_MAX) rule_.ignored = static_cast<std::int32_t>(ignored);
      restrict(0, dim.value() - 1, cat("the model has ", dim.value(), dim.value() == 1 ? " class" : " classes"));
    } else if (node.op == Op::ctc_loss && input == 1 && shape(0).back().is_constant()) {
      const std::int64_t classes = shape(0).back().value();
      restrict(INT32_MIN, classes - 1, cat("the model has ", classes, classes == 1 ? " class" : " classes"));
    }
  }

  /// Of a table that goes on in another.
  static std::int64_t rows_together(const Node& node, const Shape& behind) {
    return node.attrs.integer("first_row") + behind[0].value();
  }

  void restrict(std::int64_t least, std::int64_t most, std::string why) {
    if (!known_ || most < rule_.most) rule_.why = std::move(why);
    rule_.least = known_ ? std::max(rule_.least, least) : least;
    rule_.most = known_ ? std::min(rule_.most, most) : most;
    known_ = true;
  }

  const Graph& graph_;
  std::vector<std::vector<Use>> readers_;  // by value
  InputRule rule_;
  bool known_ = false;
};

}  // namespace

std::vector<InputRule> input_rules(const Graph& graph) {
  std::vector<InputRule> rules;
  Reader reader(graph);
  for (const ValueId input : graph.inputs()) {
    if (auto rule = reader.rule_of(input)) rules.push_back(std::move(*rule));
  }
  return rules;
}

std::optional<std::size_t> find_offence(const InputRule& rule, std::span<const std::byte> bytes) {
  const std::size_t count = bytes.size() / 4;
  if (rule.dtype == DType::f32) {
    const std::uint32_t least = rule.infinity ? kInfinity + 1 : kInfinity;
    return first_of(count, [&](std::size_t i) { return (number_at<std::uint32_t>(bytes, i) & 0x7fffffff) >= least; });
  }
  const auto bound = [](std::int64_t x) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(x, INT32_MIN, INT32_MAX));
  };
  const std::int32_t least = bound(rule.least), most = bound(rule.most), ignored = rule.ignored.value_or(least);
  if (least > most) {  // no rows: nothing but what is ignored will do
    return first_of(count,
                    [&](std::size_t i) { return !rule.ignored || number_at<std::int32_t>(bytes, i) != ignored; });
  }
  return first_of(count, [&](std::size_t i) {
    const auto number = number_at<std::int32_t>(bytes, i);
    return ((number < least) | (number > most)) & (number != ignored);
  });
}

std::string offence_text(const InputRule& rule, std::span<const std::byte> bytes, std::size_t index,
                         const std::vector<std::int64_t>& shape) {
  std::string place;
  for (std::size_t axis = shape.size(), rest = index; axis-- > 0; rest /= static_cast<std::size_t>(shape[axis])) {
    place = cat(rest % static_cast<std::size_t>(shape[axis]), place.empty() ? "" : ", ", place);
  }
  const std::string number =
      rule.dtype == DType::f32 ? cat(number_at<float>(bytes, index)) : cat(number_at<std::int32_t>(bytes, index));
  return cat("holds ", number, place.empty() ? "" : cat(" at [", place, "]"), ", but ", rule.why, ".");
}

}  // namespace graft::passes
