// Status and Result, checked arithmetic, the host allocator, the log sink and toggles.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include "platform/base/allocator.h"
#include "platform/base/checked.h"
#include "platform/base/log.h"
#include "platform/base/numbers.h"
#include "platform/base/stable_sort.h"
#include "platform/base/status.h"
#include "platform/base/toggles.h"

namespace graft::platform_base_test {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return invalid("The value ", value, " is odd.");
  return value / 2;
}

Status quarter(int value, int& out) {
  GRAFT_TRY_ASSIGN(const int once, half(value));
  GRAFT_TRY_ASSIGN(out, half(once));
  return ok_status();
}

TEST(Status, CarriesCodeAndContext) {
  int out = 0;
  EXPECT_TRUE(quarter(12, out).ok());
  EXPECT_EQ(out, 3);
  const Status status = quarter(6, out).with_context("While testing");
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.message(), "While testing: The value 3 is odd.");
  EXPECT_EQ(ok_status().with_context("x").message(), "");
  EXPECT_STREQ(code_name(Code::device_lost), "device_lost");
}

TEST(Result, MovesItsValue) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 5);
  EXPECT_EQ(half(3).with_context("Outer").status().message(), "Outer: The value 3 is odd.");
}

TEST(Status, StaysFailedWhereItWasMovedFrom) {
  Status first = invalid("one");
  const Status copy = first;
  Status second = std::move(first);
  EXPECT_FALSE(first.ok());  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_EQ(first.message(), "");
  EXPECT_FALSE(Status(first).ok());
  EXPECT_EQ(second.message(), "one");
  second = std::move(second).with_context("zero");
  EXPECT_EQ(second.message(), "zero: one");
  EXPECT_EQ(copy.message(), "one");
  Status& itself = second;
  second = itself;
  EXPECT_EQ(second.message(), "zero: one");
  second = std::move(itself);
  EXPECT_EQ(second.message(), "zero: one");
  second = ok_status();
  EXPECT_TRUE(second.ok());
  EXPECT_EQ(second.code(), Code::ok);
  EXPECT_EQ(second.message(), "");
  EXPECT_TRUE(Status(second).with_context("none").ok());
}

TEST(Status, IsTriedAsAValueAndAsAReference) {
  const auto tried = [](const auto& given) -> Status {
    GRAFT_TRY(given);
    return unsupported("went on");
  };
  const Status failed = corrupt("damaged");
  EXPECT_EQ(tried(failed).message(), "damaged");
  EXPECT_EQ(tried(Result<int>(failed)).message(), "damaged");
  EXPECT_EQ(tried(ok_status()).message(), "went on");
  EXPECT_EQ(tried(Result<int>(1)).message(), "went on");
  EXPECT_EQ(failed.message(), "damaged") << "it was copied";
}

