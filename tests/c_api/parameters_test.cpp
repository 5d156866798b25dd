// graft/parameters.h: weights by name, metadata, groups, and a learning rate that changes in the course of a run.
#include "graft/parameters.h"

#include <cmath>
#include <limits>
#include <utility>

#include "runtime/c_api/c_handles.h"
#include "runtime/core/source_order.h"
#include "runtime/session/parameters.h"
#include "tests/support/c_api.h"
#include "tests/support/files/fault_files.h"

namespace graft::test::c_api_parameters_test {
namespace {

class Parameters : public CApi {
 protected:
  std::vector<float> of_model(const char* name, std::size_t count) {
    std::vector<float> out(count);
    EXPECT_EQ(graft_model_read(h_.model, name, out.data(), count * sizeof(float), nullptr), GRAFT_OK) << h_.message();
    return out;
  }
  std::vector<float> of_trainer(const char* name, std::size_t count) {
    std::vector<float> out(count);
    EXPECT_EQ(graft_trainer_read(h_.trainer, name, out.data(), count * sizeof(float), nullptr), GRAFT_OK)
        << h_.message();
    return out;
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  }
  static constexpr std::size_t kFirst = 6 * kInputs;  // elements of fc1.weight
};

TEST_F(Parameters, AModelsWeightsAreReadAndWritten) {
  graft_tensor_info info{};
  ASSERT_EQ(graft_model_read(h_.model, "fc2.bias", nullptr, 0, &info), GRAFT_OK) << h_.message();
  EXPECT_STREQ(info.name, "fc2.bias");
  EXPECT_EQ(info.rank, 1u);
  EXPECT_EQ(info.dims[0], kClasses);
  EXPECT_EQ(info.dtype, GRAFT_F32);
  EXPECT_EQ(of_model("fc1.weight", kFirst), tiny_mlp(kInputs, 6, kClasses).weights.at("fc1.weight"));

  const std::vector<float> plain = run_model(h_.model);
  std::vector<float> bias = of_model("fc2.bias", kClasses);
  for (float& number : bias) number += 0.5F;
  ASSERT_EQ(graft_model_write(h_.model, "fc2.bias", bias.data(), bias.size() * sizeof(float)), GRAFT_OK)
      << h_.message();
  const std::vector<float> moved = run_model(h_.model);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(moved[i], plain[i] + 0.5F, 1e-6F) << "one rounding";

  const auto refused = [&](const char* name, const std::vector<float>& data, std::string_view part) {
    EXPECT_NE(graft_model_write(h_.model, name, data.data(), data.size() * sizeof(float)), GRAFT_OK);
    EXPECT_TRUE(contains(h_.message(), part)) << h_.message();
  };
  refused("fc2.bias", std::vector<float>(2), "12 bytes; 8 were given");
  refused("fc2.bias", {0, std::nanf(""), 0}, "Number 1");
  refused("fc2.bias", {0, 0, std::numeric_limits<float>::infinity()}, "Number 2");
  refused("fc9.bias", {0}, "no parameter \"fc9.bias\"");
  refused("x", {0}, "no parameter \"x\"");
  EXPECT_EQ(graft_model_read(h_.model, "fc2.bias", bias.data(), 4, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_read(h_.model, nullptr, bias.data(), 4, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_write(h_.model, "fc2.bias", nullptr, 12), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_read(nullptr, "fc2.bias", nullptr, 0, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_write(nullptr, "fc2.bias", bias.data(), 12), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(run_model(h_.model), moved) << "failures change nothing";
}

TEST_F(Parameters, WeightsBelowAdaptersStayWritten) {
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1", 1), GRAFT_OK) << h_.message();
  const std::vector<float> bias(kClasses, 3);
  ASSERT_EQ(graft_model_write(h_.model, "fc2.bias", bias.data(), bias.size() * sizeof(float)), GRAFT_OK)
      << h_.message();
  EXPECT_EQ(of_model("fc2.bias", kClasses), bias);
  std::vector<float> a(2 * kInputs, 0.25F);
  ASSERT_EQ(graft_model_write(h_.model, "fc1.lora_A.weight", a.data(), a.size() * sizeof(float)), GRAFT_OK)
      << h_.message();
  EXPECT_EQ(of_model("fc1.lora_A.weight", a.size()), a);
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  EXPECT_EQ(of_trainer("fc2.bias", kClasses), bias) << "frozen";
  EXPECT_EQ(graft_model_write(h_.model, "fc2.bias", bias.data(), 12), GRAFT_INVALID_ARGUMENT) << "it is in use";
  EXPECT_EQ(graft_trainer_write(h_.trainer, "fc2.bias", bias.data(), 12), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "frozen")) << h_.message();
  graft_trainer_destroy(std::exchange(h_.trainer, nullptr));
  ASSERT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_OK);
  EXPECT_EQ(of_model("fc2.bias", kClasses), bias);
}

TEST_F(Parameters, ImagesFiltersHaveTheSourcesOrderOfAxes) {
  // A filter that lies otherwise than the source wrote it: [out, in, height, width] as [out, height, width, in].
  Value of;
  of.name = "filter";
  of.dtype = DType::f32;
  of.kind = ValueKind::parameter;
  of.shape = Shape({2, 3, 1, 4});
  of.source_perm = {0, 2, 3, 1};
  std::vector<float> held(24);
  for (std::size_t i = 0; i < held.size(); ++i) held[i] = static_cast<float>(i);
  const auto source = weight_to_source(of, std::as_bytes(std::span(held)));
  const auto* numbers = reinterpret_cast<const float*>(source.data());
  // Source [o, i, h, w] of dims [2, 4, 3, 1] is held [o, h, w, i].
  for (int o = 0; o < 2; ++o) {
    for (int i = 0; i < 4; ++i) {
      for (int h = 0; h < 3; ++h)
        EXPECT_EQ(numbers[(o * 4 + i) * 3 + h], held[static_cast<std::size_t>((o * 3 + h) * 4 + i)]);
    }
  }
  const auto back = weight_from_source(of, source);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(std::memcmp(back->data(), held.data(), back->size()), 0);
}

TEST_F(Parameters, ATrainersWeightsChangeBetweenSteps) {
  auto options = trainer_options();
  options.micro_batch = 1;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  const std::vector<float> start = of_trainer("fc1.weight", kFirst);
  EXPECT_EQ(start, of_model("fc1.weight", kFirst));
  steps(1);
  const std::vector<float> trained = of_trainer("fc1.weight", kFirst);
  EXPECT_NE(trained, start);
  EXPECT_EQ(of_model("fc1.weight", kFirst), start) << "the model's change only when stored";
  // Back to the start, the step gives what it gave.
  for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}) {
    const std::vector<float> numbers = tiny_mlp(kInputs, 6, kClasses).weights.at(name);
    ASSERT_EQ(graft_trainer_write(h_.trainer, name, numbers.data(), numbers.size() * sizeof(float)), GRAFT_OK)
        << h_.message();
  }
  steps(1);
  EXPECT_EQ(of_trainer("fc1.weight", kFirst), trained);
  int done = 0;
  ASSERT_EQ(graft_train_micro_step(h_.trainer, batch_.inputs, 1, batch_.labels.data(), kSamples, &done, nullptr),
            GRAFT_OK);
  EXPECT_EQ(graft_trainer_write(h_.trainer, "fc1.weight", start.data(), kFirst * sizeof(float)),
            GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "half done")) << h_.message();
  EXPECT_EQ(graft_trainer_set_learning_rate(h_.trainer, 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_trainer_write(nullptr, "fc1.weight", start.data(), 4), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_trainer_read(nullptr, "fc1.weight", nullptr, 0, nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(Parameters, MetadataGoesIntoTheFile) {
  const std::size_t before = graft_model_metadata_count(h_.model);
  ASSERT_EQ(graft_model_set_metadata(h_.model, "app.version", "7\nlines"), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_model_set_metadata(h_.model, "app.gone", "x"), GRAFT_OK);
  ASSERT_EQ(graft_model_set_metadata(h_.model, "app.gone", nullptr), GRAFT_OK);
  EXPECT_EQ(graft_model_set_metadata(h_.model, "", "x"), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_set_metadata(h_.model, nullptr, "x"), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_set_metadata(h_.model, "app.bell", "\a"), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_set_metadata(h_.model, std::string(2000, 'k').c_str(), "x"), GRAFT_INVALID_ARGUMENT);
  ASSERT_EQ(graft_model_save(h_.model, path_.c_str()), GRAFT_OK) << h_.message();
  h_.destroy_parts();
  ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &h_.model), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_metadata_count(h_.model), before + 1);
  const char *key = "", *value = "";
  ASSERT_EQ(graft_model_metadata(h_.model, "app.version", &value), GRAFT_OK);
  EXPECT_STREQ(value, "7\nlines");
  bool seen = false;
  for (std::size_t i = 0; i <= before; ++i) {
    ASSERT_EQ(graft_model_metadata_at(h_.model, i, &key, &value), GRAFT_OK);
    seen = seen || (std::string(key) == "app.version" && std::string(value) == "7\nlines");
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(graft_model_metadata_at(h_.model, before + 1, &key, &value), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_model_metadata(h_.model, "app.gone", &value), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_model_metadata_count(nullptr), 0u);
}

TEST_F(Parameters, GroupsHaveTheirOwnRateAndDecay) {
  const graft_parameter_group groups[] = {{"*.bias", 0, 0}, {"fc1.*", 0.5, -1}};
  auto options = trainer_options();  // SGD
  options.weight_decay = 0.25;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  steps(1);
  const auto plain_weight = of_trainer("fc1.weight", kFirst), plain_bias = of_trainer("fc1.bias", 6);
  options.groups = groups;
  options.group_count = 2;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  const auto weight = of_trainer("fc1.weight", kFirst);
  steps(1);
  const auto half = of_trainer("fc1.weight", kFirst), bias = of_trainer("fc1.bias", 6);
  // Half the rate is half the way, up to the rounding of f32 numbers below 1.
  for (std::size_t i = 0; i < kFirst; ++i)
    EXPECT_NEAR(half[i] - weight[i], 0.5F * (plain_weight[i] - weight[i]), 1e-6F);
  EXPECT_NE(bias, plain_bias) << "without decay";
  options.groups = nullptr;
  EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT);
  const graft_parameter_group nameless[] = {{nullptr, 1, -1}};
  options.groups = nameless;
  options.group_count = 1;
  EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT);
  const graft_parameter_group backwards[] = {{"*", -1, -1}};
  options.groups = backwards;
  EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT);
}

class Rates : public Parameters {
 protected:
  static graft_trainer_options kept_options() {
    auto options = trainer_options();
    options.optimizer = GRAFT_ADAMW;
    options.checkpoints = 1;
    return options;
  }
  graft_status open_checkpoint(bool changed = false) {
    auto options = sized<graft_checkpoint_options>();
    options.folder = store_.c_str();
    options.resume = 1;
    options.with_changes = changed ? 1 : 0;
    return graft_checkpoint_open(h_.trainer, &options, nullptr);
  }
  double rate() {
    double now = 0;
    EXPECT_EQ(graft_trainer_learning_rate(h_.trainer, &now), GRAFT_OK);
    return now;
  }
  std::string store_ = folder_.file("kept");
};

TEST_F(Rates, ARateThatChangedIsResumed) {
  // Without stops.
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  steps(2);
  const auto unchanged = of_trainer("fc1.weight", kFirst);
  ASSERT_EQ(graft_trainer_set_learning_rate(h_.trainer, 0.025), GRAFT_OK) << h_.message();
  auto metrics = sized<graft_metrics>();
  ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
  EXPECT_DOUBLE_EQ(metrics.learning_rate, 0.025);
  steps(2);
  const auto whole = of_trainer("fc1.weight", kFirst);

  // Stopped after the change: the same options resume it.
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_checkpoint(), GRAFT_OK) << h_.message();
  steps(2);
  ASSERT_EQ(graft_trainer_set_learning_rate(h_.trainer, 0.025), GRAFT_OK) << h_.message();
  steps(1);  // is in the journal alone
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  EXPECT_DOUBLE_EQ(rate(), 0.1);
  ASSERT_EQ(open_checkpoint(), GRAFT_OK) << h_.message();
  EXPECT_DOUBLE_EQ(rate(), 0.025);
  steps(3);  // the first is compared with the journal
  EXPECT_EQ(of_trainer("fc1.weight", kFirst), whole);
  ASSERT_EQ(graft_checkpoint_save(h_.trainer, "end"), GRAFT_OK) << h_.message();

