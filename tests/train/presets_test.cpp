// ctest: slow
// Training under the capabilities of real GPUs: the same losses, in as many bytes as planned. By default under the
// strictest; GRAFT_TEST_PRESETS=all takes every one, some seconds each.
#include "platform/gpu/presets.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/run_state/training.h"
#include "tests/support/edited_device.h"
#include "tests/support/tiny_decoder.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::presets_test {
namespace {

using namespace test;

constexpr std::uint64_t kSteps = 3;
constexpr std::string_view kStrict[] = {"raspberry-pi-4", "adreno-6xx"};

bool takes_all() {
  const char* const asked = std::getenv("GRAFT_TEST_PRESETS");
  return asked != nullptr && std::string_view(asked) == "all";
}

class RealGpus : public TrainerTest {
 protected:
  template <class Data>
  static std::vector<double> run(Trainer& trainer, const Data& data, std::uint64_t batch) {
    std::vector<double> losses = losses_of(trainer, data, kSteps, batch);
    EXPECT_EQ(trainer.device_bytes(), trainer.plan().memory().total()) << "planned is not measured";
    return losses;
  }

  /// Runs `train` on the device as it is, then as each preset.
  template <class Train>
  static void compare(Train train) {
    const std::vector<double> expected = train(*shared_device());
    ASSERT_EQ(expected.size(), kSteps);
    EXPECT_NE(expected.front(), expected.back());
    std::size_t presets = 0;
    for (const gpu::CapsPreset& preset : gpu::caps_presets()) {
      const bool strict = std::ranges::find(kStrict, preset.name) != std::end(kStrict);
      if (preset.source.empty() || !(strict || takes_all())) continue;
      SCOPED_TRACE(preset.name);
      ++presets;
      EditedDevice device(*shared_device());
      preset.apply(device.edit());
      device.edit().caps = gpu::within_device(std::move(device.edit().caps), shared_device()->caps());
      const std::vector<double> losses = train(device);
      ASSERT_EQ(losses.size(), kSteps);
      // Other tiles add in another order: some roundings of f32, which three steps carry on.
      for (std::size_t i = 0; i < kSteps; ++i) EXPECT_NEAR(losses[i], expected[i], 2e-5 * expected[i]);
    }
    EXPECT_GE(presets, std::size(kStrict));
  }
};

TEST_F(RealGpus, TrainLeNet) {
  const TinyModel model = lenet();
  const TinyData data = tiny_data(12, {1, 28, 28}, 10);
  compare([&](gpu::Device& device) {
    auto trainer = Trainer::create(device, model.graph, model.weight_of(), sgd(0.01, 4), data.fields, {});
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    return trainer.ok() ? run(**trainer, data, 4) : std::vector<double>{};
  });
}

TEST_F(RealGpus, TrainALanguageModel) {
  constexpr std::int64_t kLength = 10;
  const Model model = plain_model(tiny_llama({}));
  const TokenData data = token_data(6, kLength, 40);
  TrainOptions options = sgd(0.1, 2);
  options.bindings = {{"seq", kLength}};
  compare([&](gpu::Device& device) {
    auto trainer = create_trainer(device, model, options, data.fields, {});
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    return trainer.ok() ? run(**trainer, data, 2) : std::vector<double>{};
  });
}

// Where bindings share buffers only they differ: the same bits, whatever the optimizer binds, and of tensors merged
// into one dispatch too.
TEST_F(RealGpus, TrainWithFourStorageBuffersToTheSameBits) {
  const TinyModel model = lenet();
  const TinyData data = tiny_data(12, {1, 28, 28}, 10);
  EditedDevice few(*shared_device());
  ASSERT_TRUE(gpu::apply_caps_preset("buffers4", few.edit()).ok());
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::adamw8bit}) {
    SCOPED_TRACE(optimizer_name(kind));
    TrainOptions options = sgd(0.001, 4);
    options.optimizer.kind = kind;
    options.clip_norm = 1;
    Contents contents[2];
    for (const bool shared : {false, true}) {
      gpu::Device& device = shared ? few : *shared_device();
      auto trainer = Trainer::create(device, model.graph, model.weight_of(), options, data.fields, {});
      ASSERT_TRUE(trainer.ok()) << trainer.status().message();
      const auto losses = run(**trainer, data, 4);
      EXPECT_LT(losses.back(), losses.front());
      contents[shared ? 1 : 0] = contents_of(**trainer);
    }
    ASSERT_EQ(contents[0].size(), contents[1].size());
    for (const auto& [name, numbers] : contents[0]) {
      const std::vector<float>& others = contents[1].at(name);
      ASSERT_EQ(others.size(), numbers.size()) << name;
      EXPECT_EQ(std::memcmp(numbers.data(), others.data(), 4 * numbers.size()), 0) << name;  // codes are no numbers
    }
  }
}

}  // namespace
}  // namespace graft::train::presets_test
