// What decoding token by token is made of: keys and values that stay from step to step, and places in the sequence.
#include "platform/base/checked.h"
#include "runtime/core/dtype.h"
#include "runtime/ops/movement.h"
#include "shaders/cache/cache_append_blocks_push.h"
#include "shaders/cache/cache_append_push.h"
#include "shaders/cache/cache_base.h"
#include "shaders/cache/cache_move_push.h"
#include "shaders/cache/positions_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::cache {
namespace {

constexpr std::uint64_t kWorkgroup = 128;  // local_size_x of the kernels
constexpr std::uint64_t kBlocksWorkgroup = 32;
constexpr std::uint64_t kBlock = 32;  // elements
constexpr std::int64_t kPlaceWords = 4;
constexpr AttrSpec kAppendAttrs[] = {attr::integer("window")};
constexpr AttrSpec kPositionsAttrs[] = {attr::shape("shape").needed(), attr::integer("from_step")};

Status infer_append(InferContext& c) {
  const bool blocks = is_quantized(c.dtype(0));
  if (!blocks) GRAFT_TRY(expect_words(c.dtype(0)));
  GRAFT_TRY(c.expect_dtype(1, blocks ? DType::f32 : c.dtype(0)));
  Shape rows = c.shape(0);
  if (rows.rank() < 3 || c.shape(1).rank() != rows.rank()) {
    return invalid("It appends ", c.shape(1).text(), " to the cache ", rows.text(),
                   "; both must be [batch, tokens, ..] of one rank.");
  }
  rows[1] = c.shape(1)[1];
  if (c.has(2)) {
    rows[0] = c.shape(1)[0];
    GRAFT_TRY(c.expect_dtype(2, DType::i32));
    GRAFT_TRY(c.expect_shape(2, {rows[0], kPlaceWords}));
  }
  GRAFT_TRY(c.expect_shape(1, rows));
  if (const std::int64_t window = c.attrs().integer("window"); window != 0) {
    const Dim& places = c.shape(0)[1];
    const bool known = window > 0 && window < INT32_MAX / 2 && places.is_constant() && rows[1].is_constant();
    if (!known || places.value() % kCacheStride != 0 ||
        static_cast<std::uint64_t>(places.value()) <
            cache_places(static_cast<std::uint64_t>(window), static_cast<std::uint64_t>(rows[1].value()))) {
      return invalid("A cache of ", places.text(), " places cannot forget what is ", window, " tokens away, ",
                     rows[1].text(), " at a time.");
    }
  }
  c.output(c.dtype(0), c.shape(0));
  return ok_status();
}

std::uint32_t slots_of(const Emitter& e) { return e.has(2) ? static_cast<std::uint32_t>(e.in_shape(0)[0].value()) : 0; }
Binding places_of(Emitter& e) { return e.has(2) ? e.in(2) : e.step_state(); }

/// Moves what a cache that forgets still needs.
void emit_move(Emitter& e) {
  const Shape& cache = e.in_shape(0);
  push::CacheMovePush push{};
  push.batch = static_cast<std::uint32_t>(e.in_shape(1)[0].value());
  push.slots = slots_of(e);
  push.links = static_cast<std::uint32_t>(cache[1].value()) / kCacheStride;
  const std::uint64_t elements = kCacheStride * cache.elements(2, cache.rank());
  // Words, whatever they hold.
  push.stride = static_cast<std::uint32_t>(storage_bytes(e.stored(e.in(0)), elements) / 4);
  push.window = static_cast<std::uint32_t>(e.attrs().integer("window"));
  e.dispatch(shaders::KernelId::cache_move__f32, {}, {places_of(e), as_stored(e.update(0))}, push,
             e.spread(ceil_div<std::uint64_t>(std::uint64_t{push.stride} * push.batch, kWorkgroup)));
}

/// Caches in blocks of q8_0.
Status emit_append_blocks(Emitter& e) {
  const Shape& x = e.in_shape(1);
  const std::uint64_t blocks = x.elements() / kBlock;
  push::CacheAppendBlocksPush push{};
  GRAFT_TRY(count32(e.in_shape(0).elements(), "cache"));
  push.tokens = static_cast<std::uint32_t>(x[1].value());
  push.capacity = static_cast<std::uint32_t>(e.in_shape(0)[1].value());
  push.row = static_cast<std::uint32_t>(x.elements(2, x.rank()) / kBlock);
  push.batch = static_cast<std::uint32_t>(x[0].value());
  push.slots = slots_of(e);
  push.window = static_cast<std::uint32_t>(e.attrs().integer("window"));
  const std::uint64_t each = blocks / push.batch / 2 + 1;
  e.dispatch(shaders::KernelId::cache_append_blocks__f32, {}, {places_of(e), e.update(0), e.in(1)}, push,
             e.spread(ceil_div(each * push.batch, kBlocksWorkgroup)));
  return ok_status();
}

Status emit_append(Emitter& e) {
  const Shape& x = e.in_shape(1);
  const std::uint64_t count = x.elements();
  if (count == 0) return ok_status();
  if (e.attrs().integer("window") != 0) emit_move(e);
  if (is_quantized(e.in_dtype(0))) return emit_append_blocks(e);
  push::CacheAppendPush push{};
  GRAFT_TRY(count32(e.in_shape(0).elements(), "cache"));
  GRAFT_TRY_ASSIGN(push.count, count32(count, "list of rows to append"));
  push.tokens = static_cast<std::uint32_t>(x[1].value());
  push.capacity = static_cast<std::uint32_t>(e.in_shape(0)[1].value());
  push.row = static_cast<std::uint32_t>(x.elements(2, x.rank()));
  push.slots = slots_of(e);
  push.window = static_cast<std::uint32_t>(e.attrs().integer("window"));
  e.dispatch(shaders::KernelId::cache_append__f32, {}, {places_of(e), e.update(0), e.in(1)}, push,
             e.spread(ceil_div(count, kWorkgroup)));
  return ok_status();
}

Status infer_positions(InferContext& c) {
  const Shape shape = c.attrs().shape("shape");
  if (shape.rank() == 0) return invalid("The attribute \"shape\" has no axis along which to count.");
  if (c.has(0)) {
    GRAFT_TRY(c.expect_dtype(0, DType::i32));
    GRAFT_TRY(c.expect_shape(0, {shape[0], kPlaceWords}));
    if (shape.rank() != 2 || !c.attrs().flag("from_step")) {
      return invalid("Positions from places on are [batch, tokens], and from_step; here they are ", shape.text(), ".");
    }
  }
  c.output(DType::i32, shape);
  return ok_status();
}

Status emit_positions(Emitter& e) {
  const std::uint64_t count = e.out_shape().elements();
  if (count == 0) return ok_status();
  push::PositionsPush push{};
  GRAFT_TRY_ASSIGN(push.count, count32(count, "list of positions"));
  push.sequence = static_cast<std::uint32_t>(e.out_shape().back().value());
  const bool from_step = e.attrs().flag("from_step");
  push.slots = e.has(0);
  e.dispatch(shaders::KernelId::positions__f32, {from_step}, {e.has(0) ? e.in(0) : e.step_state(), e.out()}, push,
             e.spread(ceil_div(count, kWorkgroup)));
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }

}  // namespace

