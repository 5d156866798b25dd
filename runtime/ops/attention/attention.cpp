// Grouped-query attention: softmax(q k^T * scale) v, without the matrix of weights in memory, forward or backward.
#include <algorithm>
#include <array>
#include <cmath>

#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/matrix_tiles.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/parts.h"
#include "runtime/ops/rows.h"
#include "shaders/attention/attention_grad_delta_push.h"
#include "shaders/attention/attention_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::attention {
namespace {

constexpr AttrSpec kAttrs[] = {attr::number("scale").finite(),  // absent: 1 / sqrt(dim)
                               attr::flag("causal"),
                               attr::integer("window").within(0, INT32_MAX),  // 0: none
                               attr::number("softcap").at_least(0),           // 0: none
                               attr::flag("from_step"),
                               attr::flag("forgets")};
constexpr std::int64_t kMaxDim = 256;
constexpr std::uint32_t kTile = 32;  // rows and keys of a workgroup's tile in shared memory, elements of a slab
constexpr std::int64_t kMaxWindow = 1 << 30;
constexpr std::size_t kPlaces = 5;  // the input

Status check_attrs(const Attrs& attrs) {
  const std::int64_t window = attrs.integer("window");
  if (attrs.flag("forgets") && (window == 0 || window > kMaxWindow || !attrs.flag("from_step"))) {
    return invalid("Its cache forgets, but it has no window, or does not begin at the step's position.");
  }
  return ok_status();
}

/// q, k and v at inputs 0, 1, 2. `placed`: each text finds its cache among k's by its place.
Status check_operands(InferContext& c, bool placed) {
  const bool blocks = c.dtype(1) == DType::q8_0;
  for (const std::size_t i : {0, 1, 2}) {
    GRAFT_TRY(c.expect_dtype(i, i != 0 && blocks ? DType::q8_0 : DType::f32));
    GRAFT_TRY(c.expect_rank(i, 4));
  }
  GRAFT_TRY_ASSIGN(const std::int64_t heads, c.constant_dim(0, 2));
  GRAFT_TRY_ASSIGN(const std::int64_t kv_heads, c.constant_dim(1, 2));
  GRAFT_TRY_ASSIGN(const std::int64_t dim, c.constant_dim(0, 3));
  if (kv_heads < 1 || heads < 1 || heads % kv_heads != 0) {
    return invalid("There are ", heads, " query heads for ", kv_heads,
                   " key heads; the former must be a positive multiple of the latter.");
  }
  if (dim < 1 || dim > kMaxDim) return invalid("A head has ", dim, " elements; 1 to ", kMaxDim, " are supported.");
  if (blocks && (dim % 4 != 0 || (c.shape(0)[0] != Dim(1) && !placed))) {
    return unsupported("Its queries have the shape ", c.shape(0).text(),
                       "; with keys of q8_0 there is one text, and heads of a multiple of 4 elements.");
  }
  GRAFT_TRY(c.expect_shape(1, {c.shape(placed ? 1 : 0)[0], c.shape(1)[1], kv_heads, dim}));
  GRAFT_TRY(c.expect_shape(2, c.shape(1)));
  return check_attrs(c.attrs());
}

/// Sequences i32 [batch, seq], of queries and keys alike.
Status check_sequences(InferContext& c, std::size_t i) {
  if (!c.has(i)) return ok_status();
  GRAFT_TRY(c.expect_dtype(i, DType::i32));
  GRAFT_TRY(c.expect_shape(i, {c.shape(0)[0], c.shape(0)[1]}));
  return c.expect_shape(i, {c.shape(1)[0], c.shape(1)[1]});
}

/// What is added to the scores: f32 [batch or 1, query heads or 1, queries or 1, keys].
Status check_mask(InferContext& c, std::size_t i) {
  if (!c.has(i)) return ok_status();
  if (c.has(i - 1)) return unsupported("It has packed sequences and a mask; one of the two tells which keys are seen.");
  GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_rank(i, 4));
  const Shape& mask = c.shape(i);
  const Shape full = {c.shape(0)[0], c.shape(0)[2], c.shape(0)[1], c.shape(1)[1]};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (mask[axis] == full[axis] || (axis != 3 && mask[axis] == Dim(1))) continue;
    return invalid("Its mask has the shape ", mask.text(), ", which does not broadcast to the scores' ", full.text(),
                   " with all keys named.");
  }
  return ok_status();
}

