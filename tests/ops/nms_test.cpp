#include <cmath>
#include <limits>
#include <random>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::nms_test {
namespace {

using Dims = std::vector<std::int64_t>;
constexpr std::int64_t kAll = -1;

/// Boxes on a grid of quarters of which many overlap, so that no overlap is near a threshold of 0.4 by rounding alone;
/// corners in any order. Scores are multiples of 1/64: many are equal.
OpCase nms(std::string name, Dims batch_classes_boxes, std::int64_t most, bool centred, unsigned seed = 1) {
  std::mt19937 random(seed);
  const auto draw = [&](int from, int to) {
    return from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1));
  };
  const std::int64_t batch = batch_classes_boxes[0], classes = batch_classes_boxes[1], boxes = batch_classes_boxes[2];
  OpCase c{.name = std::move(name),
           .op = Op::nms,
           .inputs = {{.dims = {batch, boxes, 4}}, {.dims = {batch, classes, boxes}}},
           .attrs = {{"iou_threshold", 0.41}, {"center_point_box", std::int64_t{centred}}},
           .tolerance = 0,
           .reason = "integers",
           .gradient = false,
           .low_precision_roundings = 0};  // rounded boxes may overlap where the reference's do not
  if (most != kAll) c.attrs.set("max_output", most);
  for (std::int64_t i = 0; i < batch * boxes; ++i) {
    const double y = draw(0, 20), x = draw(0, 20), height = draw(1, 8), width = draw(1, 8);
    std::vector<double> box = {y, x, y + height, x + width};
    if (centred) box = {x, y, width, height};
    if (!centred && draw(0, 1) == 1) box = {y + height, x, y, x + width};
    for (const double v : box) c.inputs[0].values.push_back(v / 4);
  }
  for (std::int64_t i = 0; i < batch * classes * boxes; ++i) c.inputs[1].values.push_back(draw(-20, 40) / 64.0);
  return c;
}

OpCase with(OpCase c, std::string_view attr, AttrValue value) {
  c.attrs.set(attr, std::move(value));
  return c;
}

std::vector<OpCase> cases() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  OpCase special = nms("special_scores", {1, 1, 6}, kAll, false);
  special.inputs[0].values = {0, 0, 1, 1, 0, 2, 1, 3, 0, 4, 1, 5, 2, 0, 3, 1, 2, 2, 3, 3, 2, 4, 3, 5};
  special.inputs[1].values = {0.0, -0.0, -kInf, std::nan(""), kInf, 1};
  OpCase equal = nms("equal_boxes_and_scores", {1, 2, 300}, kAll, false);
  equal.inputs[0].values.assign(1200, 0.0);
  for (std::size_t i = 0; i < 300; ++i) {
    equal.inputs[0].values[4 * i + 2] = equal.inputs[0].values[4 * i + 3] = 1;
    equal.inputs[1].values[i] = 0.5;
  }
  OpCase empty_boxes = equal;  // without area nothing overlaps
  empty_boxes.name = "boxes_without_area";
  for (std::size_t i = 0; i < 300; ++i) empty_boxes.inputs[0].values[4 * i + 3] = 0;
  return {nms("corners", {2, 3, 200}, 9, false),
          nms("centred", {1, 2, 150}, 9, true),
          with(nms("limited", {1, 3, 200}, kAll, false, 2), "score_threshold", 0.5),
          with(nms("nothing_is_good_enough", {1, 2, 10}, 3, false), "score_threshold", 2.0),
          with(nms("no_overlap_at_all", {1, 1, 140}, kAll, false, 3), "iou_threshold", 0.0),
          with(nms("any_overlap", {1, 1, 140}, kAll, false, 4), "iou_threshold", 1.0),
          nms("more_places_than_boxes", {1, 2, 5}, 8, false),
          nms("no_places", {1, 2, 5}, 0, false),
          special,
          equal,
          empty_boxes};
}
GRAFT_OP_CASES(Nms, cases());

TEST(NmsInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(nms("bad", {1, 2, 5}, -3, false), "\"max_output\" is -3");
  expect_infer_error(with(nms("bad", {1, 2, 5}, 3, false), "iou_threshold", -0.5), "\"iou_threshold\" is -0.5");
  expect_infer_error(with(nms("bad", {1, 2, 5}, 3, false), "iou_threshold", std::nan("")), "\"iou_threshold\"");
  expect_infer_error(with(nms("bad", {1, 2, 5}, 3, false), "score_threshold", std::nan("")), "\"score_threshold\"");
  OpCase scores = nms("bad", {1, 2, 5}, 3, false);
  scores.inputs[1].dims = {1, 2, 6};
  expect_infer_error(scores, "do not fit");
  OpCase corners = nms("bad", {1, 2, 5}, 3, false);
  corners.inputs[0].dims = {1, 5, 3};
  expect_infer_error(corners, "do not fit");
}

}  // namespace
}  // namespace graft::test::nms_test
