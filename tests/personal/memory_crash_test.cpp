// ctest: middle
// Power cuts at every operation, failures of every file call, and damage to every bit of a small memory.
#include <algorithm>
#include <cstdio>
#include <functional>

#include "platform/base/hash.h"
#include "tests/personal/memory_script.h"
#include "tests/support/files/fault_files.h"
#include "tests/support/files/power_files.h"
#include "tests/support/files/test_cipher.h"

namespace graft::test::memory_crash_test {
namespace {

using namespace personal;
using Fate = PowerFiles::Fate;

/// Small, so that a short run evicts and writes the whole file.
MemoryOptions small(os::FileSystem& files, std::shared_ptr<checkpoint::Cipher> cipher = nullptr) {
  MemoryOptions options = tiny_memory_options(files, 4096);
  options.settings.policy = Policy::age;
  options.settings.records = 11;
  options.cipher = std::move(cipher);
  return options;
}

std::string newest_of(const ExampleMemory& memory) {
  const auto all = memory.records();
  return (*std::ranges::max_element(all, {}, &Record::number))->id;
}

/// Adds, gives losses and erases; `told` after each. Goes on after a failure where `patient`.
Status run_memory(ExampleMemory& memory, int steps, bool patient, const std::function<void(const MemoryState&)>& told) {
  const auto now = [&] { return read_memory(memory); };
  for (int step = 0; step < steps; ++step) {
    const auto change = [&]() -> Status {
      if (step % 5 == 3) return memory.set_loss(newest_of(memory), step);
      if (step % 9 == 7) {
        const std::vector<std::string> gone = {newest_of(memory)};
        return memory.remove(gone);
      }
      auto added = put_tiny(memory, cat("r", step), tiny_sample(step));
      return added.ok() ? ok_status() : std::move(added).status();
    };
    Status done = change();
    if (!done.ok() && patient) done = change();
    GRAFT_TRY(std::move(done));
    auto state = now();
    if (!state.ok() && patient) state = now();
    GRAFT_TRY(Status(state.status()));
    told(*state);
  }
  return ok_status();
}

struct Told {
  std::vector<std::pair<std::size_t, MemoryState>> states;
  /// After operation `count`: the last that was told, or the one under way.
  bool allows(std::size_t count, const MemoryState& state) const {
    std::size_t last = 0;
    while (last + 1 < states.size() && states[last + 1].first <= count) ++last;
    return state == states[last].second || (last + 1 < states.size() && state == states[last + 1].second);
  }
};

Told record_run(PowerFiles& files, const std::shared_ptr<checkpoint::Cipher>& cipher, int steps) {
  Told run;
  auto memory = ExampleMemory::open("m", small(files, cipher));
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  run.states.push_back({files.operations(), {}});
  const Status status = run_memory(**memory, steps, false, [&](const MemoryState& state) {
    run.states.push_back({files.operations(), state});
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return run;
}

void try_cuts(const std::shared_ptr<checkpoint::Cipher>& cipher, int images, std::size_t& tried) {
  PowerFiles files;
  const Told run = record_run(files, cipher, 40);
  std::mt19937 random(1);
  for (std::size_t cut = run.states[0].first; cut <= files.operations(); ++cut) {
    for (int i = 0; i < images; ++i) {
      const auto fate = i < 4 ? static_cast<Fate>(i) : Fate::random;
      PowerFiles disk(files.after_cut(cut, fate, random));
      auto memory = ExampleMemory::open("m", small(disk, cipher));
      ASSERT_TRUE(memory.ok()) << "cut after " << cut << ": " << memory.status().message();
      const auto state = read_memory(**memory);
      ASSERT_TRUE(state.ok()) << "cut after " << cut << ": " << state.status().message();
      ASSERT_TRUE(run.allows(cut, *state)) << "cut after " << cut << ": " << state->size() << " records";
      // It takes records, and is whole when it is opened again.
      ASSERT_TRUE(put_tiny(**memory, "new", tiny_sample(99)).ok()) << "cut after " << cut;
      const auto next = read_memory(**memory);
      memory->reset();
      const auto again = ExampleMemory::open("m", small(disk, cipher));
      ASSERT_TRUE(again.ok()) << "cut after " << cut << ": " << again.status().message();
      ASSERT_EQ(*read_memory(**again), *next) << "cut after " << cut;
      ++tried;
    }
  }
}

TEST(MemoryCrash, EveryImageAfterAPowerCutHoldsWhatWasAcknowledged) {
  std::size_t tried = 0;
  try_cuts(nullptr, 14, tried);
  if (const std::shared_ptr<checkpoint::Cipher> cipher = make_cipher(7)) try_cuts(cipher, 6, tried);
  std::printf("%zu images after a power cut\n", tried);
  EXPECT_GT(tried, 2000u);
}

TEST(MemoryCrash, TheSimulatorNoticesMissingSyncs) {
  for (const bool names : {false, true}) {
    PowerFiles files;
    files.ignore_name_syncs = names;
    files.ignore_data_syncs = !names;
    const Told run = record_run(files, nullptr, 40);
    std::mt19937 random(3);
    std::size_t wrong = 0;
    for (std::size_t cut = run.states[0].first; cut <= files.operations(); ++cut) {
      PowerFiles disk(files.after_cut(cut, Fate::random, random));
      auto memory = ExampleMemory::open("m", small(disk));
      const auto state = memory.ok() ? read_memory(**memory) : Result<MemoryState>(memory.status());
      wrong += state.ok() && run.allows(cut, *state) ? 0 : 1;
    }
    EXPECT_GT(wrong, 0u) << names;
  }
}

void try_failing_calls(bool keep_failing, bool short_write, std::size_t& faults) {
  for (std::uint64_t call = 1;; ++call) {
    PowerFiles disk;
    FaultFiles files(disk);
    files.state = {0, call, keep_failing, short_write, false, {}};
    MemoryState done;
    bool opened = false;
    MemoryState under_way;
    {
      auto memory = ExampleMemory::open("m", small(files));
      opened = memory.ok();
      if (opened) {
        const Status status = run_memory(**memory, 30, !keep_failing, [&](const MemoryState& state) { done = state; });
        ASSERT_TRUE(keep_failing || status.ok()) << call << ": " << status.message();
      }
    }
    const bool failed = !files.state.failed.empty();
    auto memory = ExampleMemory::open("m", small(disk));
    ASSERT_TRUE(memory.ok()) << call << " (" << files.state.failed << "): " << memory.status().message();
    const auto state = read_memory(**memory);
    ASSERT_TRUE(state.ok()) << call << " (" << files.state.failed << "): " << state.status().message();
    // Nothing that was acknowledged is lost or back: one change more may have come to be.
    std::size_t differ = 0;
    for (const auto& [id, record] : done) differ += state->contains(id) && state->at(id) == record ? 0 : 1;
    for (const auto& [id, record] : *state) differ += done.contains(id) ? 0 : 1;
    ASSERT_LE(differ, keep_failing ? 2u : 0u) << call << " (" << files.state.failed << ")";
    ++faults;
    if (!failed) return;
  }
}

TEST(MemoryCrash, EveryFailingFileCallLeavesTheMemoryBeforeOrAfter) {
  std::size_t faults = 0;
  for (const bool keep_failing : {false, true}) {
    for (const bool short_write : {false, true}) try_failing_calls(keep_failing, short_write, faults);
  }
  std::printf("%zu failing file calls\n", faults);
  EXPECT_GT(faults, 400u);
}

/// Records that a damaged file gives must be those that were put in.
void expect_harmless(const PowerFiles::Image& image, const MemoryState& right,
                     const std::shared_ptr<checkpoint::Cipher>& cipher, const std::string& where,
                     std::size_t& refused) {
  PowerFiles disk(image);
  MemoryOptions options = small(disk, cipher);
  options.read_only = true;
  const auto memory = ExampleMemory::open("m", options);
  if (!memory.ok()) {
    ++refused;
    const std::string& message = memory.status().message();
    ASSERT_TRUE(message.starts_with("The memory \"m\" does not open: ")) << where << ": " << message;
    ASSERT_TRUE(message.ends_with('.') && message.find('\n') == std::string::npos) << where << ": " << message;
    return;
  }
  const auto state = read_memory(**memory);
  ASSERT_TRUE(state.ok()) << where << ": " << state.status().message();
  for (const auto& [id, record] : *state) {
    ASSERT_TRUE(right.contains(id) && right.at(id) == record) << where << ": " << id;
  }
  // What is lost was in the last commit, which looks like one that a crash cut off; or nothing is.
  ASSERT_GE(state->size() + 1, right.size()) << where;
}

TEST(MemoryCrash, FlippedBitsAndMissingBytesAreNoticedOrHarmless) {
  for (const auto& cipher :
       {std::shared_ptr<checkpoint::Cipher>(), std::shared_ptr<checkpoint::Cipher>(make_cipher(7))}) {
    PowerFiles files;
    MemoryState right;
    {
      auto memory = ExampleMemory::open("m", small(files, cipher));
      ASSERT_TRUE(memory.ok());
      for (int i = 0; i < 5; ++i) ASSERT_TRUE(put_tiny(**memory, cat("r", i), tiny_sample(i)).ok());
      right = *read_memory(**memory);
    }
    const PowerFiles::Image image = files.contents();
    const std::size_t bytes = image.at("m").size();
    std::size_t refused = 0;
    for (std::size_t bit = 0; bit < bytes * 8; ++bit) {
      auto changed = image;
      changed["m"][bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      expect_harmless(changed, right, cipher, cat("bit ", bit), refused);
    }
    // Of six parts of the file (start and records), a flip in all but the last one is refused.
    EXPECT_GT(refused, bytes * 8 * 2 / 3);
    for (std::size_t size = 0; size < bytes; ++size) {
      PowerFiles disk(image);
      auto cut = image;
      cut["m"].resize(size);
      PowerFiles short_disk(cut);
      MemoryOptions options = small(short_disk, cipher);
      options.read_only = true;
      const auto memory = ExampleMemory::open("m", options);
      if (!memory.ok()) continue;
      const auto state = read_memory(**memory);
      ASSERT_TRUE(state.ok()) << size;
      for (const auto& [id, record] : *state) ASSERT_EQ(right.at(id), record) << size;
    }
  }
}

TEST(MemoryCrash, AbsurdSizesAreRefusedWithoutTakingThem) {
  PowerFiles files;
  {
    auto memory = ExampleMemory::open("m", small(files));
    ASSERT_TRUE(memory.ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(put_tiny(**memory, cat("r", i), tiny_sample(i)).ok());
  }
  const auto image = files.contents();
  const auto message_of = [&](const std::function<void(PowerFiles::Bytes&)>& edit) {
    auto changed = image;
    edit(changed["m"]);
    PowerFiles disk(changed);
    MemoryOptions options = small(disk);
    options.read_only = true;
    const auto memory = ExampleMemory::open("m", options);
    return memory.ok() ? cat((*memory)->size(), " records") : memory.status().message();
  };
  const auto with_checksum = [](PowerFiles::Bytes& bytes) {
    const std::uint64_t sum = hash64(std::span<const std::byte>(bytes).first(56));
    std::memcpy(bytes.data() + 56, &sum, 8);
  };
  EXPECT_EQ(message_of([](auto& bytes) { bytes.clear(); }),
            "The memory \"m\" does not open: It is no memory of graft: it does not begin as one.");
  EXPECT_EQ(message_of([&](auto& bytes) {
              const std::uint64_t size = ~0ull;
              std::memcpy(bytes.data() + 32, &size, 8);
              with_checksum(bytes);
            }),
            "The memory \"m\" does not open: Its settings have 18446744073709551615 bytes; the limit is 1048576.");
  EXPECT_EQ(
      message_of([&](auto& bytes) {
        const std::uint64_t size = 1u << 20;
        std::memcpy(bytes.data() + 32, &size, 8);
        with_checksum(bytes);
      }),
      cat("The memory \"m\" does not open: It ends within its settings, after ", image.at("m").size(), " bytes."));
  EXPECT_EQ(message_of([](auto& bytes) {
              const std::uint32_t version = 9;
              std::memcpy(bytes.data() + 8, &version, 4);
            }),
            "The memory \"m\" does not open: It has version 9; this graft reads version 1.");
}

}  // namespace
}  // namespace graft::test::memory_crash_test
