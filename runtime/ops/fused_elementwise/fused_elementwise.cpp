// fused_elementwise(operands..; a program) -> results: several elementwise ops in one pass over memory. Made by
// passes::fuse() after differentiation; no file holds one.
#include "runtime/ops/fused_program.h"

namespace graft::ops::fused_elementwise {
namespace program {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integers(kFusedShapes).needed(), attr::integer(kFusedNodes).needed()};

/// The shapes of the results, which are of equally many elements.
Result<std::vector<Shape>> shapes_of(const Attrs& attrs) {
  const Ints ints = attrs.integers(kFusedShapes);
  std::vector<Shape> shapes;
  for (std::size_t at = 0; at < ints.size();) {
    const auto rank = static_cast<std::uint64_t>(ints[at++]);
    if (rank > Shape::kMaxRank || rank > ints.size() - at) return invalid("Its attributes hold no shapes.");
    std::vector<Dim> dims;
    for (std::uint64_t i = 0; i < rank; ++i) {
      if (ints[at] < 0) return invalid("Its attributes hold a shape with an axis of ", ints[at], ".");
      dims.emplace_back(ints[at++]);
    }
    shapes.emplace_back(std::move(dims));
    GRAFT_TRY(detail::to_status(shapes.back().element_count()));
    if (shapes.back().elements() != shapes[0].elements()) {
      return invalid("Its results of shapes ", shapes[0].text(), " and ", shapes.back().text(),
                     " have not the same number of elements.");
    }
  }
  if (shapes.empty()) return invalid("It has no results.");
  return shapes;
}

Status infer(InferContext& c) {
  GRAFT_TRY_ASSIGN(const std::vector<Shape> shapes, shapes_of(c.attrs()));
  GRAFT_TRY_ASSIGN(const FusedProgram program, fused_program(c.attrs(), shapes[0].elements()));
  if (program.has_source() || program.operands.size() != c.inputs() || program.outputs.size() != shapes.size()) {
    return invalid("Its program is of ", program.operands.size(), " operands and ", program.outputs.size(),
                   " results, but it has ", c.inputs(), " inputs and ", shapes.size(), " outputs.");
  }
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    GRAFT_TRY(c.expect_dtype(i, DType::f32));
    if (!c.shape(i).is_constant() || c.shape(i).elements() != program.operands[i].mod) {
      return invalid("Its input ", i, " has the shape ", c.shape(i).text(), "; ", program.operands[i].mod,
                     " elements are needed.");
    }
  }
  for (const Shape& shape : shapes) c.output(DType::f32, shape);
  return ok_status();
}

Status emit(Emitter& e) {
  GRAFT_TRY_ASSIGN(const FusedProgram program, fused_program(e.attrs(), e.out_shape().elements()));
  std::vector<Binding> operands, results;
  for (std::size_t i = 0; i < e.inputs(); ++i) operands.push_back(e.in(i));
  for (std::size_t i = 0; i < program.outputs.size(); ++i) results.push_back(e.out(i));
  return emit_fused(e, program, operands, results);
}

std::uint64_t flops(const Graph& graph, const Node& node) {
  return static_cast<std::uint64_t>(node.attrs.integer(kFusedNodes)) * graph.value(node.outputs[0]).shape.elements();
}

/// Every result may stand in the place of any operand that is read element by element.
std::uint32_t inplace(const Graph& graph, const Node& node, std::size_t) {
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (graph.value(node.inputs[i]).shape.elements() == graph.value(node.outputs[0]).shape.elements()) mask |= 1u << i;
  }
  return mask;
}

}  // namespace
}  // namespace program

extern const OpDef op_fused_elementwise;
const OpDef op_fused_elementwise = {.name = "fused_elementwise",
                                    .attrs = program::kAttrs,
                                    .max_inputs = fused_fn::inputs,
                                    .infer = program::infer,
                                    .emit = program::emit,
                                    .gradient = NoGrad{"ops are fused after differentiation"},
                                    .flops = program::flops,
                                    .inplace = program::inplace,
                                    .any_attrs = true};

}  // namespace graft::ops::fused_elementwise
