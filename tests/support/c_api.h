// What tests of the C ABI share: small model files, options with their sizes filled in, and failures with their text.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "graft/defaults.hpp"
#include "graft/graft.h"
#include "runtime/model/model.h"
#include "tests/support/gpu_device.h"
#include "tests/support/files/temporary_folder.h"
#include "tests/support/tiny_training.h"

namespace graft::test {

/// A model with the weights of a tiny one.
inline Model model_of(const TinyModel& tiny) {
  Model model;
  model.graph = tiny.graph;
  for (const auto& [name, contents] : tiny.weights) {
    EXPECT_TRUE(model.copy_weight(model.graph.find_value(name), std::as_bytes(std::span(contents))).ok()) << name;
  }
  return model;
}

inline void write_model(const TinyModel& tiny, const std::string& path) {
  const Status saved = save_model(os::system_files(), path, model_of(tiny));
  EXPECT_TRUE(saved.ok()) << saved.message();
}

/// A struct of the C interface with its size, and with its defaults if it has any.
template <typename Struct>
Struct sized() {
  Struct s{};
  s.struct_size = sizeof s;
  if constexpr (requires { graft_init(&s); }) graft_init(&s);
  return s;
}

/// Options of a training run with the defaults of an optimizer.
inline graft_trainer_options training_options(graft_optimizer optimizer = GRAFT_ADAMW) {
  auto options = sized<graft_trainer_options>();
  EXPECT_EQ(graft_trainer_options_init(&options, optimizer), GRAFT_OK);
  return options;
}

/// Options for the device that tests run on, whose name must outlive them.
inline graft_context_options context_options(std::string& name) {
  name = test_device_options().device;
  auto options = sized<graft_context_options>();
  options.device = name.c_str();
  return options;
}

/// Owns the handles of one context, so that a test that fails half way leaves nothing behind.
struct CHandles {
  graft_context* context = nullptr;
  graft_model* model = nullptr;
  graft_session* session = nullptr;
  graft_trainer* trainer = nullptr;

  CHandles() = default;
  CHandles(const CHandles&) = delete;
  CHandles& operator=(const CHandles&) = delete;
  ~CHandles() {
    destroy_parts();
    graft_context_destroy(context);
  }
  /// All but the context.
  void destroy_parts() {
    graft_trainer_destroy(trainer);
    graft_session_destroy(session);
    graft_model_destroy(model);
    trainer = nullptr;
    session = nullptr;
    model = nullptr;
  }
  std::string message() const { return graft_message(context); }
};

/// A batch of `samples` rows of random numbers, and labels below `classes`.
struct CBatch {
  std::vector<float> x;
  std::vector<std::int32_t> labels;
  std::uint32_t samples = 0;
  const void* inputs[1] = {};

  CBatch(std::uint32_t count, std::uint32_t per_sample, std::int32_t classes) : samples(count) {
    data::Random random(data::mix(7));
    x.resize(std::size_t{count} * per_sample);
    for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
    for (std::uint32_t i = 0; i < count; ++i) labels.push_back(static_cast<std::int32_t>(i) % classes);
    inputs[0] = x.data();
  }
  std::size_t bytes() const { return x.size() * sizeof(float); }
  graft_status step(graft_trainer* trainer, graft_metrics* metrics = nullptr) const {
    return graft_train_step(trainer, inputs, 1, labels.data(), samples, metrics);
  }
};

inline constexpr std::uint32_t kSamples = 4;
inline constexpr std::uint32_t kInputs = 5;
inline constexpr std::int32_t kClasses = 3;

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// A context with the model tiny_mlp(kInputs, 6, kClasses), and a batch for it.
class CApi : public testing::Test {
 protected:
  void SetUp() override {
    const auto options = context_options(device_);
    const graft_status made = graft_context_create(&options, &h_.context);
    if (made == GRAFT_NOT_FOUND) GTEST_SKIP() << h_.message();
    ASSERT_EQ(made, GRAFT_OK) << h_.message();
    write_model(tiny_mlp(kInputs, 6, kClasses), path_);
    ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &h_.model), GRAFT_OK) << h_.message();
  }

  graft_status open_session(graft_session_options options = sized<graft_session_options>(),
                            std::int64_t samples = kSamples) {
    const graft_binding batch = {"batch", samples};
    options.bindings = &batch;
    options.binding_count = 1;
    graft_session_destroy(h_.session);
    return graft_session_create(h_.model, &options, &h_.session);
  }
  graft_status open_trainer(graft_trainer_options options) {
    graft_trainer_destroy(h_.trainer);
    return graft_trainer_create(h_.model, &options, &h_.trainer);
  }
  static graft_trainer_options trainer_options() {
    auto options = training_options(GRAFT_SGD);
    options.learning_rate = 0.1;
    options.batch = kSamples;
    return options;
  }
  std::vector<float> output(graft_session* session, const char* name = "y") {
    const void* data = nullptr;
    std::size_t bytes = 0;
    EXPECT_EQ(graft_session_output(session, name, &data, &bytes, nullptr), GRAFT_OK) << h_.message();
    std::vector<float> values(bytes / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), data, bytes);
    return values;
  }
  /// The output of a new session on batch_.
  std::vector<float> run_model(graft_model* model) {
    const graft_binding batch = {"batch", kSamples};
    auto options = sized<graft_session_options>();
    options.bindings = &batch;
    options.binding_count = 1;
    graft_session* session = nullptr;
    EXPECT_EQ(graft_session_create(model, &options, &session), GRAFT_OK) << h_.message();
    EXPECT_EQ(graft_session_set_input(session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
    EXPECT_EQ(graft_session_run(session), GRAFT_OK) << h_.message();
    auto values = output(session);
    graft_session_destroy(session);
    return values;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("m.graft");
  std::string device_;
  CHandles h_;
  CBatch batch_{kSamples, kInputs, kClasses};
};

}  // namespace graft::test
