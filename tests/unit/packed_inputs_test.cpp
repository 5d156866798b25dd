// Inputs given as bytes and halves: the bits of the f32 numbers that they stand for.
#include "runtime/passes/packed_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "runtime/core/op_id.gen.h"
#include "runtime/session/session.h"
#include "tests/support/device_test.h"
#include "tests/support/parse_graph.h"

namespace graft::test::packed_inputs_test {
namespace {

using passes::Packed;
using passes::PackedInput;
using Bytes = std::vector<std::byte>;

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

class PackedInputs : public DeviceTest {
 protected:
  PackedInputs() {
    auto parsed = parse_graph(R"(
      input x: f32[batch, 3, 5, 7]
      input s: f32[batch]
      parameter w: f32[4, 3, 3, 3]
      t = transpose(x) {perm=[0, 2, 3, 1]}
      c = conv(t, w) {pads=[1, 1, 1, 1]}
      r = relu(c)
      m = reduce_mean(r) {axes=[1, 2, 3], keepdims=0}
      y = mul(m, s)
      output y
      output c
    )");
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    model_.graph = std::move(parsed->graph);
    std::mt19937 random(3);
    std::vector<float> weights(4 * 3 * 3 * 3);
    for (float& x : weights) x = std::uniform_real_distribution<float>(-1, 1)(random);
    EXPECT_TRUE(model_.copy_weight(model_.graph.find_value("w"), std::as_bytes(std::span(weights))).ok());
  }

  Result<std::unique_ptr<Session>> open(std::vector<PackedInput> packed, bool resizable = false) {
    SessionOptions options;
    options.bindings = {{"batch", 3}};
    options.gradients.packed = std::move(packed);
    options.resizable = resizable;
    return Session::create(*device_, model_, options);
  }
  static Bytes run(Session& session, const Bytes& x, const Bytes& s) {
    for (const auto& [name, bytes] : {std::pair("x", x), {"s", s}}) {
      const Status set = session.set_input(name, bytes);
      EXPECT_TRUE(set.ok()) << set.message();
    }
    const Status ran = session.run();
    EXPECT_TRUE(ran.ok()) << ran.message();
    const auto y = session.output("y"), c = session.output("c");
    Bytes all(y.begin(), y.end());
    all.insert(all.end(), c.begin(), c.end());
    return all;
  }
  /// What a session of f32 inputs gives.
  Bytes plain(const std::vector<float>& x, const std::vector<float>& s) {
    auto session = open({});
    EXPECT_TRUE(session.ok()) << session.status().message();
    return run(**session, bytes_of(x), bytes_of(s));
  }

  Model model_;
  std::vector<float> s_ = {1, -2, 0.5F};
  static constexpr std::size_t kImage = 5 * 7, kAll = 3 * 3 * kImage;
};

TEST_F(PackedInputs, ImagesAsBytes) {
  std::mt19937 random(4);
  for (const bool last : {false, true}) {
    for (const Packed element : {Packed::u8, Packed::i8}) {
      std::vector<std::uint8_t> pixels(kAll);
      for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(random());
      // Powers of two, so that a fused product and sum give the same bits as two roundings.
      const PackedInput format{"x", element, last, {1.0F / 256, 0.5F, 2}, {0.25F, 0, -1}};
      std::vector<float> x(kAll);
      for (std::size_t i = 0; i < kAll; ++i) {
        const std::size_t n = i / (3 * kImage), c = i / kImage % 3, at = i % kImage;
        const std::uint8_t pixel = last ? pixels[(n * kImage + at) * 3 + c] : pixels[i];
        const float number = element == Packed::i8 ? static_cast<std::int8_t>(pixel) : static_cast<float>(pixel);
        x[i] = number * format.scale[c] + format.offset[c];
      }
      auto session = open({format});
      ASSERT_TRUE(session.ok()) << session.status().message();
      EXPECT_EQ(run(**session, bytes_of(pixels), bytes_of(s_)), plain(x, s_)) << last;
      const auto& nodes = (*session)->graph().nodes();
      EXPECT_EQ(std::ranges::count(nodes, Op::transpose, &Node::op), last ? 0 : 1) << "as the model computes";
      ASSERT_TRUE((*session)->pause().ok());
      EXPECT_EQ(run(**session, bytes_of(pixels), bytes_of(s_)), plain(x, s_)) << "after a pause";
    }
  }
}

TEST_F(PackedInputs, Halves) {
  std::mt19937 random(5);
  std::vector<std::uint16_t> f16(kAll), bf16(3);
  std::vector<float> x(kAll);
  for (std::size_t i = 0; i < kAll; ++i) {
    const int number = static_cast<int>(random() % 1024);
    f16[i] = static_cast<std::uint16_t>(0x3c00 | number);  // 1 to 2
    x[i] = 1 + static_cast<float>(number) / 1024;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &s_[i], sizeof bits);
    bf16[i] = static_cast<std::uint16_t>(bits >> 16);
  }
  auto session = open({{"x", Packed::f16, false, {}, {}}, {"s", Packed::bf16, false, {}, {}}}, true);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const Bytes expected = plain(x, s_);
  EXPECT_EQ(run(**session, bytes_of(f16), bytes_of(bf16)), expected);
  ASSERT_TRUE((*session)->resize({{"batch", 1}}).ok());
  f16.resize(3 * kImage);
  bf16.resize(1);
  const Bytes one = run(**session, bytes_of(f16), bytes_of(bf16));
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + 4, expected.begin()));
  bf16[0] = 0x7f80;
  const Status infinite = (*session)->set_input("s", bytes_of(bf16));
  EXPECT_EQ(infinite.message(), "The input \"s\" is not finite at element 0.");
  const Status few = (*session)->set_input("x", Bytes(7));
  EXPECT_NE(few.message().find("[1, 3, 5, 7] and takes 210 bytes; 7 were given"), std::string::npos) << few.message();
}

