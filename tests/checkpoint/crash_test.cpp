// Power cuts at every operation, failures of every file call, flips of every bit of a small store.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/fault_files.h"
#include "tests/support/power_files.h"
#include "tests/support/store_script.h"

namespace graft::test {
namespace {

using namespace checkpoint;
using Fate = PowerFiles::Fate;

const StoreOptions kCreate{StoreMode::create, 512, 3, false, 1234};
const StoreOptions kRead{StoreMode::read_only, 512, 3};

/// The states acknowledged so far, and by which operation each was.
struct Acknowledged {
  std::vector<std::pair<std::size_t, StoreState>> states;
  /// After operation `count`: the last acknowledged state, and the one that was under way.
  bool allows(std::size_t count, const StoreState& state) const {
    std::size_t last = 0;
    while (last + 1 < states.size() && states[last + 1].first <= count) ++last;
    return state == states[last].second || (last + 1 < states.size() && state == states[last + 1].second);
  }
};

Acknowledged record_run(PowerFiles& files, std::uint64_t last) {
  Acknowledged run;
  run.states.push_back({0, {}});
  auto store = Store::open(files, "store", kCreate);
  GRAFT_CHECK(store.ok());
  run.states.push_back({files.operations(), {}});
  const Status status = run_script(*store, last, true, [&](const StoreState& state) {
    run.states.push_back({files.operations(), state});
  });
  GRAFT_CHECK(status.ok());
  return run;
}

/// Opens an image for writing, compares, and goes on training in it where `go_on`.
void check_image(const PowerFiles::Image& image, const Acknowledged& run, std::size_t cut, bool go_on) {
  PowerFiles files(image);
  ASSERT_TRUE(files.make_directory("store").ok());
  {
    auto store = Store::open(files, "store", kCreate);
    ASSERT_TRUE(store.ok()) << "cut after " << cut << ": " << store.status().message();
    const auto state = read_state(*store);
    ASSERT_TRUE(state.ok()) << "cut after " << cut << ": " << state.status().message();
    ASSERT_TRUE(run.allows(cut, *state)) << "cut after " << cut << ": step " << state->step << ", "
                                         << state->journal.size() << " journalled";
    const auto verified = store->verify();
    ASSERT_TRUE(verified.ok() && verified->problems.empty())
        << "cut after " << cut << ": " << (verified.ok() ? verified->problems[0] : verified.status().message());
    if (!go_on) return;
    const Status status = run_script(*store, kScriptSteps + 3, true, [](const StoreState&) {});
    ASSERT_TRUE(status.ok()) << "cut after " << cut << ": " << status.message();
  }
  const auto again = Store::open(files, "store", kRead);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(again->notes().empty());
  EXPECT_EQ(read_state(*again)->streams, training_state(kScriptSteps + 3));
}

TEST(CheckpointCrash, EveryLegalImageAfterAPowerCutHoldsTheLastAcknowledgedState) {
  PowerFiles files;
  const Acknowledged run = record_run(files, kScriptSteps);
  std::mt19937 random(1);
  std::size_t images = 0;
  for (std::size_t cut = 0; cut <= files.operations(); ++cut) {
    for (int i = 0; i < 60; ++i) {
      const Fate fate = i < 4 ? static_cast<Fate>(i) : Fate::random;
      check_image(files.after_cut(cut, fate, random), run, cut, i % 12 == 4);
      ++images;
      ASSERT_FALSE(testing::Test::HasFatalFailure());
    }
  }
  std::printf("%zu operations, %zu images after a power cut\n", files.operations(), images);
  RecordProperty("images", static_cast<int>(images));
  EXPECT_GT(images, 3000u);
}

/// How many of the images do not hold an allowed state.
std::size_t wrong_images(const PowerFiles& files, const Acknowledged& run) {
  std::mt19937 random(3);
  std::size_t wrong = 0;
  for (std::size_t cut = 0; cut <= files.operations(); ++cut) {
    for (int i = 0; i < 4; ++i) {
      PowerFiles disk(files.after_cut(cut, static_cast<Fate>(i), random));
      GRAFT_CHECK(disk.make_directory("store").ok());
      const auto store = Store::open(disk, "store", kCreate);
      const auto state = store.ok() ? read_state(*store) : Result<StoreState>(store.status());
      wrong += state.ok() && run.allows(cut, *state) ? 0 : 1;
    }
  }
  return wrong;
}

TEST(CheckpointCrash, TheSimulatorNoticesMissingSyncs) {
  PowerFiles files;
  const Acknowledged run = record_run(files, 6);
  EXPECT_EQ(wrong_images(files, run), 0u);
  files.ignore_name_syncs = true;
  EXPECT_GT(wrong_images(files, run), 0u);
  files.ignore_name_syncs = false;
  files.ignore_data_syncs = true;
  EXPECT_GT(wrong_images(files, run), 0u);
}

TEST(CheckpointCrash, ASecondPowerCutDuringRecoveryIsSurvivedToo) {
  PowerFiles files;
  const Acknowledged run = record_run(files, 7);
  std::mt19937 random(2);
  std::size_t images = 0;
  for (std::size_t cut = 0; cut <= files.operations(); cut += 3) {
    PowerFiles second(files.after_cut(cut, Fate::random, random));
    ASSERT_TRUE(second.make_directory("store").ok());
    StoreState recovered, next;
    std::size_t opened = 0;
    {
      auto store = Store::open(second, "store", kCreate);
      ASSERT_TRUE(store.ok());
      recovered = next = *read_state(*store);
      opened = second.operations();
      const std::uint64_t step = next.step + next.journal.size() + 1;
      ASSERT_TRUE(store->append(step_record(step)).ok());
      next.journal.push_back(step);
    }
    for (std::size_t at = 0; at <= second.operations(); ++at) {
      for (int i = 0; i < 4; ++i) {
        PowerFiles third(second.after_cut(at, i == 0 ? Fate::none : Fate::random, random));
        ASSERT_TRUE(third.make_directory("store").ok());
        const auto store = Store::open(third, "store", kCreate);
        ASSERT_TRUE(store.ok()) << cut << ", " << at << ": " << store.status().message();
        const auto state = read_state(*store);
        ASSERT_TRUE(state.ok()) << cut << ", " << at << ": " << state.status().message();
        ASSERT_TRUE(*state == next || (at < second.operations() && *state == recovered)) << cut << ", " << at;
        ++images;
      }
    }
    EXPECT_LE(opened, second.operations());
  }
  std::printf("%zu images after a second power cut\n", images);
  EXPECT_GT(images, 500u);
}

TEST(CheckpointCrash, EveryFailingFileCallLeavesTheStateBeforeOrAfter) {
  std::size_t faults = 0;
  for (const bool keep_failing : {false, true}) {
    for (const bool short_write : {false, true}) {
      for (std::uint64_t call = 1;; ++call) {
        PowerFiles disk;
        ASSERT_TRUE(disk.make_directory("store").ok());
        FaultFiles files(disk);
        files.state = {0, call, keep_failing, short_write, {}};
        StoreState done, under_way;
        bool finished = false;
        if (auto store = Store::open(files, "store", kCreate); store.ok()) {
          Status status =
              run_script(*store, kScriptSteps, keep_failing, [&](const StoreState& state) { done = state; });
          finished = status.ok();
          ASSERT_TRUE(keep_failing || finished) << call << ": " << status.message();  // one failure is outlived
        }
        const bool failed = !files.state.failed.empty();
        auto store = Store::open(disk, "store", kCreate);
        ASSERT_TRUE(store.ok()) << call << " (" << files.state.failed << "): " << store.status().message();
        const auto state = read_state(*store);
        ASSERT_TRUE(state.ok()) << call << " (" << files.state.failed << "): " << state.status().message();
        const std::uint64_t reached = state->step + state->journal.size();
        const std::uint64_t acknowledged = done.step + done.journal.size();
        ASSERT_TRUE(*state == done || reached == acknowledged + 1 ||
                    (reached == acknowledged && state->journal.empty()))
            << call << " (" << files.state.failed << ")";
        ASSERT_TRUE(state->step == 0 || state->streams == training_state(state->step));
        const auto verified = store->verify();
        ASSERT_TRUE(verified.ok() && verified->problems.empty())
            << call << " (" << files.state.failed << "): " << verified->problems[0];
        ASSERT_TRUE(run_script(*store, kScriptSteps + 3, true, [](const StoreState&) {}).ok());
        ASSERT_EQ(read_state(*store)->streams, training_state(kScriptSteps + 3));
        if (!failed) break;
        ++faults;
      }
    }
  }
  std::printf("%zu failing file calls\n", faults);
  EXPECT_GT(faults, 400u);
}

TEST(CheckpointCrash, EveryFlippedBitIsDetectedOrHarmless) {
  PowerFiles files;
  std::vector<StoreState> states;
  {
    auto store = Store::open(files, "store", {StoreMode::create, 64, 3, false, 99});
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE(store->append(step_record(1)).ok());
    for (std::uint64_t step = 1; step <= 2; ++step) {
      std::vector<float> values(40);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i) + 1e-4f * static_cast<float>(step);
      const auto bytes = std::as_bytes(std::span(values));
      ASSERT_TRUE(put(*store, step, {{"w", {bytes.begin(), bytes.end()}}}).ok());
      states.push_back(*read_state(*store));
      ASSERT_TRUE(store->append(step_record(step + 1)).ok());
    }
  }
  const auto image = files.contents();
  std::size_t flips = 0, detected = 0;
  for (const auto& [path, bytes] : image) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto damaged = image;
      damaged[path][bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      PowerFiles disk(damaged);
      ++flips;
      const auto store = Store::open(disk, "store", {StoreMode::read_only, 64, 3, true});
      ASSERT_TRUE(store.ok()) << path << " bit " << bit << ": " << store.status().message();
      detected += store->notes().empty() ? 0 : 1;
      const auto state = read_state(*store);
      ASSERT_TRUE(state.ok()) << path << " bit " << bit << ": " << state.status().message();
      if (state->step == 0) {  // both snapshots need the first segment; all steps lead there from the start
        ASSERT_TRUE(state->streams.empty());
      } else {
        ASSERT_EQ(state->streams, states[state->step - 1].streams) << path << " bit " << bit;
      }
      for (std::size_t i = 0; i < state->journal.size(); ++i) ASSERT_EQ(state->journal[i], state->step + 1 + i);
      const bool harmless = state->step == 2 && state->journal.size() == 1;
      ASSERT_TRUE(harmless || !store->notes().empty()) << path << " bit " << bit;
    }
  }
  std::printf("%zu flipped bits, %zu noticed at opening, the others harmless\n", flips, detected);
  EXPECT_GT(flips, 10000u);
}

}  // namespace
}  // namespace graft::test
