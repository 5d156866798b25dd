#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "runtime/core/philox.h"
#include "tests/support/op_case.h"

namespace graft::test::dropout_test {
namespace {

OpCase dropout(double p, std::int64_t training = 1, std::vector<std::int64_t> dims = {3, 347}) {
  OpCase c = {.name = cat("p_", p, "_training_", training, Shape::of(dims).text()),
              .op = Op::dropout,
              .inputs = {{.dims = dims, .low = 0.5, .high = 2}},
              .attrs = {{"p", p}, {"training", training}, {"stream", std::int64_t{3}}},
              .tolerance = 2e-7,
              .reason = "the factor 1/(1-p) and one product round to 6e-8 each; which elements are kept is exact",
              .expect_dims = dims};
  c.step_state.seed = 1234567;
  c.step_state.step = 17;
  c.step_state.micro_step = 2;
  return c;
}

std::vector<OpCase> cases() {
  OpCase other = dropout(0.5);
  other.name += "_other_counters";
  other.step_state.seed = 0xffffffffu;
  other.step_state.step = 0x80000000u;
  other.attrs.set("stream", std::int64_t{0xffffffff});
  return {dropout(0.5),           dropout(0.1),          dropout(0.9),        dropout(0), dropout(1),
          dropout(0.5, 0),        dropout(0.25, 1, {2}), dropout(0.5, 1, {}), other,      dropout(0.5, 1, {0, 3}),
          dropout(0.3, 1, {9002})};
}

GRAFT_OP_CASES(Dropout, cases());

TEST(DropoutErrors, Attributes) {
  expect_infer_error(dropout(1.5), "[0, 1]");
  expect_infer_error(dropout(std::nan("")), "[0, 1]");
  OpCase c = dropout(0.5);
  c.attrs.set("stream", std::int64_t{-1});
  expect_infer_error(c, "\"stream\" is -1");
}

// Known answers published with the Random123 library that accompanies the paper.
TEST(Philox, KnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t f = 0xffffffffu;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
            (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

// The reference's masks: the right share is kept, and steps, micro steps, streams and seeds all differ.
TEST(DropoutMasks, AreIndependent) {
  const auto mask = [](std::uint32_t seed, std::uint32_t stream, std::uint32_t step, std::uint32_t micro) {
    Graph graph;
    const ValueId x = graph.add_value("x", DType::f32, Shape{40000}, ValueKind::input).value();
    const Attrs attrs = {{"p", 0.25}, {"training", std::int64_t{1}}, {"stream", std::int64_t{stream}}};
    EXPECT_TRUE(graph.add_node(Op::dropout, {x}, attrs, "y").ok());
    RefTensors tensors;
    tensors["x"] = {{40000}, std::vector<double>(40000, 1.0)};
    RefStepState state;
    state.seed = seed;
    state.step = step;
    state.micro_step = micro;
    EXPECT_TRUE(interpret(graph, tensors, state).ok());
    return tensors["y"].data;
  };
  const auto base = mask(1, 1, 1, 1);
  double kept = 0;
  for (const double x : base) kept += x != 0 ? 1 : 0;
  EXPECT_NEAR(kept / 40000, 0.75, 0.01) << "five standard deviations of 40000 draws";
  for (const auto& other : {mask(2, 1, 1, 1), mask(1, 2, 1, 1), mask(1, 1, 2, 1), mask(1, 1, 1, 2)}) {
    double both = 0;
    for (std::size_t i = 0; i < base.size(); ++i) both += base[i] != 0 && other[i] != 0 ? 1 : 0;
    EXPECT_NEAR(both / 40000, 0.75 * 0.75, 0.0125) << "five standard deviations";
  }
  EXPECT_EQ(base, mask(1, 1, 1, 1));
}

}  // namespace
}  // namespace graft::test::dropout_test
