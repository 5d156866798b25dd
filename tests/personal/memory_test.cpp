// What a memory of examples takes, evicts, holds out and erases.
#include "runtime/personal/memory.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/personal/memory_script.h"
#include "tests/support/files/power_files.h"
#include "tests/support/files/test_cipher.h"
#include "tests/support/samples.h"

namespace graft::test::memory_test {
namespace {

using namespace personal;

std::set<std::string> ids_of(const ExampleMemory& memory) {
  std::set<std::string> ids;
  for (const Record* record : memory.records()) ids.insert(record->id);
  return ids;
}

/// A memory that was given samples [0, count), in this order or the other way round.
std::set<std::string> kept_of(Policy policy, int count, std::uint64_t records, bool backwards = false,
                              std::uint64_t seed = 5) {
  PowerFiles files;
  MemoryOptions options = tiny_memory_options(files);
  options.settings.policy = policy;
  options.settings.records = records;
  options.settings.seed = seed;
  auto memory = ExampleMemory::open("m", options);
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  for (int i = 0; i < count; ++i) {
    const int number = backwards ? count - 1 - i : i;
    // Sample 0 is the least surprising one.
    const auto added = put_tiny(**memory, cat("r", number), tiny_sample(number), number);
    EXPECT_TRUE(added.ok()) << added.status().message();
  }
  return ids_of(**memory);
}

bool file_holds(const PowerFiles& files, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const auto image = files.contents();
  return std::any_of(image.begin(), image.end(), [&](const auto& file) {
    return std::search(file.second.begin(), file.second.end(), bytes.begin(), bytes.end()) != file.second.end();
  });
}

TEST(ExampleMemory, HoldsWhatItWasGivenAfterItIsOpenedAgain) {
  PowerFiles files;
  const MemoryOptions options = tiny_memory_options(files);
  {
    auto memory = ExampleMemory::open("m", options);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(put_tiny(**memory, cat("r", i), tiny_sample(i))->stored);
    ASSERT_TRUE((*memory)->set_loss("r3", 0.25).ok());
    // The same sample once more is no failure: an app may ask again after a crash.
    const auto again = put_tiny(**memory, "r7", tiny_sample(7));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_TRUE(again->is_known);
    EXPECT_FALSE(again->stored);
    const auto other = put_tiny(**memory, "r7", tiny_sample(8));
    EXPECT_EQ(other.status().message(), "The memory has a record \"r7\" with another sample; remove it first.");
  }
  MemoryOptions reading = options;
  reading.read_only = true;
  const auto memory = ExampleMemory::open("m", reading);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  ASSERT_EQ((*memory)->size(), 20u);
  for (int i = 0; i < 20; ++i) {
    std::vector<std::byte> sample;
    ASSERT_TRUE((*memory)->read(cat("r", i), sample).ok());
    EXPECT_EQ(sample, tiny_sample(i).bytes());
    const Record& record = **(*memory)->find(cat("r", i));
    EXPECT_EQ(record.label, i % 3);
    EXPECT_EQ(record.number, static_cast<std::uint64_t>(i));
    EXPECT_EQ(std::isnan(record.loss), i != 3);
  }
  EXPECT_EQ((*(*memory)->find("r3"))->loss, 0.25);
  EXPECT_EQ((*memory)->torn_bytes(), 0u);
  std::vector<std::byte> sample;
  EXPECT_EQ((*memory)->read("r20", sample).message(), "The memory has no record \"r20\".");
  EXPECT_EQ((*memory)->set_loss("r3", 1).message(), "The memory is open to read only.");
}

TEST(ExampleMemory, EvictsTheOldestTheLeastSurprisingOrByChanceOfTheLargestClass) {
  // 9 places for 3 classes: 3 each, the newest or the most surprising, which are the same here.
  const std::set<std::string> newest = {"r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29"};
  EXPECT_EQ(kept_of(Policy::age, 30, 9), newest);
  EXPECT_EQ(kept_of(Policy::loss, 30, 9), newest);
  EXPECT_EQ(kept_of(Policy::loss, 30, 9, true), newest);
  // A reservoir does not depend on the order either, and another seed draws others.
  const auto drawn = kept_of(Policy::reservoir, 30, 9);
  EXPECT_EQ(kept_of(Policy::reservoir, 30, 9, true), drawn);
  EXPECT_NE(kept_of(Policy::reservoir, 30, 9, false, 6), drawn);
  EXPECT_EQ(drawn.size(), 9u);
  for (int label = 0; label < 3; ++label) {
    EXPECT_EQ(std::ranges::count_if(drawn, [&](const std::string& id) { return std::stoi(id.substr(1)) % 3 == label; }),
              3);
  }
}

TEST(ExampleMemory, AReservoirIsAUniformSample) {
  // 300 seeds keep 10 of 40 records of one class: each 75 times, with a standard deviation of 7.5. Five of them allow a
  // failure by chance in one of 40,000 sets of seeds, and the seeds are fixed.
  std::map<std::string, int> kept;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    PowerFiles files;
    MemoryOptions options = tiny_memory_options(files);
    options.settings.records = 10;
    options.settings.seed = seed;
    auto memory = ExampleMemory::open("m", options);
    ASSERT_TRUE(memory.ok());
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(put_tiny(**memory, cat("r", i), tiny_sample(i, 1)).ok());
    for (const std::string& id : ids_of(**memory)) ++kept[id];
  }
  for (int i = 0; i < 40; ++i) EXPECT_NEAR(kept[cat("r", i)], 75, 38) << i;
}

TEST(ExampleMemory, TheFileStaysWithinItsSize) {
  PowerFiles files;
  MemoryOptions options = tiny_memory_options(files, 8192);
  options.settings.policy = Policy::age;
  auto memory = ExampleMemory::open("m", options);
  ASSERT_TRUE(memory.ok());
  std::uint64_t most = 0;
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(put_tiny(**memory, cat("record ", i), tiny_sample(i, 1)).ok());
    if (i % 7 == 0) {
      ASSERT_TRUE((*memory)->set_loss(cat("record ", i), i).ok());
    }
    ASSERT_EQ(files.info("m")->size, (*memory)->file_bytes());
    most = std::max(most, (*memory)->file_bytes());
  }
  EXPECT_LE(most, 8192u);
  EXPECT_GT((*memory)->record_bytes(), 5000u);
  EXPECT_LE((*memory)->record_bytes(), 6144u);
  // The newest in a row.
  const std::size_t count = (*memory)->size();
  for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE((*memory)->find(cat("record ", 399 - i)).ok()) << i;
  options.settings.fields[0].shape = Shape{2000};
  MemoryOptions large = tiny_memory_options(files, 8192);
  large.settings.fields[0].shape = Shape{2000};
  auto other = ExampleMemory::open("large", large);
  ASSERT_TRUE(other.ok());
  const std::vector<float> values(2000);
  const std::int32_t label = 0;
  const std::array contents = {reinterpret_cast<const std::byte*>(values.data()),
                               reinterpret_cast<const std::byte*>(&label)};
  EXPECT_EQ(
      (*other)->add({}, contents).status().message(),
      "A record of 7.94 KiB does not fit into a memory of 8.00 KiB, of which records take three quarters at most.");
}

