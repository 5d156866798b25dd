// Normalisations.
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

Status check_normalised(NodeContext& c) {
  if (is_float(c.type(0))) return {};
  return unsupported("its input is ", elem_name(c.type(0)), ", and only floats are normalised");
}

/// Per-channel operands must be [C].
Status expect_channels(NodeContext& c, std::size_t i, const Dim& channels) {
  if (c.rank(i) == 1 && c.shape(i)[0] == channels) return {};
  return corrupt("its input ", i, " has the shape ", c.shape(i).text(), " instead of [", channels.text(), "]");
}

ValueId scaled(NodeContext& c, ValueId x, double alpha) {
  return c.emit(Op::affine, {x}, {{"alpha", alpha}, {"beta", 0.0}});
}

/// Trained statistics that the file leaves to whoever trains it: mode is then graft's to choose, command by command.
bool owns_statistics(NodeContext& c) {
  for (std::size_t k = 1; k < c.node.outputs.size(); ++k) {
    if (c.wants(k)) return false;
  }
  return !c.on_device(3) && !c.on_device(4) && c.record(3).running_stat && c.record(4).running_stat;
}

Status batch_norm(NodeContext& c) {
  GRAFT_TRY(check_normalised(c));
  const std::size_t rank = c.rank(0);
  if (rank < 2) return unsupported("its input has ", rank, " axes, so there is no channel axis");
  if (c.attr("spatial", 1) == 0) return unsupported("statistics per position (spatial = 0) are not supported");
  for (std::size_t i = 1; i < 5; ++i) {
    GRAFT_TRY(expect_channels(c, i, c.shape(0)[1]));
    // Exporters merge equal tensors: a fresh variance with a fresh scale, a mean with a bias. Here they part again, for
    // statistics are no parameters.
    c.part(i);
  }
  // Before opset 14, more than one output means training mode.
  const bool training = c.opset >= 14 ? c.attr("training_mode", 0) != 0 : c.node.outputs.size() > 1;
  for (const std::size_t i : {std::size_t{3}, std::size_t{4}}) {
    if (!c.on_device(i) && c.record(i).trainable) c.mutable_record(i).running_stat = true;
  }
  const Perm perm = channels_last(rank);
  const ValueId x = c.in(0, perm);
  const double epsilon = c.attr_number("epsilon", 1e-5);
  const double momentum = c.attr_number("momentum", 0.9);  // ONNX weighs the old statistics, graft the new ones
  if (!training || owns_statistics(c)) {
    if (training) {
      c.note(
          "the file holds batch normalisation in training mode; here training uses the batch's statistics, "
          "and inference the running ones");
    }
    c.out(0,
          c.emit(Op::batch_norm, {x, c.in(1), c.in(2), c.in(3), c.in(4)},
                 {{"epsilon", epsilon}, {"momentum", 1 - momentum}}),
          perm);
    return {};
  }
  const auto made = c.emit_all(Op::batch_norm_train, {x, c.in(1), c.in(2)}, {{"epsilon", epsilon}});
  if (made.size() < 3) return c.status();
  c.note("the file holds batch normalisation in training mode: its forward uses the batch's statistics");
  c.out(0, made[0], perm);
  for (std::size_t k = 1; k <= 2; ++k) {
    if (!c.wants(k)) continue;
    if (c.opset < 14) return unsupported("running statistics as outputs are not supported before opset 14");
    c.out(k, c.emit(Op::add, {scaled(c, c.in(k + 2), momentum), scaled(c, made[k], 1 - momentum)}));
  }
  return {};
}

Status group_norm(NodeContext& c, ValueId scale, ValueId bias, std::int64_t groups) {
  const Perm perm = channels_last(c.rank(0));
  const auto made = c.emit_all(Op::group_norm, {c.in(0, perm), scale, bias},
                               {{"groups", groups}, {"epsilon", c.attr_number("epsilon", 1e-5)}});
  if (!made.empty()) c.out(0, made[0], perm);
  return {};
}

