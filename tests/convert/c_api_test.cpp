// The C ABI of conversion: graft/convert.h.
#include "graft/convert.h"

#include <filesystem>
#include <fstream>

#include "tests/support/c_api.h"
#include "tests/support/paths.h"
#include "tools/convert/gguf/imatrix.h"
#include "tools/convert/onnx/examples/example_onnx.h"

namespace graft::test::convert_c_api_test {
namespace {

const std::string kLanguageModel = source_dir() + "/tests/fuzz/corpus/gguf/llama";

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

TEST_F(ConvertCApi, WhatTheCommandLineSaysOfInputsCanBeSaid) {
  auto options = sized<graft_convert_options>();
  options.open_count = 1;
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_INVALID_ARGUMENT);
  graft_open_axis open = {"1st", "image", 0};
  options.opens = &open;
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(message_, "1st")) << message_;
  open = {"n", "nothing", 0};
  EXPECT_NE(convert_to(onnx_, out_, &options), GRAFT_OK);
  EXPECT_TRUE(contains(message_, "nothing")) << message_;
  options = sized<graft_convert_options>();
  const graft_input_contents contents[] = {{"image", "a.npy"}, {"image", "b.npy"}};
  options.contents = contents;
  options.content_count = 2;
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(message_, "twice")) << message_;
  options.content_count = 1;
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_NOT_FOUND) << message_;
  options = sized<graft_convert_options>();
  options.fake_quantize = 1;
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_INVALID_ARGUMENT) << "it is no TFLite file";
  const std::string weights = folder_.file("weights.safetensors");
  options = sized<graft_convert_options>();
  options.weights = weights.c_str();
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_NOT_FOUND) << message_;
  ASSERT_EQ(convert_to(onnx_, out_), GRAFT_OK) << message_;
  graft_conversion* made = nullptr;
  ASSERT_EQ(graft_export(out_.c_str(), nullptr, weights.c_str(), &made), GRAFT_OK);
  graft_conversion_destroy(made);
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_OK) << message_;
}

TEST_F(ConvertCApi, AConversionWithoutAnOutputIsKeptAndSavedWhereThereIsRoom) {
  graft_conversion* made = nullptr;
  ASSERT_EQ(graft_convert(onnx_.c_str(), nullptr, nullptr, &made), GRAFT_OK);
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_STREQ(graft_conversion_tokenizer_fault(made), "");
  EXPECT_TRUE(std::string(graft_conversion_errors(made)).starts_with("matrix")) << "heads of a table without rows";
  EXPECT_NE(graft_conversion_save(made, folder_.file("nowhere/out.graft").c_str()), GRAFT_OK);
  EXPECT_TRUE(contains(graft_conversion_message(made), "nowhere")) << graft_conversion_message(made);
  EXPECT_EQ(graft_conversion_save(made, out_.c_str()), GRAFT_OK);
  EXPECT_STREQ(graft_conversion_message(made), "");
  EXPECT_EQ(converted().graph.of_kind(ValueKind::parameter).size(), 4u);
  EXPECT_EQ(graft_conversion_save(made, nullptr), GRAFT_INVALID_ARGUMENT);
  graft_conversion_destroy(made);
  ASSERT_EQ(graft_convert(onnx_.c_str(), nullptr, out_.c_str(), &made), GRAFT_OK);
  EXPECT_EQ(graft_conversion_save(made, out_.c_str()), GRAFT_INVALID_ARGUMENT) << "it was written";
  graft_conversion_destroy(made);
  EXPECT_EQ(graft_conversion_save(nullptr, out_.c_str()), GRAFT_INVALID_ARGUMENT);
}

TEST_F(ConvertCApi, NamesOfFormatsEnd) {
  for (const auto& name_at : {graft_convert_quantize_name, graft_export_format_name, graft_export_dtype_name}) {
    std::size_t count = 0;
    while (name_at(count) != nullptr) ++count;
    EXPECT_GT(count, 2u);
    EXPECT_EQ(name_at(count + 1000), nullptr);
  }
  EXPECT_STREQ(graft_export_format_of("a.b/c.gguf"), "gguf");
  EXPECT_STREQ(graft_export_format_of("folder"), "folder");
  EXPECT_STREQ(graft_export_format_of(nullptr), "");
}

