// Programs on the null device: what is recorded and submitted, what is allocated, and every failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

#include "platform/null/null_device.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/exec/memory.h"
#include "runtime/exec/program.h"
#include "tests/support/heap_count.h"
#include "tests/support/plan_checks.h"

namespace graft::exec_null_test {
namespace {

using test::GraphMaker;

const Shape kShape = {8, 16};
constexpr std::size_t kBytes = 8 * 16 * 4;
const Attrs kTurn = {{"perm", Ints{1, 0}}};

/// An input, an accumulator, and `length` dispatches.
void build(GraphMaker& g, int length) {
  ValueId v = g.input("x", kShape);
  for (int i = 0; i < length; ++i) v = g.add(Op::transpose, {v}, kTurn);
  g.output("y", v);
  g.act(Op::accumulate, {g.state("acc", g.graph.value(v).shape), v});
}

struct Built {
  Residents residents;
  Plan plan;
};

Built plan_of(const Graph& graph, const gpu::Target& target) {
  Built built{Residents(target.caps), {}};
  EXPECT_TRUE(built.residents.add(graph).ok());
  auto plan = make_plan(graph, target, built.residents);
  EXPECT_TRUE(plan.ok());
  if (plan.ok()) built.plan = std::move(plan).value();
  EXPECT_TRUE(check_hazards(built.plan).ok());
  return built;
}

/// A plan, its memory and its program; no program where one of them failed, which fails the test.
struct Loaded {
  Built built;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Program> program;
};

Loaded load(const Graph& graph, gpu::Device& device, const ProgramOptions& options = {}) {
  Loaded loaded{plan_of(graph, device.target()), nullptr, nullptr};
  const Plan* const plans[] = {&loaded.built.plan};
  auto memory = Memory::create(device, loaded.built.residents, plans);
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  if (!memory.ok()) return loaded;
  loaded.memory = std::move(memory).value();
  auto program = Program::create(*loaded.memory, loaded.built.plan, options);
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (program.ok()) loaded.program = std::move(program).value();
  return loaded;
}

null::Options options_with(double timestamp_period = 0) {
  null::Options options;
  options.keep_submitted = false;
  options.caps.timestamp_period_ns = timestamp_period;
  return options;
}

/// Everything a user of the executor does, once.
Status use_all(gpu::Device& device, const Built& built) {
  const Plan* const plans[] = {&built.plan};
  GRAFT_TRY_ASSIGN(const auto memory, Memory::create(device, built.residents, plans));
  std::vector<std::byte> bytes(kBytes, std::byte{1});
  GRAFT_TRY(memory->write("acc", bytes));
  GRAFT_TRY_ASSIGN(const auto program, Program::create(*memory, built.plan));
  const Feed feeds[] = {{"x", bytes}};
  GRAFT_TRY(program->run(feeds, {}));
  GRAFT_TRY(program->run(feeds, {}));
  GRAFT_TRY(memory->fill("acc", 0));
  return memory->read("acc", bytes);
}

TEST(ExecNull, AllocatesWhatWasPlanned) {
  GraphMaker g;
  build(g, 9);
  null::NullDevice device(options_with());
  const Built built = plan_of(g.graph, device.target());
  const Plan* const plans[] = {&built.plan};
  const auto memory = Memory::create(device, built.residents, plans);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_EQ(Memory::planned(built.residents, plans), built.plan.memory);
  EXPECT_EQ((*memory)->allocated_bytes(), built.plan.memory.total());
  EXPECT_EQ(device.memory().bytes, built.plan.memory.total());
}

TEST(ExecNull, ProgramsShareOneMemory) {
  GraphMaker small;
  build(small, 2);
  GraphMaker large;
  build(large, 4);
  large.output("z", large.add(Op::transpose, {large.input("wide", {100, 100})}, kTurn));
  null::NullDevice device(options_with());
  Residents residents(device.caps());
  ASSERT_TRUE(residents.add(small.graph).ok());
  ASSERT_TRUE(residents.add(large.graph).ok());
  auto a = make_plan(small.graph, device.target(), residents);
  auto b = make_plan(large.graph, device.target(), residents);
  ASSERT_TRUE(a.ok() && b.ok());
  const Plan* const both[] = {&*a, &*b};
  const auto memory = Memory::create(device, residents, both);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ((*memory)->allocated_bytes(), Memory::planned(residents, both).total());
  EXPECT_EQ((*memory)->allocated_bytes(), b->memory.total());
  EXPECT_TRUE(Program::create(**memory, *a).ok());
  EXPECT_TRUE(Program::create(**memory, *b).ok());
  EXPECT_EQ((*memory)->kernels().size(), 2u) << "one transposes, one accumulates; shared by both programs";

  const Plan* const first[] = {&*a};
  const auto less = Memory::create(device, residents, first);
  ASSERT_TRUE(less.ok());
  const auto too_large = Program::create(**less, *b);
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.status().code(), Code::invalid_argument);
}

TEST(ExecNull, EveryFailingCallIsACleanError) {
  GraphMaker g;
  build(g, 100);
  std::uint64_t k = 1;
  for (bool failed = true; failed; ++k) {
    ASSERT_LT(k, 2000u);
    null::NullDevice device(options_with());
    const Built built = plan_of(g.graph, device.target());
    device.fail_call(k, Code::device_error);
    const Status status = use_all(device, built);
    failed = !status.ok();
    if (failed) {
      EXPECT_EQ(status.code(), Code::device_error) << status.message();
      EXPECT_FALSE(status.message().empty());
    }
    EXPECT_EQ(device.live_objects(), 0u) << "call " << k;
    EXPECT_EQ(device.memory().bytes, 0u) << "call " << k;
  }
  EXPECT_GT(k, 100u) << "each of many recorded commands has failed once";
}

TEST(ExecNull, LostDevicesAndTimeoutsKeepTheirCode) {
  GraphMaker g;
  build(g, 3);
  for (const Code code : {Code::device_lost, Code::timeout}) {
    null::NullDevice device(options_with());
    const Loaded s = load(g.graph, device);
    ASSERT_NE(s.program, nullptr);
    const std::uint64_t before = device.calls();
    ASSERT_TRUE(s.program->run({}, {}).ok());
    const std::uint64_t per_run = device.calls() - before;
    for (std::uint64_t k = 1; k <= per_run; ++k) {
      device.fail_call(k, code);
      const Status status = s.program->run({}, {});
      ASSERT_EQ(status.code(), code);
      EXPECT_NE(status.message().find("While running steps"), std::string::npos) << status.message();
      EXPECT_TRUE(s.program->output("y").empty()) << "an unfinished run has no outputs";
      device.fail_call(0);
    }
    EXPECT_TRUE(s.program->run({}, {}).ok()) << "a timeout is over when the device is done";
  }
}

TEST(ExecNull, AStepAllocatesNothing) {
  GraphMaker g;
  build(g, 300);
  null::NullDevice device(options_with());
  const Loaded s = load(g.graph, device);
  ASSERT_NE(s.program, nullptr);
  const std::vector<std::byte> bytes(kBytes);
  const Feed feeds[] = {{"x", bytes}};
  ASSERT_TRUE(s.program->run(feeds, {}).ok());
  const auto host = test::heap_allocations();
  const auto on_device = device.memory().allocations;
  bool all_ok = true;
  std::size_t read = 0;
  for (int i = 0; i < 20; ++i) {
    all_ok = all_ok && s.program->run(feeds, {}).ok();
    read += s.program->output("y").size();
  }
  EXPECT_EQ(test::heap_allocations() - host, 0u);
  EXPECT_EQ(device.memory().allocations, on_device);
  EXPECT_TRUE(all_ok);
  EXPECT_EQ(read, 20 * kBytes);
}

TEST(ExecNull, CutsTheFirstRunSmallAndJoinsWhatIsFast) {
  GraphMaker g;
  build(g, 300);
  null::NullDevice device(options_with());
  const Loaded s = load(g.graph, device);
  ASSERT_NE(s.program, nullptr);
  ASSERT_TRUE(s.program->run({}, {}).ok());
  EXPECT_GE(s.program->submissions(), 4u) << "nothing is known of 303 steps yet";
  const std::vector<std::uint32_t> ends = list_ends(s.built.plan, device.target().quirks);
  EXPECT_EQ(s.program->submissions(), ends.size()) << "each list by itself: what a plan says at most";
  EXPECT_EQ(ends.back(), s.built.plan.steps.size());
  EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end(), std::less_equal<>()));
  ASSERT_TRUE(s.program->run({}, {}).ok());
  EXPECT_EQ(s.program->submissions(), 1u) << "the null device takes no time";

  const auto careful = Program::create(*s.memory, s.built.plan, {.submit_target = std::chrono::nanoseconds(1)});
  ASSERT_TRUE(careful.ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*careful)->run({}, {}).ok());
  EXPECT_GE((*careful)->submissions(), 4u) << "a target that nothing meets keeps lists apart";
}

