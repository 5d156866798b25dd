// Pooling over one or two spatial axes, and global pooling over any number.
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/spatial.h"

namespace graft::convert {
namespace {

Status check_pooled(NodeContext& c) {
  if (is_float(c.type(0))) return {};
  return unsupported("its input is ", elem_name(c.type(0)), ", and only floats are pooled");
}

Attrs window(const Spatial& s) {
  return {{"kernel", s.kernel}, {"strides", s.strides}, {"pads", s.pads}, {"ceil_mode", std::int64_t{s.ceil_mode}}};
}

/// Of opset 7 on, a kernel_shape is required; everything else has defaults.
Result<Spatial> pool_window(NodeContext& c) {
  GRAFT_TRY(check_pooled(c));
  if (!c.has_attr("kernel_shape")) return corrupt("its attribute kernel_shape is missing");
  return read_spatial(c, c.attr_ints("kernel_shape"));
}

/// ONNX's indices count through the whole source tensor; graft's through one channel's image.
Status pool_indices(NodeContext& c, const Spatial& s, ValueId indices) {
  if (c.attr("storage_order", 0) != 0) return unsupported("indices with storage_order 1 are not supported");
  const Shape in = c.shape(0);
  if (!in.is_constant()) return unsupported("its indices need constant shapes; bind the symbols of ", in.text());
  const std::uint64_t plane = in.elements(2, in.rank());
  if (in.elements() > std::uint64_t{0x7fffffff}) return unsupported("its indices exceed the range of int32");
  HostTensor offsets;
  offsets.type = ElemType::i64;
  offsets.dims = {in[0].value(), 1, 1, in[1].value()};
  for (std::uint64_t i = 0; i < in.elements(0, 2); ++i) offsets.ints.push_back(static_cast<std::int64_t>(i * plane));
  out_image(c, 1, c.emit(Op::add, {indices, c.constant(offsets)}), s, ElemType::i64);
  return {};
}

Status max_pool(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Spatial s, pool_window(c));
  Attrs attrs = window(s);
  attrs.set("dilations", s.dilations);
  const auto outputs = c.emit_all(Op::max_pool, {image(c, 0, s)}, attrs);
  if (outputs.size() < 2) return c.status();
  out_image(c, 0, outputs[0], s, c.type(0));
  return c.wants(1) ? pool_indices(c, s, outputs[1]) : ok_status();
}

Status average_pool(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Spatial s, pool_window(c));
  if (s.dilations != Ints{1, 1}) return unsupported("dilated average pooling is not supported");
  Attrs attrs = window(s);
  attrs.set("count_include_pad", std::int64_t{c.attr("count_include_pad", 0) != 0});
  out_image(c, 0, c.emit(Op::avg_pool, {image(c, 0, s)}, attrs), s, c.type(0));
  return {};
}

/// (sum |x|^p)^(1/p) through an average that counts the padding.
Status lp_pool(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Spatial s, pool_window(c));
  if (s.dilations != Ints{1, 1} || s.ceil_mode) return unsupported("dilations and ceil_mode are not supported");
  const double p = static_cast<double>(c.attr("p", 2));
  if (p < 1) return corrupt("its p is ", p);
  const ValueId exponent = c.constant(HostTensor::scalar(static_cast<float>(p)));
  const ValueId powers = c.emit(Op::pow, {c.emit(Op::abs, {image(c, 0, s)}), exponent});
  Attrs attrs = window(s);
  attrs.set("count_include_pad", std::int64_t{1});
  const double size = static_cast<double>(s.kernel[0] * s.kernel[1]);
  const ValueId sum = c.emit(Op::affine, {c.emit(Op::avg_pool, {powers}, attrs)}, {{"alpha", size}, {"beta", 0.0}});
  const ValueId root = c.constant(HostTensor::scalar(static_cast<float>(1 / p)));
  out_image(c, 0, c.emit(Op::pow, {sum, root}), s, c.type(0));
  return {};
}

Status global_pool(NodeContext& c) {
  GRAFT_TRY(check_pooled(c));
  const std::size_t rank = c.rank(0);
  if (rank < 3) return corrupt("its input has ", rank, " axes and nothing to pool over");
  const Perm perm = channels_last(rank);
  Ints axes;
  for (std::size_t i = 1; i + 1 < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  const Op op = c.node.op == "GlobalMaxPool" ? Op::reduce_max : Op::reduce_mean;
  c.out(0, c.emit(op, {c.in(0, perm)}, {{"axes", axes}, {"keepdims", std::int64_t{1}}}), perm);
  return {};
}

}  // namespace

const RuleEntry kPoolRules[] = {
    {"MaxPool", 1, 1, max_pool},
    {"AveragePool", 1, 1, average_pool},
    {"LpPool", 1, 1, lp_pool},
    {"GlobalAveragePool", 1, 1, global_pool},
    {"GlobalMaxPool", 1, 1, global_pool},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
