// Operators on channels-last images.
#include <algorithm>
#include <array>
#include <cstring>

#include "tools/convert/tflite/tflite_context.h"

namespace graft::convert {
namespace {

OnnxAttr is_same(tfl::Padding padding) { return int_attr(padding == tfl::Padding::SAME); }
Status known(tfl::Padding padding) {
  if (padding == tfl::Padding::SAME || padding == tfl::Padding::VALID) return {};
  return unsupported("its padding is number ", static_cast<int>(padding));
}

template <class Options>
Status conv_by(OpContext& c, const char* op, const Options* options) {
  if (options == nullptr) return corrupt("it has no options");
  GRAFT_TRY(known(options->padding()));
  c.out(0,
        c.add(op, c.all(),
              {{"strides", ints_attr({options->stride_h(), options->stride_w()})},
               {"dilations", ints_attr({options->dilation_h(), options->dilation_w()})},
               {"same", is_same(options->padding())}},
              "tflite"),
        options->activation());
  return {};
}
Status conv(OpContext& c) { return conv_by(c, "CONV_2D", c.op.builtin_options_as_Conv2DOptions()); }
Status depthwise(OpContext& c) {
  return conv_by(c, "DEPTHWISE_CONV_2D", c.op.builtin_options_as_DepthwiseConv2DOptions());
}

/// Inputs of the file: the output's shape, weights, image, bias.
Status transpose_conv(OpContext& c) {
  const auto* options = c.op.builtin_options_as_TransposeConvOptions();
  if (options == nullptr) return corrupt("it has no options");
  GRAFT_TRY(known(options->padding()));
  std::vector<std::string> from = {c.in(2), c.in(1), c.in(0)};
  if (c.has(3)) from.push_back(c.in(3));
  c.out(
      0,
      c.add("TRANSPOSE_CONV", from,
            {{"strides", ints_attr({options->stride_h(), options->stride_w()})}, {"same", is_same(options->padding())}},
            "tflite"),
      options->activation());
  return {};
}

/// MediaPipe's op of its segmentation networks: input, weights, bias; the result's shape is the one that the file
/// declares. Its options are three 32-bit integers as they lie in memory: padding (1 same, 2 valid), stride across,
/// stride down.
Status transpose_conv_with_bias(OpContext& c) {
  const auto* bytes = c.op.custom_options();
  std::array<std::int32_t, 3> options = {};
  if (bytes == nullptr || bytes->size() < sizeof options) return corrupt("it has no options");
  std::memcpy(options.data(), bytes->data(), sizeof options);
  const std::uint8_t *const more = bytes->data() + sizeof options, *const end = bytes->data() + bytes->size();
  if (std::any_of(more, end, [](std::uint8_t byte) { return byte != 0; })) {
    return unsupported("it has more options than a padding and two strides");
  }
  const auto [padding, across, down] = options;
  if (padding < 1 || padding > 2 || across < 1 || down < 1) {
    return corrupt("it has the padding ", padding, " and the strides ", down, " and ", across);
  }
  c.out(0, c.add("TRANSPOSE_CONV", {c.in(0), c.in(1), c.constant(c.output(0).dims), c.in(2)},
                 {{"strides", ints_attr({down, across})}, {"same", int_attr(padding == 1)}}, "tflite"));
  return {};
}

Result<std::string> pooled(OpContext& c, const char* op, std::string x) {
  const auto* options = c.op.builtin_options_as_Pool2DOptions();
  if (options == nullptr) return corrupt("it has no options");
  GRAFT_TRY(known(options->padding()));
  return c.add(op, {std::move(x)},
               {{"kernel", ints_attr({options->filter_h(), options->filter_w()})},
                {"strides", ints_attr({options->stride_h(), options->stride_w()})},
                {"same", is_same(options->padding())}},
               "tflite");
}

Status pool_by(OpContext& c, const char* op) {
  GRAFT_TRY_ASSIGN(const std::string y, pooled(c, op, c.in(0)));
  c.out(0, y, c.op.builtin_options_as_Pool2DOptions()->activation());
  return {};
}
Status average_pool(OpContext& c) { return pool_by(c, "AVERAGE_POOL_2D"); }
Status max_pool(OpContext& c) { return pool_by(c, "MAX_POOL_2D"); }

/// The root of the mean of squares.
Status l2_pool(OpContext& c) {
  GRAFT_TRY_ASSIGN(const std::string mean, pooled(c, "AVERAGE_POOL_2D", c.add("Mul", {c.in(0), c.in(0)})));
  c.out(0, c.add("Sqrt", {mean}), c.op.builtin_options_as_Pool2DOptions()->activation());
  return {};
}

template <class Options>
Status resize_by(OpContext& c, const char* op, const Options* options) {
  c.out(0, c.add(op, c.all(),
                 {{"align_corners", int_attr(options != nullptr && options->align_corners())},
                  {"half_pixel_centers", int_attr(options != nullptr && options->half_pixel_centers())}},
                 "tflite"));
  return {};
}
Status resize_bilinear(OpContext& c) {
  return resize_by(c, "RESIZE_BILINEAR", c.op.builtin_options_as_ResizeBilinearOptions());
}
Status resize_nearest(OpContext& c) {
  return resize_by(c, "RESIZE_NEAREST_NEIGHBOR", c.op.builtin_options_as_ResizeNearestNeighborOptions());
}

/// An operator of ONNX, whose images are channels-first, between two transposes.
Status channels_first(OpContext& c, const char* op, OnnxAttrs attrs) {
  if (c.rank(0) != 4) return corrupt("its input has ", c.rank(0), " axes instead of 4");
  const std::string x = c.add("Transpose", {c.in(0)}, {{"perm", ints_attr({0, 3, 1, 2})}});
  c.out(0, c.add("Transpose", {c.add(op, {x}, std::move(attrs))}, {{"perm", ints_attr({0, 2, 3, 1})}}));
  return {};
}

Status space_to_depth(OpContext& c) {
  const auto* options = c.op.builtin_options_as_SpaceToDepthOptions();
  if (options == nullptr) return corrupt("it has no options");
  return channels_first(c, "SpaceToDepth", {{"blocksize", int_attr(options->block_size())}});
}
Status depth_to_space(OpContext& c) {
  const auto* options = c.op.builtin_options_as_DepthToSpaceOptions();
  if (options == nullptr) return corrupt("it has no options");
  return channels_first(c, "DepthToSpace",
                        {{"blocksize", int_attr(options->block_size())}, {"mode", text_attr("DCR")}});
}

/// ONNX divides alpha by the number of channels.
Status local_response_normalization(OpContext& c) {
  const auto* options = c.op.builtin_options_as_LocalResponseNormalizationOptions();
  if (options == nullptr || options->radius() < 0 || options->radius() > (1 << 20)) {
    return corrupt("its radius is missing or out of range");
  }
  const std::int64_t size = 2 * std::int64_t{options->radius()} + 1;
  return channels_first(c, "LRN",
                        {{"size", int_attr(size)},
                         {"alpha", number_attr(static_cast<double>(options->alpha()) * static_cast<double>(size))},
                         {"beta", number_attr(options->beta())},
                         {"bias", number_attr(options->bias())}});
}

using B = tfl::BuiltinOperator;

}  // namespace

const TfliteOp kTfliteImages[] = {
    {B::CONV_2D, 2, 3, conv},
    {B::DEPTHWISE_CONV_2D, 2, 3, depthwise},
    {B::TRANSPOSE_CONV, 3, 4, transpose_conv},
    {B::AVERAGE_POOL_2D, 1, 1, average_pool},
    {B::MAX_POOL_2D, 1, 1, max_pool},
    {B::L2_POOL_2D, 1, 1, l2_pool},
    {B::RESIZE_BILINEAR, 2, 2, resize_bilinear},
    {B::RESIZE_NEAREST_NEIGHBOR, 2, 2, resize_nearest},
    {B::SPACE_TO_DEPTH, 1, 1, space_to_depth},
    {B::DEPTH_TO_SPACE, 1, 1, depth_to_space},
    {B::LOCAL_RESPONSE_NORMALIZATION, 1, 1, local_response_normalization},
    {B::ADD, 0, 0, nullptr},
};

const TfliteOp kTfliteCustom[] = {
    {B::CUSTOM, 3, 3, transpose_conv_with_bias, "Convolution2DTransposeBias"},
    {B::CUSTOM, 0, 0, nullptr},
};

}  // namespace graft::convert
