// Model files: what is written is what is read, weights are mapped, and a failed save leaves the old file.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/model/format.h"
#include "runtime/model/model.h"
#include "tests/support/files/fault_files.h"
#include "tests/support/files/model_example.h"

namespace graft::test::model_file_test {
namespace {

using model_format::kSegmentAlignment;
using model_format::kTensorAlignment;

class ModelFile : public testing::Test {
 protected:
  Bytes read_bytes(const std::string& path) {
    auto file = os::read_file(os::system_files(), path, 1u << 30);
    EXPECT_TRUE(file.ok()) << file.status().message();
    if (!file.ok()) return {};
    return {file->bytes().begin(), file->bytes().end()};
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("model.graft");
};

TEST_F(ModelFile, RoundTripKeepsEverything) {
  const Model model = example_model();
  ASSERT_TRUE(save_model(os::system_files(), path_, model).ok());
  const auto loaded = load_model(os::system_files(), path_, {.check = WeightCheck::at_once});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(difference(model, *loaded), "");
  EXPECT_EQ(loaded->weight_bytes(), model.weight_bytes());
  EXPECT_FALSE(loaded->weight(loaded->graph.find_value("sum"))) << "state without contents stays without";
}

TEST_F(ModelFile, TheSameModelGivesTheSameBytes) {
  const Bytes first = file_of(example_model());
  const auto loaded = load_model(first, "memory");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(file_of(example_model()), first);
  EXPECT_EQ(file_of(*loaded), first) << "saving what was loaded changes nothing";
}

TEST_F(ModelFile, WeightsAreMappedAtAlignedPlaces) {
  Model model = example_model();
  const auto large = model.graph.add_value("large", DType::f16, {100000}, ValueKind::constant);
  ASSERT_TRUE(large.ok());
  const Bytes contents(200000, std::byte{5});
  ASSERT_TRUE(model.view_weight(*large, contents).ok());
  const Bytes file = file_of(model);
  const auto loaded = load_model(file, "memory");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  for (std::uint32_t i = 0; i < loaded->graph.values().size(); ++i) {
    const auto weight = loaded->weight({i});
    if (!weight) continue;
    ASSERT_TRUE(weight->data() >= file.data() && weight->data() + weight->size() <= file.data() + file.size())
        << "not a view of the file";
    const auto offset = static_cast<std::size_t>(weight->data() - file.data());
    EXPECT_EQ(offset % (weight->size() >= kSegmentAlignment ? kSegmentAlignment : kTensorAlignment), 0u);
  }
  EXPECT_EQ(difference(model, *loaded), "");
}

TEST_F(ModelFile, AModelCanBeSavedOverTheFileItCameFrom) {
  ASSERT_TRUE(save_model(os::system_files(), path_, example_model()).ok());
  auto loaded = load_model(os::system_files(), path_);
  ASSERT_TRUE(loaded.ok());
  const ValueId weight = loaded->graph.find_value("layer.weight");
  ASSERT_TRUE(loaded->copy_weight(weight, Bytes(24, std::byte{1})).ok());
  ASSERT_TRUE(save_model(os::system_files(), path_, *loaded).ok());
  const auto again = load_model(os::system_files(), path_, {.check = WeightCheck::at_once});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(difference(*loaded, *again), "");
}

TEST_F(ModelFile, CarriesATokenizer) {
  Model model = example_model();
  model.tokenizer = TokenizerData{"any form", std::string("\0\xff\n", 3)};
  ASSERT_TRUE(save_model(os::system_files(), path_, model).ok());
  const auto loaded = load_model(os::system_files(), path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ASSERT_TRUE(loaded->tokenizer.has_value());
  EXPECT_EQ(loaded->tokenizer->format, "any form");
  EXPECT_EQ(loaded->tokenizer->bytes, std::string("\0\xff\n", 3));
  model.tokenizer->bytes.clear();
  EXPECT_FALSE(save_model(os::system_files(), path_, model).ok());
}

TEST_F(ModelFile, AGraphWithoutWeightsHasNoSegments) {
  Model model;
  const auto x = model.graph.add_value("x", DType::f32, {2, 3}, ValueKind::input);
  ASSERT_TRUE(x.ok());
  model.graph.add_output("y", *x);
  const Bytes file = file_of(model);
  EXPECT_LT(file.size(), 1024u);
  const auto loaded = load_model(file, "memory");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(difference(model, *loaded), "");
}

TEST_F(ModelFile, AnEmptyWeightIsAWeight) {
  Model model;
  const auto c = model.graph.add_value("c", DType::f32, {0, 3}, ValueKind::constant);
  ASSERT_TRUE(c.ok());
  EXPECT_FALSE(validate(model).ok());
  ASSERT_TRUE(model.copy_weight(*c, {}).ok());
  const Bytes file = file_of(model);
  const auto loaded = load_model(file, "memory", {.check = WeightCheck::at_once});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(loaded->weight(*c));
}

TEST_F(ModelFile, DamagedWeightsAreFoundWhenAsked) {
  Bytes file = file_of(example_model());
  file[kSegmentAlignment + 3] ^= std::byte{16};
  const auto lazy = load_model(file, "damaged.graft");
  ASSERT_TRUE(lazy.ok()) << "loading alone does not read weights";
  EXPECT_EQ(lazy->verify_weights().code(), Code::corrupt);
  const auto eager = load_model(file, "damaged.graft", {.check = WeightCheck::at_once});
  ASSERT_FALSE(eager.ok());
  EXPECT_NE(eager.status().message().find("The weight \"layer.weight\" in the model file \"damaged.graft\" is damaged"),
            std::string::npos)
      << eager.status().message();
}

TEST_F(ModelFile, SavingFailsCleanlyAtEveryCall) {
  ASSERT_TRUE(save_model(os::system_files(), path_, example_model()).ok());
  const Bytes old_bytes = read_bytes(path_);
  Model changed = example_model();
  changed.metadata["more"] = "text";
  std::uint64_t failures = 0;
  for (std::uint64_t call = 1;; ++call) {
    FaultFiles files;
    files.state = {.fail_call = call, .keep_failing = call % 2 == 0, .short_write = true};
    const Status status = save_model(files, path_, changed);
    if (status.ok()) break;
    ++failures;
    EXPECT_EQ(status.code(), Code::io_error);
    EXPECT_NE(status.message().find(path_), std::string::npos) << status.message();
    if (files.state.failed == "sync_directory") break;  // the new file is in place; the message says so
    EXPECT_EQ(read_bytes(path_), old_bytes) << "after a failed " << files.state.failed;
  }
  EXPECT_GT(failures, 5u);
}

TEST_F(ModelFile, LoadingFailsCleanlyWhereTheSystemDoes) {
  const auto missing = load_model(os::system_files(), folder_.file("none.graft"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), Code::not_found);
  EXPECT_NE(missing.status().message().find("none.graft"), std::string::npos);
  EXPECT_FALSE(load_model(os::system_files(), folder_.path()).ok()) << "a folder is no model";
  ASSERT_TRUE(os::atomic_write_file(os::system_files(), path_, std::string_view()).ok());
  const auto empty = load_model(os::system_files(), path_);
  ASSERT_FALSE(empty.ok());
  EXPECT_NE(empty.status().message().find("It has 0 bytes"), std::string::npos) << empty.status().message();
}

TEST_F(ModelFile, ModelsThatNoFileCouldHoldAreNotSaved) {
  const auto refusal = [&](const std::function<void(Model&)>& spoil) {
    Model model = example_model();
    spoil(model);
    const Status status = save_model(os::system_files(), path_, model);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(os::exists(os::system_files(), path_));
    return status.message();
  };
  const auto contains = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  contains(refusal([](Model& m) { (void)m.graph.add_value("c", DType::f32, {2}, ValueKind::constant); }),
           "\"c\" has no contents");
  contains(refusal([](Model& m) { m.metadata["k"] = "\xff"; }), "The metadata \"k\" is not UTF-8");
  contains(refusal([](Model& m) { m.graph.rename_value({0}, "a\nb"); }), "without control characters");
  contains(refusal([](Model& m) { m.graph.rename_value({0}, std::string(2000, 'a')); }), "the limit is 1024");
  contains(refusal([](Model& m) { m.graph.add_output("y", {0}); }), "Two outputs have the name \"y\"");
  contains(refusal([](Model& m) { m.graph.add_output("z", {999}); }), "\"z\" names no value");
  contains(refusal([](Model& m) { m.symbol_defaults["depth"] = 3; }), "\"depth\", which is not a symbol");
  contains(refusal([](Model& m) { m.symbol_defaults["batch"] = 0; }), "default size 0");
  contains(refusal([](Model& m) { m.signatures.push_back({"flat", {}, {}}); }), "Two signatures");
  contains(refusal([](Model& m) { m.signatures[0].inputs = {{"i", {1}}}; }), "which is not an input");
  contains(refusal([](Model& m) { m.graph.mutable_node({1}).forward_of = {0}; }), "belongs to a gradient");
  contains(refusal([](Model& m) { m.graph.mutable_node({1}).name = "swap"; }), "name \"swap\"");
  contains(refusal([](Model& m) { m.graph.mutable_value({0}).source_perm = {0, 0, 1}; }), "not a permutation");
}

TEST_F(ModelFile, WeightsMustFitTheirValue) {
  Model model = example_model();
  const auto message = [&](const char* name, std::size_t bytes) {
    return model.copy_weight(model.graph.find_value(name), Bytes(bytes)).message();
  };
  EXPECT_NE(message("x", 24).find("it is an input"), std::string::npos);
  EXPECT_NE(message("swapped", 24).find("made by a node"), std::string::npos);
  EXPECT_NE(message("layer.weight", 23).find("23 bytes of contents do not fit"), std::string::npos);
  EXPECT_FALSE(model.copy_weight(kNoValue, Bytes(4)).ok());
  EXPECT_FALSE(model.copy_weight({1000}, Bytes(4)).ok());
  const auto cache = model.graph.add_value("cache", DType::f32, {Dim::symbol("batch")}, ValueKind::state);
  ASSERT_TRUE(cache.ok());
  EXPECT_NE(message("cache", 4).find("contents need a shape of numbers"), std::string::npos);
  const auto huge = model.graph.add_value("huge", DType::f32, {std::int64_t{1} << 62}, ValueKind::state);
  ASSERT_TRUE(huge.ok());
  EXPECT_FALSE(model.copy_weight(*huge, {}).ok()) << "2^62 words of 4 bytes are 0 bytes only to wrapping arithmetic";
}

}  // namespace
}  // namespace graft::test::model_file_test
