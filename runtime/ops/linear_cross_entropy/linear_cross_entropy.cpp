// The head of a language model and its loss in one: the logits exist a chunk of the vocabulary at a time, so that
// memory does not grow with vocabulary times rows. Rows with the ignored label are left out of the products. The weight
// may go on in another: rows from `first_row` on are those of the last input, a chunk of the vocabulary more.
#include <algorithm>
#include <cmath>

#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/product.h"
#include "runtime/ops/rows.h"
#include "runtime/ops/weight_gemm.h"
#include "shaders/kernels.gen.h"
#include "shaders/linear_cross_entropy/linear_cross_entropy_cap_push.h"
#include "shaders/linear_cross_entropy/linear_cross_entropy_push.h"
#include "shaders/linear_cross_entropy/linear_cross_entropy_rows_push.h"

namespace graft::ops::linear_cross_entropy {
namespace {

constexpr AttrSpec kIgnore = attr::integer("ignore_index", -100);
constexpr AttrSpec kSmoothing = attr::number("label_smoothing").within(0, 1);
constexpr AttrSpec kSoftcap = attr::number("softcap").at_least(0);  // 0: none
constexpr AttrSpec kFirstRow = attr::integer("first_row");
constexpr AttrSpec kAttrs[] = {kIgnore, kSmoothing, kSoftcap, kFirstRow};
constexpr AttrSpec kGradAttrs[] = {
    kIgnore, kSmoothing, kSoftcap, kFirstRow, attr::flag("weight_gradient"), attr::flag("rows_gradient")};
constexpr std::uint64_t kChunkBytes = 4u << 20;  // of logits at once
constexpr std::uint64_t kMinChunk = 256;         // columns: fewer make poor products
constexpr std::uint64_t kWorkgroup = 128;        // of the kernels

// Checks the rows that a weight goes on in, input `i`.
Status check_rows(InferContext& c, std::size_t i) {
  GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_rank(i, 2));
  GRAFT_TRY(c.expect_shape(i, Shape{c.shape(i)[0], c.shape(1)[1]}));
  const std::int64_t first = c.attrs().integer("first_row");
  const bool known = c.shape(1)[0].is_constant() && c.shape(i)[0].is_constant();
  if (known && first >= 0 && first <= c.shape(1)[0].value()) return ok_status();
  return invalid("A weight of shape ", c.shape(1).text(), " cannot go on in another of shape ", c.shape(i).text(),
                 " from row ", first, " on.");
}

// Checks hidden, weight and labels; the shape of the labels is that of the losses.
Status check(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  if (!is_quantized(c.dtype(1))) GRAFT_TRY(c.expect_dtype(1, DType::f32));
  GRAFT_TRY(c.expect_dtype(2, DType::i32));
  GRAFT_TRY(c.expect_rank(1, 2));
  const Shape& hidden = c.shape(0);
  if (hidden.rank() == 0 || hidden.back() != c.shape(1)[1]) {
    return invalid("The hidden states of shape ", hidden.text(), " and the weight of shape ", c.shape(1).text(),
                   " must end with the same axis.");
  }
  if (c.shape(1)[0] == Dim(0)) return invalid("The weight of shape ", c.shape(1).text(), " has no classes.");
  return c.expect_shape(2, Shape(std::vector<Dim>(hidden.begin(), hidden.end() - 1)));
}

Status infer(InferContext& c) {
  GRAFT_TRY(check(c));
  if (c.inputs() > 3) GRAFT_TRY(check_rows(c, 3));
  c.output(DType::f32, c.shape(2));
  c.output(DType::f32, c.shape(2));
  return ok_status();
}

Status infer_grad(InferContext& c) {
  GRAFT_TRY(check(c));
  for (const std::size_t i : {3, 4}) {
    GRAFT_TRY(c.expect_dtype(i, DType::f32));
    GRAFT_TRY(c.expect_shape(i, c.shape(2)));
  }
  if (c.inputs() > 5) GRAFT_TRY(check_rows(c, 5));
  c.output(DType::f32, c.shape(0));
  if (c.attrs().flag("rows_gradient")) {
    if (c.inputs() <= 5) return invalid("There are no rows to have a gradient.");
    c.output(DType::f32, c.shape(5));
  }
  if (!c.attrs().flag("weight_gradient")) return ok_status();
  if (c.inputs() > 5) return invalid("A weight that goes on in another one has no gradient.");
  if (is_quantized(c.dtype(1))) return invalid("A quantized weight has no gradient.");
  c.output(DType::f32, c.shape(1));
  return ok_status();
}

/// Rows of the head that lie in one tensor.
struct Table {
  std::size_t input;
  DType dtype;
  std::uint64_t first, rows;  // in the vocabulary
  std::uint64_t chunk;        // rows at once
};

struct Head {
  std::uint64_t rows, width, vocabulary;
  std::vector<Table> tables;
  std::int32_t ignore;
  float smoothing;
  float cap;
};

/// `more`: the input that the weight goes on in.
Result<Head> head_of(const Emitter& e, std::size_t more) {
  Head h{};
  h.rows = e.in_shape(2).elements();
  h.width = e.in_shape(1).elements(1, 2);
  const std::uint64_t of_weight = e.in_shape(1).elements(0, 1);
  if (e.inputs() > more) {
    const auto first = static_cast<std::uint64_t>(e.attrs().integer("first_row"));
    h.tables = {{1, e.in_dtype(1), 0, first, 0}, {more, DType::f32, first, e.in_shape(more).elements(0, 1), 0}};
  } else {
    h.tables = {{1, e.in_dtype(1), 0, of_weight, 0}};
  }
  h.vocabulary = h.tables.back().first + h.tables.back().rows;
  if (h.vocabulary == 0) return unsupported("The head has no classes.");
  h.smoothing = static_cast<float>(e.attrs().number("label_smoothing"));
  h.cap = static_cast<float>(e.attrs().number("softcap"));
  // An ignored index beyond 32 bits ignores nothing.
  const std::int64_t ignore = e.attrs().integer("ignore_index");
  h.ignore = static_cast<std::int32_t>(std::clamp<std::int64_t>(ignore, INT32_MIN, INT32_MAX));
  const std::uint64_t wanted = std::max(kMinChunk, kChunkBytes / (4 * std::max<std::uint64_t>(h.rows, 1)));
  for (Table& table : h.tables) {
    GRAFT_TRY_ASSIGN(table.chunk, weight_rows_per_binding(e.caps(), table.dtype, h.width, wanted));
    GRAFT_TRY(count32(h.rows * table.chunk, "chunk of logits"));
  }
  GRAFT_TRY(count32(h.vocabulary, "vocabulary"));
  GRAFT_TRY(count32(h.rows * h.width, "hidden states"));
  return h;
}

// Which rows count. Without compaction all are listed.
Slot emit_rows(Emitter& e, const Head& h, bool compact, bool clear) {
  const Slot order = e.scratch((h.rows + 1) * sizeof(std::uint32_t));
  const push::LinearCrossEntropyRowsPush push = {.rows = static_cast<std::uint32_t>(h.rows),
                                                 .ignore_index = h.ignore,
                                                 .keep_all = compact ? 0u : 1u,
                                                 .clear = clear ? 1u : 0u};
  const Binding unused = {order, Access::write};
  e.dispatch(shaders::KernelId::linear_cross_entropy_rows__f32, {},
             {e.in(2), {order, Access::write}, clear ? e.out(0) : unused, clear ? e.out(1) : unused}, push, {1, 1, 1});
  return order;
}

/// Rows [first, first + count) of the vocabulary, all of one table.
struct Chunk {
  const Table* table;
  std::uint64_t first, count;
};

push::LinearCrossEntropyPush chunk_push(const Head& h, const Chunk& chunk) {
  return {.rows = static_cast<std::uint32_t>(h.rows),
          .columns = static_cast<std::uint32_t>(chunk.count),
          .inner = 1,
          .first = static_cast<std::uint32_t>(chunk.first),
          .vocabulary = static_cast<std::uint32_t>(h.vocabulary),
          .ignore_index = h.ignore,
          .last = chunk.first + chunk.count == h.vocabulary ? 1u : 0u,
          .smoothing = h.smoothing,
          .cap = h.cap};
}

WeightGemm chunk_gemm(Emitter& e, const Head& h, const Slot& order, const Chunk& chunk) {
  const Table& table = *chunk.table;
  WeightGemm gemm{.w = weight_rows(e.in(table.input), table.dtype, h.width, chunk.first - table.first, chunk.count),
                  .dtype = table.dtype};
  gemm.m = h.rows;
  gemm.rows = chunk.count;
  gemm.columns = h.width;
  gemm.order = Binding{order, Access::read};
  return gemm;
}

// logits [rows that count, count] of the chunk, capped.
Status emit_logits(Emitter& e, const Head& h, WeightGemm gemm, const Slot& order, const Slot& logits) {
  gemm.a = e.in(0);
  gemm.out = {logits, Access::write};
  gemm.ordered_a = true;
  GRAFT_TRY(emit_weight_gemm(e, gemm));
  if (h.cap == 0) return ok_status();
  const push::LinearCrossEntropyCapPush push = {
      .rows = static_cast<std::uint32_t>(h.rows), .columns = static_cast<std::uint32_t>(gemm.rows), .cap = h.cap};
  e.dispatch(shaders::KernelId::linear_cross_entropy_cap__f32, {},
             {{logits, Access::read_write}, {order, Access::read}}, push,
             e.spread(ceil_div(h.rows * gemm.rows, kWorkgroup)));
  return ok_status();
}

template <typename Run>
Status for_each_chunk(const Head& h, Run run) {
  for (const Table& table : h.tables) {
    for (std::uint64_t at = 0; at < table.rows; at += table.chunk) {
      GRAFT_TRY(run(Chunk{&table, table.first + at, std::min(table.chunk, table.rows - at)}));
    }
  }
  return ok_status();
}

Slot scratch_logits(Emitter& e, const Head& h) {
  std::uint64_t columns = 0;
  for (const Table& table : h.tables) columns = std::max(columns, std::min(table.chunk, table.rows));
  return e.scratch(h.rows * columns * sizeof(float));
}

Status emit(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Head h, head_of(e, 3));
  if (h.rows == 0) return ok_status();
  const Slot order = emit_rows(e, h, true, true);
  const Slot logits = scratch_logits(e, h);
  const Slot stats = e.scratch(4 * h.rows * sizeof(float));
  return for_each_chunk(h, [&](const Chunk& chunk) -> Status {
    GRAFT_TRY(emit_logits(e, h, chunk_gemm(e, h, order, chunk), order, logits));
    const RowSchedule schedule = row_schedule(e, h.rows, chunk.count, 1);
    // All but the last chunk leave the losses alone; they are bound all the same.
    e.dispatch(shaders::KernelId::linear_cross_entropy__f32, {schedule.slices, schedule.rows_first, schedule.vector},
               {{logits, Access::read},
                e.in(2),
                {order, Access::read},
                {stats, chunk.first == 0 ? Access::write : Access::read_write},
                {e.out(0).slot, Access::read_write},
                {e.out(1).slot, Access::read_write}},
               chunk_push(h, chunk), e.spread(schedule.workgroups));
    return ok_status();
  });
}