/// i32 [batch, 4], as cache_append() has them.
Status check_places(InferContext& c) {
  if (!c.has(kPlaces)) return ok_status();
  GRAFT_TRY(c.expect_dtype(kPlaces, DType::i32));
  GRAFT_TRY(c.expect_shape(kPlaces, {c.shape(0)[0], 4}));
  if (c.attrs().flag("from_step") && !c.has(3) && !c.has(4)) return ok_status();
  return unsupported("It has places, and with them neither packed sequences nor a mask, but from_step.");
}

Shape statistics_shape(const Shape& q) { return {q[0], q[1], q[2]}; }

Status infer(InferContext& c) {
  GRAFT_TRY(check_operands(c, c.has(kPlaces)));
  GRAFT_TRY(check_sequences(c, 3));
  GRAFT_TRY(check_mask(c, 4));
  GRAFT_TRY(check_places(c));
  if (c.dtype(1) == DType::q8_0 && (c.has(3) || c.has(4))) {
    return unsupported("Its keys are of q8_0; such have neither a mask nor packed sequences.");
  }
  c.output(DType::f32, c.shape(0));
  c.output(DType::f32, statistics_shape(c.shape(0)));
  return ok_status();
}

struct Job {
  push::AttentionPush push;  ///< batch and tiles are set for each dispatch
  std::uint64_t batch = 0;
  std::uint64_t per_part = 0;
  std::uint64_t query_words = 0;  ///< per item of the batch
  std::uint64_t key_words = 0;
  std::uint64_t statistic_words = 0;
  std::uint64_t sequence_words = 0;
  std::uint64_t mask_words = 0;
  std::uint64_t place_words = 0;
  std::uint32_t slabs = 0;
  bool vectors = false;
  bool masked = false;
  bool blocks = false;                             ///< keys and values are of q8_0
  MatrixOperands operands = MatrixOperands::none;  ///< as what tiles may be multiplied
};

/// The mask's steps, and how much of it is one item's.
Status set_mask(const Emitter& e, std::size_t input, Job& job) {
  const Shape& mask = e.in_shape(input);
  GRAFT_TRY(count32(mask.elements(), "mask"));
  if (mask[0] == Dim(1) && mask.elements() > max_bound_elements(e.caps())) {
    return unsupported("A mask of the shape ", mask.text(), " exceeds ", max_bound_elements(e.caps()),
                       " elements, the limit of one binding on this device.");
  }
  const auto step = [&](std::size_t axis) {
    return mask[axis] == Dim(1) ? 0 : static_cast<std::uint32_t>(mask.elements(axis + 1, 4));
  };
  job.masked = true;
  job.push.mask_batch = step(0);
  job.push.mask_head = step(1);
  job.push.mask_query = step(2);
  job.mask_words = job.push.mask_batch;
  job.operands = MatrixOperands::none;  // the kernels that add it have no tiles of matrices
  return ok_status();
}

/// Any item may have any cache: all are bound for each.
Status place(const Emitter& e, Job& job) {
  const Shape& k = e.in_shape(1);
  const std::uint64_t words = ceil_div<std::uint64_t>(storage_bytes(e.stored(e.in(1)), k.elements()), 4);
  if (words > max_bound_elements(e.caps())) {
    return unsupported("The ", k[0].text(), " caches of keys have ", 4 * words, " bytes together, more than the ",
                       4 * max_bound_elements(e.caps()), " of one binding on this device.");
  }
  job.push.slots = static_cast<std::uint32_t>(k[0].value());
  job.place_words = 4;
  return ok_status();
}

