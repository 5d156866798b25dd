// nms: non-maximum suppression, the boxes of each class that no better one overlaps.
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "shaders/kernels.gen.h"
#include "shaders/nms/nms_push.h"

namespace graft::ops::nms {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr AttrSpec kAttrs[] = {attr::integer("max_output").at_least(0),  // absent: all boxes
                               attr::number("iou_threshold").within(0, kInfinity),
                               attr::number("score_threshold").within(-kInfinity, kInfinity),
                               attr::flag("center_point_box")};

Status infer(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(c.expect_dtype(1, DType::f32));
  GRAFT_TRY(c.expect_rank(0, 3));
  GRAFT_TRY(c.expect_rank(1, 3));
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (boxes[2] != Dim(4) || boxes[0] != scores[0] || boxes[1] != scores[2]) {
    return invalid("Boxes of shape ", boxes.text(), " and scores of shape ", scores.text(),
                   " do not fit: [batch, boxes, 4] and [batch, classes, boxes] do.");
  }
  const Dim places = c.attrs().has("max_output") ? Dim(c.attrs().integer("max_output")) : boxes[1];
  c.output(DType::i32, Shape{scores[0], scores[1], places});
  return ok_status();
}

Status emit(Emitter& e) {
  const Shape& scores = e.in_shape(1);
  if (e.out_shape().elements() == 0) return ok_status();
  if (scores.elements() == 0) return emit_fill(e, e.out(), e.out_shape().elements(), 0xffffffffu);
  const std::uint64_t most = max_bound_elements(e.caps());
  for (const Shape* shape : {&e.in_shape(0), &scores, &e.out_shape()}) {
    if (shape->elements() <= most) continue;
    return unsupported("Suppression among scores of shape ", scores.text(), " needs a tensor of shape ", shape->text(),
                       ", more than ", most, " elements, the limit of one binding on this device.");
  }
  const bool limited = e.attrs().has("score_threshold");
  const push::NmsPush push{.groups = static_cast<std::uint32_t>(scores.elements(0, 2)),
                           .classes = static_cast<std::uint32_t>(scores[1].value()),
                           .boxes = static_cast<std::uint32_t>(scores[2].value()),
                           .places = static_cast<std::uint32_t>(e.out_shape()[2].value()),
                           .most_overlap = static_cast<float>(e.attrs().number("iou_threshold")),
                           .least_score = limited ? static_cast<float>(e.attrs().number("score_threshold")) : 0.0f};
  // Each lane writes its list before it reads it: nothing of before is read.
  const Binding left = {e.scratch(4 * scores.elements()), Access::write};
  e.dispatch(shaders::KernelId::nms__f32, {e.attrs().flag("center_point_box") ? 1u : 0u, limited ? 1u : 0u},
             {e.in(0), e.in(1), left, e.out()}, push, e.spread(push.groups));
  return ok_status();
}

}  // namespace

/// nms(boxes [batch, boxes, 4], scores [batch, classes, boxes]; max_output, iou_threshold, score_threshold,
/// center_point_box) -> i32 [batch, classes, max_output]: the boxes of each class that are kept, best first, then -1.
/// A box is kept where its score is above score_threshold and it overlaps no kept one by more than iou_threshold. Of
/// equal scores the first box goes first; what is not a number is left out. Without max_output all may be kept, without
/// score_threshold every score will do. Boxes are two corners (y, x, y, x), or x, y, width, height around a centre.
extern const OpDef op_nms;
const OpDef op_nms = {.name = "nms",
                      .attrs = kAttrs,
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = infer,
                      .emit = emit,
                      .gradient = NoGrad{"its result are indices"}};

}  // namespace graft::ops::nms
