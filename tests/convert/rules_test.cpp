// What rules of the importer take and refuse, a network of one node each, and what its graph consists of.
#include <gtest/gtest.h>

#include "runtime/core/graph_text.h"
#include "tests/support/files/onnx_writer.h"
#include "tools/convert/onnx/import/convert_onnx.h"
#include "tools/convert/onnx/proto/onnx_messages.h"

namespace graft::test::convert_rules_test {
namespace {

std::string floats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

/// TensorProto of int64 (7) or of another type whose elements take eight bytes.
Message ints(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& values) {
  Message m;
  for (const std::int64_t dim : dims) m.integer(1, static_cast<std::uint64_t>(dim));
  const std::string raw(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t));
  return m.integer(2, 7).text(8, name).text(9, raw);
}

Message text_attribute(const std::string& name, const std::string& value) {
  return Message().text(1, name).text(4, value).integer(20, 3);
}

/// A node of another operator set.
Message node_of(const std::string& domain, const std::string& op, const std::vector<std::string>& inputs,
                const std::vector<Message>& attributes) {
  Message m = onnx_node(op, inputs, {"y"}, attributes);
  return m.text(7, domain);
}

struct Row {
  const char* name;
  std::vector<Message> nodes;
  std::vector<Message> inputs;
  std::vector<Message> initializers;
  const char* expected;  ///< words of the refusal; or an op that the graph holds, after '+', or does not, after '-'
  std::uint64_t opset = 17;
};

OnnxParts parts_of(const Row& row) {
  OnnxParts p;
  p.opset = row.opset;
  p.nodes = row.nodes;
  p.inputs = row.inputs;
  p.initializers = row.initializers;
  p.outputs = {float_value("y", {-1})};
  return p;
}

Result<convert::Converted> convert_row(const Row& row) {
  const std::string file = onnx_file(parts_of(row));
  GRAFT_TRY_ASSIGN(convert::OnnxGraph graph, convert::parse_onnx(std::as_bytes(std::span(file))));
  return convert::convert_onnx(std::move(graph), "test.onnx", {});
}

std::vector<Row> rows() {
  const Message x2 = float_value("x", {3, 4}), x3 = float_value("x", {2, 3, 4}), x4 = float_value("x", {1, 2, 5, 5});
  const auto number = [](const char* name, float value) { return float_tensor(name, {}, floats({value})); };
  const auto vector = [](const char* name, std::size_t n) {
    return float_tensor(name, {static_cast<std::int64_t>(n)}, floats(std::vector<float>(n, 0.5F)));
  };
  const auto gqa = [](std::int64_t heads, std::int64_t key_heads) {
    return std::vector<Message>{node_of("com.microsoft", "GroupQueryAttention", {"x", "", "", "", "", "n", "m"},
                                        {int_attribute("num_heads", heads), int_attribute("kv_num_heads", key_heads)})};
  };
  const std::vector<Message> lengths = {ints("n", {1}, {3}), ints("m", {1}, {4})};
  return {
      {"weights of another rank",
       {onnx_node("Conv", {"x", "w"}, {"y"})},
       {x4},
       {float_tensor("w", {2, 2, 1}, floats({1, 2, 3, 4}))},
       "its weights have 3 axes where its input has 4"},
      {"instance norm's scale",
       {onnx_node("InstanceNormalization", {"x", "s", "b"}, {"y"})},
       {x4},
       {vector("s", 3), vector("b", 2)},
       "its input 1 has the shape [3] instead of [2]"},
      {"instance norm's bias",
       {onnx_node("InstanceNormalization", {"x", "s", "b"}, {"y"})},
       {x4},
       {vector("s", 2), vector("b", 3)},
       "its input 2 has the shape [3] instead of [2]"},
      {"corners of whole sizes",
       {onnx_node(
           "Resize", {"x", "", "f"}, {"y"},
           {text_attribute("coordinate_transformation_mode", "align_corners"), text_attribute("mode", "linear")})},
       {x4},
       {float_tensor("f", {4}, floats({1, 1, 2, 2}))},
       "+resize"},
      {"a row of pixels", {onnx_node("GlobalAveragePool", {"x"}, {"y"})}, {x3}, {}, "+reduce_mean"},
      {"no pixels", {onnx_node("GlobalAveragePool", {"x"}, {"y"})}, {x2}, {}, "nothing to pool over"},
      {"one number too many", {onnx_node("Shrink", {"x", "x"}, {"y"})}, {x2}, {}, "Shrink"},
      {"one number", {onnx_node("Shrink", {"x"}, {"y"})}, {x2}, {}, "+where"},
      {"one operand too many", {onnx_node("Relu", {"x", "x"}, {"y"})}, {x2}, {}, "Relu"},
      {"one operand too few", {onnx_node("Add", {"x"}, {"y"})}, {x2}, {}, "Add"},
      {"a square", {onnx_node("Pow", {"x", "e"}, {"y"})}, {x2}, {number("e", 2)}, "+square"},
      {"a root", {onnx_node("Pow", {"x", "e"}, {"y"})}, {x2}, {number("e", 0.5F)}, "+sqrt"},
      {"a reciprocal", {onnx_node("Pow", {"x", "e"}, {"y"})}, {x2}, {number("e", -1)}, "+reciprocal"},
      {"a cube", {onnx_node("Pow", {"x", "e"}, {"y"})}, {x2}, {number("e", 3)}, "+pow"},
      {"a slope with more axes",
       {onnx_node("PRelu", {"x", "s"}, {"y"})},
       {x2},
       {float_tensor("s", {1, 3, 1}, floats({1, 2, 3}))},
       "its slope has more axes than its input"},
      {"a slope for each channel", {onnx_node("PRelu", {"x", "s"}, {"y"})}, {x4}, {vector("s", 2)}, "+prelu", 6},
      {"no heads", gqa(0, 1), {x3}, lengths, "for 0 and twice 1 heads"},
      {"no heads of keys", gqa(2, 0), {x3}, lengths, "for 2 and twice 0 heads"},
      {"heads that do not part it", gqa(2, 1), {float_value("x", {1, 3, 6})}, lengths, "for 2 and twice 1 heads"},
      {"tables of the turned pairs",
       {node_of("com.microsoft", "RotaryEmbedding", {"x", "p", "cos", "sin"}, {})},
       {float_value("x", {1, 3, 8})},
       {ints("p", {1, 3}, {0, 1, 2}), float_tensor("cos", {4, 2}, floats(std::vector<float>(8, 0.5F))),
        float_tensor("sin", {4, 2}, floats(std::vector<float>(8, 0.25F)))},
       "+gather"},
      {"tables from a position on",
       {node_of("com.microsoft", "RotaryEmbedding", {"x", "p", "cos", "sin"}, {})},
       {float_value("x", {1, 3, 8})},
       {ints("p", {1}, {1}), float_tensor("cos", {4, 2}, floats(std::vector<float>(8, 0.5F))),
        float_tensor("sin", {4, 2}, floats(std::vector<float>(8, 0.25F)))},
       "+gather"},
      // Folding leaves alone what it does not understand; the importer then says what is wrong.
      {"a condition of numbers",
       {onnx_node("Where", {"c", "c", "c"}, {"k"}), onnx_node("Reshape", {"x", "k"}, {"y"})},
       {x2},
       {ints("c", {2}, {4, 3})},
       "+reshape"},
      {"steps for some axes",
       {onnx_node("Slice", {"c", "b", "e", "a", "s"}, {"k"}), onnx_node("Reshape", {"x", "k"}, {"y"})},
       {x2},
       {ints("c", {3}, {4, 3, 1}), ints("b", {1}, {0}), ints("e", {1}, {2}), ints("a", {1}, {0}),
        ints("s", {2}, {1, 1})},
       "Slice"},
      {"axes for some starts",
       {onnx_node("Slice", {"c", "b", "e", "a"}, {"k"}), onnx_node("Reshape", {"x", "k"}, {"y"})},
       {x2},
       {ints("c", {3}, {4, 3, 1}), ints("b", {1}, {0}), ints("e", {1}, {2}), ints("a", {2}, {0, 0})},
       "differ in length"},
      {"choices of two types",
       {onnx_node("Equal", {"c", "c"}, {"b"}), onnx_node("Cast", {"c"}, {"f"}, {int_attribute("to", 1)}),
        onnx_node("Where", {"b", "c", "f"}, {"k"}), onnx_node("Reshape", {"x", "k"}, {"y"})},
       {x2},
       {ints("c", {2}, {4, 3})},
       "Where"},
      {"an integer that its type cannot hold",
       {onnx_node("Cast", {"c"}, {"k"}, {int_attribute("to", 6)}),  // int32
        onnx_node("Cast", {"k"}, {"l"}, {int_attribute("to", 7)}), onnx_node("Reshape", {"x", "l"}, {"y"})},
       {x2},
       {ints("c", {2}, {(std::int64_t{1} << 32) + 4, 3})},
       "beyond the range of int32"},
      {"an integer that it can hold",
       {onnx_node("Cast", {"c"}, {"k"}, {int_attribute("to", 6)}),
        onnx_node("Cast", {"k"}, {"l"}, {int_attribute("to", 7)}), onnx_node("Reshape", {"x", "l"}, {"y"})},
       {x2},
       {ints("c", {2}, {4, 3})},
       "+reshape"},
      {"an attribute that no rule reads",
       {onnx_node("Relu", {"x"}, {"y"}, {int_attribute("alpha", 1)})},
       {x2},
       {},
       "its attribute \"alpha\" (1) is not supported"},
      {"an attribute of another kind",
       {onnx_node("Softmax", {"x"}, {"y"}, {text_attribute("axis", "1")})},
       {x2},
       {},
       "its attribute \"axis\" (\"1\") is not supported"},
      {"an attribute of a folded node",
       {onnx_node("Shape", {"x"}, {"s"}, {int_attribute("stop", 1)}), onnx_node("Reshape", {"x", "s"}, {"y"})},
       {x2},
       {},
       "its attribute \"stop\" (1) is not supported"},
      {"one side of complex numbers",
       {onnx_node("DFT", {"x"}, {"y"}, {int_attribute("onesided", 1)})},
       {float_value("x", {1, 4, 2})},
       {},
       "its onesided is 1 and its input is complex"},
      {"a name that a shell and a terminal take otherwise",
       {onnx_node("ReduceSum", {"x", "\u00e4'\xff\x1b\u202e,"}, {"y"})},
       {x2, typed_value("\u00e4'\xff\x1b\u202e,", {1}, 7)},
       {},
       "(--constant '\u00e4'\\''???\\,=FILE.npy' gives its contents)"},
      {"n-grams counted in an unknown way",
       {onnx_node(
            "TfIdfVectorizer", {"c"}, {"k"},
            {text_attribute("mode", "tf"), int_attribute("min_gram_length", 1), int_attribute("max_gram_length", 1),
             int_attribute("max_skip_count", 0), ints_attribute("ngram_counts", {0}),
             ints_attribute("ngram_indexes", {0, 1, 2, 3}), ints_attribute("pool_int64s", {1, 2, 3, 4})}),
        onnx_node("Mul", {"x", "k"}, {"y"})},
       {x2},
       {ints("c", {3}, {4, 3, 4})},
       "its mode is \"tf\"; TF, IDF and TFIDF are supported"},
      {"a flag that is neither 0 nor 1",
       {onnx_node("ReduceSum", {"x"}, {"y"}, {int_attribute("keepdims", 2)})},
       {x2},
       {},
       "its attribute \"keepdims\" is 2, and it can be 0 or 1"},
      {"such a flag, if nothing reads it",
       {onnx_node("MaxPool", {"x"}, {"y"},
                  {ints_attribute("kernel_shape", {2, 2}), int_attribute("storage_order", 2)})},
       {x4},
       {},
       "its attribute \"storage_order\" is 2, and it can be 0 or 1"},
      {"a remainder of floats with the divisor's sign",
       {onnx_node("Mod", {"x", "d"}, {"y"})},
       {x2},
       {number("d", 2)},
       "its inputs are float32 and its fmod is 0, which ONNX allows of integers only"},
      {"a remainder of floats",
       {onnx_node("Mod", {"x", "d"}, {"y"}, {int_attribute("fmod", 1)})},
       {x2},
       {number("d", 2)},
       "+remainder"},
      {"statistics of another type",
       {onnx_node("LayerNormalization", {"x", "s"}, {"y"}, {int_attribute("stash_type", 10)})},
       {x2},
       {vector("s", 4)},
       "its attribute \"stash_type\" (10) is not supported"},
      {"statistics of float32",
       {onnx_node("LayerNormalization", {"x", "s"}, {"y"}, {int_attribute("stash_type", 1)})},
       {x2},
       {vector("s", 4)},
       "+layer_norm"},
      {"a window of padding only",
       {onnx_node("MaxPool", {"x"}, {"y"},
                  {ints_attribute("kernel_shape", {2, 3}), ints_attribute("pads", {0, 0, 0, 3})})},
       {x4},
       {},
       "its pads hold 3 for a kernel of 3, and a pad must be smaller than the kernel"},
      {"such a window of an average",
       {onnx_node("AveragePool", {"x"}, {"y"}, {ints_attribute("kernel_shape", {2}), ints_attribute("pads", {2, 0})})},
       {x3},
       {},
       "its pads hold 2 for a kernel of 2, and a pad must be smaller than the kernel"},
      {"such a window with holes",
       {onnx_node("LpPool", {"x"}, {"y"},
                  {ints_attribute("kernel_shape", {2, 2}), ints_attribute("pads", {2, 0, 0, 0}),
                   ints_attribute("dilations", {2, 2})})},
       {x4},
       {},
       "its pads hold 2 for a kernel of 2, and a pad must be smaller than the kernel",
       18},
      {"a pad below the kernel",
       {onnx_node("MaxPool", {"x"}, {"y"},
                  {ints_attribute("kernel_shape", {2, 3}), ints_attribute("pads", {1, 2, 1, 2})})},
       {x4},
       {},
       "+max_pool"},
      {"an attribute that cannot matter",
       {onnx_node("TopK", {"x", "k"}, {"y", "i"}, {int_attribute("sorted", 0)})},
       {x2},
       {ints("k", {1}, {2})},
       "+top_k"},
      {"a harmless attribute with the one value that is harmless",
       {node_of("com.microsoft", "Attention", {"x", "w"},
                {int_attribute("num_heads", 2), int_attribute("past_present_share_buffer", 1)})},
       {x3},
       {float_tensor("w", {4, 12}, floats(std::vector<float>(48, 0.5F)))},
       "its attribute \"past_present_share_buffer\" (1) is not supported"},
      {"a newer opset", {onnx_node("Relu", {"x"}, {"y"})}, {x2}, {}, "Its opset is 28, and 27 is the newest", 28},
      {"the newest opset", {onnx_node("Relu", {"x"}, {"y"})}, {x2}, {}, "+relu", 27},
      {"nine axes",
       {onnx_node("Add", {"x", "w"}, {"y"})},
       {x2},
       {float_tensor("w", std::vector<std::int64_t>(9, 1), floats({1}))},
       "it has 9 axes, and tensors of more than 8 axes are not supported"},
      {"an input of nine axes",
       {onnx_node("Relu", {"x"}, {"y"})},
       {float_value("x", std::vector<std::int64_t>(9, 1))},
       {},
       "has 9 axes, and tensors of more than 8 axes are not supported"},
  };
}

TEST(ConvertRules, WhatIsTakenAndWhatIsRefused) {
  for (const Row& row : rows()) {
    const auto converted = convert_row(row);
    const std::string expected = row.expected;
    if (expected[0] != '+') {
      ASSERT_FALSE(converted.ok()) << row.name;
      EXPECT_NE(converted.status().message().find(expected), std::string::npos)
          << row.name << ": " << converted.status().message();
      continue;
    }
    ASSERT_TRUE(converted.ok()) << row.name << ": " << converted.status().message();
    const std::string text = graph_text(converted->model.graph);
    EXPECT_NE(text.find(expected.substr(1) + "("), std::string::npos) << row.name << ":\n" << text;
  }
}

TEST(ConvertRules, OnlyDimensionsThatThereAreAreBound) {
  const Row row = {"", {onnx_node("Relu", {"x"}, {"y"})}, {named_value("x", {"rows", "3"})}, {}, ""};
  const auto bound = [&](const char* name) {
    const std::string file = onnx_file(parts_of(row));
    auto graph = convert::parse_onnx(std::as_bytes(std::span(file)));
    convert::ConvertOptions options;
    options.bindings[name] = 2;
    return convert::convert_onnx(std::move(graph).value(), "test.onnx", options);
  };
  EXPECT_TRUE(bound("rows").ok());
  const auto refused = bound("row");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("There is no dimension \"row\" to bind; the open dimensions are rows."),
            std::string::npos)
      << refused.status().message();
}

