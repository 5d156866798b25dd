// The C++ API: what functions of an app throw comes out of the call that they are called by, and all goes on after it.
// Before graft.hpp, whose inline namespace would take their namespace detail in.
#include "tests/bindings/oracle_models.h"
#include "tests/support/files/temporary_folder.h"

#include <gtest/gtest.h>
#include <graft/convert.hpp>
#include <graft/graft.hpp>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <type_traits>

namespace {

using graft::test::kOracleClasses;
using graft::test::kOracleInputs;

constexpr std::uint32_t kSamples = 4;

/// What only this file throws.
struct Oops : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Thrown : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = graft::Context::create({.device = graft::test::oracle_device()});
    if (!opened.ok() && opened.status().code() == GRAFT_NOT_FOUND) GTEST_SKIP() << opened.status().message();
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    context_.emplace(std::move(opened).value());
    ASSERT_TRUE(graft::test::write_oracle_models(folder_.path()));
    for (std::uint32_t i = 0; i < kSamples; ++i) labels_.push_back(static_cast<std::int32_t>(i) % kOracleClasses);
  }
  template <typename T>
  T need(graft::Result<T> result) {
    EXPECT_TRUE(result.ok()) << result.status().message();
    return std::move(result).value();
  }
  graft::Model mlp() { return need(context_->load(folder_.file("mlp.graft"))); }
  graft::Trainer trainer(graft::Model& model) {
    return need(model.trainer({.optimizer = GRAFT_ADAMW, .batch = kSamples, .micro_batch = 1, .checkpoints = true}));
  }
  graft::Result<graft::Metrics> step(graft::Trainer& trainer) {
    return trainer.train_step({x_.data()}, labels_.data(), kSamples);
  }

  graft::test::TemporaryFolder folder_;
  std::optional<graft::Context> context_;
  std::vector<float> x_ = graft::test::oracle_samples(kSamples);
  std::vector<std::int32_t> labels_;
};

TEST_F(Thrown, ByProgressAndTheStepGoesOnToTheSameBits) {
  auto model = mlp();
  auto undisturbed = trainer(model), disturbed = trainer(model);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(step(undisturbed).ok());
  int told = 0, thrown = 0;
  std::uint64_t throw_at = 0;
  {
    const graft::Progress progress(context_->get(), [&](graft_stage, std::uint64_t done, std::uint64_t) {
      ++told;
      if (done == throw_at) throw Oops("at " + std::to_string(done));
      return true;
    });
    const auto steps_done = [&] { return need(disturbed.evaluate({x_.data()}, labels_.data(), kSamples)).step; };
    for (std::uint64_t i = 0; i < 5; ++i) {
      throw_at = i;  // 4: at the last report, when the step may be done
      do {
        try {
          ASSERT_TRUE(step(disturbed).ok());
        } catch (const Oops& oops) {
          EXPECT_EQ(std::string(oops.what()), "at " + std::to_string(throw_at));
          ++thrown;
        }
        throw_at = 0;
      } while (steps_done() <= i);
    }
  }
  EXPECT_EQ(thrown, 4);
  EXPECT_GT(told, 0);
  for (const auto& info : model.named_parameters()) {
    EXPECT_EQ(need(disturbed.read(info.name)), need(undisturbed.read(info.name))) << info.name;
  }
  // Making things: it is as if nothing had been asked for.
  {
    const graft::Progress progress(
        context_->get(), [&](graft_stage, std::uint64_t, std::uint64_t) -> bool { throw Oops("while it is made"); });
    EXPECT_THROW((void)model.session({.bindings = {{"batch", 1}}}), Oops);
    EXPECT_THROW((void)model.forecast({.batch = kSamples}), Oops);
  }
  EXPECT_TRUE(model.session({.bindings = {{"batch", 1}}}).ok());
  EXPECT_FALSE(context_->uncancel()) << "nothing is left of a call that threw";
}