struct Witness : RunObserver {
  void phase(HostPhase phase, Time begin, Time end) override {
    EXPECT_LE(begin, end);
    ++phases[static_cast<std::size_t>(phase)];
  }
  Status ran(Program& program) override {
    runs.push_back(program.submissions());
    return ok_status();
  }
  void closing(const Program&) override { ++closed; }
  std::uint32_t of(HostPhase phase) const { return phases[static_cast<std::size_t>(phase)]; }

  std::uint32_t phases[std::size(kHostPhaseNames)] = {};
  std::vector<std::uint32_t> runs;
  int closed = 0;
};

TEST(ExecNull, TellsAnObserverOfPhasesRunsAndTheEnd) {
  GraphMaker g;
  build(g, 300);
  null::NullDevice device(options_with());
  Witness witness;
  ProgramOptions options;
  options.observer = &witness;
  {
    const Loaded s = load(g.graph, device, options);
    ASSERT_NE(s.program, nullptr);
    EXPECT_EQ(witness.of(HostPhase::compile), 1u);
    EXPECT_EQ(witness.of(HostPhase::record), 1u);
    EXPECT_TRUE(witness.runs.empty());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(s.program->run({}, {}).ok());
    EXPECT_EQ(witness.runs.size(), 3u);
    EXPECT_EQ(witness.of(HostPhase::upload), 3u);
    // A submission is waited for once; the device may pass one on while the next is prepared.
    const std::uint32_t submitted = std::accumulate(witness.runs.begin(), witness.runs.end(), 0u);
    EXPECT_EQ(witness.of(HostPhase::submit), submitted);
    EXPECT_EQ(witness.of(HostPhase::wait), submitted);
    EXPECT_EQ(witness.closed, 0);
  }
  EXPECT_EQ(witness.closed, 1);
}