TEST_F(ConvertCApi, AConversionIsCancelledAndWritesNothing) {
  int asked = 0;
  auto options = sized<graft_convert_options>();
  options.user = &asked;
  options.cancelled = [](void* user) { return ++*static_cast<int*>(user) > 2 ? 1 : 0; };
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_CANCELLED) << message_;
  EXPECT_EQ(asked, 3) << "not again afterwards";
  EXPECT_FALSE(std::filesystem::exists(out_));
  options.cancelled = [](void*) { return 0; };
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_OK) << message_;
}

struct Parts {
  std::vector<std::uint64_t> done;
  std::uint64_t total = 0;
  std::size_t most = 1000;
  static int tell(void* user, std::uint64_t done, std::uint64_t total) {
    auto* parts = static_cast<Parts*>(user);
    parts->done.push_back(done);
    parts->total = total;
    return parts->done.size() == parts->most ? 1 : 0;
  }
};

TEST_F(ConvertCApi, AConversionTellsHowFarItIs) {
  Parts parts;
  auto options = sized<graft_convert_options>();
  options.user = &parts;
  options.progress = Parts::tell;
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_OK) << message_;
  ASSERT_GT(parts.total, 2u);
  ASSERT_EQ(parts.done.size(), parts.total);
  for (std::size_t i = 0; i < parts.done.size(); ++i) EXPECT_EQ(parts.done[i], i);
  std::filesystem::remove(out_);
  parts = {};
  parts.most = 2;
  EXPECT_EQ(convert_to(onnx_, out_, &options), GRAFT_CANCELLED) << message_;
  EXPECT_EQ(parts.done.size(), 2u) << "not told again afterwards";
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(ConvertCApi, ExampleNetworksAreWritten) {
  const std::string path = folder_.file("example.onnx");
  graft_conversion* made = nullptr;
  std::size_t count = 0;
  for (; const char* name = graft_convert_example_name(count); ++count) EXPECT_STRNE(name, "");
  EXPECT_EQ(count, convert::example_names().size());
  EXPECT_EQ(graft_convert_example("mlp", 0, path.c_str(), &made), GRAFT_OK) << graft_conversion_message(made);
  graft_conversion_destroy(made);
  EXPECT_EQ(convert_to(path, out_), GRAFT_OK) << message_;
  EXPECT_EQ(graft_convert_example("gpt-9", 0, path.c_str(), &made), GRAFT_NOT_FOUND);
  graft_conversion_destroy(made);
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

TEST_F(ConvertCApi, AModelGoesBackToOtherFormats) {
  ASSERT_EQ(convert_to(onnx_, out_), GRAFT_OK) << message_;
  const auto export_to = [&](const std::string& path, const std::string& output, const graft_export_options* options) {
    graft_conversion* made = nullptr;
    const graft_status status = graft_export(path.c_str(), options, output.c_str(), &made);
    message_ = graft_conversion_message(made);
    report_ = graft_conversion_report(made);
    json_ = graft_conversion_report_json(made);
    graft_conversion_destroy(made);
    return status;
  };
  const std::string weights = folder_.file("weights.safetensors"), back = folder_.file("back.onnx");
  ASSERT_EQ(export_to(out_, weights, nullptr), GRAFT_OK) << message_;
  EXPECT_TRUE(contains(report_, "weights.safetensors") && contains(json_, "\"tensors\": 4")) << report_ << json_;
  EXPECT_TRUE(std::filesystem::exists(weights));
  EXPECT_EQ(export_to(out_, back, nullptr), GRAFT_OK) << message_;  // without its source: graft's own graph
  auto options = sized<graft_export_options>();
  options.source = onnx_.c_str();
  ASSERT_EQ(export_to(out_, back, &options), GRAFT_OK) << message_;
  ASSERT_EQ(convert_to(back, folder_.file("again.graft")), GRAFT_OK) << message_;
  const auto first = load_model(os::system_files(), out_),
             second = load_model(os::system_files(), folder_.file("again.graft"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(weights_hash(*first) == weights_hash(*second));
  // A language model, quantized on the way.
  ASSERT_EQ(convert_to(kLanguageModel, out_), GRAFT_OK) << message_;
  const std::string gguf = folder_.file("out.gguf");
  options = sized<graft_export_options>();
  options.dtype = "f16";
  ASSERT_EQ(export_to(out_, gguf, &options), GRAFT_OK) << message_;
  EXPECT_EQ(convert_to(gguf, out_), GRAFT_OK) << message_;
  options.dtype = "f17";
  EXPECT_EQ(export_to(out_, gguf, &options), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(message_, "f17")) << message_;
  options.dtype = nullptr;
  options.format = "tar";
  EXPECT_EQ(export_to(out_, gguf, &options), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(export_to(out_, out_, nullptr), GRAFT_INVALID_ARGUMENT) << "over its source";
  EXPECT_EQ(export_to(folder_.file("nowhere"), gguf, nullptr), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_export(out_.c_str(), nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(ConvertCApi, ImportanceMatricesAreWrittenUnderTheNamesOfGguf) {
  ASSERT_EQ(convert_to(kLanguageModel, out_), GRAFT_OK) << message_;
  const std::string name = "model.layers.0.mlp.down_proj.weight", path = folder_.file("im.gguf");
  const Model model = converted();
  const std::int64_t columns = model.graph.value(model.graph.find_value(name)).shape[1].value();
  const std::vector<double> sums(static_cast<std::size_t>(columns), 6);
  graft_importance_matrix matrix = {name.c_str(), sums.data(), sums.size(), 3};
  const char* const datasets[] = {"a.txt"};
  auto options = sized<graft_imatrix_options>();
  options.matrices = &matrix;
  options.matrix_count = 1;
  options.datasets = datasets;
  options.dataset_count = 1;
  options.chunks = 1;
  options.context = 3;
  const auto write = [&](const std::string& of, const char* output) {
    graft_conversion* made = nullptr;
    const graft_status status = graft_write_imatrix(of.c_str(), &options, output, &made);
    message_ = graft_conversion_message(made);
    graft_conversion_destroy(made);
    return status;
  };
  ASSERT_EQ(write(out_, nullptr), GRAFT_OK) << message_;
  ASSERT_EQ(write(out_, path.c_str()), GRAFT_OK) << message_;
  const auto back = convert::read_imatrix(os::system_files(), path);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, (convert::Importance{{"blk.0.ffn_down.weight", std::vector<float>(sums.size(), 2)}}));
  EXPECT_EQ(write(out_, out_.c_str()), GRAFT_INVALID_ARGUMENT) << "over its source";
  auto convert = sized<graft_convert_options>();
  convert.imatrix = path.c_str();
  EXPECT_EQ(convert_to(kLanguageModel, out_, &convert), GRAFT_INVALID_ARGUMENT) << "no blocks are asked for";
  convert.quantize = "q8_0";
  ASSERT_EQ(convert_to(kLanguageModel, out_, &convert), GRAFT_OK) << message_;
  EXPECT_TRUE(contains(report_, "No matrix became blocks by the importance matrix")) << report_;
  EXPECT_EQ(convert_to(kLanguageModel, path, &convert), GRAFT_INVALID_ARGUMENT) << "over the matrix";
  matrix.columns -= 1;
  EXPECT_EQ(write(out_, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(message_, name)) << message_;
  matrix.columns += 1;
  for (const char* other : {"model.layers.0.mlp.side_proj.weight", "logits", "model.norm.weight"}) {
    matrix.name = other;
    EXPECT_EQ(write(out_, nullptr), GRAFT_INVALID_ARGUMENT) << other;
    EXPECT_TRUE(contains(message_, other)) << message_;
  }
  options.matrix_count = 0;
  EXPECT_EQ(write(out_, path.c_str()), GRAFT_INVALID_ARGUMENT) << "of nothing";
  options.matrix_count = 1;
  options.matrices = nullptr;
  EXPECT_EQ(write(out_, path.c_str()), GRAFT_INVALID_ARGUMENT);
  options.matrices = &matrix;
  ASSERT_EQ(convert_to(onnx_, out_), GRAFT_OK) << message_;
  EXPECT_EQ(write(out_, nullptr), GRAFT_NOT_FOUND);
  EXPECT_TRUE(contains(message_, "no names in GGUF")) << message_;
  EXPECT_EQ(graft_write_imatrix(out_.c_str(), &options, path.c_str(), nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(ConvertCApi, AdaptersOfOtherProgramsAreConvertedForTheirBase) {
  ASSERT_EQ(convert_to(kLanguageModel, out_), GRAFT_OK) << message_;
  CHandles h;
  std::string device;
  const auto tested = context_options(device);
  ASSERT_EQ(graft_context_create(&tested, &h.context), GRAFT_OK) << h.message();
  ASSERT_EQ(graft_model_load(h.context, out_.c_str(), &h.model), GRAFT_OK) << h.message();
  ASSERT_EQ(graft_model_add_adapters(h.model, "r=2,targets=q_proj", 1), GRAFT_OK) << h.message();
  const std::string own = folder_.file("own.graft"), peft = folder_.file("peft"), back = folder_.file("back.graft");
  ASSERT_EQ(graft_model_save_adapters(h.model, own.c_str()), GRAFT_OK) << h.message();
  graft_conversion* made = nullptr;
  ASSERT_EQ(graft_export(own.c_str(), nullptr, peft.c_str(), &made), GRAFT_OK) << graft_conversion_message(made);
  graft_conversion_destroy(made);
  EXPECT_TRUE(std::filesystem::exists(peft + "/adapter_config.json"));
  ASSERT_EQ(graft_convert_adapter(peft.c_str(), out_.c_str(), back.c_str(), &made), GRAFT_OK)
      << graft_conversion_message(made);
  graft_conversion_destroy(made);
  ASSERT_EQ(graft_model_load_adapters(h.model, back.c_str()), GRAFT_OK) << h.message();
  // Without a file: the same bytes.
  ASSERT_EQ(graft_convert_adapter_with(peft.c_str(), out_.c_str(), nullptr, nullptr, &made), GRAFT_OK)
      << graft_conversion_message(made);
  const void* data = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(graft_conversion_bytes(made, &data, &bytes), GRAFT_OK) << graft_conversion_message(made);
  EXPECT_EQ(std::string(static_cast<const char*>(data), bytes),
            os::read_text_file(os::system_files(), back, 1 << 24).value());
  graft_source source = {};
  source.struct_size = sizeof source;
  source.data = data;
  source.bytes = bytes;
  ASSERT_EQ(graft_model_load_adapters_source(h.model, &source), GRAFT_OK) << h.message();
  ASSERT_EQ(graft_model_load_adapters(h.model, nullptr), GRAFT_OK) << h.message();
  graft_conversion_destroy(made);
  // graft's own, made for other weights.
  auto foreign = load_model(os::system_files(), own);
  ASSERT_TRUE(foreign.ok());
  foreign->metadata["adapter.base"] = std::string(32, '0') + " another.graft";
  ASSERT_TRUE(save_model(os::system_files(), own, *foreign).ok());
  auto insist = sized<graft_convert_adapter_options>();
  EXPECT_EQ(graft_convert_adapter_with(own.c_str(), out_.c_str(), &insist, back.c_str(), &made),
            GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(graft_conversion_message(made), "another.graft")) << graft_conversion_message(made);
  EXPECT_EQ(graft_conversion_bytes(made, &data, &bytes), GRAFT_INVALID_ARGUMENT) << "it made nothing";
  graft_conversion_destroy(made);
  insist.any_base = 1;
  ASSERT_EQ(graft_convert_adapter_with(own.c_str(), out_.c_str(), &insist, back.c_str(), &made), GRAFT_OK)
      << graft_conversion_message(made);
  graft_conversion_destroy(made);
  EXPECT_EQ(graft_model_load_adapters(h.model, back.c_str()), GRAFT_OK) << h.message();
  EXPECT_EQ(graft_conversion_bytes(nullptr, &data, &bytes), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_convert_adapter(out_.c_str(), out_.c_str(), back.c_str(), &made), GRAFT_INVALID_ARGUMENT)
      << "a model is no adapter";
  EXPECT_STRNE(graft_conversion_message(made), "");
  graft_conversion_destroy(made);
}

}  // namespace
}  // namespace graft::test::convert_c_api_test