  // Another rate in the options is another run, unless it is asked for, and then it holds.
  auto other = kept_options();
  other.learning_rate = 0.5;
  ASSERT_EQ(open_trainer(other), GRAFT_OK) << h_.message();
  EXPECT_EQ(open_checkpoint(), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "learning rate 0.5 now, 0.1 then")) << h_.message();
  ASSERT_EQ(open_trainer(other), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_checkpoint(true), GRAFT_OK) << h_.message();
  EXPECT_DOUBLE_EQ(rate(), 0.5);

  for (const double wrong : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_EQ(graft_trainer_set_learning_rate(h_.trainer, wrong), GRAFT_INVALID_ARGUMENT) << wrong;
  }
  EXPECT_DOUBLE_EQ(rate(), 0.5);
  EXPECT_EQ(graft_trainer_set_learning_rate(nullptr, 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_trainer_learning_rate(h_.trainer, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(unchanged, whole);
}

TEST_F(Rates, AWrittenParameterIsResumed) {
  const std::vector<float> bias(kClasses, 2);
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_checkpoint(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_write(h_.trainer, "fc2.bias", bias.data(), 12), GRAFT_OK) << h_.message();
  steps(1);
  const auto whole = of_trainer("fc2.bias", kClasses);
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_checkpoint(), GRAFT_OK) << h_.message();
  EXPECT_EQ(of_trainer("fc2.bias", kClasses), bias) << "although no step had been taken since the snapshot before";
  steps(1);
  EXPECT_EQ(of_trainer("fc2.bias", kClasses), whole);
}

TEST_F(Rates, WhereNoSnapshotCanBeTakenNothingChanges) {
  FaultFiles files;
  h_.context->files = &files;
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_checkpoint(), GRAFT_OK) << h_.message();
  steps(1);
  const auto bias = of_trainer("fc2.bias", kClasses);
  const std::vector<float> other(kClasses, 2);
  files.state.fail_call = files.state.calls + 1;
  files.state.keep_failing = true;
  EXPECT_EQ(graft_trainer_set_learning_rate(h_.trainer, 0.5), GRAFT_IO_ERROR);
  EXPECT_DOUBLE_EQ(rate(), 0.1);
  EXPECT_EQ(graft_trainer_write(h_.trainer, "fc2.bias", other.data(), 12), GRAFT_IO_ERROR);
  EXPECT_EQ(of_trainer("fc2.bias", kClasses), bias);
  files.state.fail_call = 0;
  files.state.keep_failing = false;
  EXPECT_EQ(graft_trainer_set_learning_rate(h_.trainer, 0.5), GRAFT_OK) << h_.message();
  graft_trainer_destroy(std::exchange(h_.trainer, nullptr));  // before the files that it uses
}

}  // namespace
}  // namespace graft::test::c_api_parameters_test
