// ctest: middle
// Sessions whose sizes change within a bound: the same bits as sessions of their own, in the memory of the largest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "runtime/core/graph_text.h"
#include "runtime/session/session.h"
#include "tests/support/device_test.h"
#include "tests/support/parse_graph.h"
#include "tests/support/tiny_decoder.h"

namespace graft::test::session_resize_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes tokens_of(const Bindings& sizes) {
  std::mt19937 random(static_cast<std::uint32_t>(7 * sizes.at("batch") + sizes.at("seq")));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(sizes.at("batch") * sizes.at("seq")));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 40);
  const auto bytes = std::as_bytes(std::span(ids));
  return {bytes.begin(), bytes.end()};
}

class SessionResize : public DeviceTest {
 protected:
  static Bytes run(Session& session, const Bytes& input) {
    EXPECT_TRUE(session.set_input(session.plan().inputs[0].name, input).ok());
    const Status ran = session.run();
    EXPECT_TRUE(ran.ok()) << ran.message();
    const auto output = session.output(session.plan().outputs[0].name);
    return {output.begin(), output.end()};
  }
  std::unique_ptr<Session> make(const Model& model, const Bindings& sizes, bool resizable) {
    SessionOptions options;
    options.bindings = sizes;
    options.resizable = resizable;
    auto session = Session::create(*device_, model, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.ok() ? std::move(*session) : nullptr;
  }
};

TEST_F(SessionResize, GivesTheBitsOfSessionsOfTheirOwn) {
  const Bindings bound = {{"batch", 3}, {"seq", 8}};
  for (const bool learned : {false, true}) {
    const Model model = plain_model(tiny_llama({.layers = 1, .learned_positions = learned}));
    const auto session = make(model, bound, true);
    ASSERT_NE(session, nullptr);
    const std::uint64_t bytes = device_->memory().bytes;
    for (const Bindings& sizes : {Bindings{{"batch", 1}, {"seq", 8}},
                                  {{"batch", 3}, {"seq", 5}},
                                  bound,
                                  {{"batch", 2}, {"seq", 1}},
                                  {{"batch", 3}, {"seq", 5}}}) {
      const Status resized = session->resize(sizes);
      ASSERT_TRUE(resized.ok()) << resized.message();
      EXPECT_FALSE(session->run().ok()) << "inputs are to be set again";
      const auto own = make(model, sizes, false);
      EXPECT_EQ(run(*session, tokens_of(sizes)), run(*own, tokens_of(sizes))) << learned;
    }
    EXPECT_EQ(device_->memory().bytes, bytes) << "memory is the largest sizes'";
    // A paused one comes back at its sizes, with its inputs.
    const auto before = session->output(session->plan().outputs[0].name);
    const Bytes expected(before.begin(), before.end());
    ASSERT_TRUE(session->pause().ok());
    ASSERT_TRUE(session->run().ok());
    const auto after = session->output(session->plan().outputs[0].name);
    EXPECT_TRUE(std::ranges::equal(after, expected));
    ASSERT_TRUE(session->pause().ok());
    ASSERT_TRUE(session->resize(bound).ok());
    EXPECT_EQ(run(*session, tokens_of(bound)), run(*make(model, bound, false), tokens_of(bound)));
  }
}

// What is made of weights alone is computed once where it is the same at all sizes, and with each run elsewhere.
TEST_F(SessionResize, FoldsWhatIsTheSameAtAllSizes) {
  auto parsed = parse_graph(R"(
    input x: f32[batch, 4]
    parameter v: f32[4, 4]
    parameter t: f32[8, 4]
    e = exp(v)
    a = matmul(x, e)
    s = softplus(t)
    r = reduce_mean(s) {axes=[0], keepdims=1}
    big = expand(r) {shape=shape[batch, 4]}
    y = add(a, big)
    output y
  )");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  Model model;
  model.graph = std::move(parsed->graph);
  for (const auto& [name, count] : {std::pair("v", 16), {"t", 32}}) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.01F * static_cast<float>(i * i % 37);
    ASSERT_TRUE(model.copy_weight(model.graph.find_value(name), std::as_bytes(std::span(numbers))).ok());
  }
  const auto session = make(model, {{"batch", 6}}, true);
  ASSERT_NE(session, nullptr);
  EXPECT_FALSE(session->graph().find_value("v").valid()) << graph_text(session->graph());
  for (const std::int64_t batch : {5, 6, 1, 3}) {
    ASSERT_TRUE(session->resize({{"batch", batch}}).ok());
    std::vector<float> x(static_cast<std::size_t>(4 * batch), 0.5F);
    const auto bytes = std::as_bytes(std::span(x));
    const auto own = make(model, {{"batch", batch}}, false);
    EXPECT_EQ(run(*session, {bytes.begin(), bytes.end()}), run(*own, {bytes.begin(), bytes.end()})) << batch;
  }
}

TEST_F(SessionResize, RefusesWhatIsBeyondTheBound) {
  const Model model = plain_model(tiny_llama({.layers = 1}));
  const auto session = make(model, {{"batch", 2}, {"seq", 4}}, true);
  ASSERT_NE(session, nullptr);
  const Bytes expected = run(*session, tokens_of({{"batch", 2}, {"seq", 4}}));
  for (const auto& [sizes, words] :
       {std::pair(Bindings{{"seq", 5}}, "1 to 4"), {{{"batch", 0}}, "1 to 2"}, {{{"length", 1}}, "\"length\""}}) {
    const Status refused = session->resize(sizes);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.message().find(words), std::string::npos) << refused.message();
  }
  EXPECT_TRUE(session->resize({}).ok());
  EXPECT_TRUE(session->run().ok()) << "nothing changed, so the inputs are there";
  const auto fixed = make(model, {{"batch", 2}, {"seq", 4}}, false);
  EXPECT_EQ(fixed->resize({{"seq", 2}}).code(), Code::invalid_argument);
  // More sizes than are kept.
  const auto many = make(model, {{"batch", 5}, {"seq", 8}}, true);
  for (std::int64_t batch = 1; batch <= 5; ++batch) {
    for (std::int64_t seq = 1; seq <= 8; ++seq) ASSERT_TRUE(many->resize({{"batch", batch}, {"seq", seq}}).ok());
  }
  ASSERT_TRUE(many->resize({{"batch", 2}, {"seq", 4}}).ok());
  EXPECT_EQ(run(*many, tokens_of({{"batch", 2}, {"seq", 4}})), expected);
}

}  // namespace
}  // namespace graft::test::session_resize_test
