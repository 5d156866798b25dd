#include "runtime/distribute/slot_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/core/op_id.gen.h"

namespace graft::distribute {
namespace {

Result<Graph> sum_graph(std::uint64_t elements) {
  Graph graph;
  const Shape shape{static_cast<std::int64_t>(elements)};
  GRAFT_TRY_ASSIGN(const ValueId sum, graph.add_value("sum", DType::f32, shape, ValueKind::state));
  GRAFT_TRY_ASSIGN(const ValueId slot, graph.add_value("slot", DType::f32, shape, ValueKind::input));
  GRAFT_TRY(graph.add_node(Op::accumulate, {sum, slot}, {}, "add"));
  return graph;
}

struct PlannedSum {
  Residents residents;
  Plan plan;
};

Result<PlannedSum> plan_sum(const gpu::Target& target, std::uint64_t elements) {
  GRAFT_TRY_ASSIGN(const Graph graph, sum_graph(elements));
  PlannedSum made{Residents(target.caps), {}};
  GRAFT_TRY(made.residents.add(graph));
  GRAFT_TRY_ASSIGN(made.plan, make_plan(graph, target, made.residents, {}));
  return made;
}

// So that the trial takes one run.
constexpr std::uint64_t kTrial = 4096;

/// With the sign, nothing else.
float flushed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits & 0x7f800000) == 0 ? std::bit_cast<float>(bits & 0x80000000) : x;
}

// In blocks, so that compilers see loops of a known length.
constexpr std::size_t kBlock = 1024;

template <bool kFlushes>
void add_block(std::array<float, kBlock>& sum, const std::byte* next) {
  for (std::size_t i = 0; i < kBlock; ++i) {
    float x = 0;
    std::memcpy(&x, next + i * sizeof x, sizeof x);                 // it may stand anywhere
    sum[i] = kFlushes ? flushed(sum[i] + flushed(x)) : sum[i] + x;  // the sum so far is flushed
  }
}

template <bool kFlushes>
void add_blocks(std::span<const std::span<const std::byte>> slots, Wire wire, std::span<std::byte> out) {
  std::array<float, kBlock> sum, next = {};
  const std::size_t each = bytes_of(wire), elements = out.size() / each;
  for (std::size_t at = 0; at < elements; at += kBlock) {
    const std::size_t count = std::min(kBlock, elements - at);
    sum = {};
    for (const std::span<const std::byte> slot : slots) {
      const std::span<const std::byte> from = slot.subspan(at * each, count * each);
      const bool as_it_is = wire == Wire::f32 && count == kBlock;
      if (!as_it_is) unpack(from, wire, std::as_writable_bytes(std::span(next).first(count)));
      add_block<kFlushes>(sum, as_it_is ? from.data() : std::as_bytes(std::span(next)).data());
    }
    pack(std::as_bytes(std::span(sum).first(count)), wire, out.subspan(at * each, count * each));
  }
}

/// Two addends: of all sizes, of sizes that are near each other, halfway between two sums, too small to be normal, too
/// large.
std::array<std::vector<float>, 2> trial() {
  std::array<std::vector<float>, 2> addends;
  std::uint64_t seed = 1;
  const auto random = [&](std::uint32_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>((seed >> 33) % below);
  };
  const auto number = [](std::uint32_t sign, std::uint32_t exponent, std::uint32_t fraction) {
    return std::bit_cast<float>(sign << 31 | exponent << 23 | fraction);
  };
  for (std::uint64_t i = 0; i < kTrial; ++i) {
    const std::uint32_t exponent = i % 4 == 0 ? random(28) : 28 + random(227);
    const std::uint32_t below = i % 3 == 0 ? 24 + random(2) : random(28);
    const bool half = i % 5 == 0;  // of the last place of the other: a tie
    addends[0].push_back(number(random(2), exponent, random(1 << 23)));
    addends[1].push_back(number(random(2), exponent - std::min(exponent, below), half ? 0 : random(1 << 23)));
    if (random(2) == 0) std::swap(addends[0].back(), addends[1].back());
  }
  return addends;
}

}  // namespace