/// `sequences`: the input that they are; the next one is the mask.
Result<Job> make_job(const Emitter& e, std::size_t sequences) {
  const Shape& q = e.in_shape(0);
  const Shape& k = e.in_shape(1);
  GRAFT_TRY(count32(q.elements(), "tensor of queries"));
  GRAFT_TRY(count32(k.elements(), "tensor of keys"));
  const auto dim_of = [](const Shape& s, std::size_t axis) { return static_cast<std::uint32_t>(s[axis].value()); };
  Job job;
  push::AttentionPush& p = job.push;
  p = {};
  p.queries = dim_of(q, 1);
  p.keys = dim_of(k, 1);
  p.kv_heads = dim_of(k, 2);
  p.group = dim_of(q, 2) / p.kv_heads;
  p.dim = dim_of(q, 3);
  p.offset = static_cast<std::int32_t>(p.keys) - static_cast<std::int32_t>(p.queries);
  p.window = static_cast<std::int32_t>(std::min(e.attrs().integer("window"), kMaxWindow));
  p.scale = static_cast<float>(e.attrs().has("scale") ? e.attrs().number("scale")
                                                      : 1 / std::sqrt(static_cast<double>(p.dim)));
  p.softcap = static_cast<float>(e.attrs().number("softcap"));
  job.batch = q.elements(0, 1);
  job.query_words = q.elements(1, 4);
  job.blocks = e.in_dtype(1) == DType::q8_0;
  if (e.node().op == Op::attention && e.has(kPlaces)) {
    GRAFT_TRY(place(e, job));
  } else {
    job.key_words = ceil_div<std::uint64_t>(storage_bytes(e.in_dtype(1), k.elements()) / k.elements(0, 1), 4);
  }
  job.statistic_words = q.elements(1, 3);
  job.sequence_words = e.has(sequences) ? p.queries : 0;
  job.slabs = ceil_div<std::uint32_t>(p.dim, kTile);
  job.vectors = p.dim % 4 == 0;
  // Weights are rounded between the products: where all that goes in and comes out is.
  std::vector<Binding> rounded = {e.in(0), e.in(1), e.in(2), e.out(0)};
  if (e.node().op == Op::attention_grad) rounded.push_back(e.in(5));
  job.operands = job.blocks ? MatrixOperands::none : matrix_operands(e, rounded);
  p.causal = e.attrs().flag("causal");
  p.has_sequences = e.has(sequences);
  p.from_step = e.attrs().flag("forgets") ? 2 : e.attrs().flag("from_step") ? 1 : 0;
  if (e.has(sequences + 1)) GRAFT_TRY(set_mask(e, sequences + 1, job));
  GRAFT_TRY_ASSIGN(job.per_part, items_per_part(e.caps(), job.batch,
                                                {job.query_words, job.key_words, 2 * job.statistic_words,
                                                 job.sequence_words, job.mask_words, job.place_words},
                                                "items of the batch"));
  return job;
}

/// In the order of Family::attention's variants; last, what stands for the second where tiles are of bf16.
using Kernels = std::array<shaders::KernelId, 5>;
constexpr std::uint8_t kLanesApart = 3;
using enum shaders::KernelId;
constexpr Kernels kForward = {attention__f32, attention__f32_coopmat, attention_lanes__f32, attention_lanes__f32_apart,
                              attention__f32_coopmat_bf16};
constexpr Kernels kGradQuery = {attention_grad_query__f32, attention_grad_query__f32_coopmat,
                                attention_lanes_grad_query__f32, attention_lanes_grad_query__f32_apart,
                                attention_grad_query__f32_coopmat_bf16};
