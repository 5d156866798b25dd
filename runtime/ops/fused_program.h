// Programs of elementwise functions: what the ops fused_elementwise and fused_epilogue do, as attributes of a node and
// as specialization constants of kernels (shaders/fused_elementwise).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/core/attrs.h"
#include "runtime/core/op_def.h"
#include "runtime/ops/emitter.h"
#include "shaders/fused_elementwise/fused_fn.h"

namespace graft {

/// The broadcast index of an operand: element i of the result reads element (i / div) % mod.
struct FusedOperand {
  std::uint32_t div = 1;
  std::uint32_t mod = 1;  ///< elements of the operand
  friend bool operator==(const FusedOperand&, const FusedOperand&) = default;
};

/// What step i gives is register fused_fn::inputs + i; register i below is operand i.
struct FusedStep {
  std::uint32_t kind = 0;  ///< of fused_fn.h
  std::uint32_t fn = 0;    ///< of unary_fn.h or binary_fn.h
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  double alpha = 0;
  double beta = 0;
  Stored rounded = Stored::declared;  ///< as other steps read it: as if it had been stored
};

struct FusedProgram {
  std::uint64_t count = 0;  ///< elements of each result
  std::vector<FusedOperand> operands;
  std::vector<FusedStep> steps;
  std::vector<std::uint32_t> outputs;  ///< registers; the first is what the last step gives

  bool is_whole(std::size_t operand) const { return operands[operand].mod == count; }
  /// The first step is what a kernel computed: the rest is its epilogue.
  bool has_source() const { return !steps.empty() && steps[0].kind == fused_fn::source; }
};

/// Attributes of fused nodes begin so; the rest of a node's attributes are those of the op that it is made around.
inline constexpr std::string_view kFusedPrefix = "fused_";
inline constexpr std::string_view kFusedMain = "fused_main";      ///< text: the name of that op
inline constexpr std::string_view kFusedNodes = "fused_nodes";    ///< integer: nodes of the network that this one is
inline constexpr std::string_view kFusedShapes = "fused_shapes";  ///< integers: rank and dims of each result

/// The program in a node's attributes, whose numbers are checked; and back.
Result<FusedProgram> fused_program(const Attrs& attrs, std::uint64_t count);
void set_fused_program(Attrs& attrs, const FusedProgram& program);

/// How an operand of this shape is read where it broadcasts to `out`; nullopt where that is no broadcast index.
std::optional<FusedOperand> broadcast_operand(const Shape& out, const Shape& operand);

/// Of fused_fn.h: how kernels read an operand.
std::uint32_t read_mode(const FusedProgram& program, std::size_t operand);
/// A step in specialization constants.
std::uint32_t step_code(const FusedProgram& program, std::size_t step);

/// Whether kernels with FUSED_FEW know the unary function (unary_apply.glsl; binary_apply.glsl has its own).
bool is_frequent(std::uint32_t fn);
/// Whether it is within what fused_elementwise.comp takes; and an epilogue, of rows of `columns` elements.
bool fits_kernel(const FusedProgram& program);
bool fits_epilogue(const FusedProgram& program, std::uint64_t columns);

/// The node that a fused node is made around: its op, its own attributes, its first `inputs` inputs and `outputs`
/// outputs. An error where no op is named, or one that is fused itself.
Result<Node> main_node(const Node& fused, std::size_t inputs, std::size_t outputs);

/// What reports call the node's op: "fused matmul" where it is made around one.
std::string op_label(const Node& node);

/// Dispatches what fused_elementwise.comp does, from operands to results.
Status emit_fused(Emitter& e, const FusedProgram& program, const std::vector<Binding>& operands,
                  const std::vector<Binding>& results);

}  // namespace graft