TEST(ExampleMemory, HeldOutRecordsAreDrawnByTheirIdsAndNeverTrainedOn) {
  PowerFiles files;
  MemoryOptions options = tiny_memory_options(files);
  options.settings.held_out = 0.25;
  auto memory = ExampleMemory::open("m", options);
  ASSERT_TRUE(memory.ok());
  for (int i = 0; i < 400; ++i) {
    Record record;
    record.id = cat("r", i);
    record.may_train = i % 5 != 0;
    record.may_evaluate = i % 7 != 0;
    record.may_export = i % 11 == 0;
    record.expires_ms = i % 13 == 0 ? 1000 : 0;
    ASSERT_TRUE((*memory)->add(std::move(record), tiny_sample(i).contents()).ok());
  }
  std::set<std::string> training, held_out;
  for (const std::string& id : (*memory)->ids_of(Part::training, 1000)) training.insert(id);
  for (const std::string& id : (*memory)->ids_of(Part::held_out, 1000)) held_out.insert(id);
  int drawn = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string id = cat("r", i);
    const bool is_out = (*memory)->is_held_out(id);
    drawn += is_out ? 1 : 0;
    EXPECT_EQ(training.contains(id), !is_out && i % 5 != 0 && i % 13 != 0) << i;
    EXPECT_EQ(held_out.contains(id), is_out && i % 7 != 0 && i % 13 != 0) << i;
  }
  EXPECT_NEAR(drawn, 100, 30);  // a deviation of 8.7
  EXPECT_EQ((*memory)->ids_of(Part::exported, 0).size(), 37u);
  EXPECT_EQ((*memory)->ids_of(Part::exported, 1000).size(), 34u);
  // By id, and their samples.
  const auto source = (*memory)->source(Part::training, 1000);
  ASSERT_TRUE(source.ok());
  ASSERT_EQ((*source)->size(), training.size());
  std::uint64_t row = 0;
  for (const std::string& id : training) {
    EXPECT_EQ(sample_of(**source, row++)[0], std::stoi(id.substr(1))) << id;
  }
  EXPECT_EQ((*memory)->expire(999)->size(), 0u);
  EXPECT_EQ((*memory)->expire(1000)->size(), 31u);
  EXPECT_EQ((*memory)->size(), 369u);
  MemoryOptions none = tiny_memory_options(files);
  auto empty = ExampleMemory::open("empty", none);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ((*empty)->source(Part::held_out, 0).status().message(),
            "The memory holds no record that is held out: it has 0 in all.");
}

