// What bad ONNX files get: one clear sentence, no crash, nothing read that should not be.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/files/onnx_writer.h"
#include "tests/support/files/temporary_folder.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::convert_hostile_test {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

/// [batch, 2, 3, 3] -> convolution, ReLU, pooling, Gemm: a little of everything, in about 600 bytes.
OnnxParts small_network() {
  OnnxParts p;
  p.inputs = {float_value("x", {-1, 2, 3, 3})};
  p.outputs = {float_value("y", {-1, 2})};
  p.initializers = {float_tensor("w", {2, 2, 2, 2}, std::string(64, '\x3e')),
                    float_tensor("v", {2, 2}, std::string(16, '\x3f')), float_tensor("b", {2}, std::string(8, '\x3d'))};
  p.nodes = {onnx_node("Conv", {"x", "w", "b"}, {"c"}, {ints_attribute("pads", {0, 1, 1, 0})}),
             onnx_node("Relu", {"c"}, {"r"}),
             onnx_node("MaxPool", {"r"}, {"p"}, {ints_attribute("kernel_shape", {3, 3})}),
             onnx_node("Flatten", {"p"}, {"f"}, {int_attribute("axis", 1)}),
             onnx_node("Gemm", {"f", "v", "b"}, {"y"}, {int_attribute("transB", 1)})};
  return p;
}

Result<convert::Converted> convert_bytes(const std::string& file, convert::Report* report = nullptr) {
  GRAFT_TRY_ASSIGN(convert::OnnxGraph graph, convert::parse_onnx(as_bytes(file)));
  return convert::convert_onnx(std::move(graph), "test.onnx", {}, report);
}

std::string failure(const OnnxParts& parts) {
  const auto converted = convert_bytes(onnx_file(parts));
  return converted.ok() ? "(it converted)" : converted.status().message();
}

/// A sentence, or a graph that stands on its own feet.
void expect_sane(const Result<convert::Converted>& converted, const std::string& what) {
  if (converted.ok()) {
    EXPECT_TRUE(validate(converted->model.graph).ok()) << what;
    return;
  }
  const std::string& message = converted.status().message();
  EXPECT_TRUE(message.ends_with('.')) << what << ": " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << what << ": " << message;
  EXPECT_LT(message.size(), 1000u) << what;
}

TEST(ConvertHostile, TheSmallNetworkIsFine) {
  convert::Report report;
  const auto converted = convert_bytes(onnx_file(small_network()), &report);
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  EXPECT_EQ(report.parameters, 3u);
  EXPECT_EQ(converted->model.graph.symbols(), std::vector<std::string>{"batch"});
  const Value& weight = converted->model.graph.value(converted->model.graph.find_value("w"));
  EXPECT_EQ(weight.kind, ValueKind::parameter);
  EXPECT_EQ(weight.source_perm, (SourcePerm{0, 2, 3, 1}));
}

TEST(ConvertHostile, EveryTruncation) {
  const std::string file = onnx_file(small_network());
  std::size_t converted_count = 0;
  for (std::size_t size = 0; size < file.size(); ++size) {
    const auto converted = convert_bytes(file.substr(0, size));
    expect_sane(converted, cat("cut to ", size, " bytes"));
    converted_count += converted.ok();
  }
  EXPECT_EQ(converted_count, 0u);  // the opset comes last, so no part of the file is a model
}

TEST(ConvertHostile, EveryFlippedBit) {
  const std::string file = onnx_file(small_network());
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    expect_sane(convert_bytes(flipped), cat("bit ", bit, " flipped"));
  }
}

struct Bad {
  const char* name;
  void (*change)(OnnxParts&);
  const char* says;  // part of the message
};

