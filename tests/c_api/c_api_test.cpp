// The C ABI: contexts, models and sessions, asked of graft.h.
#include <cmath>
#include <fstream>

#include "platform/base/text.h"
#include "platform/os/dynamic_library.h"
#include "runtime/core/op_id.gen.h"
#include "tests/support/c_api.h"
#include "tests/support/heap_count.h"

namespace graft::test::c_api_test {
namespace {

TEST_F(CApi, WrongSizesOfStructsAreRefused) {
  auto context = sized<graft_context_options>();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, sizeof context + 1, SIZE_MAX}) {
    context.struct_size = size;
    graft_context* failed = nullptr;
    EXPECT_EQ(graft_context_create(&context, &failed), GRAFT_INVALID_ARGUMENT);
    ASSERT_NE(failed, nullptr);
    EXPECT_TRUE(contains(graft_message(failed), "struct_size")) << graft_message(failed);
    graft_model* none = nullptr;
    EXPECT_EQ(graft_model_load(failed, path_.c_str(), &none), GRAFT_INVALID_ARGUMENT) << "it can only be destroyed";
    EXPECT_EQ(none, nullptr);
    EXPECT_STREQ(graft_device_name(failed), "");
    graft_context_destroy(failed);
  }
  auto session = sized<graft_session_options>();
  session.struct_size = 0;
  EXPECT_EQ(open_session(session), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(h_.session, nullptr);
  auto trainer = trainer_options();
  trainer.struct_size = sizeof trainer + 8;
  EXPECT_EQ(open_trainer(trainer), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), cat(sizeof trainer + 8))) << h_.message();
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  graft_memory memory{};
  EXPECT_EQ(graft_session_memory(h_.session, &memory), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CApi, SmallerStructsOfOlderProgramsWork) {
  auto options = trainer_options();
  options.micro_batch = 999;  // beyond what an older program knows: must not be read
  options.struct_size = offsetof(graft_trainer_options, micro_batch);
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  struct {
    graft_memory memory;
    std::uint64_t guard;
  } info{};
  info.memory.struct_size = offsetof(graft_memory, gradients);
  info.memory.gradients = 12345;
  ASSERT_EQ(graft_trainer_memory(h_.trainer, &info.memory), GRAFT_OK);
  EXPECT_GT(info.memory.parameters, 0u);
  EXPECT_EQ(info.memory.gradients, 12345u) << "bytes beyond struct_size are the caller's";
  EXPECT_EQ(info.memory.struct_size, offsetof(graft_memory, gradients));
}

