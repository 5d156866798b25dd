#include "tools/bench/device_bench.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "shaders/bench/bench_arithmetic_push.h"
#include "shaders/bench/bench_stream_push.h"
#include "shaders/kernels.gen.h"

namespace graft::cli {
namespace {

using shaders::KernelId;

constexpr std::uint64_t kStreamBytes = std::uint64_t{32} << 20;
constexpr double kLongEnough = 1e-3;  // seconds; short runs, many times: one of them meets no other work on the machine
constexpr int kTries = 20;

class Bench {
 public:
  Bench(gpu::Device& device, Clock clock) : device_(device), clock_(clock) {}

  Status prepare();
  Result<double> arithmetic(KernelId id);                             ///< operations per second
  Result<double> stream(KernelId id, std::uint64_t bytes_per_float);  ///< bytes per second
  Result<double> transfer();
  Result<double> dispatch(bool barriers);
  Result<double> submit();
  Result<double> round_trip();

 private:
  using Record = std::function<void(gpu::Recorder&)>;

  Result<std::unique_ptr<gpu::Kernel>> kernel(KernelId id, std::uint32_t bindings, std::size_t push_bytes,
                                              std::span<const std::uint32_t> constants = {});
  Result<std::unique_ptr<gpu::CommandList>> record(std::uint64_t times, const Record& one);
  Result<double> run(gpu::CommandList& list);
  /// The time of one recording, measured over so many that they take a while.
  Result<double> seconds_of(const Record& one);
  gpu::BufferRange from() { return {from_.get(), 0, bytes_}; }
  gpu::BufferRange to() { return {to_.get(), 0, bytes_}; }

