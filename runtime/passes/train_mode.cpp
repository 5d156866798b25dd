#include "runtime/passes/train_mode.h"

#include <algorithm>
#include <cmath>

#include "platform/base/text.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"

namespace graft::passes {
namespace {

constexpr std::int64_t kNeftuneStream = 0x4e454654;  // dropout's streams count from 0

class Copier {
 public:
  Copier(const Graph& source, const std::vector<ValueId>& targets, const TrainModeOptions& options)
      : source_(source), targets_(targets), options_(options) {}

  Result<TrainModeGraph> run() {
    out_.values.assign(source_.values().size(), kNoValue);
    const std::vector<bool> wanted = nodes_behind(source_, targets_);
    mark_read(wanted);
    for (std::uint32_t i = 0; i < source_.values().size(); ++i) GRAFT_TRY(copy_value(ValueId{i}));
    for (std::uint32_t i = 0; i < source_.nodes().size(); ++i) {
      if (wanted[i]) GRAFT_TRY(copy_node(source_.nodes()[i]));
    }
    if (options_.neftune_alpha != 0 && !noisy_) {
      return invalid(
          "NEFTune adds noise to the embeddings of tokens, but the model looks up no rows of a matrix by its ",
          "first input.");
    }
    return std::move(out_);
  }

 private:
  bool frozen(const Value& value) const {
    return std::any_of(options_.freeze.begin(), options_.freeze.end(),
                       [&](const std::string& pattern) { return matches(pattern, value.name); });
  }

  void mark_read(const std::vector<bool>& wanted) {
    read_.assign(source_.values().size(), false);
    statistic_.assign(source_.values().size(), false);
    for (const ValueId target : targets_) read_[target.index] = true;
    for (std::size_t n = 0; n < source_.nodes().size(); ++n) {
      const Node& node = source_.nodes()[n];
      if (!wanted[n]) continue;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (!node.inputs[i].valid()) continue;
        read_[node.inputs[i].index] = true;
        if (node.op == Op::batch_norm && i >= 3) statistic_[node.inputs[i].index] = true;
      }
    }
  }

  /// Inputs, weights and state that the targets depend on.
  Status copy_value(ValueId id) {
    const Value& value = source_.value(id);
    if (value.kind == ValueKind::temporary || !read_[id.index]) return {};
    ValueKind kind = value.kind;
    if (kind == ValueKind::parameter && frozen(value)) kind = ValueKind::constant;
    if (statistic_[id.index] && options_.batch_statistics) kind = ValueKind::state;
    GRAFT_TRY_ASSIGN(out_.values[id.index], out_.graph.add_value_like(value));
    out_.graph.mutable_value(out_.values[id.index]).kind = kind;
    return {};
  }

  Status copy_node(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? out_.values[input.index] : kNoValue);
    std::vector<std::string> names;
    for (const ValueId output : node.outputs) names.push_back(source_.value(output).name);
    if (node.op == Op::batch_norm && options_.batch_statistics) return copy_batch_norm(node, inputs, names);
    Attrs attrs = node.attrs;
    if (node.op == Op::dropout) {
      attrs.set("training", std::int64_t{1});
      attrs.set("stream", next_stream_++);
    }
    GRAFT_TRY_ASSIGN(const NodeId id,
                     out_.graph.add_node(node.op, std::move(inputs), std::move(attrs), node.name, names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) adopt(node.outputs[i], out_.graph.node(id).outputs[i]);
    return options_.neftune_alpha != 0 && embeds_tokens(node) ? add_noise(node) : ok_status();
  }

  bool embeds_tokens(const Node& node) const {
    if (node.op != Op::gather || node.attrs.integer("axis") != 0 || source_.inputs().empty()) return false;
    const Value& table = source_.value(node.inputs[0]);
    if (table.name.ends_with(".lora_embedding_A")) return false;  // an adapter's rows beside the embedding's
    const ValueId tokens = source_.inputs().front();
    return node.inputs[1] == tokens && source_.value(tokens).shape.rank() == 2 && table.shape.rank() == 2 &&
           (table.kind == ValueKind::parameter || table.kind == ValueKind::constant);
  }

  /// Whoever reads the rows reads them with noise. Of a decoder whose head is the embedding, the head has none.
  Status add_noise(const Node& node) {
    ValueId& rows = out_.values[node.outputs[0].index];
    const Shape shape = out_.graph.value(rows).shape;
    const double places = static_cast<double>(shape[1].value()) * static_cast<double>(shape[2].value());
    const double bound = options_.neftune_alpha / std::sqrt(places);
    const std::string name = source_.value(node.outputs[0]).name + ".neftune";
    GRAFT_TRY_ASSIGN(
        const NodeId noise,
        out_.graph.add_node(
            Op::random_uniform, {},
            {{"shape", shape}, {"stream", kNeftuneStream + noisy_++}, {"offset", -bound}, {"factor", 2 * bound}},
            name));
    GRAFT_TRY_ASSIGN(const NodeId sum,
                     out_.graph.add_node(Op::add, {rows, out_.graph.node(noise).outputs[0]}, {}, name + ".sum"));
    rows = out_.graph.node(sum).outputs[0];
    return {};
  }

  Status copy_batch_norm(const Node& node, const std::vector<ValueId>& inputs, const std::vector<std::string>& names) {
    Attrs attrs;
    attrs.set("epsilon", node.attrs.number("epsilon"));
    GRAFT_TRY_ASSIGN(const NodeId id, out_.graph.add_node(Op::batch_norm_train, {inputs[0], inputs[1], inputs[2]},
                                                          std::move(attrs), node.name, names));
    const std::vector<ValueId> made = out_.graph.node(id).outputs;
    adopt(node.outputs[0], made[0]);
    const Shape& shape = out_.graph.value(inputs[0]).shape;
    const double momentum = options_.batch_norm_momentum.value_or(node.attrs.number("momentum"));
    const auto count = static_cast<std::int64_t>(shape.elements(0, shape.rank() - 1));
    GRAFT_TRY(out_.graph.add_node(Op::batch_norm_update, {inputs[3], inputs[4], made[1], made[2]},
                                  {{"momentum", momentum}, {"count", count}}, node.name + "/statistics"));
    return {};
  }

  void adopt(ValueId from, ValueId to) {
    out_.values[from.index] = to;
    out_.graph.mutable_value(to).source_perm = source_.value(from).source_perm;
  }

  const Graph& source_;
  const std::vector<ValueId>& targets_;
  const TrainModeOptions& options_;
  TrainModeGraph out_;
  std::int64_t next_stream_ = 0;
  std::int64_t noisy_ = 0;       // lookups that have noise
  std::vector<bool> read_;       // by value: by a node that is copied
  std::vector<bool> statistic_;  // by value: as running mean or variance
};

}  // namespace

std::vector<bool> nodes_behind(const Graph& graph, const std::vector<ValueId>& targets) {
  std::vector<bool> wanted(graph.nodes().size());
  std::vector<bool> values(graph.values().size());
  for (const ValueId target : targets) values[target.index] = true;
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    wanted[i] = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return values[id.index]; });
    if (!wanted[i]) continue;
    for (const ValueId input : node.inputs) {
      if (input.valid()) values[input.index] = true;
    }
  }
  return wanted;
}

Result<TrainModeGraph> to_train_mode(const Graph& source, const std::vector<ValueId>& targets,
                                     const TrainModeOptions& options) {
  return Copier(source, targets, options).run();
}

}  // namespace graft::passes