TEST_F(CApi, NullsAreRefused) {
  graft_context_destroy(nullptr);
  graft_model_destroy(nullptr);
  graft_session_destroy(nullptr);
  graft_trainer_destroy(nullptr);
  EXPECT_STREQ(graft_message(nullptr), "");
  EXPECT_STREQ(graft_device_name(nullptr), "");
  EXPECT_EQ(graft_context_create(nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  graft_model* model = nullptr;
  EXPECT_EQ(graft_model_load(nullptr, path_.c_str(), &model), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_load(h_.context, nullptr, &model), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_load(h_.context, path_.c_str(), nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_save(nullptr, path_.c_str()), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_save(h_.model, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_count(nullptr, GRAFT_INPUTS), 0u);
  graft_tensor_info info{};
  EXPECT_EQ(graft_model_tensor(nullptr, GRAFT_INPUTS, 0, &info), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_tensor(h_.model, GRAFT_INPUTS, 0, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_create(nullptr, nullptr, &h_.session), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_create(h_.model, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_run(nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_memory(nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_trainer_create(nullptr, nullptr, &h_.trainer), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_trainer_create(h_.model, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_train_step(nullptr, nullptr, 0, nullptr, 1, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_evaluate(nullptr, nullptr, 0, nullptr, 1, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_trainer_store(nullptr), GRAFT_INVALID_ARGUMENT);

  auto options = sized<graft_session_options>();
  options.binding_count = 1;
  EXPECT_EQ(graft_session_create(h_.model, &options, &h_.session), GRAFT_INVALID_ARGUMENT) << "bindings is NULL";
  const graft_binding nameless = {nullptr, 1};
  options.bindings = &nameless;
  EXPECT_EQ(graft_session_create(h_.model, &options, &h_.session), GRAFT_INVALID_ARGUMENT);
  options = sized<graft_session_options>();
  options.of = "y";
  EXPECT_EQ(open_session(options), GRAFT_INVALID_ARGUMENT) << "of without wrt";
  const char* wrt[] = {nullptr};
  options.wrt = wrt;
  options.wrt_count = 1;
  EXPECT_EQ(open_session(options), GRAFT_INVALID_ARGUMENT) << "a name of wrt is NULL";
  options.of = nullptr;
  EXPECT_EQ(open_session(options), GRAFT_INVALID_ARGUMENT) << "wrt without of";
  options = sized<graft_session_options>();
  options.precision = static_cast<graft_precision>(3);
  EXPECT_EQ(open_session(options), GRAFT_INVALID_ARGUMENT) << "no such precision";

  options = sized<graft_session_options>();
  options.fetch_count = 1;
  EXPECT_EQ(open_session(options), GRAFT_INVALID_ARGUMENT) << "fetch is NULL";
  const char* nowhere[] = {"nowhere"};
  options.fetch = nowhere;
  EXPECT_NE(open_session(options), GRAFT_OK);
  EXPECT_TRUE(contains(h_.message(), "nowhere")) << h_.message();
  options = sized<graft_session_options>();
  options.train_mode = 1;
  EXPECT_EQ(open_session(options), GRAFT_INVALID_ARGUMENT) << "train_mode without of";

  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_set_input(h_.session, nullptr, batch_.x.data(), batch_.bytes()), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_set_input(h_.session, "x", nullptr, batch_.bytes()), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_output(h_.session, nullptr, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_memory(h_.session, nullptr), GRAFT_INVALID_ARGUMENT);

  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  const void* const none[] = {nullptr};
  const void* labels = batch_.labels.data();
  EXPECT_EQ(graft_train_step(h_.trainer, nullptr, 1, labels, kSamples, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_train_step(h_.trainer, none, 1, labels, kSamples, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_train_step(h_.trainer, batch_.inputs, 1, nullptr, kSamples, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "NULL")) << h_.message();
}

TEST_F(CApi, ModelsTellTheirTensors) {
  EXPECT_EQ(std::string(graft_version()), cat(GRAFT_VERSION_MAJOR, ".", GRAFT_VERSION_MINOR, ".", GRAFT_VERSION_PATCH));
  EXPECT_STREQ(graft_status_name(GRAFT_CORRUPT), "corrupt");
  EXPECT_STREQ(graft_status_name(static_cast<graft_status>(99)), "unknown");
  EXPECT_STRNE(graft_device_name(h_.context), "");
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_INPUTS), 1u);
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_OUTPUTS), 1u);
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), 4u);
  EXPECT_EQ(graft_model_count(h_.model, static_cast<graft_tensor_kind>(7)), 0u);
  graft_tensor_info info{};
  ASSERT_EQ(graft_model_tensor(h_.model, GRAFT_INPUTS, 0, &info), GRAFT_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.dtype, GRAFT_F32);
  EXPECT_EQ(info.rank, 2u);
  EXPECT_EQ(info.dims[0], -1);
  EXPECT_EQ(info.dims[1], kInputs);
  ASSERT_EQ(graft_model_tensor(h_.model, GRAFT_PARAMETERS, 3, &info), GRAFT_OK);
  EXPECT_STREQ(info.name, "fc2.bias");
  EXPECT_EQ(graft_model_tensor(h_.model, GRAFT_PARAMETERS, 4, &info), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_model_tensor(h_.model, static_cast<graft_tensor_kind>(7), 0, &info), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CApi, BadFilesAreRefused) {
  graft_model* model = nullptr;
  const std::string missing = folder_.file("missing.graft");
  EXPECT_EQ(graft_model_load(h_.context, missing.c_str(), &model), GRAFT_NOT_FOUND);
  EXPECT_TRUE(contains(h_.message(), "missing.graft")) << h_.message();
  std::ifstream file(path_, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  for (const std::size_t keep : {std::size_t{0}, std::size_t{3}, good.size() / 2, good.size() - 1}) {
    const std::string cut = folder_.write("cut.graft", std::string_view(good).substr(0, keep));
    EXPECT_EQ(graft_model_load(h_.context, cut.c_str(), &model), GRAFT_CORRUPT) << keep << ": " << h_.message();
    EXPECT_TRUE(contains(h_.message(), "cut.graft")) << h_.message();
    EXPECT_EQ(model, nullptr);
  }
  const std::string nowhere = folder_.file("no/such/folder/m.graft");
  EXPECT_NE(graft_model_save(h_.model, nowhere.c_str()), GRAFT_OK);
  EXPECT_TRUE(contains(h_.message(), nowhere)) << h_.message();
}

TEST_F(CApi, SessionsRefuseWhatDoesNotFit) {
  EXPECT_EQ(graft_session_create(h_.model, nullptr, &h_.session), GRAFT_INVALID_ARGUMENT) << "batch is not bound";
  EXPECT_TRUE(contains(h_.message(), "batch")) << h_.message();
  for (const std::int64_t samples : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN}) {
    EXPECT_EQ(open_session(sized<graft_session_options>(), samples), GRAFT_INVALID_ARGUMENT) << samples;
    EXPECT_TRUE(contains(h_.message(), cat(samples))) << h_.message();
  }
  EXPECT_NE(open_session(sized<graft_session_options>(), std::int64_t{1} << 62), GRAFT_OK);
  const graft_binding twice[] = {{"batch", 1}, {"batch", 2}};
  auto options = sized<graft_session_options>();
  options.bindings = twice;
  options.binding_count = 2;
  EXPECT_EQ(graft_session_create(h_.model, &options, &h_.session), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "twice")) << h_.message();

  options = sized<graft_session_options>();
  options.of = "y";
  const char* wrt[] = {"fc9.weight"};
  options.wrt = wrt;
  options.wrt_count = 1;
  EXPECT_EQ(open_session(options), GRAFT_NOT_FOUND) << h_.message();
  EXPECT_TRUE(contains(h_.message(), "fc9.weight")) << h_.message();

  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_run(h_.session), GRAFT_INVALID_ARGUMENT) << "no input yet";
  EXPECT_TRUE(contains(h_.message(), "\"x\"")) << h_.message();
  EXPECT_EQ(graft_session_output(h_.session, "y", nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT) << "no run yet";
  EXPECT_EQ(graft_session_set_input(h_.session, "z", batch_.x.data(), batch_.bytes()), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes() - 4), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "80 bytes; 76")) << h_.message();
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK);
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_output(h_.session, "z", nullptr, nullptr, nullptr), GRAFT_NOT_FOUND);
  const std::vector<float> first = output(h_.session);
  EXPECT_EQ(first.size(), std::size_t{kSamples} * kClasses);
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(output(h_.session), first) << "inputs stay from run to run";
  graft_tensor_info info{};
  ASSERT_EQ(graft_session_output(h_.session, "y", nullptr, nullptr, &info), GRAFT_OK);
  EXPECT_EQ(info.dims[0], kSamples);
}

TEST_F(CApi, ABudgetIsKeptOrRefusedWithBothNumbers) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  auto memory = sized<graft_memory>();
  ASSERT_EQ(graft_session_memory(h_.session, &memory), GRAFT_OK);
  EXPECT_EQ(memory.total, memory.weights + memory.parameters + memory.gradients + memory.optimizer +
                              memory.activations + memory.workspace + memory.staging + memory.step_state);
  auto options = sized<graft_session_options>();
  options.budget = memory.total;
  EXPECT_EQ(open_session(options), GRAFT_OK) << h_.message();
  options.budget = memory.total - 1;  // some weights are streamed then, unless their staging takes more than that saves
  if (const graft_status status = open_session(options); status == GRAFT_OK) {
    auto streamed = sized<graft_memory>();
    ASSERT_EQ(graft_session_memory(h_.session, &streamed), GRAFT_OK);
    EXPECT_LE(streamed.total, options.budget);
  } else {
    GRAFT_TEST_GPU(device);
    EXPECT_FALSE(device->caps().unified_memory) << "nothing is staged there";
    EXPECT_EQ(status, GRAFT_OUT_OF_MEMORY);
    EXPECT_TRUE(contains(h_.message(), bytes_text(options.budget))) << h_.message();
  }
  options.budget = 100;
  EXPECT_EQ(open_session(options), GRAFT_OUT_OF_MEMORY);
  EXPECT_EQ(h_.session, nullptr);
  EXPECT_TRUE(contains(h_.message(), bytes_text(100))) << h_.message();

  auto train = trainer_options();
  ASSERT_EQ(open_trainer(train), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_memory(h_.trainer, &memory), GRAFT_OK);
  train.budget = memory.total;
  EXPECT_EQ(open_trainer(train), GRAFT_OK) << h_.message();
  train.budget = 100;
  EXPECT_EQ(open_trainer(train), GRAFT_OUT_OF_MEMORY);
  EXPECT_TRUE(contains(h_.message(), bytes_text(100))) << h_.message();
  EXPECT_TRUE(contains(h_.message(), "smallest budget that works is ")) << h_.message();
  // The number that it names works.
  const std::string text = h_.message();
  train.budget = std::stoull(text.substr(text.find("works is ") + 9));
  EXPECT_EQ(open_trainer(train), GRAFT_OK) << h_.message();
  EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
}

TEST_F(CApi, GradientsAgreeWithDifferences) {
  auto options = sized<graft_session_options>();
  options.of = "y";
  const char* wrt[] = {"x", "fc1.weight"};
  options.wrt = wrt;
  options.wrt_count = 2;
  ASSERT_EQ(open_session(options), GRAFT_OK) << h_.message();
  std::vector<float> cotangent(std::size_t{kSamples} * kClasses);
  for (std::size_t i = 0; i < cotangent.size(); ++i) cotangent[i] = 0.25f * static_cast<float>(i % 5) - 0.4f;
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK);
  EXPECT_EQ(graft_session_run(h_.session), GRAFT_INVALID_ARGUMENT) << "the cotangent is an input, too";
  ASSERT_EQ(graft_session_set_input(h_.session, "cotangent", cotangent.data(), cotangent.size() * 4), GRAFT_OK)
      << h_.message();
  const auto value = [&](std::size_t at, float by) {
    std::vector<float> x = batch_.x;
    x[at] += by;
    EXPECT_EQ(graft_session_set_input(h_.session, "x", x.data(), batch_.bytes()), GRAFT_OK);
    EXPECT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
    double sum = 0;
    const std::vector<float> y = output(h_.session);
    for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * cotangent[i];
    return sum;
  };
  (void)value(0, 0);
  const std::vector<float> gradient = output(h_.session, "grad:x");
  ASSERT_EQ(gradient.size(), batch_.x.size());
  EXPECT_EQ(output(h_.session, "grad:fc1.weight").size(), std::size_t{kInputs} * 6);
  for (const std::size_t at : {std::size_t{0}, std::size_t{7}, std::size_t{19}}) {
    // Central differences: an error of about 1e-2^2 of tanh's third derivative, and f32 rounding of 1e-7 / 1e-2.
    const double expected = (value(at, 1e-2f) - value(at, -1e-2f)) / 2e-2;
    EXPECT_NEAR(gradient[at], expected, 1e-3) << at;
    EXPECT_GT(std::abs(gradient[at]), 1e-3) << "the test needs a gradient that shows";
  }
}

TEST_F(CApi, ARunAllocatesNothingAfterTheFirst) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK);
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << "the driver may settle in its second run";
  const std::uint64_t before = heap_allocations();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(heap_allocations(), before);
}