TEST_F(Thrown, ByProgressOfACallThatIsNotWaitedFor) {
  auto model = mlp();
  auto training = trainer(model);
  auto task = need(graft::Task::create(*context_));
  graft::Metrics metrics{};
  std::future<graft::Status> future;
  {
    const graft::Progress progress(context_->get(),
                                   [](graft_stage, std::uint64_t, std::uint64_t) -> bool { throw Oops("beside"); });
    future = graft::train_step_async(training, {x_.data()}, labels_.data(), kSamples, metrics);
    EXPECT_THROW((void)future.get(), Oops);
    ASSERT_TRUE(task.train_step(training, {x_.data()}, labels_.data(), kSamples, metrics).ok());
    EXPECT_THROW((void)task.wait(), Oops);
  }
  ASSERT_TRUE(task.train_step(training, {x_.data()}, labels_.data(), kSamples, metrics).ok());
  EXPECT_TRUE(task.wait().ok());
  // A task's own failures have sentences.
  auto idle = need(graft::Task::create(*context_));
  const graft::Status nothing = idle.wait();
  EXPECT_EQ(nothing.code(), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(nothing.message(), "The task was given to no call, so that there is none to wait for.");
}

TEST_F(Thrown, ByFunctionsOfGeneration) {
  auto model = need(context_->load(folder_.file("letters.graft")));
  auto generator = need(model.generator());
  const std::string prompt = "ab";
  const std::string expected = need(generator.generate(prompt, {.max_tokens = 6}));
  graft::GenerateOptions options{.max_tokens = 6};
  options.on_text = [](std::string_view) -> bool { throw Oops("text"); };
  EXPECT_THROW((void)generator.generate(prompt, options), Oops);
  options.on_text = {};
  options.on_token = [](std::int32_t, std::span<const float>) -> bool { throw Oops("token"); };
  EXPECT_THROW((void)generator.generate(prompt, options), Oops);
  EXPECT_EQ(need(generator.generate(prompt, {.max_tokens = 6})), expected);
}

TEST_F(Thrown, BySourcesAndSamples) {
  const auto failing = graft::Source::reader([](std::uint64_t, std::span<std::byte>) -> bool { throw Oops("source"); },
                                             4096, "a source");
  EXPECT_THROW((void)context_->load(failing), Oops);
  auto model = mlp();
  std::atomic<bool> fails = false;
  auto data = need(context_->data_from_callback(
      {{.name = "x", .dtype = GRAFT_F32, .dims = {kOracleInputs}},
       {.name = "label", .dtype = GRAFT_I32, .is_label = true}},
      2 * kSamples, [&](std::uint64_t index, void* const* out) {
        if (fails && index == 1) throw Oops("sample");
        std::fill_n(static_cast<float*>(out[0]), kOracleInputs, static_cast<float>(index));
        *static_cast<std::int32_t*>(out[1]) = static_cast<std::int32_t>(index) % kOracleClasses;
        return 1;
      }));
  auto training = need(model.trainer({.batch = kSamples, .data = &data}));
  fails = true;
  const auto next = [&] {
    auto loader = need(data.loader({.batch = kSamples, .in_order = true, .epochs = 1}));
    (void)training.train_next(loader);
  };
  EXPECT_THROW(next(), Oops);
  fails = false;
  auto loader = need(data.loader({.batch = kSamples, .in_order = true, .epochs = 1}));
  EXPECT_TRUE(need(training.train_next(loader)).has_value());
}

/// Adds a byte to each; throws while it is told to.
class FailingCipher : public graft::Cipher {
 public:
  std::size_t overhead() const override { return 1; }
  bool seal(std::span<const std::byte>, std::span<const std::byte> plain, std::span<std::byte> out) override {
    if (fails) throw Oops("cipher");
    std::copy(plain.begin(), plain.end(), out.begin());
    out.back() = std::byte{7};
    return true;
  }
  bool open(std::span<const std::byte>, std::span<const std::byte> sealed, std::span<std::byte> out) override {
    if (fails) throw Oops("cipher");
    std::copy(sealed.begin(), sealed.end() - 1, out.begin());
    return sealed.back() == std::byte{7};
  }
  std::atomic<bool> fails = false;
};

TEST_F(Thrown, ByCiphers) {
  auto model = mlp();
  FailingCipher cipher;
  const std::string kept = folder_.file("kept");
  {
    auto training = trainer(model);
    ASSERT_TRUE(training.open_checkpoint({.folder = kept, .cipher = &cipher}).ok());
    ASSERT_TRUE(step(training).ok());
    cipher.fails = true;
    EXPECT_THROW((void)training.save_checkpoint(), Oops);
    cipher.fails = false;
    EXPECT_TRUE(training.save_checkpoint().ok());
    EXPECT_TRUE(training.close_checkpoint().ok());
  }
  cipher.fails = true;
  EXPECT_THROW((void)context_->open_store(kept, false, &cipher), Oops);
  cipher.fails = false;
  EXPECT_TRUE(context_->open_store(kept, false, &cipher).ok());
}

TEST_F(Thrown, ByAContextsLogAndAllocator) {
  bool fails = false;
  graft::ContextOptions options{.device = graft::test::oracle_device()};
  options.log = [](void* user, graft_log_level, const char*) {
    if (*static_cast<bool*>(user)) throw Oops("log");
  };
  options.log_user = &fails;
  options.log_level = GRAFT_LOG_DEBUG;
  options.allocate = [](void* user, std::size_t bytes, std::size_t alignment) -> void* {
    if (*static_cast<bool*>(user)) throw Oops("allocator");
    return ::operator new(bytes, std::align_val_t(alignment));
  };
  options.deallocate = [](void*, void* pointer, std::size_t, std::size_t alignment) {
    ::operator delete(pointer, std::align_val_t(alignment));
  };
  options.allocator_user = &fails;
  auto context = need(graft::Context::create(options));
  std::ifstream in(folder_.file("mlp.graft"), std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  const auto source = graft::Source::copy(std::as_bytes(std::span(file)));
  fails = true;
  EXPECT_THROW((void)context.load(source), Oops);
  fails = false;
  EXPECT_TRUE(context.load(source).ok());
}

TEST_F(Thrown, ByAConversion) {
  const std::string onnx = folder_.file("lenet.onnx"), out = folder_.file("lenet.graft");
  ASSERT_TRUE(graft::convert_example("lenet", onnx).ok());
  graft::ConvertOptions options;
  options.progress = [](void*, std::uint64_t, std::uint64_t) -> int { throw Oops("progress"); };
  EXPECT_THROW((void)graft::convert(onnx, out, options), Oops);
  EXPECT_FALSE(std::ifstream(out).good());
  EXPECT_TRUE(graft::convert(onnx, out).ok());
}

TEST(Results, ConstOnesCanBeRead) {
  const graft::Result<std::string> there(std::string("text"));
  EXPECT_TRUE(there.ok());
  EXPECT_EQ(*there, "text");
  EXPECT_EQ(there.value(), "text");
  EXPECT_EQ(there->size(), 4U);
  EXPECT_EQ(graft::Result<std::string>(std::string("moved")).value(), "moved");
  static_assert(std::is_same_v<decltype(there.value()), const std::string&>);
}

}  // namespace