Result<std::int64_t> channels(NodeContext& c) {
  GRAFT_TRY(check_normalised(c));
  if (c.rank(0) < 3) return unsupported("its input has ", c.rank(0), " axes, and at least 3 are needed");
  if (!c.shape(0)[1].is_constant()) return unsupported("its number of channels is symbolic");
  return c.shape(0)[1].value();
}

Status instance_normalization(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::int64_t count, channels(c));
  for (std::size_t i = 1; i < 3; ++i) GRAFT_TRY(expect_channels(c, i, Dim(count)));
  return group_norm(c, c.in(1), c.in(2), count);
}

Status group_normalization(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::int64_t count, channels(c));
  const std::int64_t groups = c.attr("num_groups", 0);
  if (groups < 1 || count % groups != 0) {
    return corrupt("its ", count, " channels cannot be parted into num_groups = ", groups);
  }
  ValueId affine[2];
  for (std::size_t i = 1; i < 3; ++i) {
    GRAFT_TRY(expect_channels(c, i, Dim(c.opset < 21 ? groups : count)));
    affine[i - 1] = c.in(i);
    if (c.opset >= 21) continue;
    const ValueId spread = c.expand(c.reshape(affine[i - 1], Shape{groups, 1}), Shape{groups, count / groups});
    affine[i - 1] = c.reshape(spread, Shape{count});
  }
  return group_norm(c, affine[0], affine[1], groups);
}

/// The trailing axes from `axis` on, as scale and bias must have them.
Result<ValueId> trailing(NodeContext& c, std::size_t i, const Shape& wanted) {
  GRAFT_TRY_ASSIGN(const Shape joint, broadcast(c.shape(i), wanted));
  if (joint != wanted) {
    return corrupt("its input ", i, " has the shape ", c.shape(i).text(), ", which does not broadcast to ",
                   wanted.text());
  }
  return c.expand(c.in(i), wanted);
}

Status layer_normalization(NodeContext& c) {
  GRAFT_TRY(check_normalised(c));
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", -1), c.rank(0)));
  const Shape shape = c.shape(0);
  const Shape tail(std::vector<Dim>(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()));
  std::vector<ValueId> inputs = {c.in(0)};
  for (std::size_t i = 1; i < c.inputs() && c.has(i); ++i) {
    GRAFT_TRY_ASSIGN(const ValueId operand, trailing(c, i, tail));
    inputs.push_back(operand);
  }
  const auto made = c.emit_all(
      Op::layer_norm, inputs, {{"axis", static_cast<std::int64_t>(axis)}, {"epsilon", c.attr_number("epsilon", 1e-5)}});
  if (made.size() < 3) return c.status();
  c.out(0, made[0]);
  std::vector<Dim> kept(shape.begin(), shape.end());
  for (std::size_t i = axis; i < kept.size(); ++i) kept[i] = 1;
  for (std::size_t k = 1; k < 3; ++k) {
    if (c.wants(k)) c.out_typed(k, c.reshape(made[k], Shape(kept)), ElemType::f32);
  }
  return {};
}