TEST_F(CApi, TheLogReachesTheCaller) {
  const std::string cache = folder_.write("cache", "not a cache");
  struct Log {
    std::string text;
    graft_log_level level = GRAFT_LOG_DEBUG;
  } log;
  CHandles h;
  auto options = context_options(device_);
  options.pipeline_cache = cache.c_str();
  options.log = [](void* user, graft_log_level level, const char* message) {
    *static_cast<Log*>(user) = {message, level};
  };
  options.log_user = &log;
  options.log_level = GRAFT_LOG_WARNING;
  ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
  EXPECT_TRUE(contains(log.text, cache)) << log.text;
  EXPECT_EQ(log.level, GRAFT_LOG_WARNING);
  graft_context_destroy(h.context);  // writes a good one
  h.context = nullptr;
  log = {};
  ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
  EXPECT_EQ(log.text, "");
  graft_context_destroy(h.context);
  h.context = nullptr;
  std::ofstream(cache) << "damaged again";
  options.log_level = GRAFT_LOG_ERROR;
  ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
  EXPECT_EQ(log.text, "") << "below the level asked for";
}

TEST_F(CApi, ContextsAreIndependent) {
  const std::vector<float> expected = run_model(h_.model);
  {
    CHandles other;
    const auto options = context_options(device_);
    ASSERT_EQ(graft_context_create(&options, &other.context), GRAFT_OK);
    ASSERT_EQ(graft_model_load(other.context, path_.c_str(), &other.model), GRAFT_OK) << other.message();
    graft_model* place = other.model;
    EXPECT_EQ(graft_model_load(other.context, "/nonexistent", &place), GRAFT_NOT_FOUND);
    EXPECT_EQ(place, nullptr) << "the place for the model is emptied first";
    EXPECT_NE(other.message(), "");
    EXPECT_EQ(h_.message(), "") << "another context's failure";
    const auto train = trainer_options();
    ASSERT_EQ(graft_trainer_create(other.model, &train, &other.trainer), GRAFT_OK) << other.message();
    ASSERT_EQ(open_trainer(train), GRAFT_OK) << h_.message();
    auto mine = sized<graft_metrics>();
    auto theirs = sized<graft_metrics>();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(batch_.step(other.trainer, &theirs), GRAFT_OK) << other.message();
      ASSERT_EQ(batch_.step(h_.trainer, &mine), GRAFT_OK) << h_.message();
      EXPECT_EQ(mine.loss, theirs.loss) << "the same work gives the same bits";
    }
    ASSERT_EQ(graft_trainer_store(other.trainer), GRAFT_OK);
    EXPECT_NE(run_model(other.model), expected);
  }
  EXPECT_EQ(run_model(h_.model), expected) << "after the other context is gone";
}