const Bad kBad[] = {
    {"cycle",
     [](OnnxParts& p) {
       p.nodes[1] = onnx_node("Add", {"c", "p"}, {"r"});
     },
     "cycle"},
    {"self", [](OnnxParts& p) { p.nodes[1] = onnx_node("Relu", {"r"}, {"r"}); }, "cycle"},
    {"missing input", [](OnnxParts& p) { p.nodes[1] = onnx_node("Relu", {"nothing"}, {"r"}); }, "\"nothing\""},
    {"missing output", [](OnnxParts& p) { p.outputs = {float_value("z", {1})}; }, "\"z\""},
    {"no outputs", [](OnnxParts& p) { p.outputs.clear(); }, "no outputs"},
    {"two producers", [](OnnxParts& p) { p.nodes.push_back(onnx_node("Relu", {"c"}, {"r"})); }, "Two nodes"},
    {"overwritten input", [](OnnxParts& p) { p.nodes[1] = onnx_node("Relu", {"c"}, {"x"}); }, "\"x\""},
    {"two inputs", [](OnnxParts& p) { p.inputs.push_back(p.inputs[0]); }, "two inputs named \"x\""},
    {"two initializers", [](OnnxParts& p) { p.initializers.push_back(p.initializers[0]); }, "two initializers"},
    {"short contents",
     [](OnnxParts& p) {
       p.initializers[1] = float_tensor("v", {2, 2}, "abc");
     },
     "holds 3 bytes"},
    {"absurd initializer", [](OnnxParts& p) { p.initializers[1] = float_tensor("v", {std::int64_t{1} << 62}, ""); },
     "initializer \"v\""},
    {"overflowing initializer",
     [](OnnxParts& p) {
       p.initializers[1] = float_tensor("v", {std::int64_t{1} << 40, std::int64_t{1} << 40}, "");
     },
     "initializer \"v\""},
    {"negative dimension",
     [](OnnxParts& p) {
       p.initializers[1] = float_tensor("v", {-2, -2}, std::string(16, 'a'));
     },
     "initializer \"v\""},
    {"absurd input",
     [](OnnxParts& p) {
       p.inputs[0] = float_value("x", {std::int64_t{1} << 62, 2, 3, 3});
     },
     "2^62"},
    {"wrong rank",
     [](OnnxParts& p) {
       p.inputs[0] = float_value("x", {-1, 2, 3});
     },
     "axes"},
    {"rank 20", [](OnnxParts& p) { p.inputs[0] = float_value("x", std::vector<std::int64_t>(20, 1)); }, "20 axes"},
    {"wrong channels",
     [](OnnxParts& p) {
       p.inputs[0] = float_value("x", {-1, 5, 3, 3});
     },
     "Conv"},
    {"wrong bias", [](OnnxParts& p) { p.initializers[2] = float_tensor("b", {3}, std::string(12, 'a')); }, "bias"},
    {"unknown op", [](OnnxParts& p) { p.nodes[1] = onnx_node("Frobnicate", {"c"}, {"r"}); }, "Frobnicate"},
    {"too many inputs",
     [](OnnxParts& p) {
       p.nodes[1] = onnx_node("Relu", {"c", "c"}, {"r"});
     },
     "2 inputs"},
    {"too few inputs", [](OnnxParts& p) { p.nodes[0] = onnx_node("Conv", {"x"}, {"c"}); }, "1 inputs"},
    {"blank input",
     [](OnnxParts& p) {
       p.nodes[0] = onnx_node("Conv", {"x", ""}, {"c"});
     },
     "input 1"},
    {"old opset", [](OnnxParts& p) { p.opset = 3; }, "opset is 3"},
    {"negative pads",
     [](OnnxParts& p) {
       p.nodes[0] = onnx_node("Conv", {"x", "w"}, {"c"}, {ints_attribute("pads", {-1, 0, 0, 0})});
     },
     "pads"},
    {"zero stride",
     [](OnnxParts& p) {
       p.nodes[0] = onnx_node("Conv", {"x", "w"}, {"c"}, {ints_attribute("strides", {0, 1})});
     },
     "strides"},
    {"huge kernel",
     [](OnnxParts& p) {
       p.nodes[2] = onnx_node("MaxPool", {"r"}, {"p"}, {ints_attribute("kernel_shape", {std::int64_t{1} << 60, 1})});
     },
     "kernel"},
    {"no groups",
     [](OnnxParts& p) {
       p.nodes[0] = onnx_node("ConvTranspose", {"x", "w"}, {"c"}, {int_attribute("group", 0)});
     },
     "its group is 0"},
    {"no window", [](OnnxParts& p) { p.nodes[1] = onnx_node("LRN", {"c"}, {"r"}, {int_attribute("size", 0)}); },
     "its size is 0"},
    {"scale of nothing",
     [](OnnxParts& p) {
       p.initializers.push_back(float_tensor("scales", {4}, std::string(16, '\0')));
       p.nodes[1] = onnx_node("Resize", {"c", "", "scales"}, {"r"});
     },
     "its scale 0 is out of range"},
    {"absurd scale",
     [](OnnxParts& p) {
       p.initializers.push_back(float_tensor("scales", {4}, std::string(16, '\x7f')));
       p.nodes[1] = onnx_node("Resize", {"c", "", "scales"}, {"r"});
     },
     "is out of range"},
    {"axis out of range",
     [](OnnxParts& p) { p.nodes[3] = onnx_node("Flatten", {"p"}, {"f"}, {int_attribute("axis", 9)}); }, "axis"},
};

