// Dimensions that stay open through windows, slices, pads, resizing and shape arithmetic: bound when the model is
// planned they give what they give bound at conversion.
#include <gtest/gtest.h>

#include <limits>

#include "runtime/core/source_order.h"
#include "runtime/passes/bind.h"
#include "tests/support/model_tensors.h"
#include "tests/support/files/onnx_writer.h"
#include "tests/support/run_graph.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::convert_open_shapes_test {
namespace {

template <typename T>
std::string raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

Message int_tensor(const std::string& name, const std::vector<std::int64_t>& values) {
  Message m = Message().integer(1, values.size());
  return m.integer(2, 7).text(8, name).text(9, raw(values));
}

Message text_attribute(const std::string& name, const std::string& value) {
  return Message().text(1, name).text(4, value).integer(20, 3);
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7) % 11) / 8 - 0.5F;
  return values;
}

struct Row {
  const char* name;
  std::vector<Message> nodes;
  std::vector<Message> initializers;
  const char* shape;  ///< of y, where x is [batch, 2, height, 6]
};

OnnxParts parts_of(const Row& row) {
  OnnxParts p;
  p.opset = 17;
  p.nodes = row.nodes;
  p.inputs = {named_value("x", {"batch", "2", "height", "6"})};
  p.initializers = row.initializers;
  p.outputs = {float_value("y", {-1, -1, -1, -1})};
  return p;
}

Result<convert::Converted> convert_row(const Row& row, const Bindings& bindings) {
  const std::string file = onnx_file(parts_of(row));
  GRAFT_TRY_ASSIGN(convert::OnnxGraph graph, convert::parse_onnx(std::as_bytes(std::span(file))));
  convert::ConvertOptions options;
  options.bindings = bindings;
  return convert::convert_onnx(std::move(graph), "test.onnx", options);
}

RefTensor run(const Model& model, const Graph& graph, std::int64_t batch, std::int64_t height) {
  RefTensors values = weights_of(model);
  const std::vector<float> numbers = ramp(static_cast<std::size_t>(batch * 2 * height * 6));
  values["x"] = {{batch, 2, height, 6}, {numbers.begin(), numbers.end()}};
  const Status status = interpret(graph, values);
  EXPECT_TRUE(status.ok()) << status.message();
  return values[graph.value(graph.outputs()[0].value).name];
}

