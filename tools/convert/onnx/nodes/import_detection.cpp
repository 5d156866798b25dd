// TFLite_Detection_PostProcess, the end of detectors that TensorFlow's object detection API exports.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kLastBox = std::numeric_limits<std::int32_t>::max();

struct DetectionSizes {
  std::int64_t boxes = 0, classes = 0;
  std::int64_t first_class = 0;  ///< 1 where the file's class 0 is the background
  std::int64_t most = 0;         ///< detections
  bool by_class = false;         ///< suppression for each class apart
  std::int64_t most_of_class = 0;
};

Result<std::int64_t> count_attr(NodeContext& c, const char* name, std::int64_t most) {
  const std::int64_t value = c.attr(name, 0);
  if (value < 1 || value > most) return unsupported("its ", name, " is ", value, ", which is not in [1, ", most, "]");
  return value;
}

Result<DetectionSizes> detection_sizes(NodeContext& c) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (!is_float(c.type(i))) return corrupt("its input ", i, " is ", elem_name(c.type(i)));
  }
  const Shape &encodings = c.shape(0), &scores = c.shape(1), &anchors = c.shape(2);
  const bool ranks = encodings.rank() == 3 && scores.rank() == 3 && anchors.rank() == 2;
  if (!ranks || !encodings.is_constant() || !scores.is_constant() || !anchors.is_constant() || encodings[0] != Dim(1) ||
      scores[0] != Dim(1) || encodings[1] != anchors[0] || scores[1] != anchors[0] || encodings[2].value() < 4 ||
      anchors[1] != Dim(4) || anchors[0].value() < 1) {
    return unsupported("its boxes ", encodings.text(), ", scores ", scores.text(), " and anchors ", anchors.text(),
                       " do not fit: [1, boxes, 4], [1, boxes, classes] and [boxes, 4] do");
  }
  constexpr std::int64_t kMostDetections = 1 << 16, kMostClasses = 1 << 20;
  DetectionSizes s;
  s.boxes = anchors[0].value();
  GRAFT_TRY_ASSIGN(s.classes, count_attr(c, "num_classes", kMostClasses));
  GRAFT_TRY_ASSIGN(s.most, count_attr(c, "max_detections", kMostDetections));
  s.by_class = c.attr("use_regular_nms", 0) != 0;
  s.first_class = scores[2].value() - s.classes;
  if (s.first_class != 0 && s.first_class != 1) {
    return corrupt("it has ", s.classes, " classes, and its scores are of ", scores[2].value());
  }
  if (s.by_class) {
    GRAFT_TRY_ASSIGN(s.most_of_class, count_attr(c, "detections_per_class", kLastBox));
    s.most_of_class = std::min({s.most_of_class, s.most, s.boxes});
  } else if (c.attr("max_classes_per_detection", 1) != 1) {
    return unsupported("it gives ", c.attr("max_classes_per_detection", 1),
                       " classes of each box, which is supported with use_regular_nms alone");
  }
  return s;
}

/// Columns of the last of three axes.
ValueId box_columns(NodeContext& c, ValueId x, std::int64_t from, std::int64_t to) {
  const Dim& last = c.shape_of(x).back();
  if (from == 0 && last == Dim(to)) return x;
  return c.emit(Op::slice, {x},
                {{"starts", Ints{0, 0, from}}, {"ends", Ints{kLastBox, kLastBox, to}}, {"steps", Ints{1, 1, 1}}});
}

/// Corners [1, boxes, 4] (y, x, y, x) of boxes that are told by anchors (y, x, height, width): middles in heights and
/// widths of the anchor from its own, logarithms of how much higher and wider.
Result<ValueId> decoded_boxes(NodeContext& c, std::int64_t boxes) {
  std::array<float, 4> scales = {};
  const std::array<const char*, 4> names = {"y_scale", "x_scale", "h_scale", "w_scale"};
  for (std::size_t i = 0; i < 4; ++i) {
    const double scale = c.attr_number(names[i], 0);
    if (!std::isfinite(scale) || !(scale > 0)) return corrupt("its ", names[i], " is ", scale);
    scales[i] = static_cast<float>(scale);
  }
  const ValueId encoded = box_columns(c, c.in(0), 0, 4);
  const ValueId anchors = c.reshape(c.in(2), Shape{1, boxes, 4});
  const ValueId middles = box_columns(c, anchors, 0, 2), extents = box_columns(c, anchors, 2, 4);
  const auto scaled = [&](std::int64_t first) {
    const auto at = static_cast<std::size_t>(first);
    const ValueId by = c.constant(HostTensor::of_floats({2}, {scales[at], scales[at + 1]}));
    return c.emit(Op::div, {box_columns(c, encoded, first, first + 2), by});
  };
  const ValueId middle = c.emit(Op::add, {c.emit(Op::mul, {scaled(0), extents}), middles});
  const ValueId half =
      c.emit(Op::mul, {c.emit(Op::mul, {c.emit(Op::exp, {scaled(2)}), extents}), c.full(Shape{}, 0.5)});
  return c.emit(Op::concat, {c.emit(Op::sub, {middle, half}), c.emit(Op::add, {middle, half})},
                {{"axis", std::int64_t{2}}});
}

/// Of each detection [1, count]: its box or -1, its class and its score, the best first.
struct Detections {
  std::int64_t count = 0;
  ValueId box, of_class, score;
};

