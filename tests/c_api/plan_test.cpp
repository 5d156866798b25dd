// Layers, plans, devices and verification by the C ABI.
#include "graft/plan.h"

#include <map>

#include "graft/cache.h"
#include "graft/devices.h"
#include "graft/verify.h"
#include "tests/support/c_api.h"

namespace graft::test::c_api_plan_test {
namespace {

class CApiPlan : public testing::Test {
 protected:
  void SetUp() override {
    auto options = sized<graft_context_options>();
    options.device = "none";
    ASSERT_EQ(graft_context_create(&options, &h_.context), GRAFT_OK) << h_.message();
    write_model(lenet(), folder_.file("m.graft"));
    ASSERT_EQ(graft_model_load(h_.context, folder_.file("m.graft").c_str(), &h_.model), GRAFT_OK) << h_.message();
  }
  void TearDown() override { graft_plan_destroy(plan_); }

  TemporaryFolder folder_;
  CHandles h_;
  graft_plan* plan_ = nullptr;
};

TEST_F(CApiPlan, LayersAddUpToTheModel) {
  const graft_layer* layers = nullptr;
  std::size_t count = 0;
  const graft_binding batch = {"batch", 2};
  ASSERT_EQ(graft_model_layers(h_.model, &batch, 1, &layers, &count), GRAFT_OK) << h_.message();
  std::uint64_t parameters = 0, two = 0, one = 0;
  for (std::size_t i = 0; i < count; ++i) {
    parameters += layers[i].parameters;
    two += layers[i].flops;
  }
  std::uint64_t wanted = 0;
  for (std::size_t i = 0; i < graft_model_count(h_.model, GRAFT_PARAMETERS); ++i) {
    graft_tensor_info info{};
    ASSERT_EQ(graft_model_tensor(h_.model, GRAFT_PARAMETERS, i, &info), GRAFT_OK);
    std::uint64_t elements = 1;
    for (std::uint32_t axis = 0; axis < info.rank; ++axis) elements *= static_cast<std::uint64_t>(info.dims[axis]);
    wanted += elements;
  }
  EXPECT_EQ(parameters, wanted);
  EXPECT_TRUE(contains(layers[count - 1].shape, "batch")) << layers[count - 1].shape;
  ASSERT_EQ(graft_model_layers(h_.model, nullptr, 0, &layers, &count), GRAFT_OK);
  for (std::size_t i = 0; i < count; ++i) one += layers[i].flops;
  EXPECT_EQ(two, 2 * one);
  const graft_binding other = {"time", 2};
  EXPECT_EQ(graft_model_layers(h_.model, &other, 1, &layers, &count), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "time")) << h_.message();
}

TEST_F(CApiPlan, ATrainingPlanIsItsForecastAndItsCurveFalls) {
  auto training = training_options();
  training.batch = 16;
  auto forecast = sized<graft_forecast>(), planned = sized<graft_forecast>();
  ASSERT_EQ(graft_forecast_training(h_.model, &training, &forecast), GRAFT_OK) << h_.message();
  auto options = sized<graft_plan_options>();
  options.training = &training;
  options.curve = 1;
  ASSERT_EQ(graft_plan_create(h_.model, &options, &plan_), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_plan_forecast(plan_, &planned), GRAFT_OK);
  EXPECT_EQ(planned.total, forecast.total);
  EXPECT_EQ(planned.flops, forecast.flops);
  const graft_plan_point* points = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(graft_plan_curve(plan_, &points, &count), GRAFT_OK) << h_.message();
  ASSERT_GT(count, 1u);
  EXPECT_EQ(points[0].recomputed, 0u);
  for (std::size_t i = 1; i < count; ++i) {
    EXPECT_LT(points[i].bytes, points[i - 1].bytes);
    EXPECT_GT(points[i].extra_flops, points[i - 1].extra_flops);
  }
  std::uint64_t flops = 0, backward = 0;
  for (std::size_t i = 0; i < graft_plan_node_count(plan_); ++i) {
    auto node = sized<graft_plan_node>();
    ASSERT_EQ(graft_plan_node_at(plan_, i, &node), GRAFT_OK);
    flops += node.flops;
    backward += static_cast<std::uint64_t>(node.backward);
  }
  EXPECT_EQ(flops, planned.flops);
  EXPECT_GT(backward, 0u);
  std::map<std::string, std::uint64_t> by_class;
  std::uint64_t saved = 0;
  for (std::size_t i = 0; i < graft_plan_value_count(plan_); ++i) {
    auto value = sized<graft_plan_value>();
    ASSERT_EQ(graft_plan_value_at(plan_, i, &value), GRAFT_OK);
    EXPECT_LE(value.first, value.last) << value.name;
    EXPECT_LE(value.last, graft_plan_node_count(plan_)) << value.name;
    by_class[value.memory_class] += value.bytes;
    saved += static_cast<std::uint64_t>(value.saved);
  }
  EXPECT_LE(by_class["parameters"], planned.parameters);
  EXPECT_GT(by_class["parameters"], planned.parameters / 2) << "the rest is gaps";
  EXPECT_GT(saved, 0u);
  auto node = sized<graft_plan_node>();
  EXPECT_EQ(graft_plan_node_at(plan_, graft_plan_node_count(plan_), &node), GRAFT_NOT_FOUND);
}

TEST_F(CApiPlan, InferenceIsPlannedForOtherDevices) {
  auto options = sized<graft_plan_options>();
  options.curve = 1;
  EXPECT_EQ(graft_plan_create(h_.model, &options, &plan_), GRAFT_INVALID_ARGUMENT) << "the curve is of training";
  options.curve = 0;
  ASSERT_EQ(graft_plan_create(h_.model, &options, &plan_), GRAFT_OK) << h_.message();
  auto forecast = sized<graft_forecast>();
  ASSERT_EQ(graft_plan_forecast(plan_, &forecast), GRAFT_OK);
  EXPECT_EQ(forecast.gradients + forecast.optimizer, 0u);
  const graft_plan_point* points = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(graft_plan_curve(plan_, &points, &count), GRAFT_NOT_FOUND);
  graft_plan_destroy(plan_);
  plan_ = nullptr;
  options.caps = "adreno-7xx";
  EXPECT_EQ(graft_plan_create(h_.model, &options, &plan_), GRAFT_OK) << h_.message();
  graft_plan_destroy(plan_);
  plan_ = nullptr;
  options.caps = "abacus";
  EXPECT_EQ(graft_plan_create(h_.model, &options, &plan_), GRAFT_INVALID_ARGUMENT);
  auto session = sized<graft_session_options>();
  session.budget = 1;
  options.caps = nullptr;
  options.session = &session;
  EXPECT_EQ(graft_plan_create(h_.model, &options, &plan_), GRAFT_OUT_OF_MEMORY);
}

TEST_F(CApiPlan, DamagedWeightsAreNamed) {
  const graft_damage* damage = nullptr;
  std::size_t count = 1;
  ASSERT_EQ(graft_model_find_damage(h_.model, &damage, &count), GRAFT_OK) << h_.message();
  EXPECT_EQ(count, 0u);
  const std::string path = folder_.file("m.graft");
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-5, std::ios::end);
  const char before = static_cast<char>(file.peek());
  file.put(static_cast<char>(before ^ 1));
  file.close();
  graft_model* damaged = nullptr;
  ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &damaged), GRAFT_OK) << "weights are checked at their use";
  ASSERT_EQ(graft_model_find_damage(damaged, &damage, &count), GRAFT_OK) << h_.message();
  ASSERT_EQ(count, 1u);
  EXPECT_LE(damage[0].first_byte, damage[0].last_byte);
  EXPECT_STRNE(damage[0].weight, "");
  graft_model_destroy(damaged);
  EXPECT_EQ(graft_model_verify(h_.model, nullptr, nullptr, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT)
      << "there is no device";
}