std::vector<Row> rows() {
  const Message weight = float_tensor("w", {3, 2, 3, 3}, raw(ramp(54)));
  const Message up = float_tensor("w", {2, 3, 2, 2}, raw(ramp(24)));
  const Message scales = float_tensor("s", {4}, raw<float>({1, 1, 1.5, 2}));
  const auto shape_of = [](const char* of, const char* as) {
    return std::vector<Message>{onnx_node("Shape", {of}, {"all"}, {}), onnx_node("Gather", {"all", "axis"}, {as}, {})};
  };
  std::vector<Message> halves = shape_of("x", "h");
  halves.push_back(onnx_node("Add", {"h", "one"}, {"h1"}, {}));
  halves.push_back(onnx_node("Div", {"h1", "two"}, {"half"}, {}));
  halves.push_back(onnx_node("Slice", {"x", "zero", "half", "axis"}, {"y"}, {}));
  std::vector<Message> to_size = shape_of("x", "h");
  to_size.push_back(
      onnx_node("MaxPool", {"x"}, {"p"}, {ints_attribute("kernel_shape", {2, 2}), ints_attribute("strides", {2, 2})}));
  to_size.push_back(onnx_node("Slice", {"all", "zero", "two", "zero"}, {"first"}, {}));
  to_size.push_back(onnx_node("Concat", {"first", "h", "last"}, {"size"}, {int_attribute("axis", 0)}));
  to_size.push_back(onnx_node("Resize", {"p", "", "", "size"}, {"y"}, {text_attribute("mode", "linear")}));
  const std::vector<Message> flat = {onnx_node("Conv", {"x", "w"}, {"c"}, {ints_attribute("pads", {0, 1, 0, 1})}),
                                     onnx_node("Flatten", {"c"}, {"f"}, {}),
                                     onnx_node("Unsqueeze", {"f", "axes"}, {"y"}, {})};
  const std::vector<Message> numbers = {int_tensor("zero", {0}), int_tensor("one", {1}),  int_tensor("two", {2}),
                                        int_tensor("axis", {2}), int_tensor("last", {6}), int_tensor("axes", {2, 3})};
  const auto with = [&](std::vector<Message> more) {
    more.insert(more.end(), numbers.begin(), numbers.end());
    return more;
  };
  return {
      {"conv, stride 2",
       {onnx_node("Conv", {"x", "w"}, {"y"},
                  {ints_attribute("strides", {2, 2}), ints_attribute("pads", {1, 1, 1, 1})})},
       with({weight}),
       "[batch, 3, ((height+1)//2), 3]"},
      {"conv as large as its input",
       {onnx_node("Conv", {"x", "w"}, {"y"}, {text_attribute("auto_pad", "SAME_UPPER")})},
       with({weight}),
       "[batch, 3, height, 6]"},
      {"conv with a stride and pads by the size",
       {onnx_node("Conv", {"x", "w"}, {"y"},
                  {ints_attribute("strides", {2, 2}), text_attribute("auto_pad", "SAME_LOWER")})},
       with({weight}),
       "[batch, 3, ((height+1)//2), 3]"},
      {"pool with a stride and pads by the size",
       {onnx_node("MaxPool", {"x"}, {"y"},
                  {ints_attribute("kernel_shape", {4, 3}), ints_attribute("strides", {3, 3}),
                   text_attribute("auto_pad", "SAME_UPPER")})},
       numbers,
       "[batch, 2, ((height+2)//3), 2]"},
      {"pool whose last window may be a part",
       {onnx_node(
           "MaxPool", {"x"}, {"y"},
           {ints_attribute("kernel_shape", {3, 3}), ints_attribute("strides", {2, 2}), int_attribute("ceil_mode", 1)})},
       numbers,
       "[batch, 2, (height//2), 3]"},
      {"pool whose last window would begin in the padding",
       {onnx_node("AveragePool", {"x"}, {"y"},
                  {ints_attribute("kernel_shape", {2, 2}), ints_attribute("strides", {3, 3}),
                   ints_attribute("pads", {1, 1, 1, 1}), int_attribute("ceil_mode", 1)})},
       numbers,
       "[batch, 2, ((height//3)+1), 3]"},
      {"dilated conv",
       {onnx_node("Conv", {"x", "w"}, {"y"}, {ints_attribute("dilations", {2, 2})})},
       with({weight}),
       "[batch, 3, (height-4), 2]"},
      {"transposed conv",
       {onnx_node("ConvTranspose", {"x", "w"}, {"y"}, {ints_attribute("strides", {2, 2})})},
       with({up}),
       "[batch, 3, 2*height, 12]"},
      {"pools",
       {onnx_node("AveragePool", {"x"}, {"y"},
                  {ints_attribute("kernel_shape", {3, 1}), ints_attribute("strides", {3, 1})})},
       numbers,
       "[batch, 2, (height//3), 6]"},
      {"slice from both ends",
       {onnx_node("Slice", {"x", "one", "end", "axis"}, {"y"}, {})},
       with({int_tensor("end", {-1})}),
       "[batch, 2, (height-2), 6]"},
      {"every second row",
       {onnx_node("Slice", {"x", "zero", "end", "axis", "two"}, {"y"}, {})},
       with({int_tensor("end", {std::numeric_limits<std::int64_t>::max()})}),
       "[batch, 2, ((height+1)//2), 6]"},
      {"to a size that is computed", halves, numbers, "[batch, 2, ((height+1)//2), 6]"},
      {"pad",
       {onnx_node("Pad", {"x", "pads"}, {"y"}, {text_attribute("mode", "reflect")})},
       with({int_tensor("pads", {0, 0, 2, 0, 0, 0, 1, 1})}),
       "[batch, 2, (height+3), 7]"},
      {"concat",
       {onnx_node("Slice", {"x", "one", "end", "axis"}, {"most"}, {}),
        onnx_node("Concat", {"x", "most"}, {"y"}, {int_attribute("axis", 2)})},
       with({int_tensor("end", {std::numeric_limits<std::int64_t>::max()})}),
       "[batch, 2, (2*height-1), 6]"},
      {"split in equal parts",
       {onnx_node("Concat", {"x", "x"}, {"both"}, {int_attribute("axis", 2)}),
        onnx_node("Split", {"both"}, {"first", "y"}, {int_attribute("axis", 2)})},
       numbers,
       "[batch, 2, height, 6]"},
      {"resize by scales",
       {onnx_node("Resize", {"x", "", "s"}, {"y"}, {text_attribute("mode", "nearest")})},
       with({scales}),
       "[batch, 2, (3*height//2), 12]"},
      {"resize to another's size", to_size, numbers, "[batch, 2, height, 6]"},
      {"flatten", flat, with({weight}), "[batch, 18*(height-2), 1, 1]"},
  };
}

