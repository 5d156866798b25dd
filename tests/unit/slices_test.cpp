// Runs cut to a slice of time: by steps, by workgroups, and what comes out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "runtime/core/op_id.gen.h"
#include "runtime/data/random.h"
#include "runtime/exec/memory.h"
#include "runtime/exec/program.h"
#include "shaders/common/fill_words_push.h"
#include "shaders/kernels.gen.h"
#include "tests/support/gpu_device.h"
#include "tests/support/plan_checks.h"

namespace graft::slices_test {
namespace {

using test::GraphMaker;
using Numbers = std::array<std::uint32_t, 3>;

std::vector<Step> steps_of(const std::vector<std::uint64_t>& flops) {
  std::vector<Step> steps(flops.size());
  for (std::size_t i = 0; i < flops.size(); ++i) steps[i].flops = flops[i];
  return steps;
}

TEST(Slices, StepsAreSplitIntoRunsOfEqualWork) {
  using Ends = std::vector<std::uint32_t>;
  const auto even = steps_of({10, 10, 10, 10, 10, 10});
  EXPECT_EQ(split_steps(even, 0, 6, 3), (Ends{2, 4, 6}));
  EXPECT_EQ(split_steps(even, 2, 6, 2), (Ends{4, 6}));
  EXPECT_EQ(split_steps(even, 0, 6, 9), (Ends{1, 2, 3, 4, 5, 6})) << "a step is the least";
  EXPECT_EQ(split_steps(even, 5, 6, 4), (Ends{6}));
  EXPECT_EQ(split_steps(steps_of({1, 1, 100, 1, 1}), 0, 5, 3), (Ends{2, 3, 5})) << "the large one by itself";
  EXPECT_EQ(split_steps(steps_of({0, 0, 0}), 0, 3, 2), (Ends{3})) << "nothing to share out";
}

/// The numbers of all workgroups, as kernels see them that count x before y before z.
std::vector<std::uint64_t> flat_numbers(const Workgroups& groups) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t z = 0; z < groups.count[2]; ++z) {
    for (std::uint64_t y = 0; y < groups.count[1]; ++y) {
      for (std::uint64_t x = 0; x < groups.count[0]; ++x) {
        numbers.push_back(groups.first[0] + x +
                          groups.count[0] * (groups.first[1] + y + groups.count[1] * (groups.first[2] + z)));
      }
    }
  }
  return numbers;
}

std::multiset<Numbers> numbers(const Workgroups& groups) {
  std::multiset<Numbers> all;
  for (std::uint32_t z = 0; z < groups.count[2]; ++z) {
    for (std::uint32_t y = 0; y < groups.count[1]; ++y) {
      for (std::uint32_t x = 0; x < groups.count[0]; ++x) {
        all.insert({groups.first[0] + x, groups.first[1] + y, groups.first[2] + z});
      }
    }
  }
  return all;
}

TEST(Slices, PartsOfADispatchHoldEachWorkgroupOnceUnderItsNumber) {
  data::Random random(5);
  for (int i = 0; i < 200; ++i) {
    Workgroups whole;
    for (auto& count : whole.count) count = static_cast<std::uint32_t>(random.uniform(1, 3) * random.uniform(1, 3));
    // And parts of parts, as a kernel gets that is still too long.
    std::vector<Workgroups> parts;
    for (const Workgroups& part : split_dispatch(whole, static_cast<std::uint32_t>(random.uniform(1, 9)))) {
      const auto smaller = split_dispatch(part, 2);
      parts.insert(parts.end(), smaller.begin(), smaller.end());
    }
    std::multiset<Numbers> all;
    std::vector<std::uint64_t> flat;
    for (const Workgroups& part : parts) {
      all.merge(numbers(part));
      const auto its = flat_numbers(part);
      flat.insert(flat.end(), its.begin(), its.end());
    }
    EXPECT_EQ(all, numbers(whole));
    EXPECT_EQ(flat, flat_numbers(whole));
  }
  const auto parts = split_dispatch({{}, {2, 1000, 1}}, 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1].first, (Numbers{0, 334, 0}));
  EXPECT_EQ(parts[1].count, (Numbers{2, 333, 1}));
}

/// One network of products, rows and elements.
void build(GraphMaker& g) {
  const ValueId x = g.input("x", {192, 96});
  const ValueId w = g.value("w", {96, 160}, ValueKind::constant);
  const ValueId y = g.add(Op::matmul, {x, w});
  const ValueId p = g.add(Op::softmax, {g.add(Op::transpose, {y}, {{"perm", Ints{1, 0}}})});
  const ValueId acc = g.state("acc", {160, 192});
  g.act(Op::accumulate, {acc, p});
  g.output("p", p);
  g.output("acc", acc);
}

struct Made {
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Program> program;
};

Result<Made> make(gpu::Device& device, const Graph& graph, const ProgramOptions& options) {
  Made made;
  Residents residents(device.caps());
  GRAFT_TRY(residents.add(graph));
  GRAFT_TRY_ASSIGN(Plan plan, make_plan(graph, device.target(), residents));
  const Plan* const plans[] = {&plan};
  GRAFT_TRY_ASSIGN(made.memory, Memory::create(device, residents, plans));
  std::vector<float> weights(96 * 160);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.001f * static_cast<float>(i % 977) - 0.4f;
  GRAFT_TRY(made.memory->write("w", std::as_bytes(std::span(weights))));
  GRAFT_TRY(made.memory->fill("acc", 0));
  GRAFT_TRY_ASSIGN(made.program, Program::create(*made.memory, std::move(plan), options));
  return made;
}

