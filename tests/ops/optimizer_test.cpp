#include <cmath>
#include <random>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::optimizer_test {
namespace {

constexpr const char* kFewRoundings = "a few roundings of f32 (6e-8 each) per element";
constexpr const char* kSumOfSquares =
    "sums of f32 squares in runs: the error grows with the number of runs (6e-8 each)";
constexpr auto kState = ValueKind::state;
constexpr auto kParameter = ValueKind::parameter;

RefStepState step_state(std::uint32_t step, double rate, double beta1 = 0.9, double beta2 = 0.999) {
  RefStepState state;
  state.step = step;
  for (int group = 0; group < 16; ++group) {
    state.learning_rate[group] = rate * (group + 1);
    state.bias_correction1[group] = 1 - std::pow(beta1, step + 1);
    state.bias_correction2[group] = 1 - std::pow(beta2, step + 1);
  }
  return state;
}

OpCase sgd(std::string name, std::vector<std::int64_t> dims, Attrs attrs, bool factor = false, std::uint32_t step = 3) {
  const bool momentum = attrs.number("momentum") != 0;
  return {.name = std::move(name),
          .op = Op::sgd_step,
          .inputs = {{.dims = dims, .kind = kParameter},
                     {.dims = dims},
                     {.dims = dims, .kind = kState, .missing = !momentum},
                     {.values = {0.37}, .missing = !factor}},
          .attrs = std::move(attrs),
          .tolerance = 1e-6,
          .reason = kFewRoundings,
          .gradient = false,
          .step_state = step_state(step, 0.125)};
}

OpCase adam(std::string name, std::vector<std::int64_t> dims, Attrs attrs, bool factor = false,
            std::uint32_t step = 3) {
  return {.name = std::move(name),
          .op = Op::adam_step,
          .inputs = {{.dims = dims, .kind = kParameter},
                     {.dims = dims},
                     {.dims = dims, .kind = kState},
                     {.dims = dims, .low = 0.01, .high = 1, .kind = kState},
                     {.values = {0.37}, .missing = !factor}},
          .attrs = std::move(attrs),
          .tolerance = 1e-6,
          .reason = kFewRoundings,
          .gradient = false,
          .step_state = step_state(step, 0.125)};
}

OpCase squared_norm(std::string name, std::vector<std::vector<std::int64_t>> shapes) {
  OpCase c{.name = std::move(name), .op = Op::squared_norm, .tolerance = 2e-6, .reason = kSumOfSquares};
  c.gradient = false;
  for (auto& dims : shapes) c.inputs.push_back({.dims = std::move(dims)});
  return c;
}

OpCase state_hash(std::string name, std::vector<std::vector<std::int64_t>> shapes) {
  OpCase c{.name = std::move(name), .op = Op::state_hash, .tolerance = 0, .reason = "integers are exact"};
  c.gradient = false;
  for (auto& dims : shapes) c.inputs.push_back({.dims = std::move(dims)});
  return c;
}

OpCase clip(std::string name, double total, double max_norm, std::vector<double> loss = {}) {
  return {.name = std::move(name),
          .op = Op::clip_factor,
          .inputs = {{.values = {total}},
                     {.values = loss.empty() ? std::vector<double>{0} : loss, .missing = loss.empty()}},
          .attrs = {{"max_norm", max_norm}},
          .tolerance = 1e-6,
          .reason = kFewRoundings,
          .gradient = false};
}

/// The same with the factor that says: do not take the step.
OpCase not_taken(OpCase c) {
  c.inputs.back().values = {std::nan("")};
  return c;
}

std::vector<OpCase> cases() {
  const std::int64_t on = 1;
  return {
      sgd("plain", {5, 7}, {}),
      sgd("scalar parameter", {}, {}),
      sgd("empty parameter", {0, 4}, {}),
      sgd("decay and factor", {300}, {{"weight_decay", 0.1}}, true),
      sgd("last group", {9}, {{"group", std::int64_t{15}}}),
      sgd("momentum", {257}, {{"momentum", 0.9}}),
      sgd("momentum at the first step", {257}, {{"momentum", 0.9}, {"dampening", 0.5}}, false, 0),
      sgd("dampening", {20}, {{"momentum", 0.9}, {"dampening", 0.5}, {"weight_decay", 0.01}}),
      sgd("nesterov", {20}, {{"momentum", 0.9}, {"nesterov", on}, {"weight_decay", 0.01}}, true),
      sgd("maximize", {20}, {{"momentum", 0.9}, {"maximize", on}, {"weight_decay", 0.01}}),
      adam("adam", {3, 50}, {}),
      adam("adam first step", {12}, {}, false, 0),
      adam("adam with decay", {130}, {{"weight_decay", 0.1}}, true),
      adam("adamw", {130}, {{"weight_decay", 0.1}, {"decoupled", on}, {"group", std::int64_t{2}}}),
      adam("adam maximize", {130}, {{"maximize", on}, {"epsilon", 0.1}, {"beta1", 0.5}, {"beta2", 0.7}}),
      adam("adam without betas", {8}, {{"beta1", 0.0}, {"beta2", 0.0}}),
      {.name = "accumulate",
       .op = Op::accumulate,
       .inputs = {{.dims = {11, 13}, .kind = kState}, {.dims = {11, 13}}},
       .tolerance = 1e-6,
       .reason = kFewRoundings,
       .gradient = false},
      {.name = "zero state",
       .op = Op::zero_state,
       .inputs = {{.dims = {11, 13}, .kind = kState}},
       .tolerance = 0,
       .reason = "zero is exact",
       .gradient = false},
      squared_norm("one scalar", {{}}),
      squared_norm("several", {{3, 4}, {}, {129}, {0}, {2, 2, 2}}),
      squared_norm("many groups", {{40003}, {100}}),
      squared_norm("nothing", {{0}}),
      state_hash("hash of a scalar", {{}}),
      state_hash("hash of several", {{3, 4}, {}, {129}, {0}, {2, 2, 2}}),
      state_hash("hash of many groups", {{40003}, {100}}),
      state_hash("hash of nothing", {{0}}),
      {.name = "hash of integers",
       .op = Op::state_hash,
       .inputs = {{.dims = {300}, .dtype = DType::i32, .low = -1e9, .high = 1e9}},
       .tolerance = 0,
       .reason = "integers are exact",
       .gradient = false},
      clip("above", 100, 1),
      clip("below", 0.25, 1),
      clip("zero", 0, 1),
      clip("not a number", std::nan(""), 1),
      clip("infinite", INFINITY, 1),
      clip("above, finite loss", 100, 1, {2}),
      clip("above, infinite loss", 100, 1, {INFINITY}),
      clip("no clipping", 0, 0, {2}),
      clip("no clipping, an element is not finite", 1, 0, {2}),
      clip("no clipping, the loss is not", 0, 0, {std::nan("")}),
      not_taken(sgd("step not taken", {257}, {{"momentum", 0.9}, {"weight_decay", 0.1}}, true)),
      not_taken(adam("adam step not taken", {130}, {{"weight_decay", 0.1}}, true)),
  };
}
GRAFT_OP_CASES(Optimizer, cases());

TEST(OptimizerInfer, RefusesBadAttributes) {
  expect_infer_error(sgd("bad", {2}, {{"group", std::int64_t{16}}}), "\"group\" is 16");
  expect_infer_error(sgd("bad", {2}, {{"group", std::int64_t{-1}}}), "\"group\" is -1");
  expect_infer_error(sgd("bad", {2}, {{"momentum", std::nan("")}}), "\"momentum\" is nan");
  expect_infer_error(sgd("bad", {2}, {{"nesterov", std::int64_t{1}}}), "Nesterov");
  expect_infer_error(sgd("bad", {2}, {{"weight_decay", -1.0}}), "\"weight_decay\" is -1");
  expect_infer_error(adam("bad", {2}, {{"beta1", 1.0}}), "\"beta1\" is 1");
  expect_infer_error(adam("bad", {2}, {{"epsilon", -1e-8}}), "\"epsilon\"");
  expect_infer_error(clip("bad", 1, -1), "\"max_norm\" is -1");
  OpCase no_buffer = sgd("bad", {2}, {{"momentum", 0.9}});
  no_buffer.inputs[2].missing = true;
  expect_infer_error(no_buffer, "needs a momentum buffer");
  OpCase other_shape = sgd("bad", {2}, {});
  other_shape.inputs[1].dims = {3};
  expect_infer_error(other_shape, "[2] is needed");
}

// Plain loops in double over several steps, written from PyTorch's description of the algorithms.
struct Sgd {
  double rate, momentum, dampening, decay;
  bool nesterov;
  std::vector<double> x, v;
  void step(const std::vector<double>& gradient, bool first) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      double g = gradient[i] + decay * x[i];
      if (momentum != 0) {
        v[i] = first ? g : momentum * v[i] + (1 - dampening) * g;
        g = nesterov ? g + momentum * v[i] : v[i];
      }
      x[i] -= rate * g;
    }
  }
};

