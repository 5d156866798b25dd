// Programs on the test device: what they compute, from run to run.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "runtime/core/op_id.gen.h"
#include "runtime/exec/memory.h"
#include "runtime/exec/program.h"
#include "runtime/exec/run_once.h"
#include "tests/support/gpu_device.h"
#include "tests/support/heap_count.h"
#include "tests/support/plan_checks.h"

namespace graft::exec_gpu_test {
namespace {

using test::GraphMaker;
using Floats = std::vector<float>;

const Attrs kTurn = {{"perm", Ints{1, 0}}};
const ProgramOptions kPatient = {.timeout = test::kTestTimeout};

std::vector<std::byte> bytes_of(const Floats& data) {
  std::vector<std::byte> bytes(data.size() * 4);
  std::memcpy(bytes.data(), data.data(), bytes.size());
  return bytes;
}

Floats floats_of(std::span<const std::byte> bytes) {
  Floats data(bytes.size() / 4);
  std::memcpy(data.data(), bytes.data(), bytes.size());
  return data;
}

Floats counted(std::size_t n, float start) {
  Floats data(n);
  std::iota(data.begin(), data.end(), start);
  return data;
}

Floats turned(const Floats& data, std::size_t rows, std::size_t cols) {
  Floats out(data.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) out[c * rows + r] = data[r * cols + c];
  }
  return out;
}

/// Reads a resident of floats.
Floats resident(Memory& memory, std::string_view name) {
  std::vector<std::byte> bytes(memory.residents().find(name)->bytes);
  const Status status = memory.read(name, bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return floats_of(bytes);
}

/// x [3, 5] is turned, added to the accumulator, and given back; so is the accumulator.
void build_accumulation(GraphMaker& g) {
  const ValueId y = g.add(Op::transpose, {g.input("x", {3, 5})}, kTurn, "turn");
  const ValueId acc = g.state("acc", {5, 3});
  g.act(Op::accumulate, {acc, y});
  g.output("y", y);
  g.output("acc", acc);
}

struct Session {
  std::unique_ptr<Memory> memory;
  std::vector<std::unique_ptr<Program>> programs;
};

Session make_session(gpu::Device& device, const std::vector<const Graph*>& graphs, const ProgramOptions& options) {
  Session session;
  Residents residents(device.caps());
  std::vector<Plan> plans;
  for (const Graph* graph : graphs) EXPECT_TRUE(residents.add(*graph).ok());
  for (const Graph* graph : graphs) {
    auto plan = make_plan(*graph, device.target(), residents);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_TRUE(check_hazards(*plan).ok());
    EXPECT_TRUE(check_memory(*plan).ok());
    plans.push_back(std::move(plan).value());
  }
  std::vector<const Plan*> pointers;
  for (const Plan& plan : plans) pointers.push_back(&plan);
  auto memory = Memory::create(device, residents, pointers);
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  session.memory = std::move(memory).value();
  session.memory->set_timeout(test::kTestTimeout);
  for (Plan& plan : plans) {
    auto program = Program::create(*session.memory, std::move(plan), options);
    EXPECT_TRUE(program.ok()) << program.status().message();
    session.programs.push_back(std::move(program).value());
  }
  return session;
}

TEST(ExecGpu, RunsReadAndUpdateResidents) {
  GRAFT_TEST_GPU(device);
  GraphMaker g;
  build_accumulation(g);
  {
    const Session s = make_session(*device, {&g.graph}, kPatient);
    ASSERT_TRUE(s.memory->fill("acc", 0).ok());
    const Floats x = counted(15, 1);
    const auto bytes = bytes_of(x);
    const Feed feeds[] = {{"x", bytes}};
    const Floats expected = turned(x, 3, 5);
    for (int run = 1; run <= 3; ++run) {
      const Status status = s.programs[0]->run(feeds, {});
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(floats_of(s.programs[0]->output("y")), expected);
      Floats sum = expected;
      for (float& v : sum) v *= static_cast<float>(run);
      EXPECT_EQ(floats_of(s.programs[0]->output("acc")), sum) << "an output that is state is read after its update";
      EXPECT_EQ(resident(*s.memory, "acc"), sum);
    }
  }
  device.reset();
  test::expect_no_validation_messages();
}

TEST(ExecGpu, ProgramsWorkOnTheSameResidents) {
  GRAFT_TEST_GPU(device);
  GraphMaker train;
  build_accumulation(train);
  GraphMaker eval;
  eval.output("turned", eval.add(Op::transpose, {eval.state("acc", {5, 3})}, kTurn));
  {
    const Session s = make_session(*device, {&train.graph, &eval.graph}, kPatient);
    ASSERT_TRUE(s.memory->fill("acc", 0).ok());
    const Floats x = counted(15, 1);
    const auto bytes = bytes_of(x);
    const Feed feeds[] = {{"x", bytes}};
    ASSERT_TRUE(s.programs[0]->run(feeds, {}).ok());
    ASSERT_TRUE(s.programs[1]->run({}, {}).ok());
    EXPECT_EQ(floats_of(s.programs[1]->output("turned")), x);
  }
  device.reset();
  test::expect_no_validation_messages();
}

TEST(ExecGpu, ResidentsGoThroughStagingInPieces) {
  GRAFT_TEST_GPU(device);
  GraphMaker g;
  const auto n = static_cast<std::int64_t>(ResidentOptions{}.transfer_bytes / 4 + 1000);  // more than one piece
  g.output("w", g.parameter("w", {n}));
  {
    const Session s = make_session(*device, {&g.graph}, kPatient);
    s.memory->set_use_mapped(false);
    const Floats data = counted(static_cast<std::size_t>(n), 0.5f);
    ASSERT_TRUE(s.memory->write("w", bytes_of(data)).ok());
    EXPECT_EQ(resident(*s.memory, "w"), data);
    const Floats patch = {-1, -2, -3};
    ASSERT_TRUE(s.memory->write("w", bytes_of(patch), 400).ok());
    Floats expected = data;
    std::copy(patch.begin(), patch.end(), expected.begin() + 100);
    EXPECT_EQ(resident(*s.memory, "w"), expected);
    std::vector<std::byte> part(8);
    ASSERT_TRUE(s.memory->read("w", part, 404).ok());
    EXPECT_EQ(floats_of(part), (Floats{-2, -3}));
    ASSERT_TRUE(s.programs[0]->run({}, {}).ok());
    EXPECT_EQ(floats_of(s.programs[0]->output("w")), expected);
    s.memory->set_use_mapped(true);
    EXPECT_EQ(resident(*s.memory, "w"), expected) << "both ways see the same bytes";
  }
  device.reset();
  test::expect_no_validation_messages();
}

/// A long chain whose value swings between two shapes.
void build_chain(GraphMaker& g, int length) {
  ValueId v = g.input("x", {20, 30});
  for (int i = 0; i < length; ++i) v = g.add(Op::transpose, {v}, kTurn);
  g.output("y", v);
}

TEST(ExecGpu, ManyListsGiveTheSameAsFew) {
  GRAFT_TEST_GPU(device);
  GraphMaker g;
  build_chain(g, 201);
  {
    // One list per submission: what orders the steps across them must hold as well.
    ProgramOptions careful = kPatient;
    careful.submit_target = std::chrono::nanoseconds(1);
    const Session s = make_session(*device, {&g.graph}, careful);
    const Session joined = make_session(*device, {&g.graph}, kPatient);
    const Floats x = counted(600, -100);
    const auto bytes = bytes_of(x);
    const Feed feeds[] = {{"x", bytes}};
    for (int run = 0; run < 3; ++run) {
      ASSERT_TRUE(s.programs[0]->run(feeds, {}).ok());
      EXPECT_EQ(floats_of(s.programs[0]->output("y")), turned(x, 20, 30));
      ASSERT_TRUE(joined.programs[0]->run(feeds, {}).ok());
      EXPECT_EQ(floats_of(joined.programs[0]->output("y")), turned(x, 20, 30));
    }
    EXPECT_GE(s.programs[0]->submissions(), 3u);
    EXPECT_LE(joined.programs[0]->submissions(), s.programs[0]->submissions());
  }
  device.reset();
  test::expect_no_validation_messages();
}

TEST(ExecGpu, APausedRunGoesOnWhereItStopped) {
  GRAFT_TEST_GPU(device);
  GraphMaker g;
  build_chain(g, 201);
  {
    ProgramOptions careful = kPatient;
    careful.submit_target = std::chrono::nanoseconds(1);
    const Session s = make_session(*device, {&g.graph}, careful);
    const auto bytes = bytes_of(counted(600, 7));
    const Feed feeds[] = {{"x", bytes}};
    s.programs[0]->request_pause();
    ASSERT_EQ(s.programs[0]->run(feeds, {}).code(), Code::cancelled);
    EXPECT_TRUE(s.programs[0]->output(0).empty());
    ASSERT_TRUE(s.programs[0]->resume().ok());
    EXPECT_EQ(floats_of(s.programs[0]->output(0)), turned(counted(600, 7), 20, 30));
  }
  device.reset();
  test::expect_no_validation_messages();
}

TEST(ExecGpu, AStepAllocatesNothing) {
  vulkan::DeviceOptions bare = test::test_device_options();
  bare.instance.validation = nullptr;  // the layers allocate on their own account
  const auto made = vulkan::create_device(bare);
  if (!made.ok()) GTEST_SKIP() << made.status().message();
  gpu::Device* const device = made->get();
  GraphMaker g;
  build_accumulation(g);
  {
    const Session s = make_session(*device, {&g.graph}, kPatient);
    const auto bytes = bytes_of(counted(15, 0));
    const Feed feeds[] = {{"x", bytes}};
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(s.programs[0]->run(feeds, {}).ok());
    const auto host = test::heap_allocations();
    const auto on_device = device->memory().allocations;
    bool all_ok = true;
    for (int i = 0; i < 10; ++i) all_ok = all_ok && s.programs[0]->run(feeds, {}).ok();
    const auto host_now = test::heap_allocations();
    EXPECT_TRUE(all_ok);
    EXPECT_EQ(device->memory().allocations, on_device);
    EXPECT_EQ(host_now - host, 0u);
  }
}

TEST(ExecGpu, ProfileTimesAddUp) {
  GRAFT_TEST_GPU(device);
  if (device->caps().timestamp_period_ns <= 0) GTEST_SKIP() << "This device has no timestamps.";
  GraphMaker g;
  build_chain(g, 100);
  {
    ProgramOptions profile = kPatient;
    profile.profile = true;
    const Session s = make_session(*device, {&g.graph}, profile);
    const auto bytes = bytes_of(counted(600, 0));
    const Feed feeds[] = {{"x", bytes}};
    ASSERT_TRUE(s.programs[0]->run(feeds, {}).ok());
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(s.programs[0]->run(feeds, {}).ok());
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto times = s.programs[0]->times();
    ASSERT_TRUE(times.ok()) << times.status().message();
    EXPECT_EQ(times->size(), 102u);
    double sum = 0;
    for (const NodeTime& t : *times) {
      EXPECT_GE(t.seconds, 0);
      sum += t.seconds;
    }
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum, wall) << "the device cannot have worked for longer than the run took";
  }
  device.reset();
  test::expect_no_validation_messages();
}

TEST(ExecGpu, RunOnceNamesWhatIsMissing) {
  GRAFT_TEST_GPU(device);
  GraphMaker g;
  build_accumulation(g);
  const RunOnceOptions options{.timeout = test::kTestTimeout, .check_plan = true};
  Tensors feeds = {{"x", bytes_of(counted(15, 0))}};
  auto result = run_once(*device, g.graph, feeds, {}, options);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("\"acc\""), std::string::npos);
  feeds["acc"] = bytes_of(Floats(14));
  result = run_once(*device, g.graph, feeds, {}, options);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("60"), std::string::npos) << result.status().message();
  feeds["acc"] = bytes_of(Floats(15, 1));
  result = run_once(*device, g.graph, feeds, {}, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  Floats expected = turned(counted(15, 0), 3, 5);
  for (float& v : expected) v += 1;
  EXPECT_EQ(floats_of(result->outputs.at("acc")), expected);
  EXPECT_EQ(floats_of(result->residents.at("acc")), expected);
}

}  // namespace
}  // namespace graft::exec_gpu_test
