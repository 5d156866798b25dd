#include "runtime/autodiff/autodiff.h"

#include <algorithm>

#include "runtime/core/counted_rows.h"
#include "runtime/core/op_def.h"
#include "runtime/core/vjp.h"

namespace graft {
namespace {

class Walker {
 public:
  Walker(Graph& graph, const std::vector<Target>& targets, const std::vector<ValueId>& wrt)
      : graph_(graph),
        targets_(targets),
        wrt_(wrt),
        builder_(graph),
        forward_nodes_(graph.nodes().size()),
        below_wrt_(graph.values().size()),
        above_target_(graph.values().size()),
        cotangents_(graph.values().size()) {}

  Result<std::vector<ValueId>> run() {
    GRAFT_TRY(check_requests());
    mark();
    GRAFT_TRY(check_paths());
    GRAFT_TRY(seed());
    for (std::size_t i = forward_nodes_; i-- > 0;) {
      const NodeId id{static_cast<std::uint32_t>(i)};
      GRAFT_TRY(walk(id).with_context(cat("In the gradient of the node \"", graph_.node(id).name, "\"")));
    }
    std::vector<ValueId> gradients;
    for (const ValueId id : wrt_) {
      gradients.push_back(total(id));
      if (!gradients.back().valid()) gradients.back() = builder_.full(graph_.value(id).shape, 0.0);
    }
    GRAFT_TRY(builder_.status());
    return gradients;
  }

 private:
  Status check_requests() const {
    if (targets_.empty()) return invalid("There is nothing to differentiate: no target is given.");
    for (const Target& target : targets_) {
      const Value& value = graph_.value(target.value);
      if (!is_float(value.dtype)) {
        return invalid("\"", value.name, "\" has no gradient: it is of type ", dtype_name(value.dtype), ".");
      }
      GRAFT_TRY(check_no_counted_rows(graph_, target.value));
      if (target.cotangent.valid() && graph_.value(target.cotangent).shape != value.shape) {
        return invalid("The cotangent of \"", value.name, "\" has the shape ",
                       graph_.value(target.cotangent).shape.text(), "; ", value.shape.text(), " is needed.");
      }
      if (!target.cotangent.valid() && value.shape.element_count().value() != Dim(1)) {
        return invalid("\"", value.name, "\" has the shape ", value.shape.text(),
                       "; a gradient of more than one element needs a cotangent.");
      }
    }
    for (const ValueId id : wrt_) {
      const Value& value = graph_.value(id);
      if (is_float(value.dtype)) continue;
      return invalid(
          "There is no gradient with respect to \"", value.name, "\": it is ",
          is_quantized(value.dtype) ? "frozen, for quantized weights have no gradient; its type is " : "of type ",
          dtype_name(value.dtype), ".");
    }
    return ok_status();
  }

