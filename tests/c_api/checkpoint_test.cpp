// The C ABI: runs that are kept in a folder, resumed, encrypted; and that a step takes no memory.
#include "tests/support/c_api.h"
#include "tests/support/heap_count.h"
#include "tests/support/files/test_cipher.h"

namespace graft::test::c_api_checkpoint_test {
namespace {

class CCheckpoint : public CApi {
 protected:
  static graft_trainer_options kept_options() {
    auto options = trainer_options();
    options.optimizer = GRAFT_ADAMW;
    options.micro_batch = 1;
    options.checkpoints = 1;
    return options;
  }
  graft_checkpoint_options in_folder() {
    auto options = sized<graft_checkpoint_options>();
    options.folder = store_.c_str();
    options.resume = 1;
    return options;
  }
  std::vector<float> weights() {
    EXPECT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
    return run_model(h_.model);
  }
  graft_status micro_step(int* done) {
    return graft_train_micro_step(h_.trainer, batch_.inputs, 1, batch_.labels.data(), kSamples, done, nullptr);
  }

  std::string store_ = folder_.file("kept");
};

TEST_F(CCheckpoint, AStepTakesNoHostMemory) {
  for (const bool accumulates : {false, true}) {
    auto options = trainer_options();
    options.micro_batch = accumulates ? 1 : 0;
    ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    auto metrics = sized<graft_metrics>();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
    const std::uint64_t before = heap_allocations();
    bool good = true;
    for (int i = 0; i < 5; ++i) good = good && batch_.step(h_.trainer, &metrics) == GRAFT_OK;
    EXPECT_EQ(heap_allocations(), before) << (accumulates ? "accumulating" : "whole batches");
    EXPECT_TRUE(good);
  }
}

TEST_F(CCheckpoint, ARunGoesOnFromTheMiddleOfAStep) {
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  for (int i = 0; i < 4; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  const std::vector<float> expected = weights();
  h_.destroy_parts();  // the model has them now
  ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &h_.model), GRAFT_OK) << h_.message();

  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_checkpoint_save(h_.trainer, nullptr), GRAFT_INVALID_ARGUMENT) << "none is open";
  const graft_pair metadata[] = {{"app", "test"}};
  auto options = in_folder();
  options.metadata = metadata;
  options.metadata_count = 1;
  options.data = "one batch";
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &options, nullptr), GRAFT_OK) << h_.message();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  int done = 1;
  ASSERT_EQ(micro_step(&done), GRAFT_OK) << h_.message();
  EXPECT_EQ(done, 0);
  ASSERT_EQ(graft_checkpoint_set_data(h_.trainer, 3, "abc", 3), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_save(h_.trainer, "half"), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_close(h_.trainer), GRAFT_OK) << h_.message();

  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  options.data = "another batch";
  EXPECT_EQ(graft_checkpoint_open(h_.trainer, &options, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "another data")) << h_.message();
  options.data = "one batch";
  auto info = sized<graft_checkpoint_info>();
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &options, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.step, 2u);
  EXPECT_EQ(info.samples_done, 1u);
  const void* data = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(graft_checkpoint_data(h_.trainer, 3, &data, &bytes), GRAFT_OK) << h_.message();
  EXPECT_EQ(std::string(static_cast<const char*>(data), bytes), "abc");
  EXPECT_EQ(graft_checkpoint_data(h_.trainer, 0, &data, &bytes), GRAFT_NOT_FOUND);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  EXPECT_EQ(weights(), expected);
}

TEST_F(CCheckpoint, EverythingInTheFolderGoesThroughTheAppsCipher) {
  const auto cipher = make_cipher(7);
  if (!cipher) GTEST_SKIP() << "The tests were built without OpenSSL.";
  using checkpoint::Cipher;
  graft_cipher raw{};
  raw.struct_size = sizeof raw;
  raw.overhead = cipher->overhead();
  raw.user = cipher.get();
  const auto bytes_at = [](const void* p, std::size_t n) { return std::span(static_cast<const std::byte*>(p), n); };
  static const auto span_of = bytes_at;
  raw.seal = [](void* user, const void* ad, std::size_t ad_bytes, const void* plain, std::size_t bytes, void* out) {
    auto& c = *static_cast<Cipher*>(user);
    const std::span to(static_cast<std::byte*>(out), bytes + c.overhead());
    return c.seal(span_of(ad, ad_bytes), span_of(plain, bytes), to).ok() ? 0 : 1;
  };
  raw.open = [](void* user, const void* ad, std::size_t ad_bytes, const void* sealed, std::size_t bytes, void* out) {
    auto& c = *static_cast<Cipher*>(user);
    const std::span to(static_cast<std::byte*>(out), bytes - c.overhead());
    return c.open(span_of(ad, ad_bytes), span_of(sealed, bytes), to).ok() ? 0 : 1;
  };
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  auto options = in_folder();
  options.cipher = &raw;
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &options, nullptr), GRAFT_OK) << h_.message();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_save(h_.trainer, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_close(h_.trainer), GRAFT_OK) << h_.message();
  const std::vector<float> expected = weights();

  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  EXPECT_NE(graft_warm_start(h_.trainer, store_.c_str(), nullptr, nullptr), GRAFT_OK) << "without the key";
  const auto other = make_cipher(8);
  raw.user = other.get();
  EXPECT_NE(graft_warm_start(h_.trainer, store_.c_str(), nullptr, &raw), GRAFT_OK) << "with another key";
  raw.user = cipher.get();
  ASSERT_EQ(graft_warm_start(h_.trainer, store_.c_str(), nullptr, &raw), GRAFT_OK) << h_.message();
  EXPECT_EQ(weights(), expected);
}

}  // namespace
}  // namespace graft::test::c_api_checkpoint_test
