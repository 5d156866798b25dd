// Numbers between the host and a device that keeps them in 16 bits; weights kept so, written and read in pieces.
#include "runtime/exec/numbers.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "platform/base/half.h"
#include "runtime/exec/memory.h"
#include "tests/support/device_test.h"

namespace graft::exec_numbers_test {
namespace {

/// Neither exact in f16 nor in bf16, most of them.
std::vector<float> numbers(std::size_t count) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 9) - 6);
  return out;
}

float rounded(float x, DType stored) {
  return stored == DType::f16    ? half_to_float(float_to_half(x))
         : stored == DType::bf16 ? bfloat_to_float(float_to_bfloat(x))
                                 : x;
}

TEST(Numbers, GoThereAndBack) {
  const auto x = numbers(5000);
  for (const DType stored : {DType::f32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(dtype_name(stored));
    std::vector<std::byte> narrow(x.size() * dtype_size(stored));
    convert_numbers(DType::f32, std::as_bytes(std::span(x)), stored, narrow.data());
    std::vector<float> wide(x.size()), at_once(x.size());
    convert_numbers(stored, narrow, DType::f32, std::as_writable_bytes(std::span(wide)).data());
    round_numbers(DType::f32, std::as_bytes(std::span(x)), stored, std::as_writable_bytes(std::span(at_once)).data());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(wide[i], rounded(x[i], stored)) << i;
    EXPECT_EQ(at_once, wide);
  }
}

TEST(Numbers, LargeOnesAreFoundBeforeTheyAreLost) {
  const auto beyond = [](std::vector<float> x, DType stored) {
    return first_beyond(DType::f32, std::as_bytes(std::span(x)), stored);
  };
  EXPECT_EQ(beyond({1, 65519, -65519, INFINITY, NAN}, DType::f16), std::nullopt);
  EXPECT_EQ(beyond({1, -65520, 7e4f}, DType::f16), -65520.0f);
  EXPECT_EQ(beyond({1e38f, 3.3895e38f}, DType::bf16), std::nullopt);
  EXPECT_EQ(beyond({3.4e38f}, DType::bf16), 3.4e38f);
  EXPECT_EQ(beyond({3.4e38f}, DType::f32), std::nullopt);
}

class NarrowResidents : public test::DeviceTest {};

TEST_F(NarrowResidents, AreWrittenAndReadAsF32) {
  for (const DType stored : {DType::f16, DType::bf16}) {
    for (const std::int64_t count : {1000, 1001}) {  // the last word holds one or two
      for (const bool direct : {true, false}) {
        SCOPED_TRACE(cat(dtype_name(stored), ' ', count, direct));
        Graph graph;
        const ValueId w = graph.add_value("w", DType::f32, Shape{count}, ValueKind::constant).value();
        graph.mutable_value(w).storage = stored;
        Residents residents(device_->caps(), {.transfer_bytes = 256});
        ASSERT_TRUE(residents.add(graph).ok());
        const Resident& resident = *residents.find("w");
        EXPECT_EQ(resident.bytes, static_cast<std::uint64_t>(4 * count));
        EXPECT_EQ(resident.device_bytes, static_cast<std::uint64_t>((2 * count + 3) / 4 * 4));
        const auto memory = Memory::create(*device_, residents, {}).value();
        memory->set_use_mapped(direct);
        EXPECT_EQ(memory->allocated_bytes(), Memory::planned(residents, {}).total());
        const auto x = numbers(static_cast<std::size_t>(count));
        ASSERT_TRUE(memory->write("w", std::as_bytes(std::span(x))).ok());
        const auto part = std::span(x).subspan(10, 20);  // over others
        ASSERT_TRUE(memory->write("w", std::as_bytes(part), 4 * 600).ok());
        std::vector<float> got(x.size());
        ASSERT_TRUE(memory->read("w", std::as_writable_bytes(std::span(got))).ok());
        for (std::size_t i = 0; i < x.size(); ++i) {
          ASSERT_EQ(got[i], rounded(i >= 600 && i < 620 ? x[i - 590] : x[i], stored)) << i;
        }
        EXPECT_FALSE(memory->write("w", std::as_bytes(part), 4).ok()) << "amid a word of the device";
        if (stored != DType::f16) continue;
        const std::array<float, 2> large = {1, 1e5f};
        const Status refused = memory->write("w", std::as_bytes(std::span(large)));
        EXPECT_EQ(refused.message(),
                  "The value \"w\" holds 100000, which f16 cannot: another precision must be chosen.");
      }
    }
  }
}

}  // namespace
}  // namespace graft::exec_numbers_test
