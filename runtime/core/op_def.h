// What an op is: one constant OpDef per op, found by `op_def(Op::softmax)`; written in runtime/ops/<family>/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/core/features.gen.h"
#include "runtime/core/graph.h"

namespace graft {

class Emitter;     // runtime/ops/emitter.h
class VjpContext;  // runtime/core/vjp.h

/// What shape inference sees and says. Shapes may hold symbols: compare and multiply them; ask constant_dim() where
/// a number is needed.
class InferContext {
 public:
  InferContext(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  const Attrs& attrs() const { return node_.attrs; }
  std::size_t inputs() const { return node_.inputs.size(); }
  bool has(std::size_t i) const { return i < node_.inputs.size() && node_.inputs[i].valid(); }
  const Shape& shape(std::size_t i) const { return graph_.value(node_.inputs[i]).shape; }
  DType dtype(std::size_t i) const { return graph_.value(node_.inputs[i]).dtype; }

  /// Errors that name the input: wrong rank, wrong dtype, symbol where a number is needed.
  Status expect_rank(std::size_t i, std::size_t rank) const;
  Status expect_dtype(std::size_t i, DType dtype) const;
  Status expect_shape(std::size_t i, const Shape& shape) const;
  Result<std::int64_t> constant_dim(std::size_t i, std::size_t axis) const;

  /// Appends an output.
  void output(DType dtype, Shape shape) { outputs_.push_back({dtype, std::move(shape)}); }
  struct Out {
    DType dtype;
    Shape shape;
  };
  std::vector<Out>& results() { return outputs_; }

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<Out> outputs_;
};

/// Why an op has no gradient; shown to the user who asks for one.
struct NoGrad {
  std::string_view reason;
};
using VjpFn = Status (*)(VjpContext&);

/// A rule, or why there is none. A build without training drops the rules here, so that the linker drops their code.
class Gradient : public std::variant<NoGrad, VjpFn> {
 public:
  constexpr Gradient(NoGrad none) : variant(none) {}
  constexpr Gradient(VjpFn rule) : variant(kept(rule)) {}

 private:
  static constexpr std::variant<NoGrad, VjpFn> kept([[maybe_unused]] VjpFn rule) {
    if constexpr (kHasTraining) {
      return rule;
    } else {
      return NoGrad{"this build is without training (GRAFT_TRAINING=OFF)"};
    }
  }
};

struct OpDef {
  std::string_view name;
  std::span<const AttrSpec> attrs;
  std::uint8_t min_inputs = 1;
  std::uint8_t max_inputs = 1;  ///< 255: any number
  /// Bit i: input i may be kNoValue although later ones are given.
  std::uint32_t optional_inputs = 0;

  /// Outputs from inputs and attributes. Never trusts attributes' values: they may come from a file. Null: this build
  /// leaves the op out (tools/cmake/GraftFeatures.cmake), and check_node() refuses it.
  Status (*infer)(InferContext&) = nullptr;

  /// Device dispatches for a bound graph. Null for views (alias_input) that mutate nothing.
  Status (*emit)(Emitter&) = nullptr;

  Gradient gradient = NoGrad{"it is not differentiable"};

  /// Floating-point operations of one run, by the usual convention (multiply-add = 2). Null: one per output element.
  std::uint64_t (*flops)(const Graph&, const Node&) = nullptr;

  /// Bit i: input i is updated in place. Such a node runs after all other readers of that value.
  std::uint32_t mutates = 0;

  /// Bit i: input i may be a constant of a quantized dtype.
  std::uint32_t quantized_inputs = 0;

  /// >= 0: output 0 is the same memory as this input (reshape); nothing is dispatched. Where the op mutates that input
  /// as well, output 0 is its contents after that (cache_append).
  int alias_input = -1;

  /// Bit i: output 0 may overwrite input i when this is its last use (elementwise, same size).
  std::uint32_t inplace_inputs = 0;
  /// The same of any output, for ops whose attributes decide it; null: inplace_inputs says it all.
  std::uint32_t (*inplace)(const Graph&, const Node&, std::size_t output) = nullptr;

  /// Its attributes are those of another op too, so that `infer` checks them.
  bool any_attrs = false;

  /// Same inputs may give other outputs from step to step (dropout): recompute is exact all the same, since random
  /// numbers come from the step state, but such a node is never folded into a constant.
  bool uses_step_state = false;
};

/// The registry, generated from runtime/ops/ops.list.
const OpDef& op_def(Op op);
/// Whether graphs of training alone hold it: left out by GRAFT_TRAINING=OFF.
bool is_training_op(Op op);
inline std::string_view op_name(Op op) { return op_def(op).name; }
/// Bit i: this output of the node may overwrite input i when that is its last use.
std::uint32_t inplace_inputs(const Graph& graph, const Node& node, std::size_t output);
/// By name, as in "softmax"; nullptr when there is none.
const OpDef* find_op(std::string_view name, Op* op = nullptr);

}  // namespace graft