TEST(CApiDevices, AreListedWithWhatTheyCanDo) {
  graft_devices* devices = nullptr;
  const graft_status found = graft_devices_find(nullptr, &devices);
  if (found == GRAFT_NOT_FOUND) GTEST_SKIP() << graft_devices_message(devices);
  ASSERT_EQ(found, GRAFT_OK) << graft_devices_message(devices);
  ASSERT_GT(graft_devices_count(devices), 0u);
  auto info = sized<graft_device_info>();
  ASSERT_EQ(graft_devices_info(devices, 0, &info), GRAFT_OK);
  EXPECT_STRNE(info.name, "");
  EXPECT_GE(info.api_version[0], 1u);
  EXPECT_GT(info.largest_heap, 0u);
  std::map<std::string, std::uint64_t> limits;
  auto fact = sized<graft_device_fact>();
  std::size_t count = 0;
  for (; graft_devices_fact(devices, 0, count, &fact) == GRAFT_OK; ++count) {
    if (fact.is_feature == 0) limits[fact.name] = fact.values[0];
  }
  EXPECT_GT(count, limits.size()) << "there are features, too";
  EXPECT_GE(limits["max_storage_buffer_range"], 128u << 20) << "as Vulkan guarantees";
  EXPECT_EQ(graft_devices_info(devices, graft_devices_count(devices), &info), GRAFT_NOT_FOUND);
  EXPECT_TRUE(contains(graft_devices_message(devices), "devices"));
  auto quirk = sized<graft_device_quirk>();
  EXPECT_EQ(graft_devices_quirk(devices, 0, 1000, &quirk), GRAFT_NOT_FOUND);
  graft_devices_destroy(devices);
  auto options = sized<graft_context_options>();
  options.vulkan_library = "/nowhere/libvulkan.so";
  EXPECT_EQ(graft_devices_find(&options, &devices), GRAFT_NOT_FOUND);
  EXPECT_STRNE(graft_devices_message(devices), "");
  EXPECT_EQ(graft_devices_count(devices), 0u);
  graft_devices_destroy(devices);
}