TEST(Slices, ARunInPiecesGivesTheSameBits) {
  GRAFT_TEST_GPU(device);
  GraphMaker g;
  build(g);
  {
    RunControl control;
    ProgramOptions options{.timeout = test::kTestTimeout};
    auto whole = make(*device, g.graph, options);
    ASSERT_TRUE(whole.ok()) << whole.status().message();
    options.control = &control;
    auto pieces = make(*device, g.graph, options);
    ASSERT_TRUE(pieces.ok()) << pieces.status().message();
    control.set_slice(std::chrono::nanoseconds(1));  // everything takes longer
    std::vector<float> x(192 * 96);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.01f * static_cast<float>(i % 313) - 1.5f;
    const Feed feeds[] = {{"x", std::as_bytes(std::span(x))}};
    std::uint32_t first = 0;
    for (int run = 0; run < 9; ++run) {
      ASSERT_TRUE(whole->program->run(feeds, {}).ok());
      const Status status = pieces->program->run(feeds, {});
      ASSERT_TRUE(status.ok()) << status.message();
      for (const char* name : {"p", "acc"}) {
        const auto a = whole->program->output(name), b = pieces->program->output(name);
        ASSERT_FALSE(a.empty());
        ASSERT_TRUE(a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0) << name << ", run " << run;
      }
      if (run == 0) first = pieces->program->submissions();
    }
    const std::size_t steps = whole->program->plan().steps.size();
    EXPECT_GE(pieces->program->submissions(), steps) << "after " << first;
    if (!device->target().quirks.whole_dispatches) {
      EXPECT_GT(pieces->program->submissions(), 4 * steps);
    }
    EXPECT_EQ(whole->program->submissions(), 1u);
    EXPECT_GE(control.submissions(), pieces->program->submissions());
    EXPECT_LE(control.quantile(0.5), control.quantile(1));
  }
  device.reset();
  test::expect_no_validation_messages();
}

TEST(Slices, ADispatchBeginsAtTheWorkgroupThatIsAsked) {
  GRAFT_TEST_GPU(device);
  constexpr std::uint32_t kGroup = 128, kFirst = 2, kGroups = 4, kWord = 7;
  const gpu::KernelDesc desc{.name = "fill_words",
                             .spirv = shaders::kernel_info(shaders::KernelId::fill_words__w32).spirv(),
                             .specialization = {},
                             .bindings = 1,
                             .push_bytes = sizeof(push::FillWordsPush),
                             .in_parts = true};
  auto kernels = device->create_kernels(std::array{desc});
  ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  constexpr std::uint64_t kBytes = std::uint64_t{4} * kGroup * kGroups;
  auto words = device->create_buffer(kBytes, gpu::MemoryKind::device, "words").value();
  auto back = device->create_buffer(kBytes, gpu::MemoryKind::readback, "back").value();
  auto recorder = device->record("a part", 0).value();
  recorder->fill({words.get(), 0, kBytes}, 0);
  recorder->barrier();
  const push::FillWordsPush words_push{kGroup * kGroups, kWord};
  recorder->dispatch(*(*kernels)[0], std::array{gpu::BufferRange{words.get(), 0, kBytes}},
                     std::as_bytes(std::span(&words_push, 1)), {1, 1, 1}, {kFirst, 0, 0});
  recorder->barrier();
  recorder->copy({words.get(), 0, kBytes}, {back.get(), 0, kBytes});
  recorder->host_barrier();
  auto list = recorder->finish().value();
  gpu::CommandList* const lists[] = {list.get()};
  ASSERT_TRUE(device->wait(device->submit(lists).value(), test::kTestTimeout).ok());
  std::vector<std::uint32_t> got(kGroup * kGroups);
  std::memcpy(got.data(), back->mapped().data(), kBytes);
  const auto first = std::find(got.begin(), got.end(), kWord) - got.begin();
  if (device->target().quirks.whole_dispatches) GTEST_SKIP() << "known not to here: it began at word " << first;
  EXPECT_EQ(first, kFirst * kGroup);
  EXPECT_EQ(std::count(got.begin(), got.end(), kWord), kGroup);
}

TEST(Slices, AFailureOnTheWayLeavesARunThatCanBeRepeated) {
  GRAFT_TEST_GPU(device);
  GraphMaker g;
  build(g);
  RunControl control;
  auto made = make(*device, g.graph, {.timeout = test::kTestTimeout, .control = &control});
  ASSERT_TRUE(made.ok()) << made.status().message();
  const std::vector<float> x(192 * 96, 1.0f);
  const Feed feeds[] = {{"x", std::as_bytes(std::span(x))}};
  control.set_slice(std::chrono::nanoseconds(1));
  for (int run = 0; run < 6; ++run) ASSERT_TRUE(made->program->run(feeds, {}).ok());
  made->program->request_pause();
  ASSERT_EQ(made->program->run(feeds, {}).code(), Code::cancelled);
  ASSERT_TRUE(made->program->resume().ok());
  float sum = 0;
  std::memcpy(&sum, made->program->output("acc").data(), sizeof sum);
  float one = 0;
  std::memcpy(&one, made->program->output("p").data(), sizeof one);
  float expected = 0;  // in the order in which it was added
  for (int run = 0; run < 7; ++run) expected += one;
  EXPECT_EQ(sum, expected) << "seven runs, each once";
}

TEST(RunControl, ARestEndsWhenCancelledOrAllowedMore) {
  RunControl control;
  control.used(std::chrono::hours(100));
  control.rest();  // nothing to rest for at full duty
  control.set_duty(0.01);
  const auto ends_by = [&](auto action) {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      action();
    });
    control.rest();  // else for a year
    other.join();
  };
  ends_by([&] { control.cancel(); });
  EXPECT_TRUE(control.is_cancelled());
  control.forget_cancel();
  ends_by([&] { control.set_duty(1); });
}

}  // namespace
}  // namespace graft::slices_test