/// Where x is a volume [batch, 2, height, 6, 1], whose first axis is open, or [batch, 1, 2, height, 6].
std::vector<Row> rows_of_volumes() {
  const auto volume = [](std::int64_t axis, const char* op, const std::vector<std::string>& inputs,
                         const std::vector<Message>& attributes) {
    return std::vector<Message>{onnx_node("Unsqueeze", {"x", axis == 4 ? "four" : "one"}, {"v"}, {}),
                                onnx_node(op, inputs, {"y"}, attributes)};
  };
  const Message filters = float_tensor("w", {3, 2, 3, 2, 1}, raw(ramp(36)));
  const Message up = float_tensor("u", {1, 2, 2, 3, 2}, raw(ramp(24)));
  const Message deep = float_tensor("d", {2, 2, 3, 1, 1}, raw(ramp(12)));
  const std::vector<Message> all = {int_tensor("four", {4}), int_tensor("one", {1}), filters, up, deep};
  const auto kernel = [](const std::vector<std::int64_t>& sizes) { return ints_attribute("kernel_shape", sizes); };
  return {
      {"convolution along an open depth",
       volume(4, "Conv", {"v", "w"},
              {ints_attribute("strides", {2, 1, 1}), ints_attribute("pads", {1, 0, 0, 1, 0, 0})}),
       all, "[batch, 3, ((height+1)//2), 5, 1]"},
      {"transposed along an open depth", volume(4, "ConvTranspose", {"v", "d"}, {ints_attribute("strides", {2, 1, 1})}),
       all, "[batch, 2, (2*height+1), 6, 1]"},
      {"transposed along an open height",
       volume(1, "ConvTranspose", {"v", "u"},
              {ints_attribute("strides", {1, 2, 1}), ints_attribute("pads", {0, 1, 0, 0, 1, 0})}),
       all, "[batch, 2, 3, (2*height-1), 7]"},
      {"maximum, a last window may be a part",
       volume(4, "MaxPool", {"v"},
              {kernel({3, 2, 1}), ints_attribute("strides", {2, 2, 1}), int_attribute("ceil_mode", 1)}),
       all, "[batch, 2, (height//2), 3, 1]"},
      {"average over the image",
       volume(4, "AveragePool", {"v"},
              {kernel({3, 2, 1}), ints_attribute("strides", {2, 1, 1}), ints_attribute("pads", {1, 1, 0, 1, 0, 0})}),
       all, "[batch, 2, ((height+1)//2), 6, 1]"},
      {"average over the padding, a last window may be a part",
       volume(1, "AveragePool", {"v"},
              {kernel({2, 2, 2}), ints_attribute("strides", {1, 3, 2}), ints_attribute("pads", {0, 1, 1, 0, 1, 1}),
               int_attribute("ceil_mode", 1), int_attribute("count_include_pad", 1)}),
       all, "[batch, 1, 1, ((height//3)+1), 4]"},
      {"norm over dilated windows",
       volume(4, "LpPool", {"v"}, {kernel({2, 2, 1}), ints_attribute("dilations", {2, 1, 1})}), all,
       "[batch, 2, (height-2), 5, 1]"},
  };
}

