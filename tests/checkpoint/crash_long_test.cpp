// ctest: long
// The faults of crash_test.cpp, many more of them, under several options, encrypted ones among them.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/files/store_faults.h"
#include "tests/support/files/test_cipher.h"

namespace graft::test::crash_long_test {
namespace {

using namespace checkpoint;

TEST(CheckpointCrashLong, AHundredThousandFaults) {
  const StoreOptions small{.mode = StoreMode::create,
                           .chunk_bytes = 512,
                           .max_chain = 3,
                           .identity = 1234,
                           .compaction = {.min_gain = 0, .min_gain_bytes = 0}};
  StoreOptions whole = small, lazy = small, sealed = small;
  whole.chunk_bytes = 4096;
  whole.max_chain = 1;
  lazy.max_chain = 8;
  lazy.max_restore_cost = 16;
  lazy.compaction.automatic = false;
  const auto cipher = make_cipher(3);
  sealed.cipher = cipher.get();
  std::size_t cuts = 0, second = 0, calls = 0, bits = 0;
  std::uint32_t seed = 100;
  for (const StoreOptions& options : {small, whole, lazy, sealed}) {
    cuts += try_power_cuts(options, ++seed, 150);
    second += try_second_power_cuts(options, ++seed, 16);
    calls += try_failing_calls(options);
    bits += try_flipped_bits(options);
    std::printf("%zu images after a power cut, %zu after a second one, %zu failing calls, %zu flipped bits\n", cuts,
                second, calls, bits);
    std::fflush(stdout);
    if (HasFatalFailure()) return;
  }
  std::printf("%zu faults tried\n", cuts + second + calls + bits);
  EXPECT_GE(cuts + second + calls + bits, 100000u);
}

}  // namespace
}  // namespace graft::test::crash_long_test
