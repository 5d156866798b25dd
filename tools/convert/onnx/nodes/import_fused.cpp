// What ONNX Runtime's optimiser writes in the place of ONNX's own nodes, but for attention (import_attention.cpp).
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

Status fused_floats(NodeContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (c.has(i) && !is_float(c.type(i))) return unsupported("its input ", i, " is ", elem_name(c.type(i)));
  }
  return {};
}

/// x, plus input 1 where there is one.
ValueId biased(NodeContext& c) { return c.has(1) ? c.emit(Op::add, {c.in(0), c.in(1)}) : c.in(0); }

Status gelu_of_sum(NodeContext& c, std::string_view approximate) {
  GRAFT_TRY(fused_floats(c));
  c.out(0, c.emit(Op::gelu, {biased(c)}, {{"approximate", std::string(approximate)}}));
  return {};
}
Status bias_gelu(NodeContext& c) { return gelu_of_sum(c, "none"); }
Status fast_gelu(NodeContext& c) { return gelu_of_sum(c, "tanh"); }

/// x * sigmoid(alpha x).
Status quick_gelu(NodeContext& c) {
  GRAFT_TRY(fused_floats(c));
  const ValueId x = c.in(0);
  const double alpha = c.attr_number("alpha", 1.702);
  const ValueId gate = c.emit(Op::sigmoid, {c.emit(Op::affine, {x}, {{"alpha", alpha}, {"beta", 0.0}})});
  c.out(0, c.emit(Op::mul, {x, gate}));
  return {};
}

Status fused_matmul(NodeContext& c) {
  GRAFT_TRY(fused_floats(c));
  if (c.attr("transBatchA", 0) != 0 || c.attr("transBatchB", 0) != 0) {
    return unsupported("it transposes axes of the batch (transBatchA, transBatchB)");
  }
  // A vector has no two axes to exchange.
  const bool trans_a = c.attr("transA", 0) != 0 && c.rank(0) > 1, trans_b = c.attr("transB", 0) != 0 && c.rank(1) > 1;
  ValueId y =
      c.emit(Op::matmul, {c.in(0), c.in(1)}, {{"trans_a", std::int64_t{trans_a}}, {"trans_b", std::int64_t{trans_b}}});
  const double alpha = c.attr_number("alpha", 1.0);
  if (alpha != 1) y = c.emit(Op::affine, {y}, {{"alpha", alpha}, {"beta", 0.0}});
  c.out(0, y);
  return {};
}

/// Normalised over the last axis: a layer norm, or without a mean an RMS norm.
Status normalised(NodeContext& c, ValueId x, std::size_t weight, std::size_t bias, bool centred, double epsilon) {
  if (!c.status().ok()) return c.status();
  const auto last = static_cast<std::int64_t>(c.shape_of(x).rank()) - 1;
  std::vector<ValueId> inputs = {x, c.in(weight)};
  if (c.has(bias)) inputs.push_back(c.in(bias));
  const auto made = c.emit_all(centred ? Op::layer_norm : Op::rms_norm, std::move(inputs),
                               {{"axis", last}, {"epsilon", c.attr_number("epsilon", epsilon)}});
  if (!made.empty()) c.out(0, made[0]);
  return {};
}

constexpr std::size_t kNoInput = 1000;

Status simplified_layer_normalization(NodeContext& c) {
  GRAFT_TRY(fused_floats(c));
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", -1), c.rank(0)));
  if (axis + 1 != c.rank(0)) return unsupported("it is normalised from axis ", axis, " on, and only the last one is");
  return normalised(c, c.in(0), 1, kNoInput, false, 1e-5);
}

/// Normalises input + skip + bias, which is another output.
Status skip_normalised(NodeContext& c, std::size_t weight, std::size_t shift, std::size_t bias, bool centred) {
  GRAFT_TRY(fused_floats(c));
  ValueId sum = c.emit(Op::add, {c.in(0), c.in(1)});
  if (c.has(bias)) sum = c.emit(Op::add, {sum, c.in(bias)});
  GRAFT_TRY(normalised(c, sum, weight, shift, centred, 1e-12));
  if (c.wants(3)) c.out(3, sum);
  return {};
}
Status skip_layer_normalization(NodeContext& c) { return skip_normalised(c, 2, 3, 4, true); }
Status skip_simplified_layer_normalization(NodeContext& c) { return skip_normalised(c, 2, kNoInput, 3, false); }

}  // namespace

const RuleEntry kFusedRules[] = {
    {"com.microsoft.Gelu", 1, 1, bias_gelu},
    {"com.microsoft.BiasGelu", 2, 2, bias_gelu},
    {"com.microsoft.FastGelu", 1, 2, fast_gelu},
    {"com.microsoft.QuickGelu", 1, 1, quick_gelu},
    {"com.microsoft.FusedMatMul", 2, 2, fused_matmul},
    {"com.microsoft.SkipLayerNormalization", 3, 5, skip_layer_normalization},
    {"com.microsoft.SkipSimplifiedLayerNormalization", 3, 4, skip_simplified_layer_normalization},
    // Stands in ONNX's own domain.
    {"SimplifiedLayerNormalization", 2, 2, simplified_layer_normalization},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