constexpr Kernels kGradKey = {attention_grad_key__f32, attention_grad_key__f32_coopmat, attention_lanes_grad_key__f32,
                              attention_lanes_grad_key__f32_apart, attention_grad_key__f32_coopmat_bf16};
// In the same order; tiles of matrices are chosen neither with a mask nor with keys in blocks.
constexpr Kernels without_matrices(shaders::KernelId tiles, shaders::KernelId lanes, shaders::KernelId apart) {
  return {tiles, tiles, lanes, apart, tiles};
}
constexpr Kernels kForwardMasked =
    without_matrices(attention__f32_mask, attention_lanes__f32_mask, attention_lanes__f32_mask_apart);
constexpr Kernels kForwardBlocks =
    without_matrices(attention__f32_blocks, attention_lanes__f32_blocks, attention_lanes__f32_blocks_apart);
constexpr Kernels kGradQueryMasked = without_matrices(
    attention_grad_query__f32_mask, attention_lanes_grad_query__f32_mask, attention_lanes_grad_query__f32_mask_apart);
constexpr Kernels kGradKeyMasked = without_matrices(attention_grad_key__f32_mask, attention_lanes_grad_key__f32_mask,
                                                    attention_lanes_grad_key__f32_mask_apart);
enum class Over : std::uint8_t { rows, keys };  ///< what workgroups share out among them

/// The workgroup of a kernel whose lanes hold rows: where they are apart, each is a cluster of its own.
ShuffleLanes lanes_of(const Emitter& e, const Variant& variant) {
  ShuffleLanes lanes = shuffle_lanes(e.caps());
  if (variant.kernel == kLanesApart) lanes.clusters = lanes.all;
  return lanes;
}

std::vector<std::uint32_t> constants_of(const Emitter& e, const Job& job, const Variant& variant) {
  if (variant.tile[0] != 0) {
    const ShuffleLanes lanes = lanes_of(e, variant);
    return {lanes.all, variant.tile[0], ceil_div(job.push.dim, 4 * lanes.all / lanes.clusters), job.push.softcap != 0,
            lanes.clusters};
  }
  std::vector<std::uint32_t> constants = {job.slabs, job.vectors};
  if (variant.kernel == 1) {
    const std::vector<std::uint32_t> sizes = matrix_sizes(e.caps(), operand_type(job.operands));
    constants.insert(constants.end(), sizes.begin() + 2, sizes.end());
  }
  return constants;
}

void dispatch(Emitter& e, const Job& job, Kernels kernels, std::uint64_t count, Over over,
              std::vector<Binding> bindings) {
  ChoiceShape shape{std::uint64_t{job.push.queries} * job.push.group, job.push.keys, job.push.dim, count};
  // All are kept as bf16, or none is rounded to it.
  if (job.operands == MatrixOperands::bf16) kernels[1] = kernels.back();
  shape.rounded = job.operands == MatrixOperands::f16 || job.operands == MatrixOperands::bf16;
  if (shape.rounded) shape.operand = operand_type(job.operands);
  const Variant& variant = e.note(choose(Family::attention, e.target(), shape, kernels));
  const std::uint32_t tile = variant.tile[0] != 0 ? variant.tile[0] : kTile;
  push::AttentionPush p = job.push;
  p.batch = static_cast<std::uint32_t>(count);
  p.row_tiles = ceil_div(p.queries * p.group, tile);
  p.key_tiles = ceil_div(p.keys, tile);
  const std::uint64_t tiles = count * p.kv_heads * (over == Over::rows ? p.row_tiles : p.key_tiles);
  const std::uint32_t clusters = variant.tile[0] != 0 ? lanes_of(e, variant).clusters : 1;
  e.dispatch(kernels[variant.kernel], {}, std::move(bindings), p, e.spread(ceil_div<std::uint64_t>(tiles, clusters)));
  e.dispatches().back().specialization = constants_of(e, job, variant);
}

