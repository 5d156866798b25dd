// What graft/plan.h says of a plan beside its nodes and values: the report, other devices, times, several workers,
// parts.
#include "graft/plan.h"

#include <cmath>
#include <utility>

#include "platform/base/json.h"
#include "tests/support/c_api.h"

namespace graft::test::c_api_plan_report_test {
namespace {

class CPlanReport : public testing::Test {
 protected:
  void SetUp() override {
    auto options = sized<graft_context_options>();
    options.device = "none";
    ASSERT_EQ(graft_context_create(&options, &h_.context), GRAFT_OK) << h_.message();
    write_model(lenet(), folder_.file("m.graft"));
    ASSERT_EQ(graft_model_load(h_.context, folder_.file("m.graft").c_str(), &h_.model), GRAFT_OK) << h_.message();
    training_.batch = 16;
    options_.training = &training_;
  }
  void TearDown() override { graft_plan_destroy(plan_); }

  graft_status plan() {
    graft_plan_destroy(std::exchange(plan_, nullptr));
    return graft_plan_create(h_.model, &options_, &plan_);
  }
  graft_plan_info info() {
    auto out = sized<graft_plan_info>();
    EXPECT_EQ(graft_plan_describe(plan_, &out), GRAFT_OK) << h_.message();
    return out;
  }
  json::Value report() {
    const char* text = "";
    EXPECT_EQ(graft_plan_report(plan_, &text), GRAFT_OK) << h_.message();
    auto parsed = json::parse(text);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    return parsed.ok() ? *parsed : json::Value{};
  }
  std::uint64_t total() {
    auto forecast = sized<graft_forecast>();
    EXPECT_EQ(graft_plan_forecast(plan_, &forecast), GRAFT_OK);
    return forecast.total;
  }