void add_on_host(std::span<const std::span<const std::byte>> slots, Wire wire, bool flushes, std::span<std::byte> out) {
  flushes ? add_blocks<true>(slots, wire, out) : add_blocks<false>(slots, wire, out);
}

Result<MemoryByClass> SlotSum::planned(const gpu::Target& target, std::uint64_t elements) {
  GRAFT_TRY_ASSIGN(const PlannedSum sum, plan_sum(target, std::max(elements, kTrial)));
  const Plan* const plans[] = {&sum.plan};
  MemoryByClass memory = Memory::planned(sum.residents, plans);
  memory[MemoryClass::staging] += Capture::planned_bytes(sum.residents, Capture::What::gradients);
  return memory;
}

Result<std::unique_ptr<SlotSum>> SlotSum::create(gpu::Device& device, std::uint64_t elements, Where where) {
  std::unique_ptr<SlotSum> made(new SlotSum(std::max(elements, kTrial) * sizeof(float)));
  GRAFT_TRY_ASSIGN(auto sum, plan_sum(device.target(), made->bytes_ / sizeof(float)));
  auto& [residents, plan] = sum;
  const Plan* const plans[] = {&plan};
  GRAFT_TRY_ASSIGN(made->memory_, Memory::create(device, residents, plans));
  ProgramOptions options;
  options.cancellable = false;
  GRAFT_TRY_ASSIGN(made->program_, Program::create(*made->memory_, std::move(plan), options));
  GRAFT_TRY_ASSIGN(made->sum_, Capture::create(*made->memory_, options.timeout, Capture::What::gradients));
  if (where == Where::by_trial) GRAFT_TRY(made->find_out());
  return made;
}

/// Gives the device's memory back where the host's additions are the device's.
Status SlotSum::find_out() {
  const auto addends = trial();
  const std::array slots = {std::as_bytes(std::span(addends[0])), std::as_bytes(std::span(addends[1]))};
  std::vector<float> wanted(kTrial), mine(kTrial);
  GRAFT_TRY(add_on_device(slots, Wire::f32, std::as_writable_bytes(std::span(wanted))));
  const auto same = [&] {
    return std::ranges::equal(wanted, mine, [](float a, float b) {
      return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    });
  };
  for (const bool flushes : {false, true}) {
    flushes_ = flushes;
    add_on_host(slots, Wire::f32, flushes, std::as_writable_bytes(std::span(mine)));
    if (same()) break;
  }
  if (!same()) return ok_status();
  sum_.reset();
  program_.reset();
  memory_.reset();
  return ok_status();
}

Status SlotSum::add(std::span<const std::span<const std::byte>> slots, Wire wire, std::span<std::byte> out) {
  if (slots.size() == 1) {
    std::ranges::copy(slots[0], out.begin());
    return ok_status();
  }
  if (!on_host()) return add_on_device(slots, wire, out);
  add_on_host(slots, wire, flushes_, out);
  return ok_status();
}

Status SlotSum::add_on_device(std::span<const std::span<const std::byte>> slots, Wire wire, std::span<std::byte> out) {
  const std::size_t each = bytes_of(wire), at_once = bytes_ / sizeof(float) * each;
  for (std::size_t at = 0; at < out.size(); at += at_once) {
    const std::size_t bytes = std::min(at_once, out.size() - at);
    const std::size_t as_f32 = bytes / each * sizeof(float);
    GRAFT_TRY(sum_->fill(0));
    for (const std::span<const std::byte> slot : slots) {
      unpack(slot.subspan(at, bytes), wire, program_->input(0).first(as_f32));  // what is behind goes into no result
      GRAFT_TRY(program_->run({}, {}));
    }
    GRAFT_TRY(sum_->take());
    pack(sum_->entries()[0].bytes.first(as_f32), wire, out.subspan(at, bytes));
  }
  return ok_status();
}

}  // namespace graft::distribute