// Rows that a workgroup of attention_few.comp takes; 0: the problem is none of its. A few queries always are, so that
// each gets the bits that it has alone (Generator::compare_verified).
constexpr std::uint32_t kFewRows = 16;
constexpr std::uint32_t kFewQueries = 8;
constexpr std::uint32_t kFewVectors = 32;  // in registers, twice
std::uint32_t few_rows_of(Emitter& e, const Job& job) {
  constexpr std::array kKernels = {shaders::KernelId::attention_few__f32};
  constexpr std::array kOfBlocks = {shaders::KernelId::attention_few__f32_blocks};
  const push::AttentionPush& p = job.push;
  const std::uint64_t rows = std::uint64_t{p.queries} * p.group;
  if ((rows > kFewRows && p.queries > kFewQueries) || !job.vectors || p.dim / 4 > kFewVectors / 2 ||
      p.has_sequences != 0 || job.masked)
    return 0;
  const ChoiceShape shape{rows, p.keys, p.dim, job.batch};
  if (e.note(choose(Family::attention_few, e.target(), shape, job.blocks ? kOfBlocks : kKernels)).kernel != 0) return 0;
  const auto tiles = ceil_div<std::uint64_t>(rows, std::min<std::uint64_t>(4, kFewVectors / (p.dim / 4)));
  return static_cast<std::uint32_t>(ceil_div<std::uint64_t>(rows, tiles));
}

/// A mask that is the same for all items is bound as a whole.
Binding part_of_mask(const Binding& mask, const Job& job, std::uint64_t first, std::uint64_t count) {
  return job.mask_words == 0 ? mask : items_of(mask, first, count, job.batch, job.mask_words);
}

Status emit(Emitter& e) {
  const std::uint64_t outputs = e.out_shape().elements();
  if (outputs == 0) return ok_status();
  if (e.in_shape(1).elements() == 0) {  // no key to see
    GRAFT_TRY(emit_fill(e, e.out(0), outputs, 0));
    return emit_fill(e, e.out(1), e.out_shape(1).elements(), spec(-INFINITY));
  }
  GRAFT_TRY_ASSIGN(const Job job, make_job(e, 3));
  const std::uint32_t few = few_rows_of(e, job);
  return for_each_part(job.batch, job.per_part, [&](std::uint64_t first, std::uint64_t count) {
    const auto part = [&](const Binding& b, std::uint64_t words) {
      return items_of(b, first, count, job.batch, words);
    };
    const Binding q = part(e.in(0), job.query_words);
    const auto keys = [&](std::size_t i) { return job.push.slots != 0 ? e.in(i) : part(e.in(i), job.key_words); };
    const Binding state = job.push.slots != 0       ? part(e.in(kPlaces), job.place_words)
                          : job.push.from_step != 0 ? e.step_state()
                                                    : q;
    if (few != 0) {
      push::AttentionPush push = job.push;
      push.batch = static_cast<std::uint32_t>(count);
      push.row_tiles = ceil_div(push.queries * push.group, few);
      const ShuffleLanes lanes = shuffle_lanes(e.caps());
      const auto kernel =
          job.blocks ? shaders::KernelId::attention_few__f32_blocks : shaders::KernelId::attention_few__f32;
      e.dispatch(kernel, {lanes.all, push.dim / 4, few, lanes.clusters},
                 {q, keys(1), keys(2), state, part(e.out(0), job.query_words), part(e.out(1), job.statistic_words)},
                 push, e.spread(ceil_div(count * push.kv_heads * push.row_tiles, std::uint64_t{lanes.clusters})));
      return ok_status();
    }
    const Binding sight = job.masked               ? part_of_mask(e.in(4), job, first, count)
                          : job.push.has_sequences ? part(e.in(3), job.sequence_words)
                                                   : q;
    dispatch(e, job,
             job.masked   ? kForwardMasked
             : job.blocks ? kForwardBlocks
                          : kForward,
             count, Over::rows,
             {q, keys(1), keys(2), sight, state, part(e.out(0), job.query_words), part(e.out(1), job.statistic_words)});
    return ok_status();
  });
}