TEST_F(CApi, VerificationReportsEachNodeAndEndsWhenAsked) {
  struct Seen {
    std::size_t nodes = 0, passed = 0, most = 0;
  } seen{0, 0, 1000};
  const auto report = [](void* user, const graft_node_verdict* verdict) {
    auto& so_far = *static_cast<Seen*>(user);
    so_far.passed += static_cast<std::size_t>(verdict->passed);
    return ++so_far.nodes >= so_far.most ? 1 : 0;
  };
  std::size_t nodes = 0, failed = 1;
  ASSERT_EQ(graft_model_verify(h_.model, nullptr, report, &seen, &nodes, &failed), GRAFT_OK) << h_.message();
  EXPECT_EQ(nodes, seen.nodes);
  EXPECT_EQ(seen.passed, seen.nodes);
  EXPECT_EQ(failed, 0u);
  EXPECT_GT(nodes, 2u);
  auto options = sized<graft_verify_options>();
  options.tolerance = 1e-30;
  EXPECT_EQ(graft_model_verify(h_.model, &options, nullptr, nullptr, &nodes, &failed), GRAFT_DEVICE_ERROR);
  EXPECT_GT(failed, 0u);
  seen = {0, 0, 1};
  EXPECT_EQ(graft_model_verify(h_.model, nullptr, report, &seen, nullptr, nullptr), GRAFT_CANCELLED);
  EXPECT_EQ(seen.nodes, 1u);
  const auto told = [](void*, const char*, graft_kernel_verdict, const char*) {};
  EXPECT_EQ(graft_context_known_kernels(h_.context, told, nullptr), GRAFT_INVALID_ARGUMENT) << "there is no cache";
  EXPECT_EQ(graft_context_self_test(h_.context, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace graft::test::c_api_plan_test