  gpu::Device& device_;
  Clock clock_;
  std::uint64_t bytes_ = 0;
  double submit_ = 0;
  std::unique_ptr<gpu::Buffer> from_;
  std::unique_ptr<gpu::Buffer> to_;
};

Status Bench::prepare() {
  std::uint64_t largest = 0;
  for (const auto& heap : device_.caps().heaps) {
    if (heap.device_local) largest = std::max(largest, heap.bytes);
  }
  bytes_ = std::min({kStreamBytes, device_.caps().max_storage_buffer_range, device_.caps().max_allocation,
                     largest == 0 ? kStreamBytes : largest / 8});
  bytes_ = std::bit_floor(bytes_);  // whole workgroups of any size
  TRY_ASSIGN(from_, device_.create_buffer(bytes_, gpu::MemoryKind::device, "read"));
  TRY_ASSIGN(to_, device_.create_buffer(bytes_, gpu::MemoryKind::device, "written"));
  TRY_ASSIGN(const auto fill, record(1, [&](gpu::Recorder& recorder) {
               recorder.fill(from(), 0x3f000000u);
               recorder.fill(to(), 0);
             }));
  TRY(run(*fill));
  TRY_ASSIGN(submit_, submit());
  return ok_status();
}

Result<std::unique_ptr<gpu::Kernel>> Bench::kernel(KernelId id, std::uint32_t bindings, std::size_t push_bytes,
                                                   std::span<const std::uint32_t> constants) {
  const shaders::KernelInfo& info = shaders::kernel_info(id);
  const gpu::KernelDesc desc{info.name, info.spirv(), constants, bindings, static_cast<std::uint32_t>(push_bytes)};
  TRY_ASSIGN(auto kernels, device_.create_kernels({&desc, 1}));
  return std::move(kernels[0]);
}

Result<std::unique_ptr<gpu::CommandList>> Bench::record(std::uint64_t times, const Record& one) {
  TRY_ASSIGN(const auto recorder, device_.record("bench device"));
  for (std::uint64_t i = 0; i < times; ++i) one(*recorder);
  recorder->host_barrier();
  return recorder->finish();
}

Result<double> Bench::run(gpu::CommandList& list) {
  gpu::CommandList* const lists[] = {&list};
  const Stopwatch watch(clock_);
  TRY_ASSIGN(const gpu::Ticket ticket, device_.submit(lists));
  TRY(device_.wait(ticket, std::chrono::seconds(60)));
  return watch.seconds();
}

Result<double> Bench::seconds_of(const Record& one) {
  for (std::uint64_t times = 1;; times *= 2) {
    TRY_ASSIGN(const auto list, record(times, one));
    if (times == 1) TRY(run(*list));  // compiles
    TRY_ASSIGN(double best, run(*list));
    if (best < kLongEnough && times < 4096) continue;
    for (int i = 1; i < kTries; ++i) {
      TRY_ASSIGN(const double again, run(*list));
      best = std::min(best, again);
    }
    return std::max(best - submit_, best * 0.01) / static_cast<double>(times);
  }
}

Result<double> Bench::arithmetic(KernelId id) {
  // Operations of one workgroup in one round of bench_arithmetic.comp.
  constexpr std::uint64_t kOperations = std::uint64_t{64} * 2 * 16 * 4 * 2;
  const push::BenchArithmeticPush push{64};
  TRY_ASSIGN(const auto k, kernel(id, 1, sizeof push));
  const std::uint32_t groups = device_.caps().type == gpu::DeviceType::cpu ? 256 : 8192;
  const gpu::BufferRange bindings[] = {to()};
  TRY_ASSIGN(const double seconds, seconds_of([&](gpu::Recorder& recorder) {
               recorder.dispatch(*k, bindings, std::as_bytes(std::span(&push, 1)), {groups, 1, 1});
               recorder.barrier();
             }));
  const std::uint64_t each = id == KernelId::bench_arithmetic__dot8 ? 4 : 1;
  return static_cast<double>(kOperations * push.rounds * groups * each) / seconds;
}

Result<double> Bench::stream(KernelId id, std::uint64_t bytes_per_float) {
  const push::BenchStreamPush push{static_cast<std::uint32_t>(bytes_ / 4)};
  // A CPU device likes one subgroup per workgroup, and long runs.
  const bool cpu = device_.caps().type == gpu::DeviceType::cpu;
  const std::uint32_t constants[] = {cpu ? std::max(device_.caps().subgroup_size, 4u) : 128, cpu ? 64u : 16u};
  TRY_ASSIGN(const auto k, kernel(id, 2, sizeof push, constants));
  const auto groups = static_cast<std::uint32_t>(bytes_ / (std::uint64_t{16} * constants[0] * constants[1]));
  const gpu::BufferRange bindings[] = {from(), to()};
  TRY_ASSIGN(const double seconds, seconds_of([&](gpu::Recorder& recorder) {
               recorder.dispatch(*k, bindings, std::as_bytes(std::span(&push, 1)), {groups, 1, 1});
               recorder.barrier();
             }));
  const std::uint64_t floats = bytes_ / 4;
  return static_cast<double>(floats * bytes_per_float) / seconds;
}

Result<double> Bench::transfer() {
  TRY_ASSIGN(const double seconds, seconds_of([&](gpu::Recorder& recorder) {
               recorder.copy(from(), to());
               recorder.barrier();
             }));
  return static_cast<double>(2 * bytes_) / seconds;
}

Result<double> Bench::dispatch(bool barriers) {
  const push::BenchStreamPush push{0};
  TRY_ASSIGN(const auto k, kernel(KernelId::bench_stream__nothing, 2, sizeof push));
  const gpu::BufferRange bindings[] = {from(), to()};
  return seconds_of([&](gpu::Recorder& recorder) {
    recorder.dispatch(*k, bindings, std::as_bytes(std::span(&push, 1)), {1, 1, 1});
    if (barriers) recorder.barrier();
  });
}

Result<double> Bench::submit() {
  TRY_ASSIGN(const auto list, record(0, {}));
  double best = 1;
  for (int i = 0; i < 20; ++i) {
    TRY_ASSIGN(const double seconds, run(*list));
    best = std::min(best, seconds);
  }
  return best;
}

Result<double> Bench::round_trip() {
  TRY_ASSIGN(const auto up, device_.create_buffer(16, gpu::MemoryKind::upload, "sent"));
  TRY_ASSIGN(const auto down, device_.create_buffer(16, gpu::MemoryKind::readback, "received"));
  const push::BenchStreamPush push{0};
  TRY_ASSIGN(const auto k, kernel(KernelId::bench_stream__nothing, 2, sizeof push));
  const gpu::BufferRange bindings[] = {from(), to()};
  TRY_ASSIGN(const auto list, record(1, [&](gpu::Recorder& recorder) {
               recorder.copy({up.get(), 0, 16}, {from_.get(), 0, 16});
               recorder.barrier();
               recorder.dispatch(*k, bindings, std::as_bytes(std::span(&push, 1)), {1, 1, 1});
               recorder.barrier();
               recorder.copy({from_.get(), 0, 16}, {down.get(), 0, 16});
             }));
  double best = 1;
  for (std::uint32_t i = 1; i <= 20; ++i) {
    const Stopwatch watch(clock_);
    std::memcpy(up->mapped().data(), &i, sizeof i);
    TRY(run(*list));
    std::uint32_t received = 0;
    std::memcpy(&received, down->mapped().data(), sizeof received);
    if (received != i) return error(Code::device_error, "The device sent back ", received, " when sent ", i, ".");
    best = std::min(best, watch.seconds());
  }
  return best;
}

}  // namespace

Result<DeviceFigures> measure_device(gpu::Device& device, Clock clock) {
  DeviceFigures f;
  Bench bench(device, clock);
  TRY(bench.prepare());
  TRY_ASSIGN(f.f32_flops, bench.arithmetic(KernelId::bench_arithmetic__f32));
  if (device.caps().shader_float16) {
    TRY_ASSIGN(f.f16_flops, bench.arithmetic(KernelId::bench_arithmetic__f16));
  }
  if (device.caps().integer_dot) {
    TRY_ASSIGN(f.dot8_ops, bench.arithmetic(KernelId::bench_arithmetic__dot8));
  }
  TRY_ASSIGN(f.copy_bytes, bench.stream(KernelId::bench_stream__copy, 8));
  TRY_ASSIGN(f.read_bytes, bench.stream(KernelId::bench_stream__read, 4));
  TRY_ASSIGN(f.transfer_bytes, bench.transfer());
  TRY_ASSIGN(f.dispatch_seconds, bench.dispatch(false));
  TRY_ASSIGN(const double with_barrier, bench.dispatch(true));
  f.barrier_seconds = std::max(0.0, with_barrier - f.dispatch_seconds);
  TRY_ASSIGN(f.submit_seconds, bench.submit());
  TRY_ASSIGN(f.round_trip_seconds, bench.round_trip());
  return f;
}

}  // namespace graft::cli
