#include "tools/convert/onnx/import/unread.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace graft::convert {
namespace {

/// An attribute that no rule of the op reads, or not always.
struct Harmless {
  std::string_view op;  ///< "*": of every op
  std::string_view name;
  std::string_view value;  ///< the only harmless value, as a message shows it; empty: all are
};

constexpr Harmless kHarmless[] = {
    // How precisely a runtime computes: graft always computes in float32, the type 1.
    {"LayerNormalization", "stash_type", "1"},
    {"GroupNormalization", "stash_type", "1"},
    {"RMSNormalization", "stash_type", "1"},
    {"SimplifiedLayerNormalization", "stash_type", "1"},
    {"Attention", "softmax_precision", "1"},
    {"QuantizeLinear", "precision", "0"},  // as the scale
    {"QuantizeLinear", "precision", "1"},
    // Only of casts and quantization to 8-bit floats, whose rules read it.
    {"Cast", "saturate", ""},
    {"CastLike", "saturate", ""},
    {"Cast", "round_mode", ""},
    {"CastLike", "round_mode", ""},
    {"QuantizeLinear", "saturate", ""},
    // Of a scale for each channel; there is one for all.
    {"QuantizeLinear", "axis", ""},
    {"DequantizeLinear", "axis", ""},
    {"com.microsoft.QuantizeLinear", "axis", ""},
    {"com.microsoft.DequantizeLinear", "axis", ""},
    // How opset 6 says that it broadcasts: rules broadcast anyway, and read the axis if the ranks differ.
    {"*", "consumed_inputs", ""},
    {"*", "broadcast", ""},
    {"Add", "axis", ""},
    {"Sub", "axis", ""},
    {"Mul", "axis", ""},
    {"Div", "axis", ""},
    {"Pow", "axis", ""},
    {"And", "axis", ""},
    {"Or", "axis", ""},
    {"Xor", "axis", ""},
    {"Equal", "axis", ""},
    {"Greater", "axis", ""},
    {"Less", "axis", ""},
    // Only of a training step or of results that no output reads.
    {"BatchNormalization", "momentum", ""},
    {"BatchNormalization", "is_test", ""},
    {"Dropout", "seed", ""},
    {"Dropout", "ratio", ""},
    {"Dropout", "is_test", ""},
    {"MaxPool", "storage_order", ""},
    {"ai.onnx.ml.LinearClassifier", "post_transform", ""},
    // The order among equal or unsorted results is the runtime's choice.
    {"TopK", "sorted", ""},
    // Says how the coefficients were trained; the scores are computed alike.
    {"ai.onnx.ml.LinearClassifier", "multi_class", ""},
    // Each is of one kind of suppression.
    {"tflite.DETECTION_POSTPROCESS", "detections_per_class", ""},
    {"tflite.DETECTION_POSTPROCESS", "max_classes_per_detection", ""},
    // Of integers, which the rule refuses.
    {"ai.onnx.ml.Imputer", "replaced_value_int64", ""},
    // The branch that is not taken.
    {"If", "then_branch", ""},
    {"If", "else_branch", ""},
    // The type of what is empty, or what an input says instead.
    {"SequenceEmpty", "dtype", ""},
    {"Optional", "type", ""},
    {"SplitToSequence", "keepdims", ""},
    // Another attribute or input says what it is for.
    {"Resize", "keep_aspect_ratio_policy", ""},
    {"Resize", "extrapolation_value", ""},
    {"Upsample", "height_scale", ""},
    {"Upsample", "width_scale", ""},
    {"Conv", "pads", "with auto_pad"},
    {"ConvTranspose", "pads", "with auto_pad"},
    {"MaxPool", "pads", "with auto_pad"},
    {"AveragePool", "pads", "with auto_pad"},
    {"LpPool", "pads", "with auto_pad"},
    {"com.microsoft.Attention", "mask_filter_value", ""},
    {"com.microsoft.MultiHeadAttention", "mask_filter_value", ""},
    // Defaults of what is not supported.
    {"com.microsoft.Attention", "past_present_share_buffer", "0"},
    {"com.microsoft.Attention", "rotary_embedding_dim", "0"},
    {"com.microsoft.GroupQueryAttention", "rotary_interleaved", ""},
    {"com.microsoft.GroupQueryAttention", "qk_output", "0"},
    {"com.microsoft.GroupQueryAttention", "k_quant_type", "\"NONE\""},
    {"com.microsoft.GroupQueryAttention", "v_quant_type", "\"NONE\""},
    {"com.microsoft.GroupQueryAttention", "kv_cache_bit_width", "0"},
};

/// Attributes that are 0 or 1, of whatever op. Runtimes take another number as either of the two, each differently.
constexpr std::string_view kFlags[] = {
    "align_corners",
    "allowzero",
    "antialias",
    "broadcast",
    "ceil_mode",
    "center_point_box",
    "channels_last",
    "count_include_pad",
    "detect_negative",
    "detect_positive",
    "do_rotary",
    "exclude_outside",
    "exclusive",
    "fmod",
    "half_pixel_centers",
    "input_forget",
    "interleaved",
    "inverse",
    "is_causal",
    "is_test",
    "keepdims",
    "largest",
    "layout",
    "linear_before_reset",
    "new_axis",
    "noop_with_empty_axes",
    "normalize_variance",
    "onesided",
    "periodic",
    "reverse",
    "rotary_interleaved",
    "saturate",
    "select_last_index",
    "sorted",
    "storage_order",
    "training_mode",
    "transA",
    "transB",
    "unidirectional",
    "upper",
};

/// An input that a rule does not read, or not always.
struct IgnoredInput {
  std::string_view op;
  std::size_t input;
};
constexpr IgnoredInput kIgnoredInputs[] = {
    {"CastLike", 1},  // only its type
    {"Dropout", 1},
    {"Dropout", 2},
    {"Resize", 1},  // the region of interest, unless the mode crops
    {"Resize", 2},  // scales, if there are sizes
    {"Pad", 2},     // the value, unless the mode is constant
    // Lengths: padding is after the tokens, and a causal mask already hides it from them.
    {"com.microsoft.GroupQueryAttention", 5},
    {"com.microsoft.GroupQueryAttention", 6},
};

template <typename List>
std::string list_text(const List& values) {
  std::ostringstream out;
  out << '[';
  for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 8); ++i) out << (i == 0 ? "" : ", ") << values[i];
  if (values.size() > 8) out << ", ...";
  out << ']';
  return out.str();
}