TEST(ExampleMemory, ErasedRecordsAreNowhereInTheFile) {
  PowerFiles files;
  auto memory = ExampleMemory::open("m", tiny_memory_options(files));
  ASSERT_TRUE(memory.ok());
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(put_tiny(**memory, cat("secret-", i), tiny_sample(i)).ok());
  const auto open_set = (*memory)->source(Part::training, 0);
  ASSERT_TRUE(open_set.ok());
  ASSERT_TRUE(file_holds(files, "secret-4"));
  const std::vector<std::string> gone = {"secret-4", "secret-7"};
  ASSERT_TRUE((*memory)->remove(gone).ok());
  EXPECT_FALSE(file_holds(files, "secret-4") || file_holds(files, "secret-7"));
  EXPECT_TRUE(file_holds(files, "secret-3"));
  EXPECT_EQ((*memory)->size(), 7u);
  // A set that was opened before reads what it was opened on.
  EXPECT_EQ(sample_of(**open_set, 4)[0], 4);
  const std::vector<std::string> missing = {"secret-3", "secret-4"};
  EXPECT_EQ((*memory)->remove(missing).message(), "The memory has no record \"secret-4\".");
  EXPECT_EQ((*memory)->size(), 7u);
  // Evicted records go with the next new file at the latest, and at once as records.
  ASSERT_TRUE(put_tiny(**memory, "secret-4", tiny_sample(40)).ok());
  EXPECT_EQ((*memory)->size(), 8u);
}

TEST(ExampleMemory, RefusesOtherSamplesAndIdsThatAreNone) {
  PowerFiles files;
  auto memory = ExampleMemory::open("m", tiny_memory_options(files));
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(put_tiny(**memory, std::string(256, 'x'), tiny_sample(0)).status().message(),
            "The id of a record has 256 bytes; the limit is 255.");
  EXPECT_EQ(put_tiny(**memory, "a\nb", tiny_sample(0)).status().message(),
            "The id \"a\\nb\" of a record is not text in UTF-8 without control characters.");
  EXPECT_EQ(put_tiny(**memory, "\xff", tiny_sample(0)).status().code(), Code::invalid_argument);
  EXPECT_EQ(put_tiny(**memory, "a", tiny_sample(0), INFINITY).status().message(),
            "The loss of a record is not finite.");
  EXPECT_EQ(ExampleMemory::open("m", tiny_memory_options(files)).status().code(), Code::io_error) << "it is locked";
  memory->reset();
  MemoryOptions other = tiny_memory_options(files);
  other.settings.fields[0].shape = Shape{5};
  EXPECT_EQ(ExampleMemory::open("m", other).status().message(),
            "The memory holds other samples: its field 0 is \"x\", f32 [4], that of the samples is \"x\", f32 [5].");
  other.settings.fields.clear();
  EXPECT_EQ(ExampleMemory::open("none", other).status().code(), Code::not_found);
  MemoryOptions small = tiny_memory_options(files, 100);
  EXPECT_EQ(ExampleMemory::open("small", small).status().message(),
            "A memory of 100 bytes is too small; at least 4096 are needed.");
}

TEST(ExampleMemory, AnEncryptedFileIsUnreadableAndOpensByItsKeyOnly) {
  std::shared_ptr<checkpoint::Cipher> cipher = make_cipher(7), other = make_cipher(8);
  if (cipher == nullptr) GTEST_SKIP() << "built without OpenSSL (Debian's libssl-dev)";
  PowerFiles files;
  MemoryOptions options = tiny_memory_options(files);
  options.cipher = cipher;
  {
    auto memory = ExampleMemory::open("m", options);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    for (int i = 0; i < 9; ++i) ASSERT_TRUE(put_tiny(**memory, cat("secret-", i), tiny_sample(i)).ok());
    const std::vector<std::string> gone = {"secret-4"};
    ASSERT_TRUE((*memory)->remove(gone).ok());
    ASSERT_TRUE((*memory)->set_loss("secret-2", 2).ok());
  }
  EXPECT_FALSE(file_holds(files, "secret"));
  {
    const auto memory = ExampleMemory::open("m", options);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    EXPECT_EQ((*memory)->size(), 8u);
    std::vector<std::byte> sample;
    ASSERT_TRUE((*memory)->read("secret-8", sample).ok());
    EXPECT_EQ(sample, tiny_sample(8).bytes());
    EXPECT_EQ((*(*memory)->find("secret-2"))->loss, 2);
  }
  options.cipher = other;
  EXPECT_EQ(ExampleMemory::open("m", options).status().message(),
            "The memory \"m\" does not open: The key is not the one that it was made with, or it was tampered with.");
  options.cipher = nullptr;
  EXPECT_EQ(ExampleMemory::open("m", options).status().message(),
            "The memory \"m\" does not open: It is encrypted; it opens with its cipher and key only.");
  { ASSERT_TRUE(ExampleMemory::open("plain", options).ok()); }
  options.cipher = cipher;
  EXPECT_EQ(ExampleMemory::open("plain", options).status().message(),
            "The memory \"plain\" does not open: A cipher was given, but it is not encrypted.");
}

}  // namespace
}  // namespace graft::test::memory_test