// The chunk's rows of the weight's gradient: slopes^T [count, rows] times hidden [rows, width].
Status emit_weight_gradient(Emitter& e, const Head& h, const Slot& slopes, const Chunk& chunk) {
  const Binding rows = weight_rows(e.out(1), DType::f32, h.width, chunk.first - chunk.table->first, chunk.count);
  return emit_product(e, {.m = chunk.count, .n = h.width, .k = h.rows, .trans_a = true},
                      {.a = {slopes, Access::read}, .b = e.in(0), .out = rows});
}

Status emit_grad(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Head h, head_of(e, 5));
  const bool weight_gradient = e.attrs().flag("weight_gradient");
  const bool rows_gradient = e.attrs().flag("rows_gradient");
  if (h.rows == 0) {
    return weight_gradient || rows_gradient ? emit_fill(e, e.out(1), e.out_shape(1).elements(), 0) : ok_status();
  }
  // A table's gradient sums over all rows, ignored ones with slope 0: its kernel knows of no list.
  const Slot order = emit_rows(e, h, !weight_gradient, false);
  const Slot every_row = rows_gradient ? emit_rows(e, h, false, false) : order;
  const Slot logits = scratch_logits(e, h);
  if (!weight_gradient) GRAFT_TRY(emit_fill(e, e.out(0), h.rows * h.width, 0));
  return for_each_chunk(h, [&](const Chunk& chunk) -> Status {
    const bool with_gradient = chunk.table->input == 1 ? weight_gradient : rows_gradient;
    const Slot& rows = with_gradient ? every_row : order;
    WeightGemm gemm = chunk_gemm(e, h, rows, chunk);
    GRAFT_TRY(emit_logits(e, h, gemm, rows, logits));
    e.dispatch(shaders::KernelId::linear_cross_entropy_grad__f32, {},
               {{logits, Access::read_write}, e.in(2), {rows, Access::read}, e.in(3), e.in(4)}, chunk_push(h, chunk),
               e.spread(ceil_div(h.rows * chunk.count, kWorkgroup)));
    gemm.by_rows = false;
    gemm.a = {logits, Access::read};
    gemm.out = e.out(0);
    gemm.ordered_c = true;
    gemm.accumulate = chunk.first > 0 || !weight_gradient;
    GRAFT_TRY(emit_weight_gemm(e, gemm));
    return with_gradient ? emit_weight_gradient(e, h, logits, chunk) : ok_status();
  });
}

