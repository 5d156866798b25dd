// PyTorch's checkpoints: what is read of them, and what bad ones get.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "platform/base/text.h"
#include "platform/os/file.h"
#include "tests/support/paths.h"
#include "tools/convert/pytorch/pickle.h"
#include "tools/convert/pytorch/state_dict.h"

namespace graft::test::state_dict_test {
namespace {

std::string seed(const std::string& name) {
  std::ifstream in(cat(source_dir(), "/tests/fuzz/corpus/pickle/", name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

convert::HostTensor named(const convert::StateDict& dict, const std::string& name) {
  for (const convert::StateTensor& tensor : dict.tensors) {
    if (tensor.name != name) continue;
    auto contents = convert::contents(tensor);
    EXPECT_TRUE(contents.ok());
    return *contents;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(StateDict, BothFormsHoldTheSame) {
  for (const char* form : {"zip", "plain_nested"}) {
    SCOPED_TRACE(form);
    const std::string file = seed(form);
    const auto dict = convert::read_state_dict(bytes_of(file));
    ASSERT_TRUE(dict.ok()) << dict.status().message();
    ASSERT_EQ(dict->tensors.size(), 8u);
    EXPECT_EQ(dict->tensors[0].name, "a.weight");  // without "module."
    EXPECT_EQ(named(*dict, "a.weight").floats, (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(named(*dict, "a.weight").dims, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(named(*dict, "t").floats, (std::vector<float>{0, 3, 1, 4, 2, 5}));  // strides of a transposed one
    EXPECT_EQ(named(*dict, "row").floats, (std::vector<float>{3, 4, 5}));         // an offset into its storage
    EXPECT_EQ(named(*dict, "a.bias").floats, (std::vector<float>{1.5F, -2}));     // f16
    EXPECT_EQ(named(*dict, "b").floats, (std::vector<float>{0.5F, 3}));           // bf16
    EXPECT_EQ(named(*dict, "d").floats, (std::vector<float>{0.25F}));             // f64
    EXPECT_EQ(named(*dict, "n").ints, (std::vector<std::int64_t>{7}));
    EXPECT_EQ(named(*dict, "mask").ints, (std::vector<std::int64_t>{1, 0}));
  }
}

TEST(StateDict, ADoubleBeyondFloat32IsRefusedByName) {
  std::string file = seed("plain_nested");
  const double small = 0.25, large = -1e300;
  const std::size_t at = file.rfind(std::string(reinterpret_cast<const char*>(&small), sizeof small));
  ASSERT_NE(at, std::string::npos);
  file.replace(at, sizeof large, reinterpret_cast<const char*>(&large), sizeof large);
  const auto dict = convert::read_state_dict(bytes_of(file));
  ASSERT_TRUE(dict.ok()) << dict.status().message();
  for (const convert::StateTensor& tensor : dict->tensors) {
    const auto contents = convert::contents(tensor);
    if (tensor.name == "d") {
      EXPECT_EQ(contents.status().message(), "The tensor \"d\" holds -1e+300, which is beyond the range of float32.");
    } else {
      EXPECT_TRUE(contents.ok()) << tensor.name;
    }
  }
}

TEST(StateDict, ModulesAndParametersAreOnlyLookedInto) {
  const std::string module = seed("module"), parameter = seed("parameter");
  const auto of_module = convert::read_state_dict(bytes_of(module));
  ASSERT_TRUE(of_module.ok()) << of_module.status().message();
  ASSERT_EQ(of_module->tensors.size(), 2u);
  EXPECT_EQ(of_module->tensors[0].name, "0.weight");
  const auto of_parameter = convert::read_state_dict(bytes_of(parameter));
  ASSERT_TRUE(of_parameter.ok()) << of_parameter.status().message();
  EXPECT_EQ(named(*of_parameter, "w").floats, (std::vector<float>{1, 1}));
}

TEST(StateDict, CallsAreNeverMade) {
  // What a pickle made to do harm looks like: os.system("false") as the value of a key.
  const std::string pickle(
      "\x80\x02}X\x01\x00\x00\x00wcposix\nsystem\nX\x05\x00\x00\x00"
      "false\x85Rs.",
      37);
  const std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  const std::string version("\x80\x02M\xe9\x03.", 6), machine("\x80\x02}.", 4), keys("\x80\x02].", 4);
  const std::string file = magic + version + machine + pickle + keys;
  const auto dict = convert::read_state_dict(bytes_of(file));
  ASSERT_FALSE(dict.ok());
  EXPECT_NE(dict.status().message().find("no tensors"), std::string::npos) << dict.status().message();
}

TEST(StateDict, WhatIsNoCheckpoint) {
  for (const std::string& file : {std::string(), std::string("PK\x03\x04"), std::string(100, 'x')}) {
    const auto dict = convert::read_state_dict(bytes_of(file));
    ASSERT_FALSE(dict.ok());
    EXPECT_TRUE(dict.status().message().ends_with('.')) << dict.status().message();
  }
}

void expect_sane(const std::string& file, const std::string& what) {
  const auto dict = convert::read_state_dict(bytes_of(file));
  if (!dict.ok()) {
    EXPECT_TRUE(dict.status().message().ends_with('.')) << what << ": " << dict.status().message();
    EXPECT_LT(dict.status().message().size(), 1000u) << what;
    return;
  }
  for (const convert::StateTensor& tensor : dict->tensors) {
    const auto contents = convert::contents(tensor);  // refused alone where a flipped exponent makes a double too large
    if (contents.ok() || tensor.type == convert::ElemType::f64) continue;
    ADD_FAILURE() << what << ": " << contents.status().message();
  }
}

TEST(StateDict, EveryTruncationAndFlippedBit) {
  for (const char* form : {"parameter", "plain_nested"}) {
    const std::string file = seed(form);
    ASSERT_FALSE(file.empty());
    for (std::size_t size = 0; size < file.size(); ++size) expect_sane(file.substr(0, size), cat("cut to ", size));
    for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
      std::string flipped = file;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      expect_sane(flipped, cat("bit ", bit, " flipped"));
    }
  }
}

TEST(StateDict, RealFiles) {
  struct Real {
    const char* path;
    std::size_t tensors;
    const char* name;
    std::vector<std::int64_t> dims;
  };
  for (const Real& real : {Real{"cnn-resnet20-pth/resnet20.th", 97, "conv1.weight", {16, 3, 3, 3}},
                           Real{"cnn-mnist-burn/mnist.pt", 20, "conv1.weight", {8, 1, 3, 3}},
                           Real{"ref-torchtune-assets/tiny_fair_checkpoint.pt", 21, "norm.weight", {32}}}) {
    const std::string path = test_data(real.path);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
    const auto mapped = os::system_files().map(path);
    ASSERT_TRUE(mapped.ok());
    const auto dict = convert::read_state_dict((*mapped)->bytes());
    ASSERT_TRUE(dict.ok()) << path << ": " << dict.status().message();
    EXPECT_EQ(dict->tensors.size(), real.tensors) << path;
    const convert::HostTensor tensor = named(*dict, real.name);
    EXPECT_EQ(tensor.dims, real.dims);
    for (const float number : tensor.floats) ASSERT_TRUE(std::isfinite(number));
  }
}

}  // namespace
}  // namespace graft::test::state_dict_test
