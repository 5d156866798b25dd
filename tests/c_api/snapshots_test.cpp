// graft/snapshots.h: the folder that a run is kept in.
#include "graft/snapshots.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/support/c_api.h"

namespace graft::test::c_api_snapshots_test {
namespace {

class Snapshots : public CApi {
 protected:
  void TearDown() override { graft_store_destroy(store_); }

  /// A run of 6 steps with a snapshot of each second one, that of step 4 tagged "four"; weights_ after each of these.
  void make_run() {
    auto options = trainer_options();
    options.checkpoints = 1;
    ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    const graft_pair metadata[] = {{"app", "test"}};
    auto kept = sized<graft_checkpoint_options>();
    kept.folder = kept_.c_str();
    kept.keep = 100;
    kept.metadata = metadata;
    kept.metadata_count = 1;
    ASSERT_EQ(graft_checkpoint_open(h_.trainer, &kept, nullptr), GRAFT_OK) << h_.message();
    for (int step = 1; step <= 6; ++step) {
      ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
      if (step % 2 != 0) continue;
      ASSERT_EQ(graft_checkpoint_save(h_.trainer, step == 4 ? "four" : nullptr), GRAFT_OK) << h_.message();
      if (step == 4) four_ = bias_of_trainer();
    }
    six_ = bias_of_trainer();
    graft_trainer_destroy(std::exchange(h_.trainer, nullptr));
  }
  std::vector<float> bias_of_trainer() {
    std::vector<float> out(kClasses);
    EXPECT_EQ(graft_trainer_read(h_.trainer, "fc2.bias", out.data(), 12, nullptr), GRAFT_OK) << h_.message();
    return out;
  }
  std::vector<float> bias() {
    std::vector<float> out(kClasses);
    EXPECT_EQ(graft_model_read(h_.model, "fc2.bias", out.data(), 12, nullptr), GRAFT_OK) << h_.message();
    return out;
  }
  graft_status open_store(bool writable = false) {
    auto options = sized<graft_store_options>();
    options.writable = writable ? 1 : 0;
    graft_store_destroy(std::exchange(store_, nullptr));
    return graft_store_open(h_.context, kept_.c_str(), &options, &store_);
  }
  graft_snapshot found(const char* name) {
    auto out = sized<graft_snapshot>();
    EXPECT_EQ(graft_store_find(store_, name, &out), GRAFT_OK) << h_.message();
    return out;
  }