TEST(CApiWithoutADevice, AMatmulPrecisionThatIsNoneIsRefused) {
  auto options = sized<graft_context_options>();
  options.matmul_precision = static_cast<graft_matmul_precision>(3);
  graft_context* context = nullptr;
  EXPECT_EQ(graft_context_create(&options, &context), GRAFT_INVALID_ARGUMENT);
  ASSERT_NE(context, nullptr);
  EXPECT_NE(std::string(graft_message(context)).find("precision number 3"), std::string::npos);
  graft_context_destroy(context);
}

TEST_F(CApi, APriorityChangesNoBit) {
  const auto expected = run_model(h_.model);
  for (const graft_priority priority : {GRAFT_PRIORITY_LOW, GRAFT_PRIORITY_HIGH}) {
    std::string name;
    auto options = context_options(name);
    options.priority = priority;
    CHandles other;
    ASSERT_EQ(graft_context_create(&options, &other.context), GRAFT_OK) << other.message();
    ASSERT_EQ(graft_model_load(other.context, path_.c_str(), &other.model), GRAFT_OK) << other.message();
    EXPECT_EQ(run_model(other.model), expected);
  }
  std::string name;
  auto options = context_options(name);
  options.priority = static_cast<graft_priority>(3);
  CHandles other;
  EXPECT_EQ(graft_context_create(&options, &other.context), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(other.message(), "priority number 3")) << other.message();
}