TEST(ConvertRules, TheReportNamesFileOpsetAndProducer) {
  const Row row = {"", {onnx_node("Relu", {"x"}, {"y"})}, {float_value("x", {2})}, {}, ""};
  for (const std::string producer : {"", "pytorch"}) {
    std::string file = onnx_file(parts_of(row));
    if (!producer.empty()) file += Message().text(2, producer).bytes();
    auto graph = convert::parse_onnx(std::as_bytes(std::span(file)));
    ASSERT_TRUE(graph.ok());
    const auto converted = convert::convert_onnx(std::move(graph).value(), "test.onnx", {});
    ASSERT_TRUE(converted.ok()) << converted.status().message();
    EXPECT_EQ(converted->report.source, "test.onnx (ONNX opset 17" + (producer.empty() ? "" : ", " + producer) + ")");
  }
}

TEST(ConvertRules, PyTorchsNumbersWithNamesOfModulesAreParameters) {
  for (const auto& [name, trained] : {std::pair{"head.temperature", true}, {"onnx::Mul_7", false}, {"12", false}}) {
    const Row row = {"",
                     {onnx_node("Mul", {"x", name}, {"y"})},
                     {float_value("x", {2})},
                     {float_tensor(name, {}, floats({0.7F}))},
                     ""};
    const std::string file = onnx_file(parts_of(row)) + Message().text(2, "pytorch").bytes();
    auto graph = convert::parse_onnx(std::as_bytes(std::span(file)));
    ASSERT_TRUE(graph.ok());
    const auto converted = convert::convert_onnx(std::move(graph).value(), "test.onnx", {});
    ASSERT_TRUE(converted.ok()) << converted.status().message();
    EXPECT_EQ(converted->report.parameters, trained ? 1u : 0u) << name;
  }
}

