// The custom operator that detectors end with. Its options are a FlexBuffers map.
#include "platform/base/text.h"
#include "tools/convert/tflite/flex_numbers.h"
#include "tools/convert/tflite/tflite_context.h"

namespace graft::convert {
namespace {

/// Inputs: boxes in terms of anchors, scores, anchors.
Status detection_postprocess(OpContext& c) {
  const auto* bytes = c.op.custom_options();
  if (bytes == nullptr) return corrupt("it has no options");
  if (c.outputs() > 4) return corrupt("it has ", c.outputs(), " outputs instead of 4");
  GRAFT_TRY_ASSIGN(FlexNumbers options, read_flex_numbers(std::as_bytes(std::span(bytes->data(), bytes->size()))));
  OnnxAttrs attrs;
  options.emplace("detections_per_class", 100);
  options.emplace("use_regular_nms", 0);
  for (const char* name :
       {"max_detections", "max_classes_per_detection", "detections_per_class", "use_regular_nms", "num_classes"}) {
    const double value = options[name];
    constexpr double kMost = 1e9;
    if (!(value >= 0 && value <= kMost)) return corrupt("its ", name, " is ", value);
    attrs[name] = int_attr(static_cast<std::int64_t>(value));
  }
  for (const char* name : {"nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale"}) {
    attrs[name] = number_attr(options[name]);
  }
  for (const auto& [name, value] : options) {
    // The format's own marks, of how integers are given, begin with a line.
    if (attrs.contains(name) || name.starts_with('_') || value == 0) continue;
    return unsupported("its option \"", shown(name), "\" is ", value, ", which is not supported");
  }
  const auto results = c.add_many("DETECTION_POSTPROCESS", c.all(), c.outputs(), std::move(attrs), "tflite");
  for (std::size_t k = 0; k < results.size(); ++k) c.out(k, results[k]);
  return {};
}

using B = tfl::BuiltinOperator;

}  // namespace

const TfliteOp kTfliteDetection[] = {
    {B::CUSTOM, 3, 3, detection_postprocess, "TFLite_Detection_PostProcess"},
    {B::CUSTOM, 0, 0, nullptr},
};

}  // namespace graft::convert