TEST(CApiWithoutADevice, SaysSo) {
  auto options = sized<graft_context_options>();
  options.vulkan_library = "libgraft-no-such-loader.so";
  graft_context* context = nullptr;
  EXPECT_EQ(graft_context_create(&options, &context), GRAFT_NOT_FOUND);
  ASSERT_NE(context, nullptr);
  EXPECT_NE(std::string(graft_message(context)).find("libgraft-no-such-loader.so"), std::string::npos);
  graft_context_destroy(context);
}

// As MoltenVK is linked into an app for iOS: no library is looked for.
TEST(CApiWithoutADevice, AVulkanThatIsLinkedInIsUsed) {
  std::string device = test_device_options().instance.library;
  const auto library = os::DynamicLibrary::open(device.empty() ? "libvulkan.so.1" : device);
  if (!library.ok()) GTEST_SKIP() << library.status().message();
  auto options = context_options(device);
  options.vulkan_library = "libgraft-no-such-loader.so";
  options.vulkan_get_instance_proc_addr = library->find_as<void (*)()>("vkGetInstanceProcAddr");
  ASSERT_NE(options.vulkan_get_instance_proc_addr, nullptr);
  CHandles h;
  ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
  EXPECT_NE(std::string(graft_device_name(h.context)), "");
}

