// Copies in parts: what a device with small bindings is given, carried out word by word on the host.
#include "runtime/ops/movement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "shaders/common/fill_words_push.h"
#include "shaders/common/strided_copy_push.h"
#include "shaders/kernels.gen.h"

namespace graft::movement_test {
namespace {

using Words = std::vector<std::uint32_t>;

/// A graph with one copying node, whose emitter hands out bindings of its input and output.
struct Fixture {
  Fixture(std::int64_t from_words, std::int64_t to_words, std::uint64_t binding_bytes) {
    device.caps.max_storage_buffer_range = binding_bytes;
    const auto x = graph.add_value("x", DType::i32, {from_words}, ValueKind::input);
    const auto y = graph.add_value("y", DType::i32, {to_words}, ValueKind::input);
    EXPECT_TRUE(x.ok() && y.ok());
    node.inputs = {*x};
    node.outputs = {*y};
    memory[0].resize(static_cast<std::size_t>(from_words));
    std::iota(memory[0].begin(), memory[0].end(), 1);
    memory[1].resize(static_cast<std::size_t>(to_words));
  }

  std::span<std::uint32_t> bound(const Binding& binding) {
    EXPECT_LE(binding.slot.size, device.caps.max_storage_buffer_range);
    EXPECT_EQ(binding.slot.offset % device.caps.storage_buffer_alignment, 0U);
    return std::span(memory[binding.slot.index]).subspan(binding.slot.offset / 4, binding.slot.size / 4);
  }

  void run(const DispatchDesc& dispatch) {
    if (dispatch.kernel == shaders::KernelId::fill_words__w32) {
      push::FillWordsPush p;
      std::memcpy(&p, dispatch.push.data(), sizeof p);
      const auto to = bound(dispatch.bindings[0]);
      ASSERT_LE(p.count, to.size());
      std::fill_n(to.begin(), p.count, p.word);
      return;
    }
    push::StridedCopyPush p;
    std::memcpy(&p, dispatch.push.data(), sizeof p);
    const auto from = bound(dispatch.bindings[0]);
    const auto to = bound(dispatch.bindings[1]);
    for (std::uint32_t i = 0; i < p.count; ++i) {
      std::uint32_t rest = i;
      std::uint32_t source = p.from_offset;
      std::uint32_t target = p.to_offset;
      for (std::uint32_t axis = p.axes; axis-- > 0;) {
        source += rest % p.size[axis] * p.from_stride[axis];
        target += rest % p.size[axis] * p.to_stride[axis];
        rest /= p.size[axis];
      }
      ASSERT_LT(source, from.size());
      ASSERT_LT(target, to.size());
      to[target] = from[source];
    }
  }

  Graph graph;
  Node node;
  gpu::Target device;
  Words memory[2];
};

StridedCopy transposed(std::int64_t rows, std::int64_t cols) { return {{cols, rows}, {1, cols}, {rows, 1}}; }

TEST(Movement, CopiesWholeWhereItFits) {
  Fixture f(35, 35, 1 << 20);
  Emitter e(f.graph, f.node, f.device);
  ASSERT_TRUE(emit_strided_copy(e, e.in(0), e.out(), transposed(5, 7)).ok());
  ASSERT_EQ(e.dispatches().size(), 1U);
  f.run(e.dispatches()[0]);
  for (std::uint32_t i = 0; i < 35; ++i) EXPECT_EQ(f.memory[1][i], i % 5 * 7 + i / 5 + 1);
}

TEST(Movement, TransposesInPartsThatBindingsCanHold) {
  Fixture f(150 * 70, 150 * 70, 4096);  // 1024 words; the matrix has 10500
  Emitter e(f.graph, f.node, f.device);
  ASSERT_TRUE(emit_strided_copy(e, e.in(0), e.out(), transposed(150, 70)).ok());
  EXPECT_GT(e.dispatches().size(), 10U);
  for (const DispatchDesc& dispatch : e.dispatches()) f.run(dispatch);
  for (std::uint32_t i = 0; i < 10500; ++i) ASSERT_EQ(f.memory[1][i], i % 150 * 70 + i / 150 + 1);
}

TEST(Movement, ReversesInParts) {
  Fixture f(5000, 5000, 4096);
  Emitter e(f.graph, f.node, f.device);
  ASSERT_TRUE(emit_strided_copy(e, e.in(0), e.out(), {{5000}, {-1}, {1}, 4999, 0}).ok());
  for (const DispatchDesc& dispatch : e.dispatches()) f.run(dispatch);
  for (std::uint32_t i = 0; i < 5000; ++i) ASSERT_EQ(f.memory[1][i], 5000 - i);
}

TEST(Movement, RepeatsInParts) {
  Fixture f(3, 6000, 4096);
  Emitter e(f.graph, f.node, f.device);
  ASSERT_TRUE(emit_strided_copy(e, e.in(0), e.out(), {{2000, 3}, {0, 1}, {3, 1}}).ok());
  for (const DispatchDesc& dispatch : e.dispatches()) f.run(dispatch);
  for (std::uint32_t i = 0; i < 6000; ++i) ASSERT_EQ(f.memory[1][i], i % 3 + 1);
}

TEST(Movement, FillsInParts) {
  Fixture f(1, 5000, 4096);
  Emitter e(f.graph, f.node, f.device);
  ASSERT_TRUE(emit_fill(e, e.out(), 5000, 7).ok());
  EXPECT_EQ(e.dispatches().size(), 5U);
  for (const DispatchDesc& dispatch : e.dispatches()) f.run(dispatch);
  EXPECT_EQ(f.memory[1], Words(5000, 7));
}

TEST(Movement, AnEmptyBoxIsNothing) {
  Fixture f(4, 4, 4096);
  Emitter e(f.graph, f.node, f.device);
  ASSERT_TRUE(emit_strided_copy(e, e.in(0), e.out(), {{2, 0, 3}, {1, 1, 1}, {1, 1, 1}}).ok());
  ASSERT_TRUE(emit_fill(e, e.out(), 0, 7).ok());
  EXPECT_TRUE(e.dispatches().empty());
}

TEST(Movement, CollapsesAxes) {
  StridedCopy copy{{2, 3, 1, 4}, {12, 4, 99, 1}, {12, 4, 7, 1}};
  collapse(copy);
  EXPECT_EQ(copy.sizes, (std::vector<std::int64_t>{24}));
  copy = {{1, 1}, {5, 5}, {5, 5}};
  collapse(copy);
  EXPECT_EQ(copy.sizes, (std::vector<std::int64_t>{1}));
}

}  // namespace
}  // namespace graft::movement_test