struct Adam {
  double rate, beta1, beta2, epsilon, decay;
  bool decoupled;
  std::vector<double> x, m, v;
  void step(const std::vector<double>& gradient, int t) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double g = gradient[i] + (decoupled ? 0 : decay * x[i]);
      if (decoupled) x[i] -= rate * decay * x[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double corrected_m = m[i] / (1 - std::pow(beta1, t));
      const double corrected_v = v[i] / (1 - std::pow(beta2, t));
      x[i] -= rate * corrected_m / (std::sqrt(corrected_v) + epsilon);
    }
  }
};

constexpr int kSteps = 6;
constexpr std::size_t kCount = 37;

std::vector<double> numbers(std::mt19937& random) {
  std::vector<double> out(kCount);
  for (double& x : out) x = static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1);
  return out;
}

// One node over kSteps steps: `model` in double, the graph by the reference and, where there is one, by the device.
template <typename Model, typename Step>
void follow(Op op, Attrs attrs, int states, Model model, Step model_step) {
  Graph graph;
  std::vector<ValueId> inputs;
  const Shape shape = Shape::of({kCount});
  const auto add = [&](const char* name, ValueKind kind) {
    const auto id = graph.add_value(name, DType::f32, shape, kind);
    ASSERT_TRUE(id.ok());
    inputs.push_back(*id);
  };
  add("x", ValueKind::parameter);
  add("gradient", ValueKind::input);
  for (int i = 0; i < states; ++i) add(i == 0 ? "s0" : "s1", ValueKind::state);
  const auto node = graph.add_node(op, inputs, attrs);
  ASSERT_TRUE(node.ok()) << node.status().message();

  RefTensors host = {{"x", {{kCount}, model.x}}};
  for (int i = 0; i < states; ++i) host[cat("s", i)] = {{kCount}, std::vector<double>(kCount, 0.0)};
  RefTensors device = host;
  std::mt19937 random(7);
  const bool on_device = device_available().ok();
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<double> gradient = numbers(random);
    const RefStepState state = step_state(static_cast<std::uint32_t>(step), 0.05);
    model_step(model, gradient, step);
    host["gradient"] = device["gradient"] = {{kCount}, gradient};
    ASSERT_TRUE(interpret(graph, host, state).ok());
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(host["x"].data[i], model.x[i], 1e-12) << "step " << step;
    if (!on_device) continue;
    const auto result = run_on_device(graph, device, state);
    ASSERT_TRUE(result.ok()) << result.status().message();
    for (const auto& [name, tensor] : *result) device[name].data = tensor.data;
    // Parameters are about 1 and move by less than 0.3 a step; each step rounds a few times in f32.
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(device["x"].data[i], model.x[i], 3e-6) << "step " << step;
  }
}