Result<Attrs> nms_attrs(NodeContext& c, std::int64_t most) {
  const double overlap = c.attr_number("nms_iou_threshold", 0), least = c.attr_number("nms_score_threshold", 0);
  if (!(overlap >= 0 && overlap <= 1)) return corrupt("its nms_iou_threshold is ", overlap);
  if (!std::isfinite(least)) return corrupt("its nms_score_threshold is ", least);
  // A score that equals the threshold is kept: one that is above the number before it.
  const float below = std::nextafterf(static_cast<float>(least), -HUGE_VALF);
  return Attrs{{"iou_threshold", overlap}, {"score_threshold", static_cast<double>(below)}, {"max_output", most}};
}

ValueId picked_by(NodeContext& c, ValueId from, ValueId at, std::int64_t axis) {
  return c.emit(Op::gather_elements, {from, at}, {{"axis", axis}});
}

/// Suppression for each class apart, then the best of what is kept of all classes.
Result<Detections> detect_by_class(NodeContext& c, const DetectionSizes& s, ValueId boxes, ValueId scores) {
  const std::int64_t k = s.most_of_class, all = s.classes * k;
  GRAFT_TRY_ASSIGN(const Attrs attrs, nms_attrs(c, k));
  const ValueId by_class = c.emit(Op::transpose, {scores}, {{"perm", Ints{0, 2, 1}}});
  const ValueId kept = c.emit(Op::nms, {boxes, by_class}, attrs), zero = c.full(Shape{}, 0, DType::i32);
  const ValueId found = picked_by(c, by_class, c.emit(Op::maximum, {kept, zero}), 2);
  const ValueId none = c.full(Shape{}, std::numeric_limits<float>::lowest());
  const ValueId rated =
      c.reshape(c.emit(Op::where, {c.emit(Op::greater_equal, {kept, zero}), found, none}), Shape{1, all});
  Detections d;
  d.count = std::min(s.most, all);
  const ValueId best = c.emit(Op::top_k, {rated}, {{"k", d.count}, {"axis", std::int64_t{1}}});
  d.box = picked_by(c, c.reshape(kept, Shape{1, all}), best, 1);
  d.score = picked_by(c, rated, best, 1);
  d.of_class = c.emit(Op::div, {best, c.full(Shape{}, static_cast<double>(k), DType::i32)});
  return d;
}

/// One suppression for all classes, by the best class of each box.
Result<Detections> detect_at_once(NodeContext& c, const DetectionSizes& s, ValueId boxes, ValueId scores) {
  Detections d;
  d.count = std::min(s.most, s.boxes);
  GRAFT_TRY_ASSIGN(const Attrs attrs, nms_attrs(c, d.count));
  const ValueId best = c.emit(Op::reduce_max, {scores}, {{"axes", Ints{2}}, {"keepdims", std::int64_t{0}}});
  const ValueId classes = c.emit(Op::arg_max, {scores}, {{"axis", std::int64_t{2}}, {"keepdims", std::int64_t{0}}});
  d.box = c.reshape(c.emit(Op::nms, {boxes, c.reshape(best, Shape{1, 1, s.boxes})}, attrs), Shape{1, d.count});
  const ValueId at = c.emit(Op::maximum, {d.box, c.full(Shape{}, 0, DType::i32)});
  d.score = picked_by(c, best, at, 1);
  d.of_class = picked_by(c, classes, at, 1);
  return d;
}

/// Zeros behind what was found, as many as there is room for.
ValueId filled_up(NodeContext& c, ValueId x, std::int64_t more) {
  if (more == 0) return x;
  Ints pads(2 * c.shape_of(x).rank(), 0);
  pads[c.shape_of(x).rank() + 1] = more;
  return c.emit(Op::pad, {x}, {{"pads", pads}, {"mode", std::string("constant")}, {"value", 0.0}});
}

/// Inputs: boxes in terms of anchors, scores, anchors. Results: corners, classes, scores, and how many there are.
Status detection_postprocess(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const DetectionSizes s, detection_sizes(c));
  GRAFT_TRY_ASSIGN(const ValueId boxes, decoded_boxes(c, s.boxes));
  const ValueId scores = box_columns(c, c.in(1), s.first_class, s.first_class + s.classes);
  GRAFT_TRY_ASSIGN(const Detections d,
                   s.by_class ? detect_by_class(c, s, boxes, scores) : detect_at_once(c, s, boxes, scores));
  const ValueId index_zero = c.full(Shape{}, 0, DType::i32), zero = c.full(Shape{}, 0);
  const ValueId there = c.emit(Op::greater_equal, {d.box, index_zero});
  const auto out = [&](std::size_t k, ValueId x) {
    const ValueId mask = k == 0 ? c.reshape(there, Shape{1, d.count, 1}) : there;
    c.out_typed(k, filled_up(c, c.emit(Op::where, {mask, x, zero}), s.most - d.count), ElemType::f32);
  };
  out(0, c.emit(Op::gather, {c.reshape(boxes, Shape{s.boxes, 4}), c.emit(Op::maximum, {d.box, index_zero})},
                {{"axis", std::int64_t{0}}}));
  out(1, c.cast(d.of_class, DType::f32));
  out(2, d.score);
  const ValueId count =
      c.emit(Op::reduce_sum, {c.cast(there, DType::f32)}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  c.out_typed(3, count, ElemType::f32);
  return {};
}

}  // namespace

const RuleEntry kDetectionRules[] = {
    {"tflite.DETECTION_POSTPROCESS", 3, 3, detection_postprocess},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
