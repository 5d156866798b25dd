// Training that mixes a memory in: a model that never saw a record, and one whose memory lost it, are the same bits.
#include <algorithm>

#include "runtime/data/mix.h"
#include "runtime/run_state/training.h"
#include "runtime/train/run/fit.h"
#include "tests/personal/memory_script.h"
#include "tests/support/c_api.h"
#include "tests/support/files/power_files.h"

namespace graft::test::memory_training_test {
namespace {

using namespace personal;

/// As tiny_sample(), for the inputs of tiny_mlp(): named as the model names them.
MemoryOptions options_of(os::FileSystem& files, const std::string& input) {
  MemoryOptions options = tiny_memory_options(files);
  options.settings.held_out = 0.25;
  options.settings.fields[0].name = input;
  return options;
}

TinySample wave(int number) {
  TinySample sample = tiny_sample(number);
  for (std::size_t i = 0; i < sample.x.size(); ++i) {
    sample.x[i] = static_cast<float>((number * 37 + static_cast<int>(i) * 11) % 17) / 17 - 0.5f;
  }
  return sample;
}

/// The parameters after three epochs of the memory alone, or of new samples with a share of it.
std::vector<float> trained(const ExampleMemory& memory, bool mixed) {
  const Model model = model_of(tiny_mlp(4, 6, kClasses));
  auto records = memory.source(Part::training, 1);
  EXPECT_TRUE(records.ok()) << records.status().message();
  if (!records.ok()) return {};
  std::vector<std::byte> x, y;
  for (int i = 500; i < 522; ++i) {
    const TinySample sample = wave(i);
    const auto* at = reinterpret_cast<const std::byte*>(sample.x.data());
    x.insert(x.end(), at, at + sizeof sample.x);
    at = reinterpret_cast<const std::byte*>(&sample.label);
    y.insert(y.end(), at, at + sizeof sample.label);
  }
  const auto news = data::from_slices((*records)->fields(), {x, y}, 22);
  EXPECT_TRUE(news.ok()) << news.status().message();
  auto source = mixed ? data::mix_in(**news, std::move(*records), 0.4) : std::move(records);
  EXPECT_TRUE(source.ok()) << source.status().message();
  data::LoaderOptions loading;
  loading.batch = 4;
  loading.keyed = true;
  loading.seed = 5;
  loading.epochs = 3;
  const auto loader = data::Loader::create(**source, loading);
  EXPECT_TRUE(loader.ok()) << loader.status().message();
  train::TrainOptions options;
  options.optimizer.learning_rate = 0.1;
  options.batch = 4;
  options.seed = 5;
  const auto device = test_device();
  EXPECT_TRUE(device.ok()) << device.status().message();
  const auto trainer = create_trainer(**device, model, options, (*source)->fields());
  EXPECT_TRUE(trainer.ok()) << trainer.status().message();
  if (!trainer.ok()) return {};
  EXPECT_TRUE(train::fit(**trainer, **loader, {}).ok());
  std::vector<float> weights(6 * 4);
  EXPECT_TRUE((*trainer)->read("fc1.weight", std::as_writable_bytes(std::span(weights))).ok());
  return weights;
}

TEST(MemoryTraining, AMemoryThatLostARecordTrainsAsOneThatNeverHadIt) {
  const Model model = model_of(tiny_mlp(4, 6, kClasses));
  const std::string input = model.graph.value(model.graph.inputs()[0]).name;
  PowerFiles files;
  auto with = ExampleMemory::open("with", options_of(files, input));
  auto never = ExampleMemory::open("never", options_of(files, input));
  ASSERT_TRUE(with.ok() && never.ok());
  std::string gone;
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(put_tiny(**with, cat("r", i), wave(i)).ok());
    if (gone.empty() && i > 5 && !(*with)->is_held_out(cat("r", i))) gone = cat("r", i);
  }
  // In another order, and with losses that no training reads.
  for (int i = 29; i >= 0; --i) {
    if (cat("r", i) != gone) {
      ASSERT_TRUE(put_tiny(**never, cat("r", i), wave(i), i).ok());
    }
  }
  for (const bool mixed : {false, true}) {
    const std::vector<float> expected = trained(**never, mixed), before = trained(**with, mixed);
    EXPECT_NE(before, expected) << "the record counts";
    const std::vector<std::string> ids = {gone};
    ASSERT_TRUE((*with)->remove(ids).ok());
    EXPECT_EQ(trained(**with, mixed), expected) << "bit for bit, mixed " << mixed;
    ASSERT_TRUE(put_tiny(**with, gone, wave(std::stoi(gone.substr(1)))).ok());
    EXPECT_EQ(trained(**with, mixed), before) << "and back";
  }
}

}  // namespace
}  // namespace graft::test::memory_training_test