  TemporaryFolder folder_;
  CHandles h_;
  graft_plan* plan_ = nullptr;
  graft_trainer_options training_ = training_options();
  graft_plan_options options_ = sized<graft_plan_options>();
};

double number_of(const json::Value& object, const char* name) {
  const json::Value* const found = object.find(name);
  return found != nullptr && found->kind() == json::Value::Kind::number ? found->number() : NAN;
}

TEST_F(CPlanReport, TheReportIsWhatTheGettersSay) {
  options_.curve = 1;
  options_.passes = 1;
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  const graft_plan_info told = info();
  EXPECT_STREQ(told.device, "any Vulkan 1.1 device");
  EXPECT_EQ(told.largest_heap, 0u);
  const json::Value all = report();
  EXPECT_EQ(number_of(all, "total"), static_cast<double>(total()));
  double by_class = 0;
  for (const auto& [name, bytes] : all.find("memory")->members()) by_class += bytes.number();
  EXPECT_EQ(by_class, number_of(all, "total"));
  EXPECT_GT(all.find("passes")->items().size(), 1u);
  EXPECT_EQ(all.find("time"), nullptr) << "nobody asked";
  const graft_plan_point* points = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(graft_plan_curve(plan_, &points, &count), GRAFT_OK);
  const auto& curve = all.find("curve")->find("points")->items();
  ASSERT_EQ(curve.size(), count);
  EXPECT_EQ(number_of(curve.back(), "bytes"), static_cast<double>(points[count - 1].bytes));
  ASSERT_EQ(all.find("plans")->items().size(), 1u);
  const json::Value& step = all.find("plans")->items().front();
  EXPECT_EQ(number_of(step, "arena"), static_cast<double>(told.arena));
  EXPECT_EQ(number_of(step, "dispatches"), told.dispatches);
  EXPECT_EQ(number_of(step, "peak"), static_cast<double>(told.peak_node));
  const auto& nodes = step.find("nodes")->items();
  ASSERT_EQ(nodes.size(), graft_plan_node_count(plan_));
  EXPECT_EQ(nodes[told.peak_node].find("name")->text(), step.find("peak_node")->text());
  auto node = sized<graft_plan_node>();
  ASSERT_EQ(graft_plan_node_at(plan_, told.peak_node, &node), GRAFT_OK);
  EXPECT_EQ(node.live_bytes, told.lower_bound);
  EXPECT_EQ(number_of(nodes[told.peak_node], "live_bytes"), static_cast<double>(node.live_bytes));
  const auto& values = step.find("values")->items();
  ASSERT_EQ(values.size(), graft_plan_value_count(plan_));
  std::uint64_t saved = 0, shared = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto value = sized<graft_plan_value>();
    ASSERT_EQ(graft_plan_value_at(plan_, i, &value), GRAFT_OK);
    saved += static_cast<std::uint64_t>(value.saved);
    shared += value.storage >= 0 ? 1 : 0;
    EXPECT_EQ(values[i].find("space")->text() == "transient", value.storage >= 0) << value.name;
  }
  EXPECT_EQ(saved, step.find("saved")->items().size());
  EXPECT_GT(shared, 0u);
  EXPECT_GT(step.find("layers")->items().size(), 3u);
}

TEST_F(CPlanReport, OtherDevicesComeByNameTextAndFile) {
  auto known = sized<graft_known_device>();
  std::size_t count = 0, fast = 0;
  std::string last;
  for (; graft_known_device_at(count, &known) == GRAFT_OK; ++count) {
    fast += static_cast<std::size_t>(known.has_figures);
    if (known.has_figures != 0) last = known.name;
  }
  EXPECT_GT(fast, 1u);
  EXPECT_GT(count, fast);
  EXPECT_EQ(graft_known_device_at(0, nullptr), GRAFT_INVALID_ARGUMENT);
  options_.caps = last.c_str();
  options_.figures = "";
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  const graft_plan_info by_name = info();
  EXPECT_GT(by_name.largest_heap, 0u);
  EXPECT_GT(by_name.seconds, 0);
  EXPECT_NEAR(by_name.seconds, by_name.arithmetic_seconds + by_name.memory_seconds + by_name.dispatching_seconds, 1e-9);
  EXPECT_EQ(number_of(*report().find("time"), "seconds"), by_name.seconds);

  const std::string caps =
      R"({"name": "a phone", "heaps": [{"bytes": 1048576}], "limits": {"max_shared_memory": 32768}})";
  options_.caps = caps.c_str();
  EXPECT_EQ(plan(), GRAFT_INVALID_ARGUMENT) << "nothing is known of its speed";
  const std::string figures =
      R"({"gemm_gflops": 1, "copy_gbps": 1, "transfer_gbps": 1, "dispatch_us": 0, "barrier_us": 0, "submit_us": 1e6})";
  options_.figures = figures.c_str();
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  EXPECT_GE(info().dispatching_seconds, 1) << "a submission takes a second";
  EXPECT_STREQ(info().device, "a phone");
  EXPECT_EQ(info().largest_heap, 1048576u);
  const std::string path = folder_.write("caps.json", "[" + caps + "]");
  options_.caps = path.c_str();
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  EXPECT_STREQ(info().device, "a phone");
  for (const char* bad : {"{", "[]", R"({"limits": {"max_shared_memory": 1}})", R"({"limits": {"lanes": 4}})",
                          R"({"features": {"shader_int8": 1}})", R"({"limits": {}, "heaps": [{"bytes": 0.5}]})"}) {
    options_.caps = bad;
    EXPECT_NE(plan(), GRAFT_OK) << bad;
    EXPECT_STRNE(h_.message().c_str(), "");
  }
}

TEST_F(CPlanReport, WorkersShareASteps) {
  training_.batch = 32;
  training_.micro_batch = 8;
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  EXPECT_EQ(info().worker_slots, 0u);
  EXPECT_EQ(info().micro_batches, 4u);
  EXPECT_EQ(info().accumulates, 1);
  EXPECT_EQ(report().find("plans")->items().size(), 2u) << "the update is a plan of its own";
  options_.workers = 3;
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  EXPECT_EQ(info().worker_slots, 4u);
  EXPECT_EQ(info().worker_most, 2u);
  EXPECT_GT(info().worker_sent_bytes, 0u);
  const std::uint64_t whole = total(), sent = info().worker_sent_bytes;
  options_.shard_optimizer = 1;
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  EXPECT_LT(total(), whole) << "a part of the optimizer's state is elsewhere";
  EXPECT_GT(info().worker_sent_bytes, sent);
  options_.figures = "llvmpipe";
  EXPECT_EQ(plan(), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CPlanReport, BudgetsBesideTheWeightsAndSmallerMicroBatches) {
  training_.batch = 64;
  training_.micro_batch = 64;
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  const std::uint64_t whole = total();
  training_.no_evaluation = 1;
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  EXPECT_LE(total(), whole);
  training_.budget = total() / 2;
  EXPECT_EQ(plan(), GRAFT_OUT_OF_MEMORY) << "64 samples at once were asked for";
  training_.shrinkable = 1;
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  EXPECT_LE(total(), training_.budget);
  EXPECT_GT(info().micro_batches, 1u);
  EXPECT_EQ(info().budget, training_.budget);
  options_.training = nullptr;
  options_.budget_beside_weights = 1 << 20;
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  auto forecast = sized<graft_forecast>();
  ASSERT_EQ(graft_plan_forecast(plan_, &forecast), GRAFT_OK);
  EXPECT_EQ(info().budget, forecast.parameters + forecast.weights + (1 << 20));
}

TEST_F(CPlanReport, MicroBatchesShrinkWithoutABudgetWhereABufferWouldBeTooLarge) {
  training_.batch = training_.micro_batch = 1 << 19;
  training_.freeze = "conv*";  // sums over these gradients have a limit of their own
  EXPECT_EQ(plan(), GRAFT_OUT_OF_MEMORY);
  training_.shrinkable = 1;
  ASSERT_EQ(plan(), GRAFT_OK) << h_.message();
  EXPECT_GT(info().micro_batches, 1u);
  EXPECT_EQ(info().budget, 0u);
}

TEST_F(CPlanReport, DefaultsAreTheOptimizersOwn) {
  ASSERT_EQ(graft_trainer_options_init(&training_, GRAFT_MUON), GRAFT_OK);
  EXPECT_EQ(training_.optimizer, GRAFT_MUON);
  EXPECT_EQ(training_.momentum, 0.95);
  EXPECT_EQ(training_.weight_decay, 0.1);
  ASSERT_EQ(graft_trainer_options_init(&training_, GRAFT_SGD), GRAFT_OK);
  EXPECT_EQ(training_.momentum, 0);
  const auto optimizer_bytes = [&] {
    EXPECT_EQ(plan(), GRAFT_OK) << h_.message();
    auto forecast = sized<graft_forecast>();
    EXPECT_EQ(graft_plan_forecast(plan_, &forecast), GRAFT_OK);
    return forecast.optimizer;
  };
  const std::uint64_t without = optimizer_bytes();
  training_.momentum = 0.9;
  EXPECT_GT(optimizer_bytes(), without) << "momentum is kept";
  EXPECT_EQ(graft_trainer_options_init(&training_, static_cast<graft_optimizer>(99)), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CPlanReport, PartsAreWhatABuildMustHold) {
  const char* text = nullptr;
  ASSERT_EQ(graft_model_parts(h_.model, nullptr, 1, &text), GRAFT_OK) << h_.message();
  const std::string inference = text;
  EXPECT_TRUE(contains(inference, "# What m.graft needs for inference on any Vulkan 1.1 device.")) << inference;
  EXPECT_FALSE(contains(inference, "adam_step"));
  ASSERT_EQ(graft_model_parts(h_.model, &options_, 1, &text), GRAFT_OK) << h_.message();
  EXPECT_TRUE(contains(text, "adam_step")) << text;
  EXPECT_TRUE(contains(text, "# kernels")) << text;
  EXPECT_GT(std::string(text).size(), inference.size());
}

}  // namespace
}  // namespace graft::test::c_api_plan_report_test
