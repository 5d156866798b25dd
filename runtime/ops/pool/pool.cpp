// max_pool, avg_pool and their gradients over images [N, H, W, C]. Global pooling is a reduction over axes 1 and 2.
#include "platform/base/checked.h"
#include "runtime/core/op_def.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/emitter.h"
#include "runtime/ops/parts.h"
#include "runtime/ops/pool/pool_common.h"
#include "shaders/pool/pool_push.h"

namespace graft::ops {
namespace {

using shaders::KernelId;
constexpr std::uint32_t kWorkgroup = 64;  // local_size_x of the kernels

#define GRAFT_POOL_ATTRS                                                                                 \
  {"kernel", AttrType::integers, true}, {"strides", AttrType::integers}, {"pads", AttrType::integers}, { \
    "ceil_mode", AttrType::integer                                                                       \
  }
constexpr AttrSpec kMaxAttrs[] = {GRAFT_POOL_ATTRS, {"dilations", AttrType::integers}};
constexpr AttrSpec kAverageAttrs[] = {GRAFT_POOL_ATTRS, {"count_include_pad", AttrType::integer}};
constexpr AttrSpec kMaxGradAttrs[] = {
    GRAFT_POOL_ATTRS, {"dilations", AttrType::integers}, {"shape", AttrType::shape, true}};
constexpr AttrSpec kAverageGradAttrs[] = {
    GRAFT_POOL_ATTRS, {"count_include_pad", AttrType::integer}, {"shape", AttrType::shape, true}};
#undef GRAFT_POOL_ATTRS

Result<Shape> forward_shape(InferContext& c, const Shape& x) {
  GRAFT_TRY_ASSIGN(const PoolWindow window, read_pool_window(c.attrs()));
  return pool_output_shape(window, x);
}

Status infer_max(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY_ASSIGN(const Shape y, forward_shape(c, c.shape(0)));
  c.output(DType::f32, y);
  c.output(DType::i32, y);
  return ok_status();
}

Status infer_average(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY_ASSIGN(Shape y, forward_shape(c, c.shape(0)));
  c.output(DType::f32, std::move(y));
  return ok_status();
}

// dy (and indices) have the shape that pooling an image of the attribute's shape gives.
Status infer_grad(InferContext& c) {
  const Shape x = c.attrs().shape("shape");
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY_ASSIGN(const Shape y, forward_shape(c, x));
  GRAFT_TRY(c.expect_shape(0, y));
  if (c.inputs() > 1) {
    GRAFT_TRY(c.expect_dtype(1, DType::i32));
    GRAFT_TRY(c.expect_shape(1, y));
  }
  c.output(DType::f32, x);
  return ok_status();
}

// x is the image's shape and y the pooled one; `written` is that of the two which the kernel writes. All bindings have
// y's size but for number `of_x`.
Status emit_pool(Emitter& e, KernelId kernel, const Shape& x, const Shape& y, const Shape& written, std::size_t of_x,
                 const std::vector<Binding>& bindings) {
  if (written.elements() == 0) return ok_status();
  constexpr std::uint64_t kChannelsPer = 8;  // channels of one invocation
  const std::uint64_t step = ceil_div<std::uint64_t>(written.elements(3, 4), kChannelsPer);
  GRAFT_TRY_ASSIGN(const PoolWindow window, read_pool_window(e.attrs()));
  GRAFT_TRY(count32(x.elements(), "image"));
  GRAFT_TRY(count32(y.elements(), "pooled image"));
  const auto u32 = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  push::PoolPush push{.channel_step = static_cast<std::uint32_t>(step),
                      .h = u32(x[1].value()),
                      .w = u32(x[2].value()),
                      .c = u32(x[3].value()),
                      .oh = u32(y[1].value()),
                      .ow = u32(y[2].value()),
                      .kernel_h = u32(window.kernel[0]),
                      .kernel_w = u32(window.kernel[1]),
                      .stride_h = u32(window.strides[0]),
                      .stride_w = u32(window.strides[1]),
                      .pad_h = u32(window.pads[0]),
                      .pad_w = u32(window.pads[1]),
                      .dilation_h = u32(window.dilations[0]),
                      .dilation_w = u32(window.dilations[1]),
                      .padded_h = u32(x[1].value() + window.pads[0] + window.pads[2]),
                      .padded_w = u32(x[2].value() + window.pads[1] + window.pads[3]),
                      .count_include_pad = window.count_include_pad ? 1u : 0u};
  const std::uint64_t images = x.elements(0, 1);
  const std::uint64_t x_words = x.elements(1, 4);
  const std::uint64_t y_words = y.elements(1, 4);
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part, items_per_part(e.caps(), images, {x_words, y_words}, "pooled images"));
  return for_each_part(images, per_part, [&](std::uint64_t first, std::uint64_t part) {
    std::vector<Binding> bound = bindings;
    for (std::size_t i = 0; i < bound.size(); ++i) {
      bound[i] = items_of(bound[i], first, part, images, i == of_x ? x_words : y_words);
    }
    const std::uint64_t count = part * written.elements(1, 3) * step;
    GRAFT_TRY_ASSIGN(push.count, count32(count, "invocations of a pooling"));
    e.dispatch(kernel, {}, std::move(bound), push, e.spread(ceil_div<std::uint64_t>(count, kWorkgroup)));
    return ok_status();
  });
}

Status emit_max(Emitter& e) {
  return emit_pool(e, KernelId::max_pool__f32, e.in_shape(0), e.out_shape(), e.out_shape(), 0,
                   {e.in(0), e.out(0), e.out(1)});
}
Status emit_average(Emitter& e) {
  return emit_pool(e, KernelId::avg_pool__f32, e.in_shape(0), e.out_shape(), e.out_shape(), 0, {e.in(0), e.out()});
}
Status emit_max_grad(Emitter& e) {
  return emit_pool(e, KernelId::max_pool_grad__f32, e.out_shape(), e.in_shape(0), e.out_shape(), 2,
                   {e.in(0), e.in(1), e.out()});
}
Status emit_average_grad(Emitter& e) {
  return emit_pool(e, KernelId::avg_pool_grad__f32, e.out_shape(), e.in_shape(0), e.out_shape(), 1, {e.in(0), e.out()});
}

Attrs with_shape(Attrs attrs, const Shape& shape) {
  attrs.set("shape", shape);
  return attrs;
}

Status vjp_max(VjpContext& c) {
  if (c.dy().valid() && c.needs(0)) {
    c.grad(0, c.b.node(Op::max_pool_grad, {c.dy(), c.out(1)}, with_shape(c.attrs(), c.in_shape(0))));
  }
  return ok_status();
}

Status vjp_average(VjpContext& c) {
  if (c.needs(0)) c.grad(0, c.b.node(Op::avg_pool_grad, {c.dy()}, with_shape(c.attrs(), c.in_shape(0))));
  return ok_status();
}

// avg_pool_grad is linear, and avg_pool is its transpose.
Status vjp_average_grad(VjpContext& c) {
  if (!c.needs(0)) return ok_status();
  const Attrs own = c.attrs();
  Attrs attrs;
  for (const auto& [name, value] : own.items()) {
    if (name != "shape") attrs.set(name, value);
  }
  c.grad(0, c.b.node(Op::avg_pool, {c.dy()}, std::move(attrs)));
  return ok_status();
}

// Every element of every window is looked at once: a comparison, or an addition.
std::uint64_t window_flops(const Graph& graph, const Node& node) {
  const PoolWindow window = read_pool_window(node.attrs).value();
  const bool backward = node.attrs.has("shape");
  const std::uint64_t pooled = graph.value(backward ? node.inputs[0] : node.outputs[0]).shape.elements();
  return pooled * static_cast<std::uint64_t>(window.kernel[0] * window.kernel[1]);
}

}  // namespace

extern const OpDef op_max_pool, op_avg_pool, op_max_pool_grad, op_avg_pool_grad;
const OpDef op_max_pool = {.name = "max_pool",
                           .attrs = kMaxAttrs,
                           .infer = infer_max,
                           .emit = emit_max,
                           .gradient = vjp_max,
                           .flops = window_flops};
const OpDef op_avg_pool = {.name = "avg_pool",
                           .attrs = kAverageAttrs,
                           .infer = infer_average,
                           .emit = emit_average,
                           .gradient = vjp_average,
                           .flops = window_flops};
const OpDef op_max_pool_grad = {.name = "max_pool_grad",
                                .attrs = kMaxGradAttrs,
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .infer = infer_grad,
                                .emit = emit_max_grad,
                                .gradient = NoGrad{"a second derivative of max pooling is not implemented"},
                                .flops = window_flops};
const OpDef op_avg_pool_grad = {.name = "avg_pool_grad",
                                .attrs = kAverageGradAttrs,
                                .infer = infer_grad,
                                .emit = emit_average_grad,
                                .gradient = vjp_average_grad,
                                .flops = window_flops};

}  // namespace graft::ops
