// Records of data sets of text: how they are put together, and files whose tokens do not stay in memory.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "runtime/data/loader.h"
#include "runtime/language/text_layout.h"
#include "runtime/language/text_records.h"
#include "runtime/language/text_spec.h"
#include "tests/support/letter_model.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::text_records_test {
namespace {

/// Lengths that differ, from a linear congruence.
std::vector<TextPiece> pieces(std::size_t count, std::uint32_t most) {
  std::vector<TextPiece> out;
  std::uint64_t state = 7;
  for (std::uint32_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    out.push_back({i, 0, 2 + static_cast<std::uint32_t>((state >> 40) % most)});
  }
  return out;
}

TEST(TextLayout, PutsWholePiecesTogetherAndFillsWell) {
  constexpr std::uint32_t kLength = 64;
  const auto all = pieces(1000, kLength);
  const TextLayout layout(all, kLength, true);
  std::set<std::uint32_t> seen;
  std::uint64_t places = 0;
  std::uint32_t last_first = 0;
  for (std::uint64_t s = 0; s < layout.samples(); ++s) {
    std::uint32_t filled = 0;
    for (std::uint64_t i = 0; i < layout.size(s); ++i) {
      const TextPiece& piece = layout.piece(s, i);
      filled += piece.places();
      EXPECT_TRUE(seen.insert(piece.record).second);
      EXPECT_EQ(piece.count, all[piece.record].count);
      if (i > 0) {
        EXPECT_LT(layout.piece(s, i - 1).record, piece.record);
      }
    }
    EXPECT_LE(filled, kLength);
    places += filled;
    if (s > 0) {
      EXPECT_GT(layout.piece(s, 0).record, last_first);
    }
    last_first = layout.piece(s, 0).record;
  }
  EXPECT_EQ(seen.size(), all.size());
  // No packing needs fewer samples than this.
  EXPECT_LE(layout.samples(), 1 + (places + kLength - 1) / kLength * 102 / 100);
  EXPECT_TRUE(layout.packs());
}

TEST(TextLayout, OneASampleWhereNothingFitsOrNobodyAsks) {
  const auto all = pieces(20, 64);
  const TextLayout alone(all, 64, false);
  ASSERT_EQ(alone.samples(), 20U);
  EXPECT_EQ(alone.piece(7, 0).record, 7U);
  const TextLayout large({{0, 0, 60}, {1, 0, 50}}, 64, true);
  EXPECT_EQ(large.samples(), 2U);
  EXPECT_FALSE(large.packs());
  EXPECT_EQ(TextLayout({}, 64, true).samples(), 0U);
}

/// Conversations of the letters that the model knows.
std::string lines(std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string prompt(1 + i % 5, static_cast<char>('a' + i % 16));
    const std::string answer(1 + i % 7, static_cast<char>('a' + i * 3 % 16));
    out += R"({"prompt": ")" + prompt + R"(", "completion": ")" + answer + "\"}\n";
  }
  return out;
}

/// The next batches of a loader, field by field.
std::vector<std::vector<std::byte>> batches(data::Loader& loader, std::size_t count) {
  std::vector<std::vector<std::byte>> out;
  for (std::size_t i = 0; i < count; ++i) {
    const auto batch = loader.next();
    EXPECT_TRUE(batch.ok() && *batch != nullptr);
    if (!batch.ok() || *batch == nullptr) break;
    std::vector<std::byte>& bytes = out.emplace_back();
    for (std::size_t f = 0; f < loader.source().fields().size(); ++f) {
      const auto field = (*batch)->field(f);
      bytes.insert(bytes.end(), field.begin(), field.end());
    }
  }
  return out;
}

TEST(TextRecords, AFileOfWhichNothingIsKeptGivesTheSameBatchesAlsoAfterAResume) {
  const test::TemporaryFolder folder;
  const std::string spec = "jsonl:" + folder.write("data.jsonl", lines(200));
  const Model model = test::letter_model();
  auto kept = open_text_set(spec, model, {.length = 24});
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  EXPECT_TRUE(kept->summary.packed);
  EXPECT_GT(kept->summary.filled(), 0.97);
  EXPECT_EQ(kept->summary.records, 200U);
  // Nothing, or a part of the records, stays in memory.
  for (const std::uint64_t bytes : {0U, 2000U}) {
    auto streamed = open_text_set(spec, model, {.length = 24, .kept_bytes = bytes});
    ASSERT_TRUE(streamed.ok()) << streamed.status().message();
    ASSERT_EQ(streamed->source->size(), kept->source->size());
    const data::LoaderOptions options{.batch = 3, .seed = 5};
    const auto first = data::Loader::create(*kept->source, options).value();
    const auto second = data::Loader::create(*streamed->source, options).value();
    const auto expected = batches(*first, 20);
    EXPECT_EQ(batches(*second, 9), std::vector(expected.begin(), expected.begin() + 9));
    const data::Cursor cursor = second->cursor();
    auto again = open_text_set(spec, model, {.length = 24, .kept_bytes = bytes}).value();
    const auto resumed = data::Loader::create(*again.source, options).value();
    ASSERT_TRUE(resumed->restore(cursor).ok());
    EXPECT_EQ(batches(*resumed, 11), std::vector(expected.begin() + 9, expected.end()));
  }
}

TEST(TextRecords, AFileThatChangedWhileItWasReadIsAnErrorAndNothingElse) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("data.jsonl", lines(20));
  const Model model = test::letter_model();
  auto set = open_text_set("jsonl:" + path, model, {.length = 24, .kept_bytes = 0}).value();
  std::string shorter;
  for (int i = 0; i < 400; ++i) shorter += "{\"text\": \"\"}   \n";
  folder.write("data.jsonl", shorter);
  const auto loader = data::Loader::create(*set.source, {.batch = 1}).value();
  const auto batch = loader->next();
  EXPECT_FALSE(batch.ok());
}

TEST(TextRecords, RecordsAreFoundAcrossBlocks) {
  const test::TemporaryFolder folder;
  std::string array = "[";
  const std::string filler(300 * 1024, 'x');
  for (int i = 0; i < 12; ++i)
    array += (i == 0 ? "" : ",\n ") + ("{\"text\": \"" + filler + std::to_string(i) + "\\\"]}\"}");
  const auto file = RecordFile::open(folder.write("a.json", array + "]\n"), {});
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->count(), 12U);
  EXPECT_EQ(file->name_of(11), "record 11");
  EXPECT_TRUE(file->read(11)->ends_with("11\\\"]}\"}"));
  std::string text;
  for (int i = 0; i < 12; ++i) text += "{\"text\": \"" + filler + "\"}\n\n";
  const auto by_line = RecordFile::open(folder.write("b.jsonl", text), {});
  ASSERT_TRUE(by_line.ok()) << by_line.status().message();
  ASSERT_EQ(by_line->count(), 12U);
  EXPECT_EQ(by_line->name_of(11), "line 23");
}

}  // namespace
}  // namespace graft::text_records_test