Status vjp(VjpContext& c) {
  if (c.cotangent(1).valid()) {
    return unsupported(
        "The logarithms of sums that attention gives beside its result cannot be differentiated through.");
  }
  if (c.in(4).valid() && c.needs(4)) {
    return unsupported("The mask of attention cannot be differentiated through.");
  }
  if (c.in(kPlaces).valid()) return unsupported("Attention with places has no gradient.");
  const auto grads = c.b.nodes(
      Op::attention_grad, {c.in(0), c.in(1), c.in(2), c.out(0), c.out(1), c.dy(), c.in(3), c.in(4)}, Attrs(c.attrs()));
  for (std::size_t i = 0; i < grads.size(); ++i) c.grad(i, grads[i]);
  return ok_status();
}

// --- attention_grad(q, k, v, o, lse, dy, sequences?)

Status infer_grad(InferContext& c) {
  GRAFT_TRY(check_operands(c, false));
  for (const std::size_t i : {3, 4, 5}) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_shape(3, c.shape(0)));
  GRAFT_TRY(c.expect_shape(4, statistics_shape(c.shape(0))));
  GRAFT_TRY(c.expect_shape(5, c.shape(0)));
  GRAFT_TRY(check_sequences(c, 6));
  GRAFT_TRY(check_mask(c, 7));
  if ((c.has(6) || c.has(7)) && c.attrs().flag("from_step")) {
    return unsupported(
        "Attention over packed sequences or with a mask from the step's position on has no gradient; one of the two "
        "has.");
  }
  if (c.attrs().flag("forgets")) return unsupported("Attention with a cache that forgets has no gradient.");
  for (const std::size_t i : {0, 1, 2}) c.output(DType::f32, c.shape(i));
  return ok_status();
}

void emit_delta(Emitter& e, const Job& job, std::uint64_t count, const Binding& o, const Binding& dy,
                const Binding& lse, const Binding& statistics) {
  const push::AttentionGradDeltaPush p = {
      .rows = static_cast<std::uint32_t>(count * job.statistic_words), .columns = job.push.dim, .inner = 1};
  const RowSchedule s = row_schedule(e, p.rows, p.columns, 1);
  e.dispatch(shaders::KernelId::attention_grad_delta__f32, {s.slices, s.rows_first, s.vector}, {o, dy, lse, statistics},
             p, e.spread(s.workgroups));
}

Status emit_grad_part(Emitter& e, const Job& job, const Slot& scratch, std::uint64_t first, std::uint64_t count) {
  const auto part = [&](const Binding& b, std::uint64_t words) { return items_of(b, first, count, job.batch, words); };
  const Binding dy = part(e.in(5), job.query_words);
  emit_delta(e, job, count, part(e.in(3), job.query_words), dy, part(e.in(4), job.statistic_words),
             part({scratch, Access::write}, 2 * job.statistic_words));
  const Binding q = part(e.in(0), job.query_words);
  std::vector<Binding> bindings = {q,
                                   part(e.in(1), job.key_words),
                                   part(e.in(2), job.key_words),
                                   dy,
                                   part({scratch, Access::read}, 2 * job.statistic_words),
                                   job.masked               ? part_of_mask(e.in(7), job, first, count)
                                   : job.push.has_sequences ? part(e.in(6), job.sequence_words)
                                   : job.push.from_step     ? e.step_state()
                                                            : q};
  std::vector<Binding> key_bindings = bindings;
  bindings.push_back(part(e.out(0), job.query_words));
  dispatch(e, job, job.masked ? kGradQueryMasked : kGradQuery, count, Over::rows, std::move(bindings));
  key_bindings.push_back(part(e.out(1), job.key_words));
  key_bindings.push_back(part(e.out(2), job.key_words));
  dispatch(e, job, job.masked ? kGradKeyMasked : kGradKey, count, Over::keys, std::move(key_bindings));
  return ok_status();
}