TEST(Result, StaysWithoutAValueWhenItsErrorWasTaken) {
  const auto alive = std::make_shared<int>(0);
  {
    Result<std::shared_ptr<int>> failed = invalid("none");
    EXPECT_EQ(std::move(failed).status().message(), "none");
    EXPECT_FALSE(failed.ok());  // NOLINT(bugprone-use-after-move): what is tested
    failed = alive;
    ASSERT_TRUE(failed.ok());
    EXPECT_EQ(alive.use_count(), 2);
    Result<std::shared_ptr<int>> copy = failed;
    EXPECT_EQ(alive.use_count(), 3);
    copy = Status(invalid("gone"));
    EXPECT_EQ(alive.use_count(), 2);
    copy = std::move(failed);
    EXPECT_EQ(alive.use_count(), 2);
    EXPECT_EQ(*copy, alive);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(Text, PartsAreWrittenAsAStreamDoes) {
  const auto expect_as_streamed = [](const auto&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    EXPECT_EQ(cat(parts...), out.str());
    EXPECT_EQ(invalid(parts...).message(), out.str());
  };
  enum Plain : std::uint8_t { plain = 65 };
  enum Signed : int { negative = -3 };
  const std::string text = std::string("with\0zero", 9);
  const char* const pointer = "pointer";
  const void* const address = &text;
  expect_as_streamed("literal", text, std::string_view(text).substr(3), pointer, 'c', "");
  expect_as_streamed(true, false, static_cast<signed char>('s'), static_cast<unsigned char>('u'), plain, negative);
  expect_as_streamed(static_cast<short>(-5), static_cast<unsigned short>(65535), -7, 4294967295u, INT64_MIN,
                     UINT64_MAX);
  expect_as_streamed(1.0f / 3, 2.0 / 3, 1e300, -0.0, std::numeric_limits<double>::infinity(), 100000.0, 1e6, address);
  expect_as_streamed(1, 2u, 3l, 4ul, 5.5, "6", '7', true, -9, 10ll, 11ull, 12.5f, "13", text, '5', "16");
  EXPECT_EQ(cat(), "");
}

TEST(StableSort, GivesWhatTheStandardLibraryDoes) {
  std::mt19937 random(1);
  for (std::size_t count = 0; count < 300; count += count < 40 ? 1 : 37) {
    std::vector<std::pair<unsigned, std::unique_ptr<std::size_t>>> sorted;
    std::vector<std::pair<unsigned, std::size_t>> expected;
    for (std::size_t i = 0; i < count; ++i) {
      const auto key = static_cast<unsigned>(random() % 7);
      sorted.emplace_back(key, std::make_unique<std::size_t>(i));
      expected.emplace_back(key, i);
    }
    const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
    graft::stable_sort(sorted, less);
    std::stable_sort(expected.begin(), expected.end(), less);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(*sorted[i].second, expected[i].second) << count << ' ' << i;
  }
}

TEST(Checked, SeesEveryOverflow) {
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(checked_add<std::uint64_t>(kMax - 1, 1), kMax);
  EXPECT_FALSE(checked_add<std::uint64_t>(kMax, 1));
  EXPECT_FALSE(checked_mul<std::int64_t>(std::int64_t{1} << 62, 2));
  EXPECT_EQ(checked_mul<std::int64_t>(-3, 4), -12);
  EXPECT_FALSE(checked_align(kMax - 10, 64));
  EXPECT_EQ(checked_align(65, 64), 128u);
  EXPECT_TRUE(in_bounds(10, 0, 10));
  EXPECT_FALSE(in_bounds(11, 0, 10));
  EXPECT_FALSE(in_bounds(8, kMax, 10));
  EXPECT_EQ(ceil_div(9, 4), 3);
}

TEST(Text, Bytes) {
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(3ull << 30), "3.00 GiB");
  EXPECT_EQ(bytes_text(5000ull << 40), "5000.00 TiB");
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {  // as printf rounds; ties are such as 1152.0 + 1 / 8
    const std::uint64_t bytes = (1024 + random() % (std::uint64_t{1} << random() % 50)) & ~(i % 2 * 127ull);
    int unit = 0;
    while (bytes >> 10 * unit >= 1024 && unit < 4) ++unit;
    char text[64];
    std::snprintf(text, sizeof text, "%.2f %s", std::ldexp(static_cast<double>(bytes), -10 * unit),
                  std::array{"B", "KiB", "MiB", "GiB", "TiB"}[static_cast<std::size_t>(unit)]);
    if (unit != 0) {
      EXPECT_EQ(bytes_text(bytes), text) << bytes;
    }
  }
}

struct CountingHeap {
  std::size_t live = 0;
  std::size_t limit = 1000;
  HostAllocator allocator() {
    return {[](void* user, std::size_t bytes, std::size_t alignment) -> void* {
              auto* heap = static_cast<CountingHeap*>(user);
              if (heap->live + bytes > heap->limit) return nullptr;
              heap->live += bytes;
              const HostAllocator base = default_host_allocator();
              return base.allocate(nullptr, bytes, alignment);
            },
            [](void* user, void* block, std::size_t bytes, std::size_t alignment) {
              static_cast<CountingHeap*>(user)->live -= bytes;
              const HostAllocator base = default_host_allocator();
              base.release(nullptr, block, bytes, alignment);
            },
            this};
  }
};

TEST(HostBuffer, UsesTheGivenAllocatorAndReportsFailure) {
  CountingHeap heap;
  auto buffer = HostBuffer::create(600, "staging", heap.allocator()).value();
  EXPECT_EQ(heap.live, 600u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % HostBuffer::kAlignment, 0u);
  const auto failed = HostBuffer::create(600, "the index", heap.allocator());
  EXPECT_EQ(failed.status().code(), Code::out_of_memory);
  EXPECT_EQ(failed.status().message(), "Host memory for the index (600 B) could not be allocated.");
  HostBuffer moved = std::move(buffer);
  moved = HostBuffer::create(100, "other", heap.allocator()).value();
  EXPECT_EQ(heap.live, 100u) << "assignment frees what was held";
  moved.reset();
  EXPECT_EQ(heap.live, 0u);
  EXPECT_EQ(HostBuffer::create(0, "nothing", heap.allocator())->size(), 0u);
  EXPECT_EQ(HostBuffer::create(~0ull, "everything").status().code(), Code::out_of_memory);
}

// from_chars of this machine's library is the oracle of what stands in for it elsewhere.
TEST(Numbers, AreReadAlikeWithAndWithoutFromChars) {
  for (const char* text : {"0",        "-0",     "1.5",
                           "-2.25e-3", ".5",     "5.",
                           "1e5",      "1E+5",   "1e308",
                           "1e309",    "-1e999", "4e-324",
                           "1e-400",   "0e-400", "inf",
                           "-inf",     "nan",    "",
                           "-",        "+1",     "--1",
                           " 1",       "1 ",     "1,5",
                           "0x10",     "1e",     "abc",
                           "1.8p3",    "-1.8p3", "ffp-2",
                           "p3",       "0.0p9",  "1p-9999",
                           "1p99999",  "e",      "-+1",
                           "infinit",  "0.1",    "123456789.123456789"}) {
    for (const bool hexadecimal : {false, true}) {
      double a = 7, b = 7;
      const bool read = hexadecimal ? whole_hexadecimal(text, a) : whole_number(text, a);
      EXPECT_EQ(whole_number_by_strtod(text, hexadecimal, b), read) << '"' << text << '"' << hexadecimal;
      if (!read || std::isnan(a)) continue;  // nothing is promised of a number that is none
      EXPECT_EQ(std::bit_cast<std::uint64_t>(a), std::bit_cast<std::uint64_t>(b)) << '"' << text << '"' << hexadecimal;
    }
  }
  double number = 0;
  EXPECT_TRUE(whole_number("-2.5e1", number) && number == -25);
  EXPECT_TRUE(whole_hexadecimal("1.8p1", number) && number == 3);
  int integer = 0;
  EXPECT_TRUE(whole_number("-12", integer) && integer == -12);
  EXPECT_FALSE(whole_number("12.", integer) || whole_number("99999999999", integer));
}

TEST(LogSink, FiltersByLevel) {
  LogSink()(LogLevel::error, "dropped");
  std::string text;
  const LogSink sink{
      [](void* user, LogLevel, std::string_view message) { *static_cast<std::string*>(user) += message; }, &text,
      LogLevel::warning};
  sink(LogLevel::info, "quiet");
  sink(LogLevel::warning, "loud ", 7);
  EXPECT_EQ(text, "loud 7");
}

TEST(Toggles, ParsesOnceAndRefusesTheUnknown) {
  const ToggleInfo known[] = {{"fuse", "Fuse."}, {"tile", "Tile size."}, {"no-cache", "Skip the cache."}};
  const auto toggles = Toggles::parse(" fuse, tile=32,,no-cache", known).value();
  EXPECT_TRUE(toggles.enabled("fuse"));
  EXPECT_TRUE(toggles.enabled("no-cache"));
  EXPECT_FALSE(toggles.enabled("tile2"));
  EXPECT_TRUE(toggles.enabled("tile2", true));
  EXPECT_EQ(toggles.value("tile"), "32");
  EXPECT_FALSE(toggles.value("fuse"));
  EXPECT_FALSE(Toggles::parse("fuse,no-fuse", known)->enabled("fuse", true)) << "the last mention wins";
  EXPECT_EQ(Toggles::parse("fuze", known).status().message(),
            "There is no switch named \"fuze\"; the known ones are: fuse, tile, no-cache.");
}

}  // namespace
}  // namespace graft::platform_base_test