// What torchvision.transforms.Normalize computes of a picture's bytes, by a reference in double precision.
TEST_F(PackedInputs, MeanAndDeviationOfEachChannel) {
  constexpr double kMean[] = {0.485, 0.456, 0.406}, kDeviation[] = {0.229, 0.224, 0.225};
  auto parsed = parse_graph("input x: f32[1, 3, 16, 16]\ny = add(x, x)\noutput y");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  Model model;
  model.graph = std::move(parsed->graph);
  PackedInput format{"x", Packed::u8, true, {}, {}};
  for (std::size_t c = 0; c < 3; ++c) {
    format.scale.push_back(static_cast<float>(1 / (255 * kDeviation[c])));
    format.offset.push_back(static_cast<float>(-kMean[c] / kDeviation[c]));
  }
  SessionOptions options;
  options.gradients.packed = {format};
  auto session = Session::create(*device_, model, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<std::uint8_t> pixels(3 * 256);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i / 3 + 85 * (i % 3));
  ASSERT_TRUE((*session)->set_input("x", bytes_of(pixels)).ok());
  ASSERT_TRUE((*session)->run().ok());
  std::vector<float> y(3 * 256);
  const auto out = (*session)->output("y");
  ASSERT_EQ(out.size(), y.size() * sizeof(float));
  std::memcpy(y.data(), out.data(), out.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t c = i % 3;
    const double wanted = 2 * (pixels[i] / 255.0 - kMean[c]) / kDeviation[c];
    // Scale and offset are rounded to f32 once, and so are their product and sum.
    const double size = 2 * (pixels[i] / 255.0 + kMean[c]) / kDeviation[c];
    EXPECT_NEAR(double{y[c * 256 + i / 3]}, wanted, size * 0x1p-23) << int{pixels[i]} << " in channel " << c;
  }
}

TEST_F(PackedInputs, WhatCannotBeIsRefused) {
  const float infinite = std::numeric_limits<float>::infinity();
  const std::pair<PackedInput, const char*> wrong[] = {
      {{"z", Packed::u8, false, {}, {}}, "no input \"z\""},
      {{"w", Packed::u8, false, {}, {}}, "no input \"w\""},
      {{"s", Packed::u8, true, {}, {}}, "no channels to be last"},
      {{"x", Packed::u8, false, {1, 2}, {}}, "has 3 channels, and there are 2 scales"},
      {{"x", Packed::u8, false, {}, {1, infinite, 2}}, "not finite"},
  };
  for (const auto& [format, words] : wrong) {
    const auto refused = open({format});
    ASSERT_FALSE(refused.ok()) << words;
    EXPECT_NE(refused.status().message().find(words), std::string::npos) << refused.status().message();
  }
  const PackedInput pixels{"x", Packed::u8, false, {}, {}};
  EXPECT_NE(open({pixels, pixels}).status().message().find("twice"), std::string::npos);
  SessionOptions options;
  options.bindings = {{"batch", 3}};
  options.gradients = {.of = "c", .wrt = {"x"}, .packed = {pixels}};
  const auto refused = Session::create(*device_, model_, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("neither its gradient"), std::string::npos) << refused.status().message();
  options.gradients.wrt = {"w"};
  EXPECT_TRUE(Session::create(*device_, model_, options).ok()) << "but of other values there are";
}

}  // namespace
}  // namespace graft::test::packed_inputs_test