/// cache_append(cache [B, C, ..], x [B, S, ..], places?; window = 0) -> the cache, in which row s of x stands at the
/// step state's position + s. With places, i32 [B, 4] of (slot, furthest position of the runs before, 0, position), the
/// cache is [slots, C, ..], and each item has its own slot and position; an item at -1 is left out, and no two may have
/// one slot. Rows past the end are dropped. With a window it forgets: places count from cache_base() of the
/// furthest position so far, which the step state's `step` is of the runs before; whatever is before that is gone. The
/// result is the cache's own memory: whoever reads it reads what this node left there. A cache of q8_0, of one text or
/// with places, and with rows of whole blocks, rounds what is appended to blocks.
extern const OpDef op_cache_append;
const OpDef op_cache_append = {.name = "cache_append",
                               .attrs = kAppendAttrs,
                               .min_inputs = 2,
                               .max_inputs = 3,
                               .optional_inputs = 0b100,
                               .infer = infer_append,
                               .emit = emit_append,
                               .gradient = NoGrad{"it updates state in place"},
                               .flops = no_flops,
                               .mutates = 0b1,
                               .quantized_inputs = 0b1,
                               .alias_input = 0,
                               .uses_step_state = true};

/// positions(places?; shape, from_step) -> i32: the index along the last axis; with from_step 1, plus the step state's
/// position, or with places, as cache_append() has them, plus each item's own (0 for one at -1).
extern const OpDef op_positions;
const OpDef op_positions = {.name = "positions",
                            .attrs = kPositionsAttrs,
                            .min_inputs = 0,
                            .max_inputs = 1,
                            .optional_inputs = 0b1,
                            .infer = infer_positions,
                            .emit = emit_positions,
                            .gradient = NoGrad{"it gives whole numbers"},
                            .flops = no_flops,
                            .uses_step_state = true};

}  // namespace graft::ops::cache