/// x / sqrt(mean(x^2) + epsilon) * scale over the trailing axes.
Status rms_normalization(NodeContext& c) {
  GRAFT_TRY(check_normalised(c));
  GRAFT_TRY_ASSIGN(const std::size_t first, c.axis(c.attr("axis", -1), c.rank(0)));
  Ints axes;
  for (std::size_t i = first; i < c.rank(0); ++i) axes.push_back(static_cast<std::int64_t>(i));
  const ValueId x = c.in(0);
  const ValueId mean =
      c.emit(Op::reduce_mean, {c.emit(Op::square, {x})}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  const ValueId shifted = c.emit(Op::affine, {mean}, {{"alpha", 1.0}, {"beta", c.attr_number("epsilon", 1e-5)}});
  const ValueId normal = c.emit(Op::mul, {x, c.emit(Op::rsqrt, {shifted})});
  c.out(0, c.emit(Op::mul, {normal, c.in(1)}));
  return {};
}

Status lp_normalization(NodeContext& c) {
  GRAFT_TRY(check_normalised(c));
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", -1), c.rank(0)));
  const std::int64_t p = c.attr("p", 2);
  if (p != 1 && p != 2) return unsupported("its p is ", p, ", and only 1 and 2 are supported");
  const ValueId x = c.in(0);
  const ValueId norm = c.emit(p == 1 ? Op::reduce_l1 : Op::reduce_l2, {x},
                              {{"axes", Ints{static_cast<std::int64_t>(axis)}}, {"keepdims", std::int64_t{1}}});
  // A vector of zeros stays one: its norm is replaced before the division.
  const ValueId zero = c.emit(Op::equal, {norm, c.constant(HostTensor::scalar(0))});
  const ValueId safe = c.emit(Op::where, {zero, c.constant(HostTensor::scalar(1)), norm});
  c.out(0, c.emit(Op::div, {x, safe}));
  return {};
}

Status mean_variance_normalization(NodeContext& c) {
  GRAFT_TRY(check_normalised(c));
  Ints axes = c.attr_ints("axes", {0, 2, 3});
  for (std::int64_t& axis : axes) {
    GRAFT_TRY_ASSIGN(const std::size_t normal, c.axis(axis, c.rank(0)));
    axis = static_cast<std::int64_t>(normal);
  }
  const Attrs over = {{"axes", axes}, {"keepdims", std::int64_t{1}}};
  const ValueId x = c.in(0);
  const ValueId centred = c.emit(Op::sub, {x, c.emit(Op::reduce_mean, {x}, over)});
  const ValueId deviation = c.emit(Op::sqrt, {c.emit(Op::reduce_mean, {c.emit(Op::square, {centred})}, over)});
  const ValueId shifted = c.emit(Op::affine, {deviation}, {{"alpha", 1.0}, {"beta", 1e-9}});
  c.out(0, c.emit(Op::div, {centred, shifted}));
  return {};
}

/// x / (bias + alpha * mean of squares over `size` channels)^beta: the window runs over channels as an average pooling
/// over the width of [N, H*W, C, 1], zeros around it counted.
Status lrn(NodeContext& c) {
  GRAFT_TRY(check_normalised(c));
  const std::int64_t size = c.attr("size", 0);
  if (size < 1 || size > (1 << 16)) return corrupt("its size is ", size);
  const Perm perm = channels_last(c.rank(0));
  if (perm.empty()) return unsupported("its input has ", c.rank(0), " axes, and at least 3 are needed");
  const ValueId x = c.in(0, perm);
  const Shape shape = c.shape_of(x);
  Dim plane(1);
  for (std::size_t i = 1; i + 1 < shape.rank(); ++i) {
    const auto product = multiply(plane, shape[i]);
    if (!product) return corrupt("its input is too large");
    plane = *product;
  }
  const ValueId squares = c.reshape(c.emit(Op::square, {x}), Shape{shape[0], plane, shape.back(), 1});
  const ValueId mean = c.emit(Op::avg_pool, {squares},
                              {{"kernel", Ints{1, size}},
                               {"strides", Ints{1, 1}},
                               {"pads", Ints{0, (size - 1) / 2, 0, size - 1 - (size - 1) / 2}},
                               {"ceil_mode", std::int64_t{0}},
                               {"count_include_pad", std::int64_t{1}}});
  const ValueId base = c.emit(Op::affine, {c.reshape(mean, shape)},
                              {{"alpha", c.attr_number("alpha", 1e-4)}, {"beta", c.attr_number("bias", 1.0)}});
  const ValueId exponent = c.constant(HostTensor::scalar(static_cast<float>(c.attr_number("beta", 0.75))));
  c.out(0, c.emit(Op::div, {x, c.emit(Op::pow, {base, exponent})}), perm);
  return {};
}

}  // namespace

const RuleEntry kNormRules[] = {
    {"BatchNormalization", 5, 5, batch_norm},
    {"InstanceNormalization", 3, 3, instance_normalization},
    {"GroupNormalization", 3, 3, group_normalization},
    {"LayerNormalization", 2, 3, layer_normalization},
    {"RMSNormalization", 2, 2, rms_normalization},
    {"LpNormalization", 1, 1, lp_normalization},
    {"MeanVarianceNormalization", 1, 1, mean_variance_normalization},
    {"LRN", 1, 1, lrn},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
