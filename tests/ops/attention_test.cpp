// ctest: costly. Some thirty cases whose pipelines a software device takes a second each to compile.
#include <cmath>

#include "platform/gpu/presets.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/choice.h"
#include "shaders/kernels.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::attention_test {
namespace {

using Dims = std::vector<std::int64_t>;
constexpr std::int64_t kOne = 1;

struct Sizes {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, dim = 8;
};

OpCase attend(std::string name, Sizes s, Attrs attrs = {{"causal", kOne}}) {
  const Dims q = {s.batch, s.queries, s.heads, s.dim};
  const Dims k = {s.batch, s.keys, s.kv_heads, s.dim};
  return {.name = std::move(name),
          .op = Op::attention,
          .inputs = {{.dims = q}, {.dims = k}, {.dims = k}},
          .attrs = std::move(attrs),
          .tolerance = 3e-5,
          .reason = "sums over keys and over a head in f32; exp of scores that carry the rounding of a product",
          .cotangents = 1,
          .difference_tolerance = 3e-5,
          // Differences of sums over a head and over keys, of results that were rounded.
          .low_precision_roundings = 16};
}

OpCase with_packed_sequences(OpCase c, std::vector<double> sequences) {
  const Dims dims = {c.inputs[0].dims[0], c.inputs[0].dims[1]};
  c.inputs.push_back({.dims = dims, .dtype = DType::i32, .values = std::move(sequences)});
  return c;
}

/// A mask of these sizes: one key in three is not seen, the others by more or less.
OpCase with_mask(OpCase c, Dims dims) {
  std::vector<double> values;
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(i % 3 == 1 ? -INFINITY : 0.1 * static_cast<double>(i % 23));
  c.inputs.push_back({.missing = true});
  c.inputs.push_back({.dims = std::move(dims), .values = std::move(values), .grad = false});
  return c;
}

// Scores far apart: the running maximum must move, and nothing may overflow.
OpCase sharp(OpCase c) {
  for (const std::size_t i : {0, 1}) {
    c.inputs[i].low = -6;
    c.inputs[i].high = 6;
  }
  c.tolerance = 3e-4;
  c.reason = "scores of a few hundred round to 2e-5, which exp takes over as a relative error";
  c.difference_tolerance = 1e-3;
  return c;
}

// Each key scores some hundred above the one before: one that is hidden must not count even in the maximum, beside
// which all that are seen would vanish. The weights are then 0 and 1, and nothing flows back to queries and keys.
OpCase rising(OpCase c) {
  const Dims dims = c.inputs[1].dims;
  c.inputs[0].low = 0.5;
  for (std::int64_t i = 0; i < dims[0] * dims[1] * dims[2] * dims[3]; ++i) {
    c.inputs[1].values.push_back(50.0 * static_cast<double>(i / (dims[2] * dims[3]) % dims[1]));
  }
  for (const std::size_t i : {0, 1}) c.inputs[i].grad = false;
  c.tolerance = 2e-3;
  c.reason = "scores of some thousand round to 2e-4, which exp takes over as a relative error, twice";
  c.low_precision_roundings = 0;  // of such scores nothing would be left
  return c;
}

/// Keys and values in blocks of q8_0, as caches may be.
OpCase of_blocks(OpCase c) {
  c.name += ", blocks";
  for (const std::size_t i : {1, 2}) c.inputs[i].dtype = DType::q8_0;
  c.gradient = false;
  return c;
}

/// Queries of `places`, one row for each item: (slot, furthest, 0, position), among `slots` caches.
OpCase placed(std::string name, Sizes s, std::int64_t slots, std::vector<double> places, std::int64_t window = 0) {
  Attrs attrs = {{"causal", kOne}, {"from_step", kOne}};
  if (window != 0) attrs.set("window", window);
  OpCase c = attend(std::move(name), s, std::move(attrs));
  for (const std::size_t i : {1, 2}) c.inputs[i].dims[0] = slots;
  for (int i = 0; i < 2; ++i) c.inputs.push_back({.missing = true});
  c.inputs.push_back({.dims = {s.batch, 4}, .dtype = DType::i32, .values = std::move(places)});
  c.gradient = false;
  return c;
}

OpCase forgetting(OpCase c) {
  c.attrs.set("forgets", kOne);
  return c;
}

// Keys that no query sees, or queries that see none.
std::vector<double> packed(std::int64_t count) {
  std::vector<double> sequences;
  for (std::int64_t i = 0; i < count; ++i) sequences.push_back(i < 5 ? 0 : (i < 40 ? 1 : (i < count - 6 ? 7 : -1)));
  return sequences;
}

std::vector<OpCase> cases() {
  OpCase step = attend("position of the step", {1, 3, 50, 4, 2, 16}, {{"causal", kOne}, {"from_step", kOne}});
  step.step_state.position = 35;
  OpCase one_token = attend("one token of the step", {2, 1, 70, 4, 1, 16}, {{"causal", kOne}, {"from_step", kOne}});
  one_token.step_state.position = 40;
  OpCase wide = attend("one token, heads of 64", {1, 1, 61, 9, 3, 64}, {{"causal", kOne}, {"from_step", kOne}});
  wide.step_state.position = 52;
  OpCase forgets = attend("place in a cache that forgets", {1, 3, 256, 4, 2, 16},
                          {{"causal", kOne}, {"from_step", kOne}, {"forgets", kOne}, {"window", std::int64_t{20}}});
  forgets.step_state.position = 300;
  forgets.step_state.step = 250;
  forgets.gradient = false;
  OpCase went_back = attend("place further back, many queries", {1, 50, 256, 2, 2, 16},
                            {{"causal", kOne}, {"from_step", kOne}, {"forgets", kOne}, {"window", std::int64_t{20}}});
  went_back.step_state.position = 250;
  went_back.step_state.step = 300;
  went_back.gradient = false;
  OpCase early = attend("second token of the step", {1, 1, 30, 2, 1, 16}, {{"causal", kOne}, {"from_step", kOne}});
  early.step_state.position = 1;
  OpCase hidden = with_mask(attend("mask that hides all keys of some queries", {1, 34, 3, 2, 1, 8}, {}), {1, 1, 34, 3});
  for (std::size_t i = 0; i < 34 * 3; ++i) hidden.inputs[4].values[i] = i / 3 % 4 == 1 ? -INFINITY : 0;
  const std::vector<double> three = {3, 0, 0, 40, 0, 0, 0, -1, 1, 0, 0, 0};
  return {
      forgets,
      went_back,
      placed("places of three among four", {3, 1, 60, 4, 2, 16}, 4, three),
      of_blocks(placed("places of three among four", {3, 1, 60, 4, 2, 32}, 4, three)),
      placed("place of a prompt", {1, 40, 60, 4, 2, 16}, 3, {1, 0, 0, 13}),
      of_blocks(placed("place of a prompt", {1, 40, 60, 4, 2, 32}, 3, {1, 0, 0, 13})),
      placed("places, odd head", {2, 3, 20, 2, 1, 7}, 3, {2, 0, 0, 15, 0, 0, 0, 4}),
      forgetting(placed("places in caches that forget", {3, 1, 256, 4, 2, 16}, 4,
                        {2, 250, 0, 300, 1, 0, 0, 3, 0, 300, 0, 250}, 20)),
      attend("one tile", {2, 7, 7, 2, 2, 8}),
      attend("several tiles", {1, 70, 70, 2, 2, 16}),
      attend("group of two", {2, 37, 37, 4, 2, 12}),
      attend("group of three", {1, 45, 45, 3, 1, 8}),
      attend("group of four, one key head", {1, 41, 41, 4, 1, 32}),
      attend("not causal", {2, 35, 50, 2, 1, 16}, {}),
      attend("more keys", {1, 20, 67, 4, 2, 16}),
      attend("more queries", {1, 67, 20, 2, 1, 16}),
      attend("one query", {2, 1, 40, 6, 2, 20}),
      attend("one query, more heads than a workgroup takes", {1, 1, 40, 15, 3, 16}),
      attend("few queries in a window", {2, 3, 60, 4, 2, 16}, {{"causal", kOne}, {"window", std::int64_t{20}}}),
      attend("few queries, a window both ways", {1, 5, 60, 2, 1, 12}, {{"window", std::int64_t{20}}}),
      attend("few queries, softcap", {1, 2, 33, 2, 1, 8}, {{"causal", kOne}, {"scale", 2.0}, {"softcap", 1.5}}),
      attend("few queries, few keys", {1, 7, 3, 2, 1, 8}),
      attend("one query, head of 128", {1, 1, 36, 4, 2, 128}),
      sharp(attend("few queries, far scores", {1, 4, 80, 2, 1, 16})),
      rising(attend("few queries, hidden scores far above", {1, 4, 20, 2, 1, 16})),
      rising(attend("hidden scores far above", {1, 40, 40, 2, 1, 16})),
      attend("one key", {1, 1, 1, 1, 1, 4}),
      attend("odd head", {1, 34, 34, 2, 1, 7}),
      attend("head of one", {1, 34, 34, 2, 2, 1}),
      attend("head of 48", {1, 40, 40, 2, 1, 48}),
      attend("head of 128", {1, 36, 36, 1, 1, 128}),
      attend("head of 256", {1, 36, 36, 2, 1, 256}),
      attend("scale", {1, 33, 33, 2, 1, 8}, {{"causal", kOne}, {"scale", 0.9}}),
      attend("softcap", {1, 33, 33, 2, 1, 8}, {{"causal", kOne}, {"scale", 2.0}, {"softcap", 1.5}}),
      attend("window", {1, 100, 100, 2, 1, 8}, {{"causal", kOne}, {"window", std::int64_t{20}}}),
      attend("window of two", {1, 40, 40, 2, 1, 8}, {{"causal", kOne}, {"window", kOne * 2}}),
      attend("window both ways", {1, 80, 80, 2, 2, 8}, {{"window", std::int64_t{9}}}),
      attend("widest window", {1, 40, 40, 2, 1, 8}, {{"window", std::int64_t{INT32_MAX}}}),
      attend("window over more keys", {1, 40, 90, 2, 1, 8}, {{"causal", kOne}, {"window", std::int64_t{30}}}),
      sharp(attend("far scores", {1, 80, 80, 2, 1, 16})),
      with_packed_sequences(attend("packed sequences", {1, 90, 90, 4, 2, 8}), packed(90)),
      with_packed_sequences(attend("packed sequences both ways", {1, 60, 60, 2, 2, 8}, {}), packed(60)),
      with_packed_sequences(
          attend("packed sequences in a window", {1, 90, 90, 2, 1, 8}, {{"causal", kOne}, {"window", kOne * 12}}),
          packed(90)),
      with_mask(attend("mask of keys", {2, 37, 40, 4, 2, 16}, {}), {2, 1, 1, 40}),
      with_mask(attend("mask of queries and keys", {2, 35, 40, 2, 2, 12}, {}), {1, 1, 35, 40}),
      with_mask(attend("mask of all, odd head", {2, 34, 35, 4, 2, 7}), {2, 4, 34, 35}),
      with_mask(attend("mask of heads, few queries", {2, 3, 50, 6, 2, 16}), {1, 6, 3, 50}),
      with_mask(attend("mask and window, softcap", {1, 60, 60, 2, 1, 8},
                       {{"causal", kOne}, {"window", std::int64_t{20}}, {"softcap", 1.5}}),
                {1, 2, 1, 60}),
      hidden,
      attend("empty batch", {0, 4, 4, 2, 1, 8}),
      attend("no keys", {1, 4, 0, 2, 1, 8}),
      of_blocks(wide),
      of_blocks(
          attend("few queries, softcap", {1, 3, 37, 4, 2, 32}, {{"causal", kOne}, {"scale", 0.5}, {"softcap", 1.5}})),
      of_blocks(attend("several tiles", {1, 70, 75, 4, 2, 64})),
      of_blocks(attend("window", {1, 60, 60, 2, 1, 32}, {{"causal", kOne}, {"window", std::int64_t{20}}})),
      of_blocks(attend("head of 256", {1, 36, 36, 1, 1, 256})),
      step,
      one_token,
      wide,
      early,
  };
}
GRAFT_OP_CASES(Attention, cases());

// What other devices choose: the tiles in shared memory, where a software device takes shuffles.
class AttentionVariants : public testing::TestWithParam<OpCase> {};

TEST_P(AttentionVariants, SharedMemoryAsOnAGpu) {
  const EditedTarget edited([](gpu::Target& target) { target.caps.type = gpu::DeviceType::discrete; });
  check_op_case(GetParam());
}

// The tiles of long sequences, as if they had been measured to be the fastest for short ones too.
void with_rows(gpu::Target& target, std::string_view name) {
  using shaders::KernelId;
  for (const KernelId kernel :
       {KernelId::attention__f32, KernelId::attention_grad_query__f32, KernelId::attention_grad_key__f32}) {
    for (std::uint64_t i = 0; i < 2048; ++i) {
      const ChoiceShape shape = {1u << (i % 8), 1u << (i / 8 % 8), 1u << (i / 64 % 8), 1u << (i / 512)};
      target.advice.tuned[choose(Family::attention, target, shape, {{kernel}}).key] = name;
    }
  }
}

TEST_P(AttentionVariants, ThirtyTwoRowsHandedRound) {
  const EditedTarget edited([](gpu::Target& target) { with_rows(target, "shuffle 32"); });
  check_op_case(GetParam());
}

// A software device without shuffles.
TEST_P(AttentionVariants, LanesApart) {
  const EditedTarget edited([](gpu::Target& target) { ASSERT_TRUE(gpu::apply_caps_preset("plain", target).ok()); });
  check_op_case(GetParam());
}

TEST_P(AttentionVariants, ThirtyTwoRowsInTwoClusters) {
  const EditedTarget edited([](gpu::Target& target) {
    in_two_clusters(target);
    with_rows(target, "shuffle 32");
  });
  check_op_case(GetParam());
}

TEST(AttentionLanes, HoldSixteenRowsApart) {
  const EditedTarget edited([](gpu::Target& target) { with_rows(target, "apart 16"); });
  check_op_case(attend("sixteen rows", {1, 45, 50, 2, 1, 16}, {{"causal", kOne}, {"softcap", 5.0}}));
}

TEST(AttentionLanes, TakeFewRowsInTwoClusters) {
  const EditedTarget edited(in_two_clusters);
  check_op_case(attend("few queries, three heads", {1, 5, 60, 3, 3, 12}, {{"window", std::int64_t{20}}}));
}

TEST(AttentionLanes, AreTheFirstOfAWideSubgroup) {
  const EditedTarget edited(
      [](gpu::Target& target) { ASSERT_TRUE(gpu::apply_caps_preset("subgroup128", target).ok()); });
  check_op_case(attend("wide subgroup", {1, 9, 18, 2, 1, 20}));
}

std::vector<OpCase> variant_cases() {
  std::vector<double> twice;  // sequences whose tiles lie apart, and padding between
  for (std::int64_t i = 0; i < 110; ++i) twice.push_back(i < 3 ? -1 : (i < 40 ? 4 : (i < 75 ? 9 : 12)));
  return {
      of_blocks(attend("group of three", {1, 45, 50, 6, 2, 96})),
      attend("group of three", {2, 45, 45, 6, 2, 16}),
      attend("both ways over more keys", {1, 35, 70, 2, 1, 36}, {}),
      attend("window", {1, 100, 100, 2, 1, 8}, {{"causal", kOne}, {"window", std::int64_t{20}}}),
      with_packed_sequences(attend("packed sequences", {1, 110, 110, 2, 1, 8}), twice),
      with_packed_sequences(attend("packed sequences both ways", {1, 110, 110, 3, 1, 8}, {}), twice),
      with_mask(attend("mask", {2, 70, 75, 4, 2, 16}, {}), {2, 1, 70, 75}),
      with_mask(attend("mask, odd head", {2, 40, 45, 2, 1, 7}), {1, 2, 40, 45}),
  };
}
INSTANTIATE_TEST_SUITE_P(, AttentionVariants, testing::ValuesIn(variant_cases()), op_case_name);

TEST(AttentionInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(attend("bad", {1, 4, 4, 3, 2, 8}), "3 query heads for 2 key heads");
  expect_infer_error(attend("bad", {1, 4, 4, 2, 0, 8}), "2 query heads for 0 key heads");
  expect_infer_error(attend("bad", {1, 4, 4, 2, 1, 257}), "257 elements");
  expect_infer_error(attend("bad", {1, 4, 4, 2, 1, 8}, {{"window", -kOne}}), "\"window\" is -1");
  expect_infer_error(attend("bad", {1, 4, 4, 2, 1, 8}, {{"softcap", -1.0}}), "\"softcap\" is -1");
  expect_infer_error(attend("bad", {1, 4, 4, 2, 1, 8}, {{"scale", std::nan("")}}), "\"scale\" is nan");
  expect_infer_error(with_packed_sequences(attend("bad", {1, 4, 5, 2, 1, 8}), {0, 0, 0, 0}), "[1, 5] is needed");
  expect_infer_error(with_mask(attend("bad", {1, 4, 4, 2, 1, 8}), {1, 3, 4, 4}), "does not broadcast");
  expect_infer_error(with_mask(attend("bad", {1, 4, 4, 2, 1, 8}), {1, 1, 4, 1}), "does not broadcast");
  OpCase two = with_mask(attend("bad", {1, 4, 4, 2, 1, 8}), {1, 1, 1, 4});
  two.inputs[3] = {.dims = {1, 4}, .dtype = DType::i32};
  expect_infer_error(two, "packed sequences and a mask");
  expect_infer_error(of_blocks(attend("bad", {2, 4, 4, 2, 1, 32})), "there is one text");
  OpCase half = of_blocks(attend("bad", {1, 4, 4, 2, 1, 32}));
  half.inputs[2].dtype = DType::f32;
  expect_infer_error(half, "q8_0 is needed");
  expect_infer_error(with_mask(of_blocks(attend("bad", {1, 4, 4, 2, 1, 32})), {1, 1, 1, 4}), "neither a mask");
  OpCase values = attend("bad", {1, 4, 4, 2, 1, 8});
  values.inputs[2].dims[1] = 5;
  expect_infer_error(values, "[1, 4, 1, 8] is needed");
  OpCase places = placed("bad", {2, 1, 8, 2, 1, 8}, 3, {0, 0, 0, 1, 1, 0, 0, 2});
  expect_infer_error(
      [&] {
        OpCase c = places;
        c.attrs.erase("from_step");
        return c;
      }(),
      "It has places");
  places.inputs[5].dims[0] = 1;
  expect_infer_error(places, "[2, 4] is needed");
  OpCase both = with_packed_sequences(attend("bad", {1, 4, 4, 2, 1, 8}, {{"from_step", kOne}}), {0, 0, 0, 0});
  both.op = Op::attention_grad;
  both.inputs = {both.inputs[0],      both.inputs[1], both.inputs[2], both.inputs[0],
                 {.dims = {1, 4, 2}}, both.inputs[0], both.inputs[3]};
  expect_infer_error(both, "has no gradient");
}

}  // namespace
}  // namespace graft::test::attention_test
