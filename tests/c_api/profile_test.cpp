// graft/profile.h, and what a session and a model tell of what they take.
#include "graft/profile.h"

#include <set>
#include <utility>

#include "platform/base/json.h"
#include "tests/support/c_api.h"

namespace graft::test::c_api_profile_test {
namespace {

class CProfile : public CApi {
 protected:
  void TearDown() override {
    graft_session_destroy(std::exchange(h_.session, nullptr));
    graft_profile_destroy(profile_);
  }
  graft_status open(const char* of = nullptr) {
    auto options = sized<graft_session_options>();
    options.bindings = &batch_;
    options.binding_count = 1;
    options.profile = profile_;
    graft_tensor_info input{};
    EXPECT_EQ(graft_model_tensor(h_.model, GRAFT_INPUTS, 0, &input), GRAFT_OK);
    const char* const wrt[] = {input.name};
    if (of != nullptr) {
      options.of = of;
      options.wrt = wrt;
      options.wrt_count = 1;
      options.gradients_only = 1;
    }
    return graft_session_create(h_.model, &options, &h_.session);
  }
  std::string name_of(graft_tensor_kind kind) {
    graft_tensor_info info{};
    EXPECT_EQ(graft_model_tensor(h_.model, kind, 0, &info), GRAFT_OK);
    return info.name;
  }

  const graft_binding batch_ = {"batch", 2};
  graft_profile* profile_ = nullptr;
};

TEST_F(CProfile, TellsWhereTheTimeOfARunGoes) {
  ASSERT_EQ(graft_profile_create(h_.context, 2, &profile_), GRAFT_OK) << h_.message();
  auto info = sized<graft_profile_info>();
  ASSERT_EQ(graft_profile_describe(profile_, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.steps, 0u) << "nothing ran yet";
  ASSERT_EQ(open(), GRAFT_OK) << h_.message();
  const std::vector<float> x(2 * kInputs, 0.5F);
  ASSERT_EQ(graft_session_set_input(h_.session, name_of(GRAFT_INPUTS).c_str(), x.data(), x.size() * sizeof(float)),
            GRAFT_OK)
      << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_profile_describe(profile_, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.steps, 1u);
  EXPECT_GT(info.step_ms, 0);
  EXPECT_GT(info.dispatches, 0u);
  EXPECT_LE(info.device_ms, info.step_ms);
  double device = 0;
  std::uint64_t held = 0;
  auto row = sized<graft_profile_row>();
  std::size_t nodes = 0;
  for (double last = 1e300; graft_profile_node(profile_, nodes, &row) == GRAFT_OK; ++nodes) {
    EXPECT_LE(row.ms, last) << "by falling time";
    last = row.ms;
    device += row.ms;
    held += row.peak_bytes;
  }
  EXPECT_GT(nodes, 1u);
  EXPECT_NEAR(device, info.device_ms, 1e-6 * (1 + device));
  EXPECT_EQ(held, info.peak_bytes);
  std::uint64_t counted = 0;
  for (std::size_t i = 0; graft_profile_op(profile_, i, &row) == GRAFT_OK; ++i) counted += row.nodes;
  EXPECT_EQ(counted, nodes);
  auto phase = sized<graft_profile_phase>();
  std::set<std::string> phases;
  for (std::size_t i = 0; graft_profile_phase_at(profile_, i, &phase) == GRAFT_OK; ++i) phases.insert(phase.name);
  EXPECT_TRUE(phases.contains("submit") && phases.contains("wait"));

  const std::string path = folder_.file("trace.json");
  ASSERT_EQ(graft_profile_save_trace(profile_, path.c_str()), GRAFT_OK) << h_.message();
  const auto trace = json::parse(os::read_text_file(os::system_files(), path, 1 << 24).value());
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  ASSERT_NE(trace->find("traceEvents"), nullptr);
  EXPECT_GT(trace->find("traceEvents")->items().size(), nodes);
  EXPECT_EQ(trace->find("otherData")->find("consumers")->items().size(), nodes);
  EXPECT_EQ(graft_profile_save_trace(profile_, nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CProfile, ASessionTellsWhatItTakesAndGives) {
  ASSERT_EQ(open(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_count(h_.session, GRAFT_INPUTS), 1u);
  graft_tensor_info info{};
  ASSERT_EQ(graft_session_tensor(h_.session, GRAFT_INPUTS, 0, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.dims[0], 2) << "bound";
  EXPECT_EQ(graft_session_tensor(h_.session, GRAFT_INPUTS, 1, &info), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_session_tensor(h_.session, GRAFT_PARAMETERS, 0, &info), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_count(h_.session, GRAFT_PARAMETERS), 0u);
  EXPECT_STREQ(graft_session_streaming(h_.session), "");
  const std::string output = name_of(GRAFT_OUTPUTS);
  graft_session_destroy(std::exchange(h_.session, nullptr));
  ASSERT_EQ(open(output.c_str()), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_count(h_.session, GRAFT_OUTPUTS), 1u) << "the model's output is left out";
  ASSERT_EQ(graft_session_tensor(h_.session, GRAFT_OUTPUTS, 0, &info), GRAFT_OK);
  EXPECT_TRUE(std::string(info.name).starts_with("grad:")) << info.name;
  bool cotangent = false;
  for (std::size_t i = 0; graft_session_tensor(h_.session, GRAFT_INPUTS, i, &info) == GRAFT_OK; ++i) {
    cotangent = cotangent || std::string(info.name) == "cotangent";
  }
  EXPECT_TRUE(cotangent) << "the output has more than one element";
}

TEST_F(CProfile, AModelTellsWhatItLacks) {
  const graft_binding* known = nullptr;
  std::size_t count = 9;
  const char* missing = nullptr;
  ASSERT_EQ(graft_model_known_bindings(h_.model, nullptr, 0, &known, &count, &missing), GRAFT_OK) << h_.message();
  EXPECT_STREQ(missing, "batch");
  EXPECT_EQ(count, 0u);
  ASSERT_EQ(graft_model_known_bindings(h_.model, &batch_, 1, &known, &count, &missing), GRAFT_OK) << h_.message();
  EXPECT_STREQ(missing, "");
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(known[0].size, 2);
  const graft_binding other = {"width", 3};
  EXPECT_EQ(graft_model_known_bindings(h_.model, &other, 1, &known, &count, &missing), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_reads_input(h_.model, 0), 1);
  EXPECT_EQ(graft_model_reads_input(h_.model, 7), 0);
}

}  // namespace
}  // namespace graft::test::c_api_profile_test