std::vector<double> start() {
  std::mt19937 random(3);
  return numbers(random);
}
const std::vector<double> kZeros(kCount, 0.0);

TEST(OptimizerSteps, SgdFollowsPlainLoops) {
  const auto run = [](double momentum, double dampening, double decay, bool nesterov) {
    Attrs attrs = {{"momentum", momentum},
                   {"dampening", dampening},
                   {"weight_decay", decay},
                   {"nesterov", std::int64_t{nesterov}}};
    follow(Op::sgd_step, attrs, momentum != 0, Sgd{0.05, momentum, dampening, decay, nesterov, start(), kZeros},
           [](Sgd& m, const std::vector<double>& g, int step) { m.step(g, step == 0); });
  };
  run(0, 0, 0, false);
  run(0, 0, 0.1, false);
  run(0.9, 0, 0, false);
  run(0.9, 0.3, 0.1, false);
  run(0.9, 0, 0.1, true);
}

TEST(OptimizerSteps, AdamFollowsPlainLoops) {
  const auto run = [](double decay, bool decoupled) {
    follow(Op::adam_step, {{"weight_decay", decay}, {"decoupled", std::int64_t{decoupled}}}, 2,
           Adam{0.05, 0.9, 0.999, 1e-8, decay, decoupled, start(), kZeros, kZeros},
           [](Adam& m, const std::vector<double>& g, int step) { m.step(g, step + 1); });
  };
  run(0, false);
  run(0.1, false);
  run(0.1, true);
}

