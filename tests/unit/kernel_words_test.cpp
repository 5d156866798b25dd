// Kernels as the bytes that are packed: the words come back, and bytes that are not all there are refused.
#include "shaders/kernel_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "shaders/kernels.gen.h"

namespace graft::kernel_words_test {
namespace {

using Words = std::vector<std::uint32_t>;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// What is read of `words` after they were written; nothing where one of the two failed.
Words again(const Words& words) {
  std::string bytes;
  Words read(words.size());
  if (!shaders::write_kernel(words, bytes) || !shaders::read_kernel(bytes_of(bytes), read)) return {};
  return read;
}

std::uint32_t head(std::uint32_t opcode, std::uint32_t words) { return words << 16 | opcode; }

/// A header with so many ids, and these instructions behind it.
Words module(std::uint32_t bound, const Words& instructions) {
  Words words = {0x07230203, 0x00010300, 11, bound, 0};
  words.insert(words.end(), instructions.begin(), instructions.end());
  return words;
}

TEST(KernelWords, ComeBackForEachKernelFromAThirdOfTheBytes) {
  std::size_t words = 0;
  std::string bytes;
  for (std::uint16_t k = 0; k < static_cast<std::uint16_t>(shaders::KernelId::count_); ++k) {
    const shaders::KernelInfo& info = shaders::kernel_info(static_cast<shaders::KernelId>(k));
    if (!info.built()) continue;
    const Words own(info.spirv().begin(), info.spirv().end());
    ASSERT_EQ(own.size(), info.place.words) << info.name;
    ASSERT_EQ(own.front(), 0x07230203u) << info.name;
    EXPECT_EQ(again(own), own) << info.name;
    ASSERT_TRUE(shaders::write_kernel(own, bytes));
    words += own.size();
  }
  EXPECT_LT(bytes.size() * 3, words * 4);
}

TEST(KernelWords, KeepWhatTheirTableDoesNotKnow) {
  for (const Words& instructions : {
           Words{}, Words{head(9999, 1)},                                  // an opcode that no table knows
           Words{head(9999, 3), 0xffffffff, 0},                            // with operands
           Words{head(253, 2), 7},                                         // a return of two words
           Words{head(128, 4), 2, 3, 1},                                   // a sum of one operand
           Words{head(254, 2), 5, head(255, 1)},                           // the opcodes that stand for others
           Words{head(61, 5), 2, 3, 1, 2},                                 // a load with a memory operand
           Words{head(62, 3), 0xffffffff, 0x7fffffff},                     // ids beyond the bound
           Words{head(43, 4), 1, 9, 0xbf800000, head(43, 5), 1, 8, 1, 2},  // constants of one word and of two
       }) {
    const Words words = module(10, instructions);
    EXPECT_EQ(again(words), words) << testing::PrintToString(instructions);
  }
}

TEST(KernelWords, KeepEachWayOfNamingAnId) {
  const Words words = module(40, {
                                     head(19, 2),
                                     2,  // void
                                     head(21, 4),
                                     6,
                                     32,
                                     0,  // uint
                                     head(43, 4),
                                     6,
                                     7,
                                     5,  // a constant of it
                                     head(54, 5),
                                     2,
                                     4,
                                     0,
                                     3,  // a function, whose type 3 is not known
                                     head(248, 2),
                                     5,  // its block
                                     head(59, 4),
                                     6,
                                     20,
                                     7,  // a variable
                                     head(128, 5),
                                     6,
                                     21,
                                     7,
                                     20,  // ranked ids
                                     head(128, 5),
                                     6,
                                     22,
                                     21,
                                     7,  // the result before, and a ranked one
                                     head(128, 5),
                                     2,
                                     23,
                                     22,
                                     21,  // another type
                                     head(249, 2),
                                     30,  // forward
                                     head(248, 2),
                                     30,
                                     head(253, 1),
                                     head(56, 1),
                                 });
  EXPECT_EQ(again(words), words);
}

TEST(KernelWords, AreNotWrittenWhereTheyAreNoKernels) {
  std::string bytes;
  EXPECT_FALSE(shaders::write_kernel(Words{1, 2, 3, 4}, bytes)) << "no header";
  EXPECT_FALSE(shaders::write_kernel(module(10, {head(253, 0)}), bytes)) << "an instruction of no words";
  EXPECT_FALSE(shaders::write_kernel(module(10, {head(62, 3), 1}), bytes)) << "one that goes on behind the end";
  EXPECT_FALSE(shaders::write_kernel(module(10, {head(248, 2), 10}), bytes)) << "a result beyond the bound";
  EXPECT_FALSE(shaders::write_kernel(module(10, {head(248, 2), 3, head(248, 2), 3}), bytes)) << "a result twice";
  EXPECT_FALSE(shaders::write_kernel(module(1u << 30, {}), bytes)) << "a bound beyond all kernels";
}

TEST(KernelWords, AreNotReadFromBytesThatAreCutOrOthers) {
  const shaders::KernelInfo& info = shaders::kernel_info(shaders::KernelId::accumulate__f32);
  std::string bytes;
  ASSERT_TRUE(shaders::write_kernel(info.spirv(), bytes));
  Words words(info.place.words);
  ASSERT_TRUE(shaders::read_kernel(bytes_of(bytes), words));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(shaders::read_kernel(bytes_of(bytes).first(size), words)) << size;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {  // never outside of its memory, which the sanitizers look at
    std::string other = bytes;
    other[at] = static_cast<char>(~other[at]);
    const bool read = shaders::read_kernel(bytes_of(other), words);
    EXPECT_TRUE(!read || !std::ranges::equal(words, info.spirv())) << at;
  }
}

}  // namespace
}  // namespace graft::kernel_words_test
