#include "runtime/passes/fuse.h"

#include <algorithm>
#include <string>

#include "platform/base/text.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/fuse_groups.h"
#include "runtime/passes/fuse_kernels.h"
#include "shaders/binary/binary_fn.h"

namespace graft::passes {
namespace {

class Fuser {
 public:
  Fuser(const Graph& graph, const gpu::Target& target) : graph_(graph), kernels_(graph, target), groups_(graph) {}

  Groups run() {
    const auto n = static_cast<std::uint32_t>(groups_.size());
    for (std::uint32_t s = 0; s < n; ++s) note_program(s);
    for (std::uint32_t s = 0; s < n; ++s) give_bias(s);
    // Elementwise ops first: what lies within them is nothing that a product has to read.
    for (const bool epilogues : {false, true}) {
      for (std::uint32_t s = 0; s < n; ++s) {
        while (absorb_any(s, epilogues)) {
        }
      }
    }
    for (std::uint32_t s = 0; s < n; ++s) give_sum(s);
    return std::move(groups_);
  }

 private:
  const Node& node(std::uint32_t n) const { return graph_.nodes()[n]; }

  void note_program(std::uint32_t n) {
    if (!groups_.is_live(n) || groups_.reads_changed(node(n))) return;
    Group& group = groups_.at(n);
    group.program = elementwise_program(graph_, node(n));
    if (!group.program && kernels_.takes_epilogue(node(n))) {
      group.main = {n};
      group.program = source_program(graph_, node(n));
    }
  }

  /// The node of a group around a main op, as it would be without an epilogue.
  Node main_of(const Group& group, ValueId result) const {
    Node main = graph_.node(group.main);
    if (group.bias.valid()) {
      main.inputs.resize(3, kNoValue);
      main.inputs[2] = group.bias;
    }
    main.outputs[0] = result;
    return main;
  }

  /// Takes one producer into s; false where there is none that may be.
  bool absorb_any(std::uint32_t s, bool epilogues) {
    const Group& group = groups_.at(s);
    if (!group.program || group.main.valid()) return false;
    for (std::size_t i = 0; i < group.program->operands.size(); ++i) {
      const auto p = groups_.maker(group.program->operands[i]);
      if (!p || *p == s || !groups_.at(*p).program || groups_.at(*p).main.valid() != epilogues) continue;
      if (group.program->program.is_whole(i) && absorb(*p, s)) return true;
    }
    return false;
  }

  bool absorb(std::uint32_t p, std::uint32_t s) {
    const Group& first = groups_.at(p);
    Group& second = groups_.at(s);
    if (first.program->program.count != second.program->program.count) return false;
    if (groups_.is_late(p) != groups_.is_late(s)) return false;
    std::vector<bool> kept;
    std::vector<ValueId> gone;
    for (const ValueId v : first.program->results) {
      kept.push_back(groups_.wanted(v, s));
      if (!kept.back()) gone.push_back(v);
    }
    auto joined = join_programs(groups_.roots(), *first.program, kept, *second.program);
    if (!joined) return false;
    const bool fits = first.main.valid() ? kernels_.runs_epilogue(main_of(first, first.program->results[0]), *joined)
                                         : kernels_.runs(*joined);
    if (!fits || groups_.apart(p, s) || !groups_.fits_memory(p, s, gone, gone.size() != kept.size())) return false;
    second.main = first.main;
    second.bias = first.bias;
    second.program = std::move(joined);
    groups_.merge(p, s);
    return true;
  }

  /// Where s adds a row to a product, the product does.
  void give_bias(std::uint32_t s) {
    const auto& program = groups_.at(s).program;
    if (!program || groups_.at(s).main.valid() || program->operands.size() != 2) return;
    const FusedStep& step = program->program.steps[0];
    if (step.kind != fused_fn::binary || step.fn != binary_fn::add) return;
    for (const std::size_t product : {0, 1}) {
      const auto p = groups_.maker(program->operands[product]);
      if (p && *p != s && give_bias(*p, s, program->operands[product], program->operands[1 - product])) return;
    }
  }