Status vjp(VjpContext& c) {
  const bool goes_on = c.inputs() > 3;
  Attrs attrs = c.attrs();
  attrs.set("weight_gradient", std::int64_t{c.needs(1)});
  if (c.cotangent(1).valid()) return unsupported("The logarithm of the sum has no gradient; the loss has.");
  std::vector<ValueId> inputs = {c.in(0), c.in(1), c.in(2), c.out(1), c.dy()};
  if (goes_on) {
    if (c.needs(1)) return unsupported("A weight that goes on in another one has no gradient; the other one has.");
    attrs.set("rows_gradient", std::int64_t{c.needs(3)});
    inputs.push_back(c.in(3));
  }
  const auto gradients = c.b.nodes(Op::linear_cross_entropy_grad, std::move(inputs), std::move(attrs));
  GRAFT_TRY(c.b.status());
  c.grad(0, gradients[0]);
  if (goes_on && c.needs(3)) c.grad(3, gradients[1]);
  if (c.needs(1)) c.grad(1, gradients[1]);
  return ok_status();
}

std::uint64_t product_flops(const Graph& graph, const Node& node) {
  std::uint64_t vocabulary = graph.value(node.inputs[1]).shape.elements(0, 1);
  const std::size_t rows = node.op == Op::linear_cross_entropy ? 3 : 5;
  if (node.inputs.size() > rows) {
    vocabulary = static_cast<std::uint64_t>(node.attrs.integer("first_row")) +
                 graph.value(node.inputs[rows]).shape.elements(0, 1);
  }
  return 2 * graph.value(node.inputs[0]).shape.elements() * vocabulary;
}
std::uint64_t grad_flops(const Graph& graph, const Node& node) {
  return (node.outputs.size() + 1) * product_flops(graph, node);
}

}  // namespace

