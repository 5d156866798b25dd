#include "tests/support/files/store_faults.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/files/fault_files.h"
#include "tests/support/files/power_files.h"
#include "tests/support/files/store_script.h"

namespace graft::test {
namespace {

using namespace checkpoint;
using Fate = PowerFiles::Fate;

StoreOptions reading(StoreOptions options) {
  options.mode = StoreMode::read_only;
  return options;
}

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

Acknowledged record_run(PowerFiles& files, const StoreOptions& options, std::uint64_t last) {
  Acknowledged run;
  run.states.push_back({0, {}});
  auto store = Store::open(files, "store", options);
  GRAFT_CHECK(store.ok());
  run.states.push_back({files.operations(), {}});
  const Status status = run_script(*store, last, true, [&](const StoreState& state) {
    run.states.push_back({files.operations(), state});
  });
  GRAFT_CHECK(status.ok());
  return run;
}

/// Opens an image for writing, compares, and goes on training in it where `go_on`.
void check_image(const PowerFiles::Image& image, const StoreOptions& options, const Acknowledged& run, std::size_t cut,
                 bool go_on) {
  PowerFiles files(image);
  ASSERT_TRUE(files.make_directory("store").ok());
  {
    auto store = Store::open(files, "store", options);
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
  const auto again = Store::open(files, "store", reading(options));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(again->notes().empty());
  EXPECT_EQ(read_state(*again)->streams, training_state(kScriptSteps + 3));
}

/// How many of the images do not hold an allowed state.
std::size_t wrong_images(const PowerFiles& files, const StoreOptions& options, const Acknowledged& run) {
  std::mt19937 random(3);
  std::size_t wrong = 0;
  for (std::size_t cut = 0; cut <= files.operations(); ++cut) {
    for (int i = 0; i < 4; ++i) {
      PowerFiles disk(files.after_cut(cut, static_cast<Fate>(i), random));
      GRAFT_CHECK(disk.make_directory("store").ok());
      const auto store = Store::open(disk, "store", options);
      const auto state = store.ok() ? read_state(*store) : Result<StoreState>(store.status());
      wrong += state.ok() && run.allows(cut, *state) ? 0 : 1;
    }
  }
  return wrong;
}

void second_power_cuts(const StoreOptions& options, std::uint32_t seed, int per_cut, std::size_t& images) {
  PowerFiles files;
  const Acknowledged run = record_run(files, options, 7);
  std::mt19937 random(seed);
  for (std::size_t cut = 0; cut <= files.operations(); cut += 3) {
    PowerFiles second(files.after_cut(cut, Fate::random, random));
    ASSERT_TRUE(second.make_directory("store").ok());
    StoreState recovered, next;
    std::size_t opened = 0;
    {
      auto store = Store::open(second, "store", options);
      ASSERT_TRUE(store.ok());
      recovered = next = *read_state(*store);
      opened = second.operations();
      const std::uint64_t step = next.step + next.journal.size() + 1;
      ASSERT_TRUE(store->append(step_record(step)).ok());
      next.journal.push_back(step);
    }
    for (std::size_t at = 0; at <= second.operations(); ++at) {
      for (int i = 0; i < per_cut; ++i) {
        PowerFiles third(second.after_cut(at, i == 0 ? Fate::none : Fate::random, random));
        ASSERT_TRUE(third.make_directory("store").ok());
        const auto store = Store::open(third, "store", options);
        ASSERT_TRUE(store.ok()) << cut << ", " << at << ": " << store.status().message();
        const auto state = read_state(*store);
        ASSERT_TRUE(state.ok()) << cut << ", " << at << ": " << state.status().message();
        ASSERT_TRUE(*state == next || (at < second.operations() && *state == recovered)) << cut << ", " << at;
        ++images;
      }
    }
    EXPECT_LE(opened, second.operations());
  }
}

void failing_calls(const StoreOptions& options, std::size_t& faults) {
  for (const bool keep_failing : {false, true}) {
    for (const bool short_write : {false, true}) {
      for (std::uint64_t call = 1;; ++call) {
        PowerFiles disk;
        ASSERT_TRUE(disk.make_directory("store").ok());
        FaultFiles files(disk);
        files.state = {0, call, keep_failing, short_write, {}};
        StoreState done, under_way;
        bool finished = false;
        if (auto store = Store::open(files, "store", options); store.ok()) {
          Status status =
              run_script(*store, kScriptSteps, keep_failing, [&](const StoreState& state) { done = state; });
          finished = status.ok();
          ASSERT_TRUE(keep_failing || finished) << call << ": " << status.message();  // one failure is outlived
        }
        const bool failed = !files.state.failed.empty();
        auto store = Store::open(disk, "store", options);
        ASSERT_TRUE(store.ok()) << call << " (" << files.state.failed << "): " << store.status().message();
        const auto state = read_state(*store);
        ASSERT_TRUE(state.ok()) << call << " (" << files.state.failed << "): " << state.status().message();
        const std::uint64_t reached = state->step + state->journal.size();
        const std::uint64_t acknowledged = done.step + done.journal.size();
        ASSERT_TRUE(reached == acknowledged || reached == acknowledged + 1)
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
}

void flipped_bits(StoreOptions options, std::size_t& flips) {
  options.chunk_bytes = 64;
  options.deep = true;
  PowerFiles files;
  std::vector<StoreState> states;
  {
    auto store = Store::open(files, "store", options);
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
  std::size_t detected = 0;
  for (const auto& [path, bytes] : image) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto damaged = image;
      damaged[path][bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      PowerFiles disk(damaged);
      ++flips;
      const auto store = Store::open(disk, "store", reading(options));
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
      for (const auto& [number, manifest] : store->snapshots()) {
        const auto restored = store->restore(number, "w", 1 << 20);
        ASSERT_TRUE(!restored.ok() || std::ranges::equal(restored->bytes(), states[number - 1].streams.at("w")));
      }
      const bool harmless = state->step == 2 && state->journal.size() == 1;
      ASSERT_TRUE(harmless || !store->notes().empty()) << path << " bit " << bit;
    }
  }
  EXPECT_GT(detected, flips / 2);
}

void group_commits(const StoreOptions& options, std::uint32_t seed, int per_cut, std::size_t& images) {
  PowerFiles files;
  std::vector<std::size_t> appended_by, synced_by;  // by record: after which operation
  {
    auto store = Store::open(files, "store", options);
    ASSERT_TRUE(store.ok());
    for (std::uint64_t step = 1; step <= 20; ++step) {
      appended_by.push_back(files.operations());
      ASSERT_TRUE(store->append(step_record(step)).ok());
      if (store->unsynced_records() == 0) synced_by.resize(appended_by.size(), files.operations());
    }
    ASSERT_LT(synced_by.size(), appended_by.size());  // the last ones wait
  }
  std::mt19937 random(seed);
  for (std::size_t cut = 0; cut <= files.operations(); ++cut) {
    for (int i = 0; i < per_cut; ++i) {
      PowerFiles disk(files.after_cut(cut, i < 4 ? static_cast<Fate>(i) : Fate::random, random));
      ASSERT_TRUE(disk.make_directory("store").ok());
      const auto store = Store::open(disk, "store", options);
      ASSERT_TRUE(store.ok()) << cut << ": " << store.status().message();
      const auto& records = store->journal();
      const auto by = [&](const std::vector<std::size_t>& when, std::size_t limit) {
        return static_cast<std::size_t>(std::count_if(when.begin(), when.end(), [&](auto at) { return at <= limit; }));
      };
      ASSERT_GE(records.size(), by(synced_by, cut)) << cut;
      ASSERT_LE(records.size(), by(appended_by, cut)) << cut;
      for (std::size_t k = 0; k < records.size(); ++k) ASSERT_EQ(records[k], step_record(k + 1)) << cut;
      ++images;
    }
  }
}

}  // namespace

std::size_t try_power_cuts(const StoreOptions& options, std::uint32_t seed, int images) {
  PowerFiles files;
  const Acknowledged run = record_run(files, options, kScriptSteps);
  std::mt19937 random(seed);
  std::size_t tried = 0;
  for (std::size_t cut = 0; cut <= files.operations(); ++cut) {
    for (int i = 0; i < images; ++i) {
      const Fate fate = i < 4 ? static_cast<Fate>(i) : Fate::random;
      check_image(files.after_cut(cut, fate, random), options, run, cut, i % 12 == 4);
      ++tried;
      if (testing::Test::HasFatalFailure()) return tried;
    }
  }
  return tried;
}

std::size_t count_wrong_images(const StoreOptions& options, bool forget_names, bool forget_bytes) {
  PowerFiles files;
  const Acknowledged run = record_run(files, options, 6);
  files.ignore_name_syncs = forget_names;
  files.ignore_data_syncs = forget_bytes;
  return wrong_images(files, options, run);
}

std::size_t try_second_power_cuts(const StoreOptions& options, std::uint32_t seed, int images) {
  std::size_t tried = 0;
  second_power_cuts(options, seed, images, tried);
  return tried;
}

std::size_t try_failing_calls(const StoreOptions& options) {
  std::size_t tried = 0;
  failing_calls(options, tried);
  return tried;
}

std::size_t try_flipped_bits(const StoreOptions& options) {
  std::size_t tried = 0;
  flipped_bits(options, tried);
  return tried;
}

std::size_t try_power_cuts_of_group_commits(StoreOptions options, std::uint32_t seed, int images) {
  options.journal = {.every = 3};
  std::size_t tried = 0;
  group_commits(options, seed, images, tried);
  return tried;
}

}  // namespace graft::test
