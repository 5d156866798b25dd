#include "tests/support/pass_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "platform/base/text.h"
#include "runtime/autodiff/autodiff.h"
#include "runtime/core/graph_text.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/parse_graph.h"

namespace graft::test {
namespace {

Result<passes::PassGraph> run_passes(const std::vector<passes::Pass>& all, const Graph& graph,
                                     const std::vector<std::string>& pinned) {
  passes::PassGraph current(graph);
  for (const std::string& name : pinned) {
    GRAFT_TRY_ASSIGN(const ValueId v, graph.resolve(name));
    current.pin(v);
  }
  for (const passes::Pass pass : all) {
    GRAFT_TRY_ASSIGN(current, pass(current, {}));
    GRAFT_TRY(validate(current.graph));
  }
  return current;
}

/// The text without the indentation of a raw string.
std::string flush(std::string_view text) {
  std::string out;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::size_t first = text.find_first_not_of(' ', start);
    if (first < end) out += cat(text.substr(first, end - first), "\n");
    start = end + 1;
  }
  return out;
}

/// The same number for a value of this name, whichever graph it stands in.
RefTensor random_tensor(const Value& value) {
  RefTensor tensor{value.shape.values(), std::vector<double>(value.shape.elements())};
  std::seed_seq seed(value.name.begin(), value.name.end());
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    tensor.data[i] = value.dtype == DType::f32 ? std::normal_distribution<double>()(random) : double(random() % 2);
  }
  for (std::size_t i = 0; i < value.contents.size() / 4; ++i) {
    float number = 0;
    std::int32_t whole = 0;
    std::memcpy(&number, value.contents.data() + 4 * i, 4);
    std::memcpy(&whole, value.contents.data() + 4 * i, 4);
    tensor.data[i] = value.dtype == DType::f32 ? number : whole;
  }
  return tensor;
}

/// Outputs by name, and gradients as "d name", of the outputs times fixed random cotangents.
Result<RefTensors> compute(Graph graph, const std::vector<std::string>& pinned) {
  std::map<std::string, ValueId, std::less<>> wanted;
  std::vector<ValueId> wrt;
  std::vector<Target> targets;
  for (std::uint32_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    const bool given = value.kind == ValueKind::input || value.kind == ValueKind::parameter;
    if (value.dtype == DType::f32 && given) wrt.push_back({v});
  }
  for (const std::string& name : pinned) {
    GRAFT_TRY_ASSIGN(const ValueId v, graph.resolve(name));
    if (graph.value(v).kind == ValueKind::temporary) wrt.push_back(v);
  }
  for (const Output& output : std::vector<Output>(graph.outputs())) {
    wanted.emplace(output.name, output.value);
    const Value value = graph.value(output.value);
    if (value.dtype != DType::f32) continue;
    GRAFT_TRY_ASSIGN(const ValueId cotangent,
                     graph.add_value(cat("cotangent of ", output.name), DType::f32, value.shape, ValueKind::input));
    targets.push_back({output.value, cotangent});
  }
  for (const ValueId v : wrt) {
    auto gradient = add_gradients(graph, targets, {v});
    if (gradient.ok()) wanted.emplace(cat("d ", graph.value(v).name), (*gradient)[0]);
  }
  RefTensors tensors;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::temporary) tensors[value.name] = random_tensor(value);
  }
  GRAFT_TRY(interpret(graph, tensors));
  RefTensors out;
  for (const auto& [name, v] : wanted) out[name] = tensors[graph.value(v).name];
  return out;
}

void expect_same(const RefTensors& before, const RefTensors& after, double tolerance) {
  for (const auto& [name, want] : before) {
    const auto found = after.find(name);
    ASSERT_NE(found, after.end()) << name << " is gone";
    ASSERT_EQ(found->second.dims, want.dims) << name;
    double squares = 0;
    for (const double x : want.data) squares += x * x;
    const double scale = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, want.data.size())));
    for (std::size_t i = 0; i < want.data.size(); ++i) {
      ASSERT_NEAR(found->second.data[i], want.data[i], tolerance * std::max(scale, 1e-9)) << name << "[" << i << "]";
    }
  }
}

}  // namespace

void expect_rewritten(const std::vector<passes::Pass>& passes, std::string_view before, std::string_view after,
                      const std::vector<std::string>& pinned, double tolerance) {
  auto parsed = parse_graph(before);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  auto made = run_passes(passes, parsed->graph, pinned);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(graph_text(made->graph), flush(after));
  auto want = compute(parsed->graph, pinned);
  auto got = compute(made->graph, pinned);
  ASSERT_TRUE(want.ok()) << want.status().message();
  ASSERT_TRUE(got.ok()) << got.status().message();
  expect_same(*want, *got, tolerance);
}

void expect_kept(const std::vector<passes::Pass>& passes, std::string_view text,
                 const std::vector<std::string>& pinned) {
  auto parsed = parse_graph(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  auto made = run_passes(passes, parsed->graph, pinned);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(graph_text(made->graph), graph_text(parsed->graph));
}

}  // namespace graft::test
