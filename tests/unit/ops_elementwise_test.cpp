#include "runtime/core/op_id.gen.h"
#include "runtime/ops/elementwise.h"

#include <gtest/gtest.h>

namespace graft::ops_elementwise_test {
namespace {

constexpr std::uint64_t kLimit = 4096;  // bytes in one binding: 1024 elements

gpu::Target small_device() {
  gpu::Target target;
  target.caps.max_storage_buffer_range = kLimit;
  return target;
}

struct Emitted {
  Status status;
  std::vector<DispatchDesc> dispatches;
};

Emitted emit_one(Op op, const std::vector<Shape>& shapes) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (const Shape& shape : shapes) {
    inputs.push_back(graph.add_value(cat("x", inputs.size()), DType::f32, shape, ValueKind::input).value());
  }
  const NodeId node = graph.add_node(op, inputs, {}, "y").value();
  const gpu::Target target = small_device();
  Emitter emitter(graph, graph.node(node), target);
  Status status = op_def(op).emit(emitter);
  return {std::move(status), emitter.dispatches()};
}

// Every binding is within the limit and starts where the device lets bindings start; the last one, the output, is
// covered once from its start to its end.
void expect_covers(const Emitted& emitted, std::uint64_t output_bytes) {
  ASSERT_TRUE(emitted.status.ok()) << emitted.status.message();
  std::uint64_t end = 0;
  for (const DispatchDesc& dispatch : emitted.dispatches) {
    for (const Binding& binding : dispatch.bindings) {
      EXPECT_LE(binding.slot.size, kLimit);
      EXPECT_GT(binding.slot.size, 0u);
      EXPECT_EQ(binding.slot.offset % 256, 0u);
    }
    EXPECT_EQ(dispatch.bindings.back().slot.offset, end);
    end += dispatch.bindings.back().slot.size;
  }
  EXPECT_EQ(end, output_bytes);
}

TEST(Elementwise, LargeTensorsAreSplitAtTheLimitOfABinding) {
  const Emitted flat = emit_one(Op::exp, {Shape{2500}});
  expect_covers(flat, 2500 * 4);
  EXPECT_EQ(flat.dispatches.size(), 3u);
  expect_covers(emit_one(Op::add, {Shape{2500}, Shape{2500}}), 2500 * 4);
  expect_covers(emit_one(Op::add, {Shape{2500}, Shape{}}), 2500 * 4);
  expect_covers(emit_one(Op::add, {Shape{300, 10}, Shape{10}}), 3000 * 4);
  expect_covers(emit_one(Op::mul, {Shape{300, 1}, Shape{300, 10}}), 3000 * 4);
}

TEST(Elementwise, WhatCannotBeSplitIsRefusedWithTheLimit) {
  const Emitted rows = emit_one(Op::add, {Shape{3, 1000}, Shape{1000}});
  ASSERT_FALSE(rows.status.ok());
  EXPECT_NE(rows.status.message().find("at most 1024 elements"), std::string::npos) << rows.status.message();
}

TEST(Elementwise, NothingIsDispatchedForNoElements) {
  EXPECT_TRUE(emit_one(Op::exp, {Shape{0, 3}}).dispatches.empty());
  EXPECT_TRUE(emit_one(Op::add, {Shape{0, 3}, Shape{3}}).dispatches.empty());
}

TEST(Elementwise, AxesMergeAsFarAsAllOperandsAllow) {
  const Shape out = {2, 3, 4, 5};
  const Shape both[] = {out, Shape{4, 5}};
  const StridedLayout layout = strided_layout(out, both);
  ASSERT_EQ(layout.rank, 2u);
  EXPECT_EQ(layout.dims[0], 20u);
  EXPECT_EQ(layout.dims[1], 6u);
  EXPECT_EQ(layout.strides[0][1], 20u);
  EXPECT_EQ(layout.strides[1][0], 1u);
  EXPECT_EQ(layout.strides[1][1], 0u);
}

}  // namespace
}  // namespace graft::ops_elementwise_test
