// Images put together from blocks of columns.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/volume.h"

namespace graft::convert {
namespace {

/// Columns [N, C * taps, places] summed up where their blocks lie: a transposed convolution whose filter for tap k of a
/// channel is 1 at k and 0 elsewhere.
Status col2im(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  GRAFT_TRY_ASSIGN(const Ints image, c.ints(1, "image_shape"));
  GRAFT_TRY_ASSIGN(const Ints block, c.ints(2, "block_shape"));
  Window w;
  w.axes = image.size();
  if (w.axes < 1 || w.axes > 3 || block.size() != w.axes) {
    return unsupported("its image has ", w.axes, " axes and its blocks ", block.size(), "; one to three are supported");
  }
  w.kernel = block;
  w.strides = c.attr_ints("strides", Ints(w.axes, 1));
  w.dilations = c.attr_ints("dilations", Ints(w.axes, 1));
  w.pads = c.attr_ints("pads", Ints(2 * w.axes, 0));
  if (w.strides.size() != w.axes || w.dilations.size() != w.axes || w.pads.size() != 2 * w.axes) {
    return corrupt("its strides, dilations or pads do not fit ", w.axes, " axes");
  }
  std::int64_t taps = 1, places = 1;
  Ints counts, padding;
  for (std::size_t i = 0; i < w.axes; ++i) {
    constexpr std::int64_t kLimit = 1 << 20;
    const std::int64_t numbers[] = {image[i], block[i], w.strides[i], w.dilations[i]};
    if (std::any_of(std::begin(numbers), std::end(numbers), [](std::int64_t v) { return v < 1 || v > kLimit; }) ||
        w.pads[i] < 0 || w.pads[i + w.axes] < 0 || w.pads[i] > kLimit || w.pads[i + w.axes] > kLimit) {
      return corrupt("its sizes along axis ", i, " are out of range");
    }
    const std::int64_t room = image[i] + w.pads[i] + w.pads[i + w.axes] - w.dilations[i] * (block[i] - 1) - 1;
    if (room < 0) return corrupt("its block of ", block[i], " is larger than the image of ", image[i]);
    counts.push_back(room / w.strides[i] + 1);
    padding.push_back(room % w.strides[i]);
    taps *= block[i];
    places *= counts[i];
    if (taps > kLimit || places > (std::int64_t{1} << 40)) return corrupt("its blocks are too many");
  }
  const Shape in = c.shape(0);
  if (in.rank() != 3 || in[2] != Dim(places) || !in[1].is_constant() || in[1].value() % taps != 0) {
    return corrupt("its columns have the shape ", in.text(), "; a multiple of ", taps, " rows and ", places,
                   " columns are needed");
  }
  const std::int64_t channels = in[1].value() / taps;
  constexpr std::int64_t kMostWeights = 1 << 22;
  if (channels > kMostWeights / (taps * taps)) return unsupported("its blocks have too many elements");
  // Filters in the order that transposed convolutions know: [channel and tap, kh, kw, (kd,) 1].
  HostTensor filters = HostTensor::of_floats({channels * taps}, {});
  for (std::size_t i = w.axes == 3 ? 1 : 0; i < w.axes; ++i) filters.dims.push_back(block[i]);
  if (w.axes == 1) filters.dims.insert(filters.dims.begin() + 1, 1);
  if (w.axes == 3) filters.dims.push_back(block[0]);
  filters.dims.push_back(1);
  filters.floats.assign(static_cast<std::size_t>(channels * taps * taps), 0.0f);
  const std::int64_t depth = w.axes == 3 ? block[0] : 1, plane = taps / depth;
  for (std::int64_t row = 0; row < channels * taps; ++row) {
    const std::int64_t tap = row % taps, at = tap % plane * depth + tap / plane;
    filters.floats[static_cast<std::size_t>(row * taps + at)] = 1;
  }
  std::vector<Dim> dims = {in[0]};
  for (const std::int64_t count : counts) dims.push_back(count);
  if (w.axes == 1) dims.insert(dims.begin() + 1, Dim(1));
  dims.push_back(in[1]);
  const ValueId x = c.reshape(c.in(0, {0, 2, 1}), Shape(dims));
  if (w.axes == 3) {
    GRAFT_TRY_ASSIGN(const ValueId y, conv_transpose_volume(c, x, c.constant(filters), kNoValue, w, padding, channels));
    c.out(0, y, channels_last(5));
    return {};
  }
  GRAFT_TRY_ASSIGN(const Spatial s, widened(w));
  const ValueId y = c.emit(Op::conv_transpose, {x, c.constant(filters)},
                           {{"strides", s.strides},
                            {"pads", s.pads},
                            {"dilations", s.dilations},
                            {"groups", channels},
                            {"output_padding", s.widened(padding, 0)}});
  out_image(c, 0, y, s, c.type(0));
  return {};
}

}  // namespace

const RuleEntry kImageRules[] = {
    {"Col2Im", 3, 3, col2im},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
