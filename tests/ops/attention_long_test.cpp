// ctest: costly. Attention over thousands of tokens, forward and backward; the reference takes most of the time.
#include <cmath>
#include <numeric>

#include "runtime/autodiff/autodiff.h"
#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/data/random.h"
#include "runtime/reference/device_run.h"
#include "tests/support/gpu_device.h"
#include "tests/support/op_case.h"

namespace graft::test::attention_long_test {
namespace {

OpCase attend(std::string name, std::int64_t heads, std::int64_t tokens, Attrs attrs) {
  return {.name = std::move(name),
          .op = Op::attention,
          .inputs = {{.dims = {1, tokens, heads, 16}, .low = -2, .high = 2, .grad = true},
                     {.dims = {1, tokens, 1, 16}, .low = -2, .high = 2},
                     {.dims = {1, tokens, 1, 16}}},
          .attrs = std::move(attrs),
          .tolerance = 1e-4,
          .reason = "sums of up to two thousand rows in f32 in dk and dv, one after the other",
          .cotangents = 1,
          .difference_tolerance = 1e-4,
          // Differences of sums over a head and over keys, of results that were rounded.
          .low_precision_roundings = 16};
}

std::vector<OpCase> cases() {
  constexpr std::int64_t kOne = 1;
  return {
      attend("causal", 2, 1024, {{"causal", kOne}}),
      attend("window", 1, 1500, {{"causal", kOne}, {"window", std::int64_t{200}}}),
  };
}
GRAFT_OP_CASES(AttentionLong, cases());

constexpr std::size_t kTokens = 4096;
constexpr std::size_t kDim = 32;
constexpr std::size_t kHeads = 2;  // of one key head

std::vector<double> random_numbers(std::size_t count, std::uint64_t seed) {
  data::Random random(data::mix(seed));
  std::vector<double> out(count);
  for (double& x : out) x = static_cast<float>(random.uniform(-2, 2));
  return out;
}

double dot(const double* a, const double* b) { return std::inner_product(a, a + kDim, b, 0.0); }
void add(double factor, const double* x, double* sum) {
  for (std::size_t i = 0; i < kDim; ++i) sum[i] += factor * x[i];
}

/// softmax(q k^T / sqrt(dim)) v and its gradients in double, a row of weights at a time. `first` gives the first key
/// that a query sees; the last is its own.
struct Composition {
  std::vector<double> q, k, v, dy;
  std::vector<double> o = std::vector<double>(kTokens * kHeads * kDim);
  std::vector<double> dq = o;
  std::vector<double> dk = std::vector<double>(kTokens * kDim);
  std::vector<double> dv = dk;

  void row(std::size_t query, std::size_t head, std::size_t first) {
    const std::size_t at = (query * kHeads + head) * kDim;
    const double scale = 1 / std::sqrt(static_cast<double>(kDim));
    std::vector<double> weight(query + 1);
    double total = 0;
    for (std::size_t j = first; j <= query; ++j) total += weight[j] = std::exp(scale * dot(&q[at], &k[j * kDim]));
    for (std::size_t j = first; j <= query; ++j) add(weight[j] /= total, &v[j * kDim], &o[at]);
    const double delta = dot(&dy[at], &o[at]);
    for (std::size_t j = first; j <= query; ++j) {
      const double slope = scale * weight[j] * (dot(&dy[at], &v[j * kDim]) - delta);
      add(slope, &k[j * kDim], &dq[at]);
      add(slope, &q[at], &dk[j * kDim]);
      add(weight[j], &dy[at], &dv[j * kDim]);
    }
  }
};

void expect_near(const RefTensors& actual, const std::string& name, const std::vector<double>& wanted) {
  const auto& got = actual.find(name)->second.data;
  ASSERT_EQ(got.size(), wanted.size());
  double most = 0;
  for (const double x : wanted) most = std::max(most, std::abs(x));
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) worst = std::max(worst, std::abs(got[i] - wanted[i]));
  EXPECT_GT(most, 0.1);
  // Sums of up to eight thousand products in f32, one after the other.
  EXPECT_LT(worst, 1e-4 * most) << name;
}

void check_4096_tokens(gpu::Device& device, const std::vector<double>& sequences) {
  const auto tokens = static_cast<std::int64_t>(kTokens);
  const auto dim = static_cast<std::int64_t>(kDim);
  const Shape rows = {1, tokens, static_cast<std::int64_t>(kHeads), dim};
  const Shape keys = {1, tokens, 1, dim};
  Composition c{.q = random_numbers(kTokens * kHeads * kDim, 1),
                .k = random_numbers(kTokens * kDim, 2),
                .v = random_numbers(kTokens * kDim, 3),
                .dy = random_numbers(kTokens * kHeads * kDim, 4)};
  Graph graph;
  const auto input = [&](const char* name, const Shape& shape, DType dtype = DType::f32) {
    return graph.add_value(name, dtype, shape, ValueKind::input).value();
  };
  std::vector<ValueId> inputs = {input("q", rows), input("k", keys), input("v", keys)};
  RefTensors feeds = {{"q", {rows.values(), c.q}}, {"k", {keys.values(), c.k}}, {"v", {keys.values(), c.v}}};
  if (!sequences.empty()) {
    inputs.push_back(input("sequences", {1, tokens}, DType::i32));
    feeds["sequences"] = {{1, tokens}, sequences};
  }
  const ValueId dy = input("dy", rows);
  feeds["dy"] = {rows.values(), c.dy};
  Builder b(graph);
  const ValueId o = b.node(Op::attention, inputs, {{"causal", std::int64_t{1}}}, "attend");
  ASSERT_TRUE(b.status().ok()) << b.status().message();
  const auto gradients = add_gradients(graph, {{o, dy}}, {inputs[0], inputs[1], inputs[2]}).value();
  std::vector<std::string> names = {graph.value(o).name};
  for (const ValueId gradient : gradients) names.push_back(graph.value(gradient).name);
  for (const std::string& name : names) graph.add_output(name, graph.find_value(name));
  const auto actual = run_on_device(device, graph, feeds, {}, {});
  ASSERT_TRUE(actual.ok()) << actual.status().message();

  std::size_t first = 0;
  for (std::size_t query = 0; query < kTokens; ++query) {
    if (!sequences.empty() && query > 0 && sequences[query] != sequences[query - 1]) first = query;
    for (std::size_t head = 0; head < kHeads; ++head) c.row(query, head, first);
  }
  expect_near(*actual, names[0], c.o);
  expect_near(*actual, names[1], c.dq);
  expect_near(*actual, names[2], c.dk);
  expect_near(*actual, names[3], c.dv);
}

TEST(AttentionOfFourThousandTokens, MatchesThePlainComposition) {
  GRAFT_TEST_GPU(device);
  check_4096_tokens(*device, {});
}

TEST(AttentionOfFourThousandTokens, OfThreeSequencesDoesToo) {
  GRAFT_TEST_GPU(device);
  std::vector<double> sequences(kTokens, 0);
  std::fill(sequences.begin() + 1000, sequences.begin() + 1001, 1000);
  std::fill(sequences.begin() + 1001, sequences.end(), 1001);
  check_4096_tokens(*device, sequences);
}

}  // namespace
}  // namespace graft::test::attention_long_test
