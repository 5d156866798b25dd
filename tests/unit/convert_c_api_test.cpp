// The C ABI of conversion: graft/convert.h.
#include "graft/convert.h"

#include <filesystem>
#include <fstream>

#include "tests/support/c_api.h"
#include "tools/convert/onnx/example_onnx.h"

namespace graft::test::convert_c_api_test {
namespace {

const std::string kLanguageModel = GRAFT_SOURCE_DIR "/tests/fuzz/corpus/gguf/llama";

class ConvertCApi : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(convert::write_example_onnx("mlp", onnx_).ok()); }

  graft_status convert_to(const std::string& path, const std::string& output,
                          const graft_convert_options* options = nullptr) {
    graft_conversion* made = nullptr;
    const graft_status status = graft_convert(path.c_str(), options, output.c_str(), &made);
    message_ = graft_conversion_message(made);
    report_ = graft_conversion_report(made);
    json_ = graft_conversion_report_json(made);
    graft_conversion_destroy(made);
    return status;
  }
  Model converted() {
    auto model = load_model(os::system_files(), out_);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? std::move(*model) : Model();
  }

  TemporaryFolder folder_;
  std::string onnx_ = folder_.file("mlp.onnx");
  std::string out_ = folder_.file("out.graft");
  std::string message_, report_, json_;
};

TEST_F(ConvertCApi, AnOnnxFileBecomesAModelWithAReport) {
  ASSERT_EQ(convert_to(onnx_, out_), GRAFT_OK) << message_;
  EXPECT_EQ(message_, "");
  EXPECT_TRUE(contains(report_, "Gemm")) << report_;
  EXPECT_TRUE(contains(json_, "\"Gemm\"")) << json_;
  const Model model = converted();
  EXPECT_EQ(model.graph.of_kind(ValueKind::parameter).size(), 4u);
  EXPECT_EQ(model.graph.symbols(), std::vector<std::string>{"batch"});
}

TEST_F(ConvertCApi, OptionsReachTheConverter) {
  const graft_binding batch = {"batch", 3};
  const char* const biases[] = {"*bias"};
  auto options = sized<graft_convert_options>();
  options.bindings = &batch;
  options.binding_count = 1;
  options.constants = biases;
  options.constant_count = 1;
  ASSERT_EQ(convert_to(onnx_, out_, &options), GRAFT_OK) << message_;
  EXPECT_TRUE(converted().graph.symbols().empty()) << "batch is bound";
  EXPECT_EQ(converted().graph.of_kind(ValueKind::parameter).size(), 2u) << "biases are constants";
  EXPECT_EQ(convert_to(kLanguageModel, out_, &options), GRAFT_INVALID_ARGUMENT) << "its dimensions stay open";
  options = sized<graft_convert_options>();
  options.quantize = "q8_0";
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_INVALID_ARGUMENT) << "it is no language model";
  options.quantize = "q9";
  EXPECT_EQ(convert_to(kLanguageModel, out_, &options), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(message_, "q8_0")) << message_;
}

TEST_F(ConvertCApi, AGgufFileBecomesALanguageModel) {
  ASSERT_EQ(convert_to(kLanguageModel, out_), GRAFT_OK) << message_;
  EXPECT_TRUE(converted().tokenizer.has_value());
}

TEST_F(ConvertCApi, FailuresAreOneSentenceAndLeaveTheOutputAsItWas) {
  std::ofstream(out_) << "before";
  for (const auto& [path, code] :
       {std::pair(folder_.file("nowhere.onnx"), GRAFT_NOT_FOUND), {out_, GRAFT_UNSUPPORTED}}) {
    EXPECT_EQ(convert_to(path, folder_.file("o.graft")), code) << message_;
    EXPECT_TRUE(message_.ends_with(".")) << message_;
    EXPECT_FALSE(std::filesystem::exists(folder_.file("o.graft")));
  }
  EXPECT_EQ(convert_to(onnx_, onnx_), GRAFT_INVALID_ARGUMENT) << "it would be written over its source";
  EXPECT_EQ(convert_to(onnx_, out_), GRAFT_OK) << "the source is still there: " << message_;
  graft_conversion* made = nullptr;
  EXPECT_EQ(graft_convert(nullptr, nullptr, out_.c_str(), &made), GRAFT_INVALID_ARGUMENT);
  EXPECT_STRNE(graft_conversion_message(made), "");
  EXPECT_STREQ(graft_conversion_report(made), "");
  graft_conversion_destroy(made);
  auto options = sized<graft_convert_options>();
  options.constant_count = 1;
  EXPECT_EQ(graft_convert(onnx_.c_str(), &options, out_.c_str(), &made), GRAFT_INVALID_ARGUMENT);
  graft_conversion_destroy(made);
  EXPECT_EQ(graft_convert(onnx_.c_str(), nullptr, out_.c_str(), nullptr), GRAFT_INVALID_ARGUMENT);
  graft_conversion_destroy(nullptr);
}

}  // namespace
}  // namespace graft::test::convert_c_api_test
