// fused_add_norm(x, main's other inputs.., y; fused_main) -> main's outputs.., x + y: a norm that adds up what it
// normalises, and gives the sum too. Made by passes::fuse() after differentiation; no file holds one.
#include <algorithm>

#include "runtime/core/node_check.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/fused_elementwise/add_norm.h"
#include "runtime/ops/fused_program.h"
#include "shaders/kernels.gen.h"

namespace graft {

using shaders::KernelId;

std::optional<KernelId> add_norm_kernel(Emitter& norm) {
  constexpr std::size_t kConstants = 3;  // of rows.glsl; row_sum.glsl's follows
  if (norm.dispatches().size() != 1) return std::nullopt;
  const DispatchDesc& dispatch = norm.dispatches()[0];
  const bool rms = dispatch.kernel == KernelId::rms_norm__f32;
  if (!rms && dispatch.kernel != KernelId::layer_norm__f32) return std::nullopt;
  const KernelId with = rms ? KernelId::rms_norm__f32_sum : KernelId::layer_norm__f32_sum;
  if (dispatch.specialization.size() != kConstants || is_avoided(norm.target(), with)) return std::nullopt;
  return with;
}

namespace ops::fused_elementwise {
namespace add_norm {
namespace {

constexpr AttrSpec kAttrs[] = {attr::text(kFusedMain).needed(), attr::integer(kFusedNodes).needed()};

Result<Node> norm_of(const Node& node) {
  return main_node(node, node.inputs.size() - 1, node.outputs.empty() ? 0 : node.outputs.size() - 1);
}

Status infer(InferContext& c) {
  GRAFT_TRY_ASSIGN(const Node norm, norm_of(c.node()));
  GRAFT_TRY(check_node(c.graph(), norm));
  InferContext inner(c.graph(), norm);
  GRAFT_TRY(op_def(norm.op).infer(inner));
  const std::size_t last = c.inputs() - 1;
  if (!c.has(last)) return invalid("Its last input, what is added, is missing.");
  GRAFT_TRY(c.expect_dtype(last, DType::f32));
  GRAFT_TRY(c.expect_shape(last, c.shape(0)));
  for (const auto& result : inner.results()) c.output(result.dtype, result.shape);
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status emit(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Node norm, norm_of(e.node()));
  Emitter inner(e.graph(), norm, e.target(), e.workspace_left());
  GRAFT_TRY(op_def(norm.op).emit(inner));
  for (const Choice& choice : inner.choices()) e.note(choice);
  if (e.out_shape().elements() == 0) {
    e.dispatches() = std::move(inner.dispatches());
    return ok_status();
  }
  const auto kernel = add_norm_kernel(inner);
  if (!kernel) return unsupported("This device has no kernel for a ", op_name(norm.op), " that adds up its operand.");
  e.dispatches() = std::move(inner.dispatches());
  DispatchDesc& dispatch = e.dispatches()[0];
  dispatch.kernel = *kernel;
  dispatch.bindings.push_back(e.in(e.inputs() - 1));
  dispatch.bindings.push_back(e.out(e.node().outputs.size() - 1));
  dispatch.specialization.push_back(static_cast<std::uint32_t>(stored_as(e.out_storage(e.node().outputs.size() - 1))));
  return ok_status();
}

std::uint64_t flops(const Graph& graph, const Node& node) {
  const std::uint64_t elements = graph.value(node.outputs[0]).shape.elements();
  const auto norm = norm_of(node);
  const OpDef& def = op_def(norm->op);
  return elements + (def.flops != nullptr ? def.flops(graph, *norm) : elements);
}

/// The last walk over a row reads both addends where it stores the result and the sum.
std::uint32_t inplace(const Graph&, const Node& node, std::size_t output) {
  const bool whole = output == 0 || output + 1 == node.outputs.size();
  return whole ? 1u | 1u << (node.inputs.size() - 1) : 0;
}

}  // namespace
}  // namespace add_norm

extern const OpDef op_fused_add_norm;
const OpDef op_fused_add_norm = {.name = "fused_add_norm",
                                 .attrs = add_norm::kAttrs,
                                 .min_inputs = 2,
                                 .max_inputs = 4,
                                 .infer = add_norm::infer,
                                 .emit = add_norm::emit,
                                 .gradient = NoGrad{"ops are fused after differentiation"},
                                 .flops = add_norm::flops,
                                 .inplace = add_norm::inplace,
                                 .any_attrs = true};

}  // namespace ops::fused_elementwise
}  // namespace graft
