#include "runtime/passes/precision.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/core/features.h"
#include "runtime/core/liveness.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/choice.h"

namespace graft::passes {
namespace {

constexpr std::uint64_t kFewElements = 64;  // memory of such values is not worth a rounding

struct OpPolicy {
  Op op;
  std::string_view reason;
};
/// Ops whose results stay in f32 wherever they stand.
constexpr OpPolicy kWideOps[] = {
    {Op::cross_entropy, "losses are sums of small terms"},
    {Op::cross_entropy_grad, "gradients of losses begin the backward pass"},
    {Op::linear_cross_entropy, "losses are sums of small terms"},
    {Op::linear_cross_entropy_grad, "it adds up in place, chunk by chunk of the vocabulary"},
    {Op::squared_norm, "sums of squares leave the range of f16"},
    {Op::reduce_logsumexp, "a sum of exponentials, in logarithms"},
    {Op::positions, "whole numbers"},
};
constexpr std::string_view kLossScope = "loss/";
constexpr std::string_view kUpdateScope = "update/";  // the arithmetic of optimizers (train/optimizer.cpp)

bool is_light(Op op) {
  switch (op) {
    case Op::add:
    case Op::affine:
    case Op::clip:
    case Op::reshape:
    case Op::transpose:
    case Op::concat:
    case Op::expand: return true;
    default: return false;
  }
}

class Policy {
 public:
  Policy(Graph& graph, DType storage) : graph_(graph), storage_(storage), roots_(alias_roots(graph)) {
    why_.resize(graph.values().size());
    for (const Output& output : graph.outputs()) keep(output.value, "read by the host");
    for (const Node& node : graph.nodes()) read_by(node);
    // Backward, so that what adds up to a gradient is found after the gradient.
    for (std::size_t n = graph.nodes().size(); n-- > 0;) trace(graph.nodes()[n]);
    for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) made_by(NodeId{n});
  }

  void apply(PrecisionReport& report, const WeightNames& weights, Parameters parameters) {
    for (std::uint32_t v = 0; v < why_.size(); ++v) {
      const std::uint32_t root = roots_[v];
      Value& value = graph_.mutable_value(ValueId{v});
      const Value& whole = graph_.values()[root];
      if (value.dtype != DType::f32 || whole.dtype != DType::f32) continue;
      if (is_weight(whole)) {
        store_weight(value, whole, weights.contains(whole.name), parameters);
      } else if (whole.kind == ValueKind::temporary) {
        if (why_[root].empty()) value.storage = storage_;
        const Node* const node = v == root ? &graph_.node(value.producer) : nullptr;
        if (node != nullptr) count(op_name(node->op), node->forward_of.valid(), value, why_[root]);
      }
    }
    for (auto& [key, row] : rows_) report.rows.push_back(std::move(row));
  }

 private:
  static bool is_weight(const Value& value) {
    return value.kind == ValueKind::constant || value.kind == ValueKind::parameter;
  }

  /// Of a weight, or of a view of one.
  void store_weight(Value& value, const Value& whole, bool may_be_low_precision, Parameters parameters) {
    const bool trained = whole.kind == ValueKind::parameter && parameters == Parameters::trained;
    if (may_be_low_precision && !trained) value.storage = storage_;
    if (value.producer.valid()) return;
    count(kWeightsRow, false, value,
          trained                ? "trained"
          : may_be_low_precision ? ""
                                 : "vectors, and what is no factor of a product");
  }

  void count(std::string_view op, bool backward, const Value& value, std::string_view why) {
    PrecisionRow& row = rows_[{std::string(op), backward, value.storage, std::string(why)}];
    row = {std::string(op),  backward,       value.storage,
           std::string(why), row.values + 1, row.bytes + storage_bytes(value.storage, value.shape.elements())};
  }

  void keep(ValueId v, std::string_view reason) {
    std::string& why = why_[roots_[v.index]];
    if (why.empty()) why = reason;
  }

  void read_by(const Node& node) {
    const bool updates = op_def(node.op).mutates != 0 && node.op != Op::cache_append;
    const bool optimizes = node.name.starts_with(kUpdateScope);
    if (!updates && !optimizes && node.op != Op::squared_norm && node.op != Op::overflow_count) return;
    for (const ValueId v : node.inputs) {
      if (!v.valid()) continue;
      keep(v, node.op == Op::batch_norm_update ? "statistics" : "gradients of parameters add up in f32");
      gradients_.resize(why_.size());
      gradients_[roots_[v.index]] = true;
    }
  }

  /// What a gradient is a plain sum or a rearrangement of is part of it.
  void trace(const Node& node) {
    if (gradients_.empty() || !is_light(node.op) || !gradients_[roots_[node.outputs[0].index]]) return;
    for (const ValueId v : node.inputs) {
      if (!v.valid()) continue;
      keep(v, "gradients of parameters add up in f32");
      gradients_[roots_[v.index]] = true;
    }
  }