/// Contents that follow from sizes: places are counted, and a size is a number.
std::vector<Row> rows_of_sizes() {
  const std::vector<Message> numbers = {int_tensor("zero", {0}),
                                        int_tensor("two", {2}),
                                        int_tensor("axis", {2}),
                                        int_tensor("back", {-1}),
                                        int_tensor("far", {-std::numeric_limits<std::int64_t>::max()}),
                                        int_tensor("none", {}),
                                        float_tensor("step", {}, raw<float>({2})),
                                        float_tensor("begin", {}, raw<float>({1}))};
  const auto with_size = [](std::vector<Message> nodes) {
    nodes.insert(nodes.begin(),
                 {onnx_node("Shape", {"x"}, {"all"}, {}), onnx_node("Gather", {"all", "axis"}, {"h"}, {}),
                  onnx_node("Squeeze", {"h"}, {"n"}, {}), onnx_node("Cast", {"n"}, {"f"}, {int_attribute("to", 1)})});
    return nodes;
  };
  return {
      {"divided by a size", with_size({onnx_node("Div", {"x", "f"}, {"y"}, {})}), numbers, "[batch, 2, height, 6]"},
      {"by several",
       with_size({onnx_node("Slice", {"all", "axis", "far_end"}, {"image"}, {}),
                  onnx_node("Cast", {"image"}, {"floats"}, {int_attribute("to", 1)}),
                  onnx_node("ReduceProd", {"floats"}, {"pixels"}, {}), onnx_node("Mul", {"x", "pixels"}, {"y"}, {})}),
       [&] {
         auto m = numbers;
         m.push_back(int_tensor("far_end", {4}));
         return m;
       }(),
       "[batch, 2, height, 6]"},
      {"backwards",
       {onnx_node("Slice", {"x", "back", "far", "axis", "back"}, {"y"}, {})},
       numbers,
       "[batch, 2, height, 6]"},
      {"places of floats",
       with_size({onnx_node("Range", {"begin", "f", "step"}, {"places"}, {}),
                  onnx_node("Reshape", {"places", "column"}, {"y"}, {})}),
       [&] {
         auto m = numbers;
         m.push_back(int_tensor("column", {1, 1, -1, 1}));
         return m;
       }(),
       "[1, 1, (height//2), 1]"},
      {"places from a size down",
       with_size({onnx_node("Squeeze", {"zero"}, {"z"}, {}), onnx_node("Squeeze", {"minus"}, {"m"}, {}),
                  onnx_node("Range", {"n", "z", "m"}, {"places"}, {}),
                  onnx_node("Cast", {"places"}, {"p"}, {int_attribute("to", 1)}),
                  onnx_node("Reshape", {"p", "column"}, {"y"}, {})}),
       [&] {
         auto m = numbers;
         m.push_back(int_tensor("column", {1, 1, -1, 1}));
         m.push_back(int_tensor("minus", {-3}));
         return m;
       }(),
       "[1, 1, ((height+2)//3), 1]"},
  };
}

/// What places and sizes are computed from: the height by the name "h", a list of one.
std::vector<Message> of_height(std::vector<Message> nodes) {
  nodes.insert(nodes.begin(),
               {onnx_node("Shape", {"x"}, {"all"}, {}), onnx_node("Gather", {"all", "axis"}, {"h"}, {})});
  return nodes;
}