// Empty messages take two bytes each in a file, and hundreds in memory, wherever they stand.
TEST(ConvertRules, MessagesAreCountedWhereverTheyStand) {
  const auto many = [](int field) {
    std::string bytes;
    for (std::size_t i = 0; i < convert::kFreeMessages * 3 / 2; ++i) bytes += Message().text(field, "").bytes();
    return bytes;
  };
  const auto refused = [](const std::string& file) {
    const Status status = convert::check_message_count(std::as_bytes(std::span(file)));
    return !status.ok() && status.code() == Code::corrupt;
  };
  const auto in = [](int field, const std::string& bytes) { return Message().text(field, bytes).bytes(); };
  EXPECT_TRUE(refused(in(7, many(1)))) << "nodes";
  EXPECT_TRUE(refused(in(7, many(5)))) << "tensors";
  EXPECT_TRUE(refused(in(7, many(11)))) << "inputs";
  EXPECT_TRUE(refused(in(7, in(1, many(5))))) << "attributes";
  EXPECT_TRUE(refused(in(7, in(1, in(5, in(6, many(1))))))) << "nodes of a branch";
  EXPECT_TRUE(refused(many(8))) << "operator sets";
  EXPECT_TRUE(refused(many(14))) << "metadata";
  EXPECT_TRUE(refused(in(20, in(1, many(1))))) << "nodes of training";
  EXPECT_TRUE(refused(in(25, many(7)))) << "nodes of a function";
  EXPECT_FALSE(refused(in(7, many(2)))) << "names are no messages";
  EXPECT_FALSE(refused(in(6, many(1)))) << "nor is what is no graph looked into";
}

}  // namespace
}  // namespace graft::test::convert_rules_test