TEST(ConvertHostile, BadGraphs) {
  for (const Bad& bad : kBad) {
    OnnxParts parts = small_network();
    bad.change(parts);
    const std::string message = failure(parts);
    EXPECT_NE(message.find(bad.says), std::string::npos) << bad.name << ": " << message;
    EXPECT_TRUE(message.ends_with('.')) << bad.name << ": " << message;
  }
}

TEST(ConvertHostile, AllProblemsAtOnce) {
  OnnxParts parts = small_network();
  parts.nodes[1] = onnx_node("Frobnicate", {"c"}, {"r"});
  parts.nodes[3] = onnx_node("Blorp", {"p"}, {"f"});
  convert::Report report;
  const auto converted = convert_bytes(onnx_file(parts), &report);
  ASSERT_FALSE(converted.ok());
  ASSERT_EQ(report.problems.size(), 2u) << report.text();
  EXPECT_NE(report.problems[0].find("Frobnicate"), std::string::npos);
  EXPECT_NE(report.problems[1].find("Blorp"), std::string::npos);
}

TEST(ConvertHostile, AnEndlessChainOfConstants) {
  OnnxParts parts = small_network();
  std::string last = "b";
  for (int i = 0; i < 20000; ++i) {  // each could be folded, or wait for the one before
    const std::string next = cat("n", i);
    parts.nodes.push_back(onnx_node("Neg", {last}, {next}));
    last = next;
  }
  parts.nodes[4] = onnx_node("Gemm", {"f", "v", last}, {"y"});
  const auto converted = convert_bytes(onnx_file(parts));
  EXPECT_TRUE(converted.ok()) << converted.status().message();
}

class ConvertExternal : public ::testing::Test {
 protected:
  std::string convert_with(const Message& tensor) {
    OnnxParts parts = small_network();
    parts.initializers[1] = tensor;
    const std::string path = folder_.file("model/net.onnx");
    std::filesystem::create_directories(folder_.file("model"));
    write(path, onnx_file(parts));
    const auto converted = convert::convert_onnx(path);
    return converted.ok() ? "" : converted.status().message();
  }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  TemporaryFolder folder_;
};

TEST_F(ConvertExternal, StaysInTheFolder) {
  std::filesystem::create_directories(folder_.file("model/sub"));
  write(folder_.file("secret"), std::string(64, 's'));
  write(folder_.file("model/sub/data"), std::string(64, '\x3f'));
  std::filesystem::create_symlink(folder_.file("secret"), folder_.file("model/link"));
  std::filesystem::create_directory_symlink(folder_.file(""), folder_.file("model/up"));

  EXPECT_EQ(convert_with(external_tensor("v", {2, 2}, "sub/data", "16", "16")), "");
  EXPECT_EQ(convert_with(external_tensor("v", {2, 2}, "sub/data", "48", "")), "");
  const struct {
    const char *location, *offset, *length, *says;
  } cases[] = {
      {"../secret", "", "", "\"..\""},
      {"sub/../../secret", "", "", "\"..\""},
      {"/etc/passwd", "", "", "within"},
      {"link", "", "", "symbolic link"},
      {"up/secret", "", "", "symbolic link"},
      {"", "", "", "within"},
      {"absent", "", "", "cannot be read"},
      {"sub", "", "", "not a file"},
      {"sub/data", "49", "", "64"},
      {"sub/data", "0", "15", "15 bytes"},
      {"sub/data", "-1", "", "not a number"},
      {"sub/data", "1e3", "", "not a number"},
      {"sub/data", "18446744073709551615", "", "18446744073709551615"},
      {"sub/data", "99999999999999999999999", "", "not a number"},
  };
  for (const auto& c : cases) {
    const std::string message = convert_with(external_tensor("v", {2, 2}, c.location, c.offset, c.length));
    EXPECT_NE(message.find(c.says), std::string::npos) << c.location << " " << c.offset << ": " << message;
    EXPECT_TRUE(message.ends_with('.')) << message;
  }
  const auto with_key = [](const char* key) {
    return external_tensor("v", {2, 2}, "sub/data", "", "").message(13, Message().text(1, key).text(2, "7"));
  };
  EXPECT_EQ(convert_with(with_key("checksum")), "");
  EXPECT_NE(convert_with(with_key("basepath")).find("the key \"basepath\"; location, offset, length and checksum"),
            std::string::npos);
  const std::string huge = convert_with(external_tensor("v", {std::int64_t{1} << 40}, "sub/data", "", ""));
  EXPECT_NE(huge.find("limit"), std::string::npos) << huge;
}

TEST(ConvertHostile, NoFile) {
  EXPECT_EQ(convert::convert_onnx("/nowhere/net.onnx").status().code(), Code::not_found);
  EXPECT_FALSE(convert::parse_onnx({}).ok());
}

}  // namespace
}  // namespace graft::test::convert_hostile_test