  void made_by(NodeId id) {
    const Node& node = graph_.node(id);
    const Node& first = node.forward_of.valid() ? graph_.node(node.forward_of) : node;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      if (graph_.value(v).shape.elements() < kFewElements) keep(v, "few elements");
      if (first.name.starts_with(kLossScope)) keep(v, "part of the loss");
      if (node.name.starts_with(kUpdateScope)) keep(v, "part of the optimizer's step");
      if (const auto reason = wide_output(node.op, i, node.forward_of.valid()); !reason.empty()) keep(v, reason);
    }
  }

  Graph& graph_;
  DType storage_;
  std::vector<std::uint32_t> roots_;
  std::vector<std::string> why_;  // by root: why it stays in f32
  std::vector<bool> gradients_;   // by root: of parameters; empty as long as there are none
  std::map<std::tuple<std::string, bool, DType, std::string>, PrecisionRow> rows_;
};

bool moves(Op op) {
  switch (op) {
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::expand: return true;
    default: return false;
  }
}

/// Whether a node's use of an operand forgives that it is rounded: each of its numbers is one of the factors in a long
/// sum, or is looked up and then rounded anyway.
bool may_be_rounded(Op op, std::size_t input) {
  switch (op) {
    case Op::matmul:
    case Op::linear_cross_entropy: return input < 2;
    case Op::lstm:
    case Op::gru:
    case Op::rnn:
    case Op::conv:
    case Op::conv_transpose: return input == 1;
    case Op::gather: return input == 0;
    default: return false;
  }
}

/// What recurrent ops save of their gates is as large as these and written over them. Cells add up step by step.
bool saves_gates(Op op, std::size_t output) {
  return (op == Op::lstm && output == 3) || (op == Op::gru && output >= 2) || (op == Op::rnn && output == 2);
}

/// What the host reads is given as it is, and not from 16 bits: where that is a weight, a copy of it.
Status read_copies(Graph& graph) {
  const std::vector<std::uint32_t> roots = alias_roots(graph);
  std::vector<Output> outputs = graph.outputs();
  bool any = false;
  for (Output& output : outputs) {
    const Value& whole = graph.values()[roots[output.value.index]];
    if (whole.kind == ValueKind::temporary || stored_dtype(whole) == whole.dtype) continue;
    GRAFT_TRY_ASSIGN(const NodeId copy, graph.add_node(Op::affine, {output.value}, {{"alpha", 1.0}, {"beta", 0.0}},
                                                       cat("read/", output.name)));
    output.value = graph.node(copy).outputs[0];
    any = true;
  }
  if (!any) return {};
  graph.clear_outputs();
  for (Output& output : outputs) graph.add_output(std::move(output.name), output.value);
  return {};
}

}  // namespace

std::string_view wide_output(Op op, std::size_t output, bool backward) {
  for (const OpPolicy& policy : kWideOps) {
    if (policy.op == op) return policy.reason;
  }
  if (saves_gates(op, output)) return "";
  return output > 0 && !backward ? "statistics of rows" : "";
}

std::uint64_t PrecisionReport::low_precision_values() const {
  std::uint64_t count = 0;
  for (const PrecisionRow& row : rows) count += row.storage != DType::f32 ? row.values : 0;
  return count;
}

Result<DType> parse_precision(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return invalid("There is no precision \"", name, "\"; there are f32, f16 and bf16.");
}

Status check_precision(DType precision) {
  if constexpr (!kHasHalves) {
    if (precision == DType::f16 || precision == DType::bf16) return left_out("precisions of 16 bits", "halves");
  }
  if (is_float(precision)) return {};
  return invalid("The precision is ", dtype_name(precision), "; it must be f32, f16 or bf16.");
}

WeightNames low_precision_weights(const Graph& model) {
  if constexpr (!kHasHalves) return {};
  std::vector<bool> fits(model.values().size(), true), read(model.values().size());
  for (const Output& output : model.outputs()) fits[output.value.index] = false;
  for (std::size_t n = model.nodes().size(); n-- > 0;) {
    const Node& node = model.nodes()[n];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      const std::uint32_t v = node.inputs[i].index;
      const bool moved = moves(node.op) && i == 0 && fits[node.outputs[0].index];
      read[v] = true;
      fits[v] = fits[v] && (moved || may_be_rounded(node.op, i));
    }
  }
  WeightNames names;
  for (std::uint32_t v = 0; v < fits.size(); ++v) {
    const Value& value = model.values()[v];
    const bool weight = value.kind == ValueKind::constant || value.kind == ValueKind::parameter;
    if (!weight || !fits[v] || !read[v] || value.dtype != DType::f32 || value.shape.rank() < 2) continue;
    if (value.shape.is_constant() && value.shape.elements() >= kFewElements) names.insert(value.name);
  }
  return names;
}

Result<PrecisionReport> store_results(Graph& graph, DType storage, const WeightNames& weights, Parameters parameters) {
  PrecisionReport report{storage, {}};
  if (!kHasHalves || storage == DType::f32) return report;
  Policy(graph, storage).apply(report, weights, parameters);
  GRAFT_TRY(read_copies(graph));
  return report;
}

}  // namespace graft::passes
