// Rotary position embedding (Su et al. 2021).
#include <cmath>

#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"
#include "shaders/kernels.gen.h"
#include "shaders/rope/rope_push.h"

namespace graft::ops::rope {
namespace {

constexpr double kLeastTheta = std::numeric_limits<float>::min();
constexpr AttrSpec kAttrs[] = {attr::number("theta", 10000).at_least(kLeastTheta),
                               attr::integer("rotated"),  // 0: all
                               attr::flag("interleaved"),
                               attr::flag("inverse"),
                               attr::number("magnitude", 1).finite(),
                               attr::flag("from_step")};

/// Elements of a head that turn: the attribute, or all of them.
std::int64_t rotated(const Attrs& attrs, std::int64_t dim) {
  const std::int64_t given = attrs.integer("rotated");
  return given == 0 ? dim : given;
}

Status check_positions(InferContext& c) {
  const auto& dims = c.shape(0).dims();
  GRAFT_TRY(c.expect_dtype(1, DType::i32));
  if (c.shape(1) == Shape{dims[dims.size() - 3]}) return ok_status();
  return c.expect_shape(1, Shape(std::vector<Dim>(dims.begin(), dims.end() - 2)));
}

Status infer(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  const Shape& x = c.shape(0);
  if (x.rank() < 3) return invalid("Its input 0 has the shape ", x.text(), "; [.., seq, heads, dim] is needed.");
  GRAFT_TRY_ASSIGN(const std::int64_t dim, c.constant_dim(0, x.rank() - 1));
  const std::int64_t turned = rotated(c.attrs(), dim);
  if (dim % 2 != 0 || turned % 2 != 0 || turned < 0 || turned > dim) {
    return invalid("A head has ", dim, " elements, of which ", turned,
                   " turn (attribute \"rotated\"); both must be even, ", "and the latter at most the former.");
  }
  if (c.has(1)) GRAFT_TRY(check_positions(c));
  if (c.has(2)) {
    GRAFT_TRY(c.expect_dtype(2, DType::f32));
    GRAFT_TRY(c.expect_shape(2, {turned / 2}));
  }
  c.output(DType::f32, x);
  return ok_status();
}

Status emit(Emitter& e) {
  const Shape& x = e.in_shape(0);
  const std::size_t rank = x.rank();
  if (x.elements() == 0) return ok_status();
  push::RopePush p{};
  GRAFT_TRY(count32(x.elements(), "rotated tensor"));
  p.tokens = static_cast<std::uint32_t>(x.elements(0, rank - 2));
  p.sequence = static_cast<std::uint32_t>(x[rank - 3].value());
  p.heads = static_cast<std::uint32_t>(x[rank - 2].value());
  p.pairs = static_cast<std::uint32_t>(x[rank - 1].value() / 2);
  p.rotated = static_cast<std::uint32_t>(rotated(e.attrs(), x[rank - 1].value()) / 2);
  p.position_words = e.has(1) ? static_cast<std::uint32_t>(e.in_shape(1).elements()) : 0;
  p.has_frequencies = e.has(2);
  p.theta = static_cast<float>(e.attrs().number("theta"));
  p.direction = e.attrs().flag("inverse") ? -1.0F : 1.0F;
  p.magnitude = static_cast<float>(e.attrs().number("magnitude"));
  const bool from_step = e.attrs().flag("from_step") && !e.has(1);
  const std::uint64_t invocations = std::uint64_t{p.tokens} * p.pairs;
  e.dispatch(shaders::KernelId::rope__f32, {e.attrs().flag("interleaved"), from_step},
             {from_step ? e.step_state() : e.in(0), e.in(0), e.has(1) ? e.in(1) : e.in(0), e.has(2) ? e.in(2) : e.in(0),
              e.out()},
             p, e.spread(ceil_div<std::uint64_t>(invocations, 128)));
  return ok_status();
}

/// A rotation's transpose is the rotation by the negative angle.
Status vjp(VjpContext& c) {
  if (c.needs(2)) return unsupported("The frequencies of rope cannot be differentiated through.");
  Attrs attrs = c.attrs();
  attrs.set("inverse", std::int64_t{!attrs.flag("inverse")});
  c.grad(0, c.b.node(Op::rope, {c.dy(), c.in(1), c.in(2)}, std::move(attrs)));
  return ok_status();
}

std::uint64_t flops(const Graph& g, const Node& n) { return 3 * g.value(n.inputs[0]).shape.elements(); }

}  // namespace

/// rope(x [.., seq, heads, dim], positions? i32 [seq] or [.., seq], frequencies? f32 [rotated / 2]; theta = 10000,
/// rotated = 0 (all of dim), interleaved, inverse, magnitude = 1, from_step) -> y.
/// Pair i of the first `rotated` elements turns by position * frequencies[i], theta^(-2i / rotated) where none are
/// given, and grows by `magnitude`. Pairs are (i, i + rotated / 2), or (2i, 2i + 1) with interleaved 1. Without
/// positions a token's is its index in the sequence; with from_step 1, plus the step state's position.
extern const OpDef op_rope;
const OpDef op_rope = {.name = "rope",
                       .attrs = kAttrs,
                       .max_inputs = 3,
                       .optional_inputs = 0b110,
                       .infer = infer,
                       .emit = emit,
                       .gradient = vjp,
                       .flops = flops,
                       .inplace_inputs = 0b1,
                       .uses_step_state = true};

}  // namespace graft::ops::rope
