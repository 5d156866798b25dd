// max_pool, avg_pool and their gradients over images [N, H, W, C]. Global pooling is a reduction over axes 1 and 2.
#include <algorithm>

#include "platform/base/checked.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/emitter.h"
#include "runtime/ops/parts.h"
#include "runtime/ops/pool/pool_common.h"
#include "shaders/kernels.gen.h"
#include "shaders/pool/pool_push.h"

namespace graft::ops::pool {
namespace {

using shaders::KernelId;
constexpr std::uint32_t kStrip = 4;  // channels of an invocation
constexpr std::uint32_t kBlock = 2;  // lines and columns that those of gradients take at a time

#define GRAFT_POOL_ATTRS \
  attr::integers("kernel").needed(), attr::integers("strides"), attr::integers("pads"), attr::flag("ceil_mode")
constexpr AttrSpec kMaxAttrs[] = {GRAFT_POOL_ATTRS, attr::integers("dilations"), attr::integers("same")};
constexpr AttrSpec kAverageAttrs[] = {GRAFT_POOL_ATTRS, attr::integer("count_include_pad"), attr::integers("same")};
constexpr AttrSpec kMaxGradAttrs[] = {GRAFT_POOL_ATTRS, attr::integers("dilations"), attr::shape("shape").needed()};
constexpr AttrSpec kAverageGradAttrs[] = {GRAFT_POOL_ATTRS, attr::integer("count_include_pad"),
                                          attr::shape("shape").needed()};
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

// A pooling kernel over images of shape x, whose pooled images have shape y. All bindings but `of_x` have y's size.
struct Pooling {
  KernelId kernel;
  Shape x;
  Shape y;
  std::size_t of_x;
  bool by_blocks;  // writes x, in blocks of 2 x 2, or else y
};

Result<push::PoolPush> pool_push(const Pooling& pooling, const PoolWindow& window, std::uint32_t run) {
  GRAFT_TRY(count32(pooling.x.elements(), "image"));
  GRAFT_TRY(count32(pooling.y.elements(), "pooled image"));
  const auto u32 = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const Shape& x = pooling.x;
  push::PoolPush push{.run = run,
                      .h = u32(x[1].value()),
                      .w = u32(x[2].value()),
                      .c = u32(x[3].value()),
                      .oh = u32(pooling.y[1].value()),
                      .ow = u32(pooling.y[2].value()),
                      .pad_h = u32(window.pads[0]),
                      .pad_w = u32(window.pads[1]),
                      .padded_h = u32(x[1].value() + window.pads[0] + window.pads[2]),
                      .padded_w = u32(x[2].value() + window.pads[1] + window.pads[3]),
                      .count_include_pad = window.count_include_pad ? 1u : 0u};
  push.strips = ceil_div(push.c, kStrip);
  push.runs = ceil_div(pooling.by_blocks ? ceil_div(push.w, kBlock) : push.ow, run);
  return push;
}

std::vector<std::uint32_t> pool_constants(const PoolWindow& window, std::uint32_t channels, std::uint32_t workgroup) {
  std::vector<std::uint32_t> constants;
  for (const auto& pair : {window.kernel, window.strides, window.dilations}) {
    for (const std::int64_t size : pair) constants.push_back(static_cast<std::uint32_t>(size));
  }
  constants.push_back(channels % kStrip == 0 ? 0 : std::min(channels, kStrip));
  constants.push_back(workgroup);
  return constants;
}

Status emit_pool(Emitter& e, const Pooling& pooling, const std::vector<Binding>& bindings) {
  const Shape& x = pooling.x;
  const Shape& y = pooling.y;
  if ((pooling.by_blocks ? x : y).elements() == 0) return ok_status();
  const Variant& variant = e.note(choose(Family::pool, e.target(), {.m = y.elements(0, 3), .n = y.elements(3, 4)}));
  const std::uint32_t workgroup = variant.tile[0] == 0 ? cpu_lanes(e.caps()) : variant.tile[0];
  GRAFT_TRY_ASSIGN(const PoolWindow window, read_pool_window(e.attrs()));
  GRAFT_TRY_ASSIGN(push::PoolPush push, pool_push(pooling, window, variant.tile[1]));
  const std::uint64_t lines = pooling.by_blocks ? ceil_div(push.h, kBlock) : push.oh;
  const std::uint64_t images = x.elements(0, 1);
  const std::uint64_t x_words = x.elements(1, 4);
  const std::uint64_t y_words = y.elements(1, 4);
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part, items_per_part(e.caps(), images, {x_words, y_words}, "pooled images"));
  return for_each_part(images, per_part, [&](std::uint64_t first, std::uint64_t part) {
    std::vector<Binding> bound = bindings;
    for (std::size_t i = 0; i < bound.size(); ++i) {
      bound[i] = items_of(bound[i], first, part, images, i == pooling.of_x ? x_words : y_words);
    }
    const std::uint64_t count = part * lines * push.runs * push.strips;
    GRAFT_TRY_ASSIGN(push.count, count32(count, "invocations of a pooling"));
    e.dispatch(pooling.kernel, {}, std::move(bound), push, e.spread(ceil_div<std::uint64_t>(count, workgroup)));
    e.dispatches().back().specialization = pool_constants(window, push.c, workgroup);
    return ok_status();
  });
}

Status emit_max(Emitter& e) {
  return emit_pool(e, {KernelId::max_pool__f32, e.in_shape(0), e.out_shape(), 0, false}, {e.in(0), e.out(0), e.out(1)});
}
Status emit_average(Emitter& e) {
  return emit_pool(e, {KernelId::avg_pool__f32, e.in_shape(0), e.out_shape(), 0, false}, {e.in(0), e.out()});
}
Status emit_max_grad(Emitter& e) {
  return emit_pool(e, {KernelId::max_pool_grad__f32, e.out_shape(), e.in_shape(0), 2, true},
                   {e.in(0), e.in(1), e.out()});
}
Status emit_average_grad(Emitter& e) {
  return emit_pool(e, {KernelId::avg_pool_grad__f32, e.out_shape(), e.in_shape(0), 1, true}, {e.in(0), e.out()});
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

}  // namespace graft::ops::pool
