#include "runtime/ops/conv/conv_common.h"

#include "runtime/ops/window.h"

namespace graft::ops::conv {
namespace {

Result<std::int64_t> number(const Shape& shape, std::size_t axis, std::string_view what) {
  if (!shape[axis].is_constant()) {
    return invalid("The ", what, " of shape ", shape.text(), " needs a number on axis ", axis, "; \"",
                   shape[axis].text(), "\" is a symbol. Bind it first.");
  }
  return shape[axis].value();
}

}  // namespace

Result<ConvWindow> read_conv_window(const Attrs& attrs) {
  ConvWindow window;
  GRAFT_TRY(read_window_ints(attrs, "strides", 1, window.strides));
  GRAFT_TRY(read_window_ints(attrs, "pads", 0, window.pads));
  GRAFT_TRY(read_window_ints(attrs, "dilations", 1, window.dilations));
  GRAFT_TRY_ASSIGN(window.same, read_same(attrs));
  window.groups = attrs.integer("groups");
  return window;
}

Attrs conv_window_attrs(const Attrs& attrs) {
  Attrs out;
  for (const std::string_view name : {"strides", "pads", "dilations", "groups"}) {
    if (const AttrValue* value = attrs.find(name)) out.set(name, *value);
  }
  return out;
}

Result<std::int64_t> conv_output_size(const ConvWindow& window, std::size_t axis, std::int64_t size,
                                      std::int64_t kernel) {
  const std::string_view name = window_axis_name(axis);
  if (size > kMaxWindowExtent || kernel < 1 || kernel > kMaxWindowExtent / window.dilations[axis]) {
    return invalid("A convolution over a ", name, " of ", size, " with a kernel of ", kernel, " and a dilation of ",
                   window.dilations[axis], " is out of range; the limit is ", kMaxWindowExtent, ".");
  }
  const std::int64_t padded = size + window.pads[axis] + window.pads[axis + 2];
  const std::int64_t extent = window.dilations[axis] * (kernel - 1) + 1;
  if (padded < extent) {
    return invalid("The padded ", name, " is ", padded, ", less than the ", extent, " that the dilated kernel spans.");
  }
  return (padded - extent) / window.strides[axis] + 1;
}

Result<Shape> conv_output_shape(const ConvWindow& window, const Shape& x, const Shape& weight) {
  GRAFT_TRY_ASSIGN(const std::int64_t c, number(x, 3, "image"));
  GRAFT_TRY_ASSIGN(const std::int64_t o, number(weight, 0, "weight"));
  GRAFT_TRY_ASSIGN(const std::int64_t kh, number(weight, 1, "weight"));
  GRAFT_TRY_ASSIGN(const std::int64_t kw, number(weight, 2, "weight"));
  GRAFT_TRY_ASSIGN(const std::int64_t group_c, number(weight, 3, "weight"));
  if (c % window.groups != 0 || o % window.groups != 0) {
    return invalid("A convolution in ", window.groups, " groups needs channel counts that this divides; it has ", c,
                   " input and ", o, " output channels.");
  }
  if (group_c != c / window.groups) {
    return invalid("The weight ", weight.text(), " (output, height, width, input channels of a group) takes ", group_c,
                   " channels per group; the input ", x.text(), " in ", window.groups, " groups gives ",
                   c / window.groups, ".");
  }
  std::array<Dim, 2> out;
  for (const std::size_t axis : {0, 1}) {
    const std::int64_t kernel = axis == 0 ? kh : kw;
    const Dim& size = x[axis + 1];
    GRAFT_TRY_ASSIGN(const std::int64_t known,
                     conv_output_size(window, axis, size.is_constant() ? size.value() : kMaxWindowExtent, kernel));
    out[axis] = known;
    if (window.same[axis] != Same::no) {
      GRAFT_TRY_ASSIGN(out[axis], same_count(size, window.strides[axis]));
      continue;
    }
    if (size.is_constant()) continue;
    const std::int64_t extent = window.dilations[axis] * (kernel - 1) + 1;
    GRAFT_TRY_ASSIGN(out[axis],
                     window_count(size, window.pads[axis] + window.pads[axis + 2], extent, window.strides[axis]));
  }
  return Shape{x[0], out[0], out[1], o};
}

ConvSizes conv_sizes(const Attrs& attrs, const Shape& x, const Shape& weight, const Shape& y) {
  const auto at = [](const Shape& shape, std::size_t axis) { return static_cast<std::uint64_t>(shape[axis].value()); };
  return {.window = read_conv_window(attrs).value(),
          .images = at(x, 0),
          .h = at(x, 1),
          .w = at(x, 2),
          .c = at(x, 3),
          .oh = at(y, 1),
          .ow = at(y, 2),
          .o = at(y, 3),
          .kh = at(weight, 1),
          .kw = at(weight, 2)};
}

}  // namespace graft::ops::conv
