// ctest: middle
// Sessions and generators whose device is lost, at whatever call: they go on with another, to the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "runtime/c_api/c_handles.h"
#include "runtime/language/batch_generator.h"
#include "runtime/lora/adapter.h"
#include "runtime/session/session.h"
#include "tests/support/c_api.h"
#include "tests/support/letter_model.h"
#include "tests/support/lost_devices.h"

namespace graft::test::session_recovery_test {
namespace {

using Bytes = std::vector<std::byte>;

/// A model with adapters that do something; it borrows the base's weights.
Model with_adapters(const Model& base, std::uint32_t seed) {
  auto model = with_lora(base, {.rank = 2, .alpha = 8}, seed);
  EXPECT_TRUE(model.ok()) << model.status().message();
  std::mt19937 random(seed);
  for (const ValueId id : model->graph.of_kind(ValueKind::parameter)) {
    const Value& value = model->graph.value(id);
    if (!value.name.ends_with(kLoraB)) continue;
    std::vector<float> contents(value.shape.elements());
    for (float& x : contents) x = std::uniform_real_distribution<float>(-1, 1)(random);
    EXPECT_TRUE(model->copy_weight(id, std::as_bytes(std::span(contents))).ok());
  }
  return std::move(*model);
}

/// Does `work` after begin(), with the device lost at some of its calls, of the whole range, in turn.
template <typename Begin, typename Work>
void lose_in(Devices& devices, const Begin& begin, const Work& work) {
  constexpr std::uint64_t kMost = 4;  // each builds everything again
  begin();
  const std::uint64_t before = devices.faults.calls;
  work();
  const std::uint64_t calls = devices.faults.calls - before;
  ASSERT_GE(calls, 2u) << "submissions and waits";
  const std::uint64_t tried = std::min(calls, kMost);
  for (std::uint64_t i = 0; i < tried; ++i) {
    const std::uint64_t call = 1 + i * (calls - 1) / (tried - 1);
    begin();
    const gpu::Device* const old = devices.all.back().get();
    devices.faults.fail_call = devices.faults.calls + call;
    work();
    devices.faults.fail_call = 0;
    EXPECT_NE(devices.all.back().get(), old) << "call " << call << " of " << calls << ' ' << devices.faults.failed;
    devices.all.erase(devices.all.begin(), devices.all.end() - 1);  // nothing is left on the lost one
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SessionRecovery, ADeviceThatIsLostChangesNoBit) {
  Devices devices;
  const auto device = devices.open();
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  const Model base = letter_model({.layers = 1});
  const Model model = with_adapters(base, 1), another = with_adapters(base, 2);
  const auto first_adapters = adapter_of(model), other = adapter_of(another);
  ASSERT_TRUE(first_adapters.ok() && other.ok());
  SessionOptions options;
  options.bindings = {{"batch", 1}, {"seq", 6}};
  options.resizable = true;
  options.reopen = [&](gpu::Device&) { return devices.open(); };
  auto session = Session::create(**device, model, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::vector<std::int32_t> tokens = {3, 1, 4, 1, 5, 9};
  const auto set = [&](std::size_t count) {
    const Status status = (*session)->set_input("tokens", std::as_bytes(std::span(tokens).first(count)));
    ASSERT_TRUE(status.ok()) << status.message();
  };
  const auto run = [&]() -> Bytes {
    const Status ran = (*session)->run();
    EXPECT_TRUE(ran.ok()) << ran.message();
    const auto output = (*session)->output("logits");
    return {output.begin(), output.end()};
  };
  set(6);
  const Bytes with_first = run();
  lose_in(
      devices, [] {}, [&] { EXPECT_EQ(run(), with_first); });
  // Adapters that were swapped in come back, too, however often.
  ASSERT_TRUE((*session)->swap_adapters(&*other).ok());
  const Bytes with_other = run();
  ASSERT_NE(with_other, with_first);
  lose_in(
      devices, [] {}, [&] { EXPECT_EQ(run(), with_other); });
  const auto swap = [&](const Model* adapters) {
    const Status swapped = (*session)->swap_adapters(adapters);
    EXPECT_TRUE(swapped.ok()) << swapped.message();
  };
  lose_in(
      devices, [&] { swap(&*first_adapters); },
      [&] {
        swap(&*other);
        EXPECT_EQ(run(), with_other);
      });
  const auto resize = [&](std::int64_t size) {
    const Status resized = (*session)->resize({{"seq", size}});
    ASSERT_TRUE(resized.ok()) << resized.message();
    set(static_cast<std::size_t>(size));
  };
  resize(3);
  const Bytes shorter = run();
  lose_in(
      devices, [&] { resize(6); },
      [&] {
        resize(3);
        EXPECT_EQ(run(), shorter);
      });
  // What waits with the host needs no device, but a pause and what follows do.
  lose_in(
      devices, [] {},
      [&] {
        const Status paused = (*session)->pause();
        EXPECT_TRUE(paused.ok()) << paused.message();
        EXPECT_EQ(run(), shorter);
      });
  devices.refused = error(Code::not_found, "There is no device.");
  devices.faults.fail_call = devices.faults.calls + 1;
  EXPECT_EQ((*session)->run().code(), Code::not_found);
  devices.faults.fail_call = 0;
  devices.refused = {};
  EXPECT_EQ(run(), shorter) << "once there is a device again";
  session->reset();
  EXPECT_EQ(devices.bytes(), 0u) << "nothing leaked";
}

TEST(SessionRecovery, WithoutAnotherDeviceTheLossIsAnError) {
  Devices devices;
  const auto device = devices.open();
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  const Model model = letter_model({.layers = 1});
  SessionOptions options;
  options.bindings = {{"batch", 1}, {"seq", 1}};
  auto session = Session::create(**device, model, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::int32_t token = 3;
  ASSERT_TRUE((*session)->set_input("tokens", std::as_bytes(std::span(&token, 1))).ok());
  devices.faults.fail_call = devices.faults.calls + 1;
  EXPECT_EQ((*session)->run().code(), Code::device_lost);
  EXPECT_EQ(devices.all.size(), 1u);
}

TEST(GeneratorRecovery, ATextGoesOnToTheSameBits) {
  Devices devices;
  const auto device = devices.open();
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  const Model base = letter_model({.layers = 1, .tokenizer = false});
  const Model model = with_adapters(base, 1), another = with_adapters(base, 2);
  const auto other = adapter_of(another);
  ASSERT_TRUE(other.ok());
  GeneratorOptions options;
  options.context = 16;
  options.prefill = 4;
  options.reopen = [&](gpu::Device&) { return devices.open(); };
  auto generator = Generator::create(**device, model, options);
  ASSERT_TRUE(generator.ok()) << generator.status().message();
  ASSERT_TRUE((*generator)->swap_adapters(&*other).ok());
  std::vector<std::vector<float>> logits;
  GenerateOptions how;
  how.max_tokens = 3;
  how.on_token = [&](text::TokenId, std::span<const float> of) {
    logits.emplace_back(of.begin(), of.end());
    return true;
  };
  const auto generate = [&](const std::vector<text::TokenId>& prompt) {
    logits.clear();
    const auto made = (*generator)->generate(prompt, how);
    EXPECT_TRUE(made.ok()) << made.status().message();
  };
  // The second prompt keeps a part of what the first left in the caches, the last of its runs in part.
  const std::vector<text::TokenId> first = {3, 1, 4, 1, 5, 9, 2}, second = {3, 1, 4, 1, 5, 8, 8, 8, 7};
  const auto begin = [&] {
    generate({7});
    generate(first);
  };
  begin();
  generate(second);
  const auto expected = logits;
  ASSERT_EQ(expected.size(), 3u);
  lose_in(devices, begin, [&] {
    generate(second);
    EXPECT_EQ(logits, expected);
  });
  generator->reset();
  EXPECT_EQ(devices.bytes(), 0u) << "nothing leaked";
}

using CApiRecovery = CApi;

TEST_F(CApiRecovery, SessionsOfAContextGoOnOnOneNewDevice) {
  static vulkan::CallFaults faults;  // outlives the context, which refers to it
  faults.result = kDeviceLost;
  h_.context->device_options.instance.faults = &faults;
  ASSERT_TRUE(c_api::reopen_device(*h_.context).ok()) << "a device whose calls can be made to fail";
  const std::vector<float> expected = run_model(h_.model);
  const graft_binding batch = {"batch", kSamples};
  auto options = sized<graft_session_options>();
  options.bindings = &batch;
  options.binding_count = 1;
  graft_session* sessions[3] = {};
  for (graft_session*& session : sessions) {
    options.recover_device = &session == &sessions[2] ? 0 : 1;
    ASSERT_EQ(graft_session_create(h_.model, &options, &session), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_session_set_input(session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  }
  const std::size_t before = h_.context->lost.size();
  const gpu::Device* const old = h_.context->device.get();
  faults.fail_call = faults.calls + 1;
  ASSERT_EQ(graft_session_run(sessions[0]), GRAFT_OK) << h_.message();
  EXPECT_FALSE(faults.failed.empty()) << "it was lost";
  EXPECT_EQ(output(sessions[0]), expected);
  EXPECT_NE(h_.context->device.get(), old);
  EXPECT_EQ(h_.context->lost.size(), before + 1);
  ASSERT_EQ(graft_session_run(sessions[1]), GRAFT_OK) << h_.message();  // whose device is the lost one
  EXPECT_EQ(output(sessions[1]), expected);
  EXPECT_EQ(h_.context->lost.size(), before + 1) << "it takes the one that was opened meanwhile";
  EXPECT_EQ(graft_session_run(sessions[2]), GRAFT_DEVICE_LOST);
  for (graft_session* session : sessions) graft_session_destroy(session);
}

TEST(GeneratorRecovery, SeveralTextsGoOn) {
  Devices devices;
  const auto device = devices.open();
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  const Model model = letter_model({.layers = 1, .window = 5, .tokenizer = false});
  GeneratorOptions options;
  options.context = 16;
  options.prefill = 4;
  options.sequences = 2;
  options.reopen = [&](gpu::Device&) { return devices.open(); };
  auto generator = BatchGenerator::create(**device, model, options);
  ASSERT_TRUE(generator.ok()) << generator.status().message();
  const std::vector<text::TokenId> prompts[] = {{3, 1, 4, 1, 5, 9}, {2, 7}};
  std::vector<std::vector<float>> logits;
  GenerateOptions how;
  how.max_tokens = 5;
  how.on_token = [&](text::TokenId, std::span<const float> of) {
    logits.emplace_back(of.begin(), of.end());
    return true;
  };
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const auto done = (*generator)->step();
      ASSERT_TRUE(done.ok()) << done.status().message();
    }
  };
  const auto begin = [&] {
    logits.clear();
    while ((*generator)->take()) {
    }
    for (const auto& prompt : prompts) ASSERT_TRUE((*generator)->submit(prompt, how).ok());
    steps(5);  // both prompts, and two tokens of each
    ASSERT_EQ((*generator)->unfinished(), 2u);
  };
  begin();
  steps(3);
  ASSERT_EQ((*generator)->unfinished(), 0u);
  begin();  // now with what the caches hold
  steps(3);
  const auto expected = logits;
  ASSERT_EQ(expected.size(), 10u);
  lose_in(devices, begin, [&] {
    while ((*generator)->unfinished() != 0) steps(1);
    EXPECT_EQ(logits, expected);
  });
  generator->reset();
  EXPECT_EQ(devices.bytes(), 0u) << "nothing leaked";
}

}  // namespace
}  // namespace graft::test::session_recovery_test
