#include <algorithm>

#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/rows.h"
#include "shaders/kernels.gen.h"
#include "shaders/metric/sum_hits_push.h"
#include "shaders/metric/topk_rows_push.h"

namespace graft::ops::metric {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integer("k").needed().at_least(1), attr::integer("ignore_index", -100)};

Status infer(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(c.expect_dtype(1, DType::i32));
  const Shape& logits = c.shape(0);
  if (logits.rank() == 0) return invalid("The logits are a scalar; an axis of classes is needed.");
  GRAFT_TRY(c.expect_shape(1, Shape(std::vector<Dim>(logits.begin(), logits.end() - 1))));
  c.output(DType::f32, Shape());
  return ok_status();
}

Status emit(Emitter& e) {
  const Shape& logits = e.in_shape(0);
  if (logits.elements() == 0) return emit_fill(e, e.out(), 1, 0);
  if (logits.elements() > max_bound_elements(e.caps())) {
    return unsupported("Logits of shape ", logits.text(), " exceed ", max_bound_elements(e.caps()),
                       " elements, the limit of one binding on this device.");
  }
  const std::uint64_t rows = e.in_shape(1).elements();
  const auto columns = static_cast<std::uint64_t>(logits.back().value());
  const RowSchedule schedule = row_schedule(e, rows, columns, 1);
  const std::int64_t ignore = std::clamp<std::int64_t>(e.attrs().integer("ignore_index"), INT32_MIN, INT32_MAX);
  const std::int64_t k = std::min<std::int64_t>(e.attrs().integer("k"), INT32_MAX);
  const Slot hits = e.scratch(rows * 4);
  const push::TopkRowsPush push = {.rows = static_cast<std::uint32_t>(rows),
                                   .columns = static_cast<std::uint32_t>(columns),
                                   .inner = 1,
                                   .ignore_index = static_cast<std::int32_t>(ignore),
                                   .k = static_cast<std::uint32_t>(k)};
  e.dispatch(shaders::KernelId::topk_rows__f32, {schedule.slices, schedule.rows_first},
             {e.in(0), e.in(1), {hits, Access::write}}, push, e.spread(schedule.workgroups));
  const push::SumHitsPush sum = {.rows = static_cast<std::uint32_t>(rows)};
  e.dispatch(shaders::KernelId::sum_hits__f32, {}, {{hits, Access::read}, e.out()}, sum, {1, 1, 1});
  return ok_status();
}

std::uint64_t flops(const Graph& graph, const Node& node) { return graph.value(node.inputs[0]).shape.elements(); }

}  // namespace

/// topk_correct(logits [.., C], labels i32 [..]; k, ignore_index) -> how many rows have their label among the k
/// largest logits, as a float; of equal ones the lower index goes first.
extern const OpDef op_topk_correct;
const OpDef op_topk_correct = {.name = "topk_correct",
                               .attrs = kAttrs,
                               .min_inputs = 2,
                               .max_inputs = 2,
                               .infer = infer,
                               .emit = emit,
                               .gradient = NoGrad{"it counts"},
                               .flops = flops};

}  // namespace graft::ops::metric