  bool give_bias(std::uint32_t p, std::uint32_t s, ValueId product, ValueId bias) {
    const Group& from = groups_.at(p);
    const Node& main = node(from.nodes[0]);
    const bool of_kind = (main.op == Op::matmul || main.op == Op::conv) && from.nodes.size() == 1 &&
                         !groups_.reads_changed(main) && (main.inputs.size() < 3 || !main.inputs[2].valid());
    if (!of_kind || main.outputs[0] != product || groups_.wanted(product, s)) return false;
    const Value& value = graph_.value(product);
    const ValueId sum = groups_.at(s).program->results[0];
    // What is kept in 16 bits is rounded before the bias is added.
    const bool fits = value.storage == DType::f32 && value.shape == graph_.value(sum).shape && value.shape.rank() > 0 &&
                      graph_.value(bias).shape == Shape{value.shape.back()};
    if (!fits || groups_.is_late(p) != groups_.is_late(s)) return false;
    Group joined;
    joined.main = {from.nodes[0]};
    joined.bias = bias;
    const Node with = main_of(joined, sum);
    if (!kernels_.adds_bias(with) || groups_.apart(p, s) || !groups_.fits_memory(p, s, {product}, false)) return false;
    Group& to = groups_.at(s);
    to.main = joined.main;
    to.bias = bias;
    to.program.reset();
    if (kernels_.takes_epilogue(with)) to.program = source_program(graph_, with);
    groups_.merge(p, s);
    return true;
  }

  /// Where s is a norm of a sum that no product has taken, it adds up itself.
  void give_sum(std::uint32_t s) {
    Group& to = groups_.at(s);
    if (to.nodes.size() != 1 || to.bias.valid()) return;
    const Node& norm = node(s);
    if ((norm.op != Op::layer_norm && norm.op != Op::rms_norm) || groups_.reads_changed(norm)) return;
    const ValueId sum = norm.inputs[0];
    const auto p = groups_.maker(sum);
    if (!p || !is_sum(groups_.at(*p), sum) || groups_.is_late(*p) != groups_.is_late(s)) return;
    if (std::count(norm.inputs.begin(), norm.inputs.end(), sum) != 1) return;
    const ValueProgram program = *groups_.at(*p).program;
    // The sum is stored, whoever wants it.
    if (!kernels_.adds_up(norm, program.operands[0], program.operands[1]) || groups_.apart(*p, s)) return;
    if (!groups_.fits_memory(*p, s, {}, false)) return;
    to.main = {s};
    to.addend = program.operands[1];
    to.program = program;
    groups_.merge(*p, s);
  }

  bool is_sum(const Group& group, ValueId result) const {
    if (!group.program || group.nodes.size() != 1 || group.main.valid()) return false;
    const ValueProgram& p = *group.program;
    const FusedStep& step = p.program.steps[0];
    return p.program.steps.size() == 1 && step.kind == fused_fn::binary && step.fn == binary_fn::add &&
           p.operands.size() == 2 && p.results[0] == result &&
           std::all_of(p.operands.begin(), p.operands.end(),
                       [&](ValueId v) { return graph_.value(v).shape == graph_.value(result).shape; });
  }

  const Graph& graph_;
  FuseKernels kernels_;
  Groups groups_;
};

/// Makes the graph of which each group is a node.
class Writer {
 public:
  Writer(const Graph& source, const Groups& groups)
      : source_(source),
        groups_(groups),
        values_(source.values().size(), kNoValue),
        nodes_(source.nodes().size(), kNoNode) {}

  Result<Fused> run() {
    for (std::uint32_t v = 0; v < source_.values().size(); ++v) {
      if (source_.values()[v].kind == ValueKind::temporary) continue;
      GRAFT_TRY_ASSIGN(values_[v], out_.add_value_like(source_.values()[v]));
    }
    for (const std::uint32_t g : groups_.order()) GRAFT_TRY(write(g));
    for (const Output& output : source_.outputs()) out_.add_output(output.name, values_[output.value.index]);
    return Fused{std::move(out_), std::move(values_)};
  }

 private:
  struct Made {
    Op op{};
    Attrs attrs;
    std::vector<ValueId> outputs;  ///< of the source
  };

