#include "tools/bench/bench_time.h"

#include <algorithm>
#include <chrono>

#include "runtime/exec/program.h"

namespace graft::cli {

Result<Timing> time_plan(gpu::Device& device, const Graph& graph, const Residents& residents, Plan plan, int repeat,
                         Clock clock) {
  const Plan* plans[] = {&plan};
  TRY_ASSIGN(const auto memory, Memory::create(device, residents, plans));
  for (const Value& value : graph.values()) {
    // Halves: no kernel meets denormal numbers, NaN or a special case. Zeros: labels and indices are in range.
    if (residents.find(value.name) == nullptr) continue;
    TRY(memory->fill(value.name, value.dtype == DType::i32 ? 0 : 0x3f000000u));
  }
  ProgramOptions options;
  options.profile = clock == Clock::wall;
  TRY_ASSIGN(const auto program, Program::create(*memory, std::move(plan), options));
  // A GPU that rested between two cases runs several times as slowly for a while: an H100's short kernels were seen to
  // take four times as long as in a busy stretch.
  const auto awake = std::chrono::milliseconds(device.caps().type == gpu::DeviceType::cpu ? 0 : 200);
  std::vector<double> seconds;
  double first = 0;
  for (int i = 0; i <= repeat; ++i) {
    const Stopwatch watch(clock);
    TRY(program->run({}, {}));
    double sum = watch.seconds();
    if (i == 0) {
      first = sum;  // with what the driver puts off until then, compilation above all
      for (const Stopwatch busy(Clock::wall); busy.seconds() < std::chrono::duration<double>(awake).count();) {
        TRY(program->run({}, {}));
      }
    }
    if (clock == Clock::wall) {
      TRY_ASSIGN(const auto times, program->times());
      sum = 0;
      for (const NodeTime& time : times) sum += time.node == kNoIndex ? 0 : time.seconds;
    }
    if (i > 0) seconds.push_back(sum);
  }
  std::sort(seconds.begin(), seconds.end());
  return Timing{seconds.front(), seconds[seconds.size() / 2], first};
}

}  // namespace graft::cli