  // below_wrt: depends on some wrt. above_target: some target depends on it.
  void mark() {
    for (const ValueId id : wrt_) below_wrt_[id.index] = true;
    for (const Node& node : graph_.nodes()) {
      const bool reached = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId id) { return id.valid() && below_wrt_[id.index]; });
      for (const ValueId out : node.outputs) {
        below_wrt_[out.index] = below_wrt_[out.index] || (reached && is_float(graph_.value(out).dtype));
      }
    }
    for (const Target& target : targets_) above_target_[target.value.index] = true;
    for (std::size_t i = forward_nodes_; i-- > 0;) {
      const Node& node = graph_.nodes()[i];
      const bool wanted =
          std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return above_target_[id.index]; });
      if (!wanted) continue;
      for (const ValueId in : node.inputs) {
        if (in.valid()) above_target_[in.index] = true;
      }
    }
  }

  // A wrt must reach a target through differentiable ops; otherwise say which op stands in the way.
  Status check_paths() const {
    const std::vector<bool> leads = differentiable(graph_, targets_);
    for (const ValueId id : wrt_) {
      if (leads[id.index]) continue;
      const Value& value = graph_.value(id);
      if (!above_target_[id.index]) {
        return invalid("There is no gradient with respect to \"", value.name, "\": \"",
                       graph_.value(targets_[0].value).name, "\" does not depend on it.");
      }
      GRAFT_TRY(check_path(id));
    }
    return ok_status();
  }

  Status check_path(ValueId from) const {
    std::vector<bool> reached(graph_.values().size());
    reached[from.index] = true;
    Status blocked;
    for (std::size_t i = 0; i < forward_nodes_; ++i) {
      const Node& node = graph_.nodes()[i];
      const bool uses = std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [&](ValueId id) { return id.valid() && reached[id.index]; });
      const bool wanted =
          std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return above_target_[id.index]; });
      if (!uses || !wanted) continue;
      if (const NoGrad* none = std::get_if<NoGrad>(&op_def(node.op).gradient)) {
        blocked = invalid("There is no gradient with respect to \"", graph_.value(from).name, "\": the node \"",
                          node.name, "\" (", op_name(node.op), ") stands in the way, for ", none->reason, ".");
        continue;
      }
      for (const ValueId out : node.outputs) reached[out.index] = is_float(graph_.value(out).dtype);
    }
    const bool arrives = std::any_of(targets_.begin(), targets_.end(),
                                     [&](const Target& target) { return reached[target.value.index]; });
    if (arrives) return ok_status();
    if (!blocked.ok()) return blocked;
    return invalid("There is no gradient with respect to \"", graph_.value(from).name,
                   "\": its only way to the target is through integers.");
  }

  Status seed() {
    builder_.set_scope("grad/", kNoNode);
    for (const Target& target : targets_) {
      const Shape shape = graph_.value(target.value).shape;
      contribute(target.value, target.cotangent.valid() ? target.cotangent : builder_.full(shape, 1.0));
    }
    return builder_.status();
  }

  void contribute(ValueId id, ValueId gradient) {
    if (cotangents_.size() <= id.index) cotangents_.resize(id.index + 1);
    cotangents_[id.index].push_back(gradient);
  }

  // The sum of what has been contributed; kNoValue when nothing has.
  ValueId total(ValueId id) {
    auto& parts = cotangents_[id.index];
    if (parts.empty()) return kNoValue;
    // The last contribution belongs to the earliest use; adding from the front keeps one fixed order.
    for (std::size_t i = 1; i < parts.size(); ++i) parts[0] = builder_.add(parts[0], parts[i]);
    parts.resize(1);
    return parts[0];
  }

  Status walk(NodeId id) {
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    const std::vector<ValueId> inputs = graph_.node(id).inputs;
    std::vector<bool> needs;
    needs.reserve(inputs.size());
    for (const ValueId in : inputs) needs.push_back(in.valid() && below_wrt_[in.index]);
    const bool any_needed = std::find(needs.begin(), needs.end(), true) != needs.end();
    const bool any_given =
        std::any_of(outputs.begin(), outputs.end(), [&](ValueId out) { return !cotangents_[out.index].empty(); });
    if (!any_needed || !any_given) return ok_status();
    const VjpFn* rule = std::get_if<VjpFn>(&op_def(graph_.node(id).op).gradient);
    if (rule == nullptr) return ok_status();  // check_paths() saw to it that another way exists

    builder_.set_scope(cat("grad/", graph_.node(id).name, "/"), id);
    std::vector<ValueId> given;
    given.reserve(outputs.size());
    for (const ValueId out : outputs) given.push_back(total(out));
    VjpContext context(builder_, id, std::move(given), needs);
    GRAFT_TRY((*rule)(context));
    GRAFT_TRY(builder_.status());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ValueId gradient = context.grads()[i];
      if (!needs[i] || !gradient.valid()) continue;
      const Shape shape = graph_.value(inputs[i]).shape;
      contribute(inputs[i], builder_.sum_to(gradient, shape));
    }
    return builder_.status();
  }

  Graph& graph_;
  const std::vector<Target>& targets_;
  const std::vector<ValueId>& wrt_;
  Builder builder_;
  std::size_t forward_nodes_;
  std::vector<bool> below_wrt_;
  std::vector<bool> above_target_;
  std::vector<std::vector<ValueId>> cotangents_;
};

}  // namespace

std::vector<bool> differentiable(const Graph& graph, const std::vector<Target>& targets) {
  std::vector<bool> leads(graph.values().size());
  for (const Target& target : targets) leads[target.value.index] = is_float(graph.value(target.value).dtype);
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (std::holds_alternative<NoGrad>(op_def(node->op).gradient)) continue;
    if (std::ranges::none_of(node->outputs, [&](ValueId id) { return leads[id.index]; })) continue;
    for (const ValueId in : node->inputs) {
      if (in.valid() && is_float(graph.value(in).dtype)) leads[in.index] = true;
    }
  }
  return leads;
}

Result<std::vector<ValueId>> add_gradients(Graph& graph, const std::vector<Target>& targets,
                                           const std::vector<ValueId>& wrt) {
  return Walker(graph, targets, wrt).run();
}

}  // namespace graft