// What torch 1.13 in double makes of three parameters after four steps with these gradients and a rate of 0.125.
struct Golden {
  Op op;
  Attrs attrs;
  std::vector<double> expected;
};

TEST(OptimizerSteps, MatchPyTorch) {
  const std::vector<double> start_values = {0.5, -1.25, 2.0};
  const std::vector<std::vector<double>> gradients = {
      {0.1, -0.2, 0.3}, {1.0, 0.5, -0.25}, {-0.75, 0.0, 2.0}, {0.3, 0.3, -1.5}};
  const std::int64_t on = 1;
  const std::vector<Golden> goldens = {
      {Op::sgd_step, {{"weight_decay", 0.1}}, {0.3966113647460937, -1.2630352355957033, 1.8368468017578126}},
      {Op::sgd_step,
       {{"momentum", 0.9}, {"dampening", 0.5}, {"weight_decay", 0.1}},
       {0.3212616256713867, -1.1716768409729006, 1.6178299713134767}},
      {Op::sgd_step,
       {{"momentum", 0.9}, {"nesterov", on}, {"weight_decay", 0.1}},
       {0.14335280644897463, -1.248960123933716, 1.3563236279418946}},
      {Op::sgd_step,
       {{"momentum", 0.9}, {"maximize", on}, {"weight_decay", 0.1}},
       {0.6794842651367187, -0.990553546142578, 2.1040007568359376}},
      {Op::adam_step, {{"weight_decay", 0.1}}, {0.21558694987470708, -1.159207176934975, 1.686726080079099}},
      // torch.optim.AdamW
      {Op::adam_step,
       {{"weight_decay", 0.1}, {"decoupled", on}},
       {0.2135476085284897, -1.2303395560797439, 1.6896701592092713}},
  };
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(cat(&golden - goldens.data(), "th golden"));
    Graph graph;
    std::vector<ValueId> inputs;
    RefTensors host;
    const auto add = [&](const std::string& name, ValueKind kind, std::vector<double> values) {
      inputs.push_back(graph.add_value(name, DType::f32, {3}, kind).value());
      host[name] = {{3}, std::move(values)};
    };
    add("x", ValueKind::parameter, start_values);
    add("gradient", ValueKind::input, {0, 0, 0});
    const bool adam = golden.op == Op::adam_step;
    if (adam || golden.attrs.has("momentum")) add("s0", ValueKind::state, {0, 0, 0});
    if (adam) add("s1", ValueKind::state, {0, 0, 0});
    const auto node = graph.add_node(golden.op, inputs, golden.attrs);
    ASSERT_TRUE(node.ok()) << node.status().message();
    RefTensors device = host;
    const bool on_device = device_available().ok();
    for (std::uint32_t step = 0; step < gradients.size(); ++step) {
      const RefStepState state = step_state(step, 0.125);
      host["gradient"].data = device["gradient"].data = gradients[step];
      ASSERT_TRUE(interpret(graph, host, state).ok());
      if (!on_device) continue;
      const auto result = run_on_device(graph, device, state);
      ASSERT_TRUE(result.ok()) << result.status().message();
      for (const auto& [name, tensor] : *result) device[name].data = tensor.data;
    }
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(host["x"].data[i], golden.expected[i], 1e-14);
      // Four steps on numbers near 1 in f32, each with a few roundings of 6e-8.
      if (on_device) {
        EXPECT_NEAR(device["x"].data[i], golden.expected[i], 2e-6);
      }
    }
  }
}

}  // namespace
}  // namespace graft::test::optimizer_test