/// linear_cross_entropy(hidden [.., d], weight [V, d], labels i32 [..], rows [k, d]; ignore_index = -100,
/// label_smoothing = 0, softcap = 0, first_row) -> loss per row [..], and log sum exp of its logits [..], which the
/// gradient takes. As cross_entropy(x, labels) with the same attributes, where x = matmul(hidden, weight^T), or with a
/// softcap softcap tanh(x / softcap). With `rows`, which may be left out, the weight's rows from first_row on are
/// these, whatever it has there.
extern const OpDef op_linear_cross_entropy;
const OpDef op_linear_cross_entropy = {.name = "linear_cross_entropy",
                                       .attrs = kAttrs,
                                       .min_inputs = 3,
                                       .max_inputs = 4,
                                       .infer = infer,
                                       .emit = emit,
                                       .gradient = vjp,
                                       .flops = product_flops,
                                       .quantized_inputs = 0b10};

/// linear_cross_entropy_grad(hidden, weight, labels, log_sum, dloss, rows; ignore_index, label_smoothing, softcap,
/// first_row, weight_gradient, rows_gradient) -> dhidden, and with weight_gradient dweight, or with rows_gradient
/// drows. The logits are computed anew.
extern const OpDef op_linear_cross_entropy_grad;
const OpDef op_linear_cross_entropy_grad = {
    .name = "linear_cross_entropy_grad",
    .attrs = kGradAttrs,
    .min_inputs = 5,
    .max_inputs = 6,
    .infer = infer_grad,
    .emit = emit_grad,
    .gradient = NoGrad{"the second derivative of the fused loss is not implemented"},
    .flops = grad_flops,
    .quantized_inputs = 0b10};

}  // namespace graft::ops::linear_cross_entropy