TEST_F(CApi, ASessionGivesValuesOnTheWay) {
  // The network is fc1, tanh, fc2: what tanh gives must lead to the output.
  const TinyModel tiny = tiny_mlp(kInputs, 6, kClasses);
  std::string hidden;
  for (const Node& node : tiny.graph.nodes()) {
    if (node.op == Op::tanh) hidden = tiny.graph.value(node.outputs[0]).name;
  }
  ASSERT_FALSE(hidden.empty());
  const std::vector<float> plain = run_model(h_.model);
  const char* fetch[] = {hidden.c_str(), "fc2.bias", "y"};
  const char* wrt[] = {"fc2.bias"};
  for (const bool differentiate : {false, true}) {
    auto options = sized<graft_session_options>();
    options.fetch = fetch;
    options.fetch_count = 3;
    options.of = differentiate ? "y" : nullptr;
    options.wrt = wrt;
    options.wrt_count = differentiate ? 1 : 0;
    ASSERT_EQ(open_session(options), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
    const std::vector<float> ones(std::size_t{kSamples} * kClasses, 1.0F);
    if (differentiate) {
      ASSERT_EQ(graft_session_set_input(h_.session, "cotangent", ones.data(), ones.size() * sizeof(float)), GRAFT_OK);
    }
    ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
    const auto output = [&](const char* name) {
      const void* data = nullptr;
      std::size_t bytes = 0;
      EXPECT_EQ(graft_session_output(h_.session, name, &data, &bytes, nullptr), GRAFT_OK) << h_.message();
      const auto* numbers = static_cast<const float*>(data);
      return std::vector<float>(numbers, numbers + bytes / sizeof(float));
    };
    const std::vector<float> y = output("y"), h = output(hidden.c_str()), bias = output("fc2.bias");
    EXPECT_EQ(y, plain) << "bit for bit";
    EXPECT_EQ(bias, tiny.weights.at("fc2.bias"));
    ASSERT_EQ(h.size() % kSamples, 0u);
    const std::size_t width = h.size() / kSamples;
    const std::vector<float>& w = tiny.weights.at("fc2.weight");
    ASSERT_EQ(w.size(), width * kClasses);
    for (std::size_t s = 0; s < kSamples; ++s) {
      for (std::size_t c = 0; c < kClasses; ++c) {
        double sum = bias[c];
        for (std::size_t i = 0; i < width; ++i) sum += double{h[s * width + i]} * w[i * kClasses + c];
        EXPECT_NEAR(y[s * kClasses + c], sum, 1e-5) << "roundings of a few numbers near 1";
      }
    }
    if (differentiate) {
      EXPECT_EQ(output("grad:fc2.bias"), std::vector<float>(kClasses, float{kSamples}));
    }
  }
}

}  // namespace
}  // namespace graft::test::c_api_test
