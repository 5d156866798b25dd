#include "runtime/train/precision.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/core/op_def.h"
#include "runtime/ops/choice.h"
#include "runtime/plan/schedule.h"

namespace graft::train {
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

  void apply(PrecisionReport& report) {
    std::map<std::tuple<std::string, bool, DType, std::string>, PrecisionRow> rows;
    for (std::uint32_t v = 0; v < why_.size(); ++v) {
      const std::uint32_t root = roots_[v];
      Value& value = graph_.mutable_value(ValueId{v});
      const Value& whole = graph_.values()[root];
      if (value.dtype != DType::f32 || whole.kind != ValueKind::temporary || whole.dtype != DType::f32) continue;
      if (why_[root].empty()) value.storage = storage_;
      if (v != root) continue;
      const Node& node = graph_.node(value.producer);
      const bool backward = node.forward_of.valid();
      PrecisionRow& row = rows[{std::string(op_name(node.op)), backward, value.storage, why_[root]}];
      row = {std::string(op_name(node.op)),
             backward,
             value.storage,
             why_[root],
             row.values + 1,
             row.bytes + storage_bytes(value.storage, value.shape.elements())};
    }
    for (auto& [key, row] : rows) report.rows.push_back(std::move(row));
  }

 private:
  void keep(ValueId v, std::string_view reason) {
    std::string& why = why_[roots_[v.index]];
    if (why.empty()) why = reason;
  }

  void read_by(const Node& node) {
    const bool updates = op_def(node.op).mutates != 0 && node.op != Op::cache_append;
    if (!updates && node.op != Op::squared_norm && node.op != Op::overflow_count) return;
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
      if (const auto reason = wide_output(node.op, i, node.forward_of.valid()); !reason.empty()) keep(v, reason);
    }
  }

  Graph& graph_;
  DType storage_;
  std::vector<std::uint32_t> roots_;
  std::vector<std::string> why_;  // by root: why it stays in f32
  std::vector<bool> gradients_;   // by root: of parameters; empty as long as there are none
};

void store_weights(Graph& graph, DType storage) {
  for (const ValueId v : graph.of_kind(ValueKind::constant)) {
    Value& value = graph.mutable_value(v);
    const bool matrix = value.shape.rank() >= 2 && value.shape.elements() >= kFewElements;
    if (value.dtype == DType::f32 && matrix) value.storage = storage;
  }
}

}  // namespace

std::string_view wide_output(Op op, std::size_t output, bool backward) {
  for (const OpPolicy& policy : kWideOps) {
    if (policy.op == op) return policy.reason;
  }
  return output > 0 && !backward ? "statistics of rows" : "";
}

std::uint64_t PrecisionReport::narrow_values() const {
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
  if (is_float(precision)) return {};
  return invalid("The precision is ", dtype_name(precision), "; it must be f32, f16 or bf16.");
}

void scale_for_rounding(const gpu::Caps& caps, TrainOptions& options) {
  if (!options.loss_scaling && rounds_to_f16(caps)) options.loss_scaling = LossScaling{};
}

PrecisionReport store_results(Graph& graph, DType storage, bool weights) {
  PrecisionReport report{storage, {}};
  if (storage == DType::f32) return report;
  if (weights) store_weights(graph, storage);
  Policy(graph, storage).apply(report);
  return report;
}

}  // namespace graft::train