Status emit_grad(Emitter& e) {
  if (e.in_shape(0).elements() == 0 || e.in_shape(1).elements() == 0) {
    for (const std::size_t i : {0, 1, 2}) {
      if (e.out_shape(i).elements() != 0) GRAFT_TRY(emit_fill(e, e.out(i), e.out_shape(i).elements(), 0));
    }
    return ok_status();
  }
  GRAFT_TRY_ASSIGN(const Job job, make_job(e, 6));
  const Slot statistics = e.scratch(2 * job.batch * job.statistic_words * sizeof(float));
  return for_each_part(job.batch, job.per_part, [&](std::uint64_t first, std::uint64_t count) {
    return emit_grad_part(e, job, statistics, first, count);
  });
}

/// `products` matrix products of queries by keys by dim; half of them where the mask is causal.
std::uint64_t flops_of(const Graph& g, const Node& n, std::uint64_t products) {
  const std::uint64_t all = 2 * products * g.value(n.inputs[0]).shape.elements() *
                            static_cast<std::uint64_t>(g.value(n.inputs[1]).shape[1].value());
  return n.attrs.flag("causal") ? all / 2 : all;
}
std::uint64_t flops(const Graph& g, const Node& n) { return flops_of(g, n, 2); }
std::uint64_t grad_flops(const Graph& g, const Node& n) { return flops_of(g, n, 5); }

}  // namespace

/// attention(q [B, S, Hq, D], k [B, T, Hkv, D], v like k, sequences? i32 [B, S] where S = T, mask? [B|1, Hq|1, S|1, T],
/// places? i32 [B, 4];
/// scale = 1 / sqrt(D), causal, window = 0 (none), softcap = 0 (none), from_step, forgets) -> o like q, lse [B, S, Hq].
/// Scores are q k^T * scale, then softcap * tanh(score / softcap). Query s stands at key T - S + s, or with from_step 1
/// at the step state's position + s; with `forgets` keys are those of a cache_append() with the same window. It sees
/// keys at most at its own place (causal), less than `window` away, and of its own sequence; a negative sequence is
/// padding. A mask is added to the scores last; at -3e38 and below a key is not seen. A query that sees no key gives
/// zeros. With places, as cache_append() has them, k is [slots, T, ..], and each item reads its slot and
/// stands at its own position; one at -1 sees nothing. Head h reads key head h / (Hq / Hkv). lse is the logarithm of
/// the sum of exp(scores), for the gradient. k and v may be of q8_0, as cache_append() keeps them: then B is 1 or there
/// are places, and no gradient.
extern const OpDef op_attention;
const OpDef op_attention = {.name = "attention",
                            .attrs = kAttrs,
                            .min_inputs = 3,
                            .max_inputs = 6,
                            .optional_inputs = 0b111000,
                            .infer = infer,
                            .emit = emit,
                            .gradient = vjp,
                            .flops = flops,
                            .quantized_inputs = 0b110,
                            .uses_step_state = true};

/// attention_grad(q, k, v, o, lse, dy, sequences?, mask?; as attention) -> dq, dk, dv. Weights are computed anew, tile
/// by tile. Not sequences or a mask and from_step at once: a kernel binds eight buffers at most.
extern const OpDef op_attention_grad;
const OpDef op_attention_grad = {.name = "attention_grad",
                                 .attrs = kAttrs,
                                 .min_inputs = 6,
                                 .max_inputs = 8,
                                 .optional_inputs = 0b11000000,
                                 .infer = infer_grad,
                                 .emit = emit_grad,
                                 .gradient = NoGrad{"it is itself a gradient"},
                                 .flops = grad_flops,
                                 .uses_step_state = true};

}  // namespace graft::ops::attention