  Made make(const Group& g) const {
    const bool around = g.main.valid();
    const Node& first = around ? source_.node(g.main) : source_.nodes()[g.nodes[0]];
    if (g.nodes.size() == 1) return {first.op, first.attrs, first.outputs};
    Made made{Op::fused_elementwise, {}, {}};
    if (around) made = {first.op, first.attrs, first.outputs};
    if (g.addend.valid()) {
      made.op = Op::fused_add_norm;
      made.outputs.push_back(g.program->results[0]);
    } else if (around) {
      // Without a program of further steps it is the op itself, with its bias.
      const bool epilogue = g.program && g.program->program.steps.size() > 1;
      if (epilogue) made.op = Op::fused_epilogue;
      made.outputs[0] = g.program ? g.program->results[0] : source_.nodes()[g.nodes.back()].outputs[0];
      if (!epilogue) return made;
      made.outputs.insert(made.outputs.end(), g.program->results.begin() + 1, g.program->results.end());
      set_fused_program(made.attrs, g.program->program);
    } else {
      made.outputs = g.program->results;
      set_fused_program(made.attrs, g.program->program);
      made.attrs.set(kFusedShapes, shapes(made.outputs));
    }
    if (around) made.attrs.set(kFusedMain, std::string(op_name(first.op)));
    made.attrs.set(kFusedNodes, static_cast<std::int64_t>(g.nodes.size()));
    return made;
  }

  Ints shapes(const std::vector<ValueId>& values) const {
    Ints ints;
    for (const ValueId v : values) {
      const std::vector<std::int64_t> dims = source_.value(v).shape.values();
      ints.push_back(static_cast<std::int64_t>(dims.size()));
      ints.insert(ints.end(), dims.begin(), dims.end());
    }
    return ints;
  }

  Status write(std::uint32_t group) {
    const Group& g = groups_.at(group);
    Made made = make(g);
    std::vector<ValueId> inputs;
    for (const ValueId v : groups_.inputs(group)) inputs.push_back(v.valid() ? values_[v.index] : kNoValue);
    std::vector<std::string> names;
    for (const ValueId v : made.outputs) names.push_back(source_.value(v).name);
    GRAFT_TRY_ASSIGN(const NodeId id,
                     out_.add_node(made.op, std::move(inputs), std::move(made.attrs), name_of(g), names));
    for (std::size_t i = 0; i < made.outputs.size(); ++i) {
      const ValueId to = out_.node(id).outputs[i];
      const Value& from = source_.value(made.outputs[i]);
      values_[made.outputs[i].index] = to;
      out_.mutable_value(to).source_perm = from.source_perm;
      out_.mutable_value(to).storage = from.storage;
    }
    for (const std::uint32_t n : g.nodes) nodes_[n] = id;
    for (const std::uint32_t n : g.nodes) {
      const NodeId served = source_.nodes()[n].forward_of;
      const bool main = g.main.valid() && n == g.main.index;
      if (served.valid() && (main || !out_.node(id).forward_of.valid())) {
        out_.mutable_node(id).forward_of = served_by(served, id);
      }
    }
    return ok_status();
  }

  /// The node that does what a forward node did; where nothing wants that any more, one before it.
  NodeId served_by(NodeId forward, NodeId backward) const {
    for (std::uint32_t n = forward.index + 1; n-- > 0;) {
      if (nodes_[n].valid() && nodes_[n] < backward) return nodes_[n];
    }
    return {0};
  }

  /// "conv1 + relu1"; of many, the first and the last.
  std::string name_of(const Group& g) const {
    constexpr std::size_t kNamed = 4;
    const auto name = [&](std::size_t i) { return source_.nodes()[g.nodes[i]].name; };
    std::string all = name(0);
    if (g.nodes.size() > kNamed) return cat(all, " + ", g.nodes.size() - 2, " more + ", name(g.nodes.size() - 1));
    for (std::size_t i = 1; i < g.nodes.size(); ++i) all += " + " + name(i);
    return all;
  }

  const Graph& source_;
  const Groups& groups_;
  Graph out_;
  std::vector<ValueId> values_;  // by the source's index
  std::vector<NodeId> nodes_;    // by the source's index
};

}  // namespace

Result<Fused> fuse(const Graph& graph, const gpu::Target& target) {
  const auto is_bound = [](const Value& value) { return value.shape.is_constant(); };
  if (!std::all_of(graph.values().begin(), graph.values().end(), is_bound)) {
    Fused same{graph, {}};  // for the plan to refuse
    for (std::uint32_t v = 0; v < graph.values().size(); ++v) same.values.push_back({v});
    return same;
  }
  const Groups groups = Fuser(graph, target).run();
  return Writer(graph, groups).run();
}

}  // namespace graft::passes