/// Parts and margins whose places are computed.
std::vector<Row> rows_of_places() {
  const std::vector<Message> numbers = {int_tensor("zero", {0}),
                                        int_tensor("one", {1}),
                                        int_tensor("two", {2}),
                                        int_tensor("four", {4}),
                                        int_tensor("axis", {2}),
                                        int_tensor("zeros", {0, 0}),
                                        int_tensor("end", {std::numeric_limits<std::int64_t>::max()})};
  const auto half = onnx_node("Div", {"h", "two"}, {"half"}, {});
  const std::vector<Message> to_fours = of_height(
      {onnx_node("Mod", {"h", "four"}, {"over"}, {}), onnx_node("Sub", {"four", "over"}, {"lacking"}, {}),
       onnx_node("Mod", {"lacking", "four"}, {"more"}, {}),
       onnx_node("Concat", {"zeros", "one", "zero", "zeros", "more", "zero"}, {"pads"}, {int_attribute("axis", 0)}),
       onnx_node("Pad", {"x", "pads"}, {"y"}, {})});
  return {
      {"the second half", of_height({half, onnx_node("Slice", {"x", "half", "end", "axis"}, {"y"}, {})}), numbers,
       "[batch, 2, (-(height//2)+height), 6]"},
      {"the second quarter",
       of_height({half, onnx_node("Div", {"h", "four"}, {"quarter"}, {}),
                  onnx_node("Slice", {"x", "quarter", "half", "axis"}, {"y"}, {})}),
       numbers, "[batch, 2, ((height//2)-(height//4)), 6]"},
      {"as far as there are rows",
       of_height({onnx_node("Sub", {"h", "two"}, {"from"}, {}), onnx_node("Add", {"h", "four"}, {"to"}, {}),
                  onnx_node("Slice", {"x", "from", "to", "axis"}, {"y"}, {})}),
       numbers, "[batch, 2, 6, 6]"},
      {"up to a multiple", to_fours, numbers, "[batch, 2, (4*((height+3)//4)+1), 6]"},
  };
}

std::vector<Row> rows_of_resizing() {
  const auto resize = [](std::vector<std::string> inputs, const char* mode, const char* coordinates,
                         const char* nearest = "floor") {
    return onnx_node("Resize", inputs, {"y"},
                     {text_attribute("mode", mode), text_attribute("coordinate_transformation_mode", coordinates),
                      text_attribute("nearest_mode", nearest)});
  };
  const auto scales = [](const std::vector<float>& all) {
    return float_tensor("s", {static_cast<std::int64_t>(all.size())}, raw(all));
  };
  const std::vector<Message> to = {int_tensor("axis", {2}), int_tensor("one", {1}),  int_tensor("two", {2}),
                                   int_tensor("zero", {0}), int_tensor("wide", {9}), int_tensor("behind", {4})};
  const auto with = [&](std::vector<Message> more) {
    more.insert(more.end(), to.begin(), to.end());
    return more;
  };
  const auto to_size = [&](const char* mode, const char* coordinates) {
    return of_height({onnx_node("Slice", {"all", "zero", "two", "zero"}, {"first"}, {}),
                      onnx_node("Add", {"h", "two"}, {"rows"}, {}),
                      onnx_node("Concat", {"first", "rows", "wide"}, {"size"}, {int_attribute("axis", 0)}),
                      resize({"x", "", "", "size"}, mode, coordinates)});
  };
  const auto volume = [&](const char* mode, const char* coordinates) {
    return std::vector<Message>{onnx_node("Unsqueeze", {"x", "behind"}, {"v"}, {}),
                                resize({"v", "", "s"}, mode, coordinates)};
  };
  return {
      {"cubic by a factor",
       {resize({"x", "", "s"}, "cubic", "half_pixel")},
       with({scales({1, 1, 1.5, 2})}),
       "[batch, 2, (3*height//2), 12]"},
      {"cubic to a size", to_size("cubic", "align_corners"), to, "[batch, 2, (height+2), 9]"},
      {"cubic to a size, between centres", to_size("cubic", "pytorch_half_pixel"), to, "[batch, 2, (height+2), 9]"},
      {"volumes", volume("linear", "half_pixel"), with({scales({1, 1, 2, 0.5, 1})}), "[batch, 2, 2*height, 3, 1]"},
      {"volumes to the corners", volume("linear", "align_corners"), with({scales({1, 1, 2, 0.5, 1})}),
       "[batch, 2, 2*height, 3, 1]"},
      {"volumes by the nearest", volume("nearest", "asymmetric"), with({scales({1, 1, 1.25, 2, 1})}),
       "[batch, 2, (5*height//4), 12, 1]"},
  };
}