std::string value_text(const OnnxAttr& attr) {
  std::ostringstream out;
  switch (attr.kind) {
    case OnnxAttr::Kind::number: out << attr.number; break;
    case OnnxAttr::Kind::integer: out << attr.integer; break;
    case OnnxAttr::Kind::text: out << '"' << attr.text << '"'; break;
    case OnnxAttr::Kind::numbers: return list_text(attr.numbers);
    case OnnxAttr::Kind::integers: return list_text(attr.integers);
    case OnnxAttr::Kind::texts: return list_text(attr.texts);
    case OnnxAttr::Kind::tensor: return "a tensor";
    case OnnxAttr::Kind::graph: return "a graph";
    case OnnxAttr::Kind::other: return "of an unknown kind";
  }
  return out.str();
}

}  // namespace

Status check_attributes_read(const OnnxNode& node) {
  const std::string kind = node.kind();
  const bool automatic = std::ranges::any_of(
      node.attrs, [](const auto& one) { return one.first == "auto_pad" && one.second.text != "NOTSET"; });
  for (const auto& [name, attr] : node.attrs) {
    const bool flag = attr.kind == OnnxAttr::Kind::integer && std::ranges::find(kFlags, name) != std::end(kFlags);
    if (flag && attr.integer != 0 && attr.integer != 1) {
      return unsupported("its attribute \"", name, "\" is ", attr.integer,
                         ", and it can be 0 or 1; change it in the file");
    }
    if (attr.read) continue;
    const std::string value = value_text(attr);
    const bool harmless = std::ranges::any_of(kHarmless, [&](const Harmless& one) {
      const bool fits = one.value.empty() || (one.value == "with auto_pad" ? automatic : one.value == value);
      return (one.op == kind || one.op == "*") && one.name == name && fits;
    });
    if (!harmless) return unsupported("its attribute \"", name, "\" (", value, ") is not supported");
  }
  return {};
}

bool may_ignore_input(const OnnxNode& node, std::size_t i) {
  const std::string kind = node.kind();
  return std::ranges::any_of(kIgnoredInputs, [&](const IgnoredInput& one) { return one.op == kind && one.input == i; });
}

}  // namespace graft::convert