  std::string kept_ = folder_.file("kept");
  std::vector<float> four_, six_;
  graft_store* store_ = nullptr;
};

TEST_F(Snapshots, AreListedFoundAndRestored) {
  const std::vector<float> start = bias();
  make_run();
  ASSERT_EQ(open_store(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_store_count(store_), 4u) << "of the start, and of steps 2, 4 and 6";
  for (std::size_t i = 0; i < 4; ++i) {
    auto snapshot = sized<graft_snapshot>();
    ASSERT_EQ(graft_store_snapshot(store_, i, &snapshot), GRAFT_OK) << h_.message();
    EXPECT_EQ(snapshot.step, 2 * i);
    EXPECT_STREQ(snapshot.tags, i == 2 ? "four" : "");
    EXPECT_EQ(snapshot.is_head, i == 3 ? 1 : 0);
    EXPECT_GT(snapshot.bytes, 0u);
    EXPECT_GE(snapshot.stored_bytes, snapshot.own_bytes);
    EXPECT_GT(snapshot.made_ms, 1600000000000);
  }
  auto none = sized<graft_snapshot>();
  EXPECT_EQ(graft_store_snapshot(store_, 4, &none), GRAFT_NOT_FOUND);
  EXPECT_EQ(found("four").step, 4u);
  EXPECT_EQ(found(nullptr).step, 6u);
  EXPECT_EQ(graft_store_find(store_, "five", &none), GRAFT_NOT_FOUND);
  const char* value = "";
  ASSERT_EQ(graft_store_metadata(store_, "four", "app", &value), GRAFT_OK) << h_.message();
  EXPECT_STREQ(value, "test");
  EXPECT_EQ(graft_store_metadata(store_, "four", "nothing", &value), GRAFT_NOT_FOUND);

  EXPECT_EQ(bias(), start);
  std::size_t tensors = 0;
  ASSERT_EQ(graft_store_restore(store_, "four", h_.model, &tensors), GRAFT_OK) << h_.message();
  EXPECT_EQ(tensors, 4u);
  EXPECT_EQ(bias(), four_);
  ASSERT_EQ(graft_store_restore(store_, nullptr, h_.model, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(bias(), six_);
  EXPECT_EQ(graft_store_restore(store_, "five", h_.model, nullptr), GRAFT_NOT_FOUND);

  // Another model's tensors have other sizes.
  const std::string wide = folder_.file("wide.graft");
  write_model(tiny_mlp(kInputs, 7, kClasses), wide);
  graft_model* other = nullptr;
  ASSERT_EQ(graft_model_load(h_.context, wide.c_str(), &other), GRAFT_OK) << h_.message();
  const std::vector<float> before = run_model(other);
  EXPECT_EQ(graft_store_restore(store_, "four", other, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "is it the model that was trained?")) << h_.message();
  EXPECT_EQ(run_model(other), before);
  graft_model_destroy(other);
}

TEST_F(Snapshots, AllThatAStoreSaysCanBeAskedFor) {
  make_run();
  ASSERT_EQ(open_store(), GRAFT_OK) << h_.message();
  auto info = sized<graft_store_info>();
  ASSERT_EQ(graft_store_describe(store_, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.damaged, 0u);
  EXPECT_EQ(graft_store_damaged(store_, 0, nullptr, nullptr), GRAFT_NOT_FOUND);
  std::vector<std::string> keys;
  const char* key = nullptr;
  const char* value = nullptr;
  while (graft_store_metadata_at(store_, "four", keys.size(), &key, &value) == GRAFT_OK) {
    keys.emplace_back(key);
    if (keys.back() == "user.app") {
      EXPECT_STREQ(value, "test");
    }
  }
  EXPECT_EQ(std::count(keys.begin(), keys.end(), "user.app"), 1) << h_.message();
  EXPECT_EQ(graft_store_metadata_at(store_, "five", 0, &key, &value), GRAFT_NOT_FOUND);
  auto worker = sized<graft_worker_report>();
  EXPECT_EQ(graft_store_worker(store_, "four", 0, &worker), GRAFT_NOT_FOUND)
      << "workers of a group report, and it had none";
  EXPECT_TRUE(contains(h_.message(), "0 workers")) << h_.message();
  EXPECT_EQ(graft_store_worker(store_, "five", 0, &worker), GRAFT_NOT_FOUND);
  EXPECT_TRUE(contains(h_.message(), "five")) << h_.message();
  EXPECT_EQ(graft_store_journalled_worker(store_, 1000, &worker), GRAFT_NOT_FOUND);
  const char* parameter = nullptr;
  ASSERT_EQ(graft_store_find_non_finite(store_, "four", &parameter), GRAFT_OK) << h_.message();
  EXPECT_STREQ(parameter, "");
  auto diff = sized<graft_diff_info>();
  ASSERT_EQ(graft_store_diff(store_, "four", nullptr, nullptr, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_store_diff_info(store_, &diff), GRAFT_OK) << h_.message();
  EXPECT_GT(diff.stored_bytes, 0u);
  ASSERT_EQ(graft_store_diff(store_, "four", "four", nullptr, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_store_diff_info(store_, &diff), GRAFT_OK) << h_.message();
  EXPECT_STREQ(diff.metadata, "");
  EXPECT_EQ(diff.stored_bytes, 0u);
}

TEST_F(Snapshots, DifferencesNameWhatChanged) {
  make_run();
  ASSERT_EQ(open_store(), GRAFT_OK) << h_.message();
  const graft_stream_difference* streams = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(graft_store_diff(store_, "four", nullptr, &streams, &count), GRAFT_OK) << h_.message();
  bool seen = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::string(streams[i].name) != "fc2.bias") continue;
    seen = true;
    EXPECT_EQ(streams[i].difference, GRAFT_CHANGED);
    EXPECT_EQ(streams[i].bytes_in_first, 12u);
    EXPECT_EQ(streams[i].bytes_in_second, 12u);
    EXPECT_EQ(streams[i].changed_bytes, 12u);
  }
  EXPECT_TRUE(seen);
  ASSERT_EQ(graft_store_diff(store_, "four", "four", &streams, &count), GRAFT_OK) << h_.message();
  ASSERT_GT(count, 4u);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(streams[i].difference, GRAFT_SAME) << streams[i].name;
  EXPECT_EQ(graft_store_diff(store_, "four", "five", &streams, &count), GRAFT_NOT_FOUND);
}

TEST_F(Snapshots, ArePrunedTaggedAndBranchedFrom) {
  make_run();
  ASSERT_EQ(open_store(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_store_prune(store_, 1, nullptr, nullptr), GRAFT_INVALID_ARGUMENT) << "it is not writable";
  EXPECT_EQ(graft_store_tag(store_, nullptr, "x"), GRAFT_INVALID_ARGUMENT);
  ASSERT_EQ(open_store(true), GRAFT_OK) << h_.message();
  graft_store* second = nullptr;
  auto writable = sized<graft_store_options>();
  writable.writable = 1;
  EXPECT_EQ(graft_store_open(h_.context, kept_.c_str(), &writable, &second), GRAFT_IO_ERROR) << "one at a time";
  EXPECT_EQ(second, nullptr);
  std::size_t removed = 0;
  std::uint64_t freed = 0;
  ASSERT_EQ(graft_store_prune(store_, 1, &removed, &freed), GRAFT_OK) << h_.message();
  EXPECT_EQ(removed, 2u) << "the newest and the tagged one stay";
  EXPECT_GT(freed, 0u);
  EXPECT_EQ(graft_store_count(store_), 2u);
  ASSERT_EQ(graft_store_branch(store_, "four"), GRAFT_OK) << h_.message();
  EXPECT_EQ(found(nullptr).step, 4u);
  ASSERT_EQ(graft_store_tag(store_, nullptr, "again"), GRAFT_OK) << h_.message();
  EXPECT_STREQ(found("again").tags, "four\nagain");
  ASSERT_EQ(graft_store_untag(store_, "four", "four"), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_store_untag(store_, "again", "four"), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_store_tag(store_, "again", nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_store_untag(store_, "again", nullptr), GRAFT_INVALID_ARGUMENT);
  graft_store_destroy(std::exchange(store_, nullptr));

  // A resume begins there.
  auto options = trainer_options();
  options.checkpoints = 1;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  auto kept = sized<graft_checkpoint_options>();
  kept.folder = kept_.c_str();
  kept.resume = 1;
  auto info = sized<graft_checkpoint_info>();
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &kept, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.step, 4u);
  EXPECT_EQ(bias_of_trainer(), four_);
}

TEST_F(Snapshots, DamageIsFound) {
  make_run();
  ASSERT_EQ(open_store(), GRAFT_OK) << h_.message();
  std::uint64_t chunks = 0;
  const char* problems = nullptr;
  ASSERT_EQ(graft_store_verify(store_, &chunks, &problems), GRAFT_OK) << h_.message();
  EXPECT_GT(chunks, 4u);
  EXPECT_STREQ(problems, "");
  // The last byte of the largest file is of a chunk.
  std::filesystem::path largest;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kept_)) {
    if (!entry.is_regular_file() || entry.path().filename().string().find("seg") == std::string::npos) continue;
    if (largest.empty() || entry.file_size() > std::filesystem::file_size(largest)) largest = entry.path();
  }
  ASSERT_FALSE(largest.empty());
  {
    std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char last = static_cast<char>(file.get());
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(last ^ 1));
  }
  EXPECT_EQ(graft_store_verify(store_, &chunks, &problems), GRAFT_CORRUPT);
  EXPECT_STRNE(problems, "");
  EXPECT_TRUE(contains(h_.message(), problems) || std::strchr(problems, '\n') != nullptr) << h_.message();
}

TEST_F(Snapshots, WrongInputsAreRefused) {
  EXPECT_EQ(open_store(), GRAFT_NOT_FOUND) << "there is no such folder";
  EXPECT_EQ(store_, nullptr);
  EXPECT_EQ(graft_store_open(h_.context, nullptr, nullptr, &store_), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_store_open(h_.context, kept_.c_str(), nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_store_open(nullptr, kept_.c_str(), nullptr, &store_), GRAFT_INVALID_ARGUMENT);
  auto snapshot = sized<graft_snapshot>();
  EXPECT_EQ(graft_store_count(nullptr), 0u);
  EXPECT_EQ(graft_store_snapshot(nullptr, 0, &snapshot), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_store_find(nullptr, "x", &snapshot), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_store_restore(nullptr, "x", h_.model, nullptr), GRAFT_INVALID_ARGUMENT);
  make_run();
  ASSERT_EQ(open_store(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_store_restore(store_, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_store_metadata(store_, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  snapshot.struct_size = 0;
  EXPECT_EQ(graft_store_find(store_, nullptr, &snapshot), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace graft::test::c_api_snapshots_test