void expect_bound_later(const std::vector<Row>& rows, const std::vector<std::int64_t>& heights = {7, 8, 12}) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    auto open = convert_row(row, {});
    ASSERT_TRUE(open.ok()) << open.status().message();
    const Graph& graph = open->model.graph;
    EXPECT_EQ(source_shape(graph.value(graph.outputs()[0].value)).text(), row.shape);
    for (const std::int64_t height : heights) {
      const Bindings sizes = {{"batch", 2}, {"height", height}};
      auto closed = convert_row(row, sizes);
      ASSERT_TRUE(closed.ok()) << closed.status().message();
      auto bound = bind(graph, sizes);
      ASSERT_TRUE(bound.ok()) << bound.status().message();
      const RefTensor actual = run(open->model, *bound, 2, height);
      const RefTensor expected = run(closed->model, closed->model.graph, 2, height);
      EXPECT_EQ(actual.dims, expected.dims) << height;
      ASSERT_EQ(actual.data.size(), expected.data.size()) << height;
      for (std::size_t i = 0; i < actual.data.size(); ++i) {  // shares of windows are f32 where they are known
        EXPECT_NEAR(actual.data[i], expected.data[i], 1e-6) << height << " at " << i;
      }
    }
  }
}

TEST(OpenShapes, AreWhatTheyAreBoundAtConversion) { expect_bound_later(rows()); }
TEST(OpenShapes, OfVolumes) { expect_bound_later(rows_of_volumes()); }
TEST(OpenShapes, OfPlacesThatAreComputed) { expect_bound_later(rows_of_places()); }
TEST(OpenShapes, OfResizing) { expect_bound_later(rows_of_resizing()); }
TEST(OpenShapes, AsContents) { expect_bound_later(rows_of_sizes()); }

/// Blocks of two rows: whether some are left over is seen when the height is bound.
TEST(OpenShapes, BlocksThatAreWholeOnceTheyAreBound) {
  const std::vector<Message> numbers = {int_tensor("axis", {2}),           int_tensor("two", {2}),
                                        int_tensor("wide", {6}),           int_tensor("four", {4}),
                                        int_tensor("rest", {-1, 2, 2, 6}), int_tensor("zero", {0})};
  const Row by_quotient = {
      "",
      of_height({onnx_node("Div", {"h", "two"}, {"half"}, {}),
                 onnx_node("Concat", {"zero", "half", "four", "wide"}, {"blocks"}, {int_attribute("axis", 0)}),
                 onnx_node("Reshape", {"x", "blocks"}, {"y"}, {})}),
      numbers, "[batch, (height//2), 4, 6]"};
  const Row by_rest = {"", {onnx_node("Reshape", {"x", "rest"}, {"y"}, {})}, numbers, "[(batch*height//2), 2, 2, 6]"};
  const Row by_halves = {"",
                         {onnx_node("Split", {"x"}, {"first", "y"}, {int_attribute("axis", 2)})},
                         numbers,
                         "[batch, 2, (height//2), 6]"};
  expect_bound_later({by_quotient, by_rest, by_halves}, {8, 12});
  for (const Row& row : {by_quotient, by_rest, by_halves}) {
    const auto open = convert_row(row, {});
    ASSERT_TRUE(open.ok()) << open.status().message();
    const auto odd = bind(open->model.graph, {{"batch", 1}, {"height", 7}});
    ASSERT_FALSE(odd.ok());
    EXPECT_NE(odd.status().message().find("cannot become"), std::string::npos) << odd.status().message();
  }
}

}  // namespace
}  // namespace graft::test::convert_open_shapes_test