TEST(ExecNull, PausesBetweenSubmissionsAndResumes) {
  GraphMaker g;
  build(g, 300);
  null::Options options = options_with();
  options.keep_submitted = true;
  null::NullDevice device(options);
  const Loaded s = load(g.graph, device);
  ASSERT_NE(s.program, nullptr);
  EXPECT_EQ(s.program->resume().code(), Code::ok) << "resume() of a run that never began is that run";
  const std::size_t whole = device.submitted().size();
  EXPECT_EQ(s.program->resume().code(), Code::invalid_argument);
  device.clear_submitted();
  s.program->request_pause();
  const Status paused = s.program->run({}, {});
  EXPECT_EQ(paused.code(), Code::cancelled) << paused.message();
  EXPECT_EQ(device.submitted().size(), 0u);
  EXPECT_TRUE(s.program->output("y").empty());
  EXPECT_TRUE(s.program->resume().ok());
  EXPECT_EQ(device.submitted().size(), whole);
  EXPECT_EQ(s.program->output("y").size(), kBytes);
}

TEST(ExecNull, RecordsThePlan) {
  GraphMaker g;
  build(g, 100);
  null::Options options = options_with();
  options.keep_submitted = true;
  null::NullDevice device(options);
  const Loaded s = load(g.graph, device);
  ASSERT_NE(s.program, nullptr);
  ASSERT_TRUE(s.program->run({}, {}).ok());
  const auto& commands = device.submitted();
  const auto count = [&](null::CommandKind kind) {
    return std::count_if(commands.begin(), commands.end(), [&](const null::Command& c) { return c.kind == kind; });
  };
  EXPECT_EQ(count(null::CommandKind::dispatch), 101);
  EXPECT_EQ(count(null::CommandKind::copy), 2);
  EXPECT_EQ(count(null::CommandKind::begin_label), count(null::CommandKind::end_label));
  EXPECT_EQ(commands.back().kind, null::CommandKind::host_barrier);
  EXPECT_EQ(commands.front().kind, null::CommandKind::copy);
}

TEST(ExecNull, WrongFeedsAreNamed) {
  GraphMaker g;
  build(g, 2);
  null::NullDevice device(options_with());
  const Loaded s = load(g.graph, device);
  ASSERT_NE(s.program, nullptr);
  std::vector<std::byte> bytes(12);
  const Feed wrong_size[] = {{"x", bytes}};
  Status status = s.program->run(wrong_size, {});
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("\"x\""), std::string::npos);
  EXPECT_NE(status.message().find("512"), std::string::npos);
  const Feed unknown[] = {{"nobody", bytes}};
  EXPECT_EQ(s.program->run(unknown, {}).code(), Code::invalid_argument);
  EXPECT_EQ(s.memory->write("nobody", bytes).code(), Code::not_found);
  EXPECT_EQ(s.memory->write("acc", bytes, kBytes).code(), Code::invalid_argument);
  EXPECT_EQ(s.memory->write("acc", std::span(bytes).first(3)).code(), Code::invalid_argument);
  EXPECT_EQ(s.program->times().status().code(), Code::invalid_argument);
}

TEST(ExecNull, ProfilesPerNode) {
  GraphMaker g;
  build(g, 100);
  null::NullDevice device(options_with(1e6));
  const Loaded s = load(g.graph, device, {.profile = true});
  ASSERT_NE(s.program, nullptr);
  ASSERT_TRUE(s.program->run({}, {}).ok());
  const auto times = s.program->times();
  ASSERT_TRUE(times.ok()) << times.status().message();
  ASSERT_EQ(times->size(), 103u);  // copies in, 101 nodes, copies out
  EXPECT_DOUBLE_EQ((*times)[5].seconds, 1e-3) << "the null device's clock ticks once per timestamp";

  null::NullDevice without(options_with());
  const Plan* const plans[] = {&s.built.plan};
  const auto other = Memory::create(without, s.built.residents, plans);
  EXPECT_EQ(Program::create(**other, s.built.plan, {.profile = true}).status().code(), Code::unsupported);
}

}  // namespace
}  // namespace graft::exec_null_test
