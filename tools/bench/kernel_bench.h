// graft bench kernels --compile-only: what a device's compiler makes of kernels, without running any.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/plan/plan.h"
#include "tools/bench/inner_loop.h"
#include "tools/common/status.h"

namespace graft::cli {

/// What drivers call differently. Nothing where a driver does not tell it.
struct KernelFacts {
  std::optional<double> instructions;
  std::optional<double> nops;
  std::optional<double> stalls;     ///< cycles, as the compiler estimates them
  std::optional<double> registers;  ///< of a lane, in the driver's unit: vectors of 4 on Adreno, words on AMD
  std::optional<double> spills;     ///< of registers, scalar ones included; accesses to private memory on Adreno
  std::optional<double> scratch_bytes;
  std::optional<double> shared_bytes;  ///< of a workgroup
  std::optional<double> waves;         ///< at once on a core or SIMD
  std::optional<double> code_bytes;
  std::optional<double> latency;             ///< cycles of one wave
  std::optional<double> inverse_throughput;  ///< busy cycles of one wave
};

struct CompiledKernel {
  std::string name;                      ///< with the elements that it keeps in 16 bits
  std::vector<std::uint32_t> constants;  ///< by which it is specialized
  std::set<std::string> used_by;         ///< names of plans
  std::uint64_t dispatches = 0;
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;   ///< compiling it, alone
  std::string failure;  ///< why it does not compile; empty: it does
  KernelFacts facts = {};
  std::optional<InnerLoop> loop = {};
  gpu::KernelReport report = {};
};

/// Kernels of plans, each once.
class KernelList {
 public:
  void add(const std::string& name, const Plan& plan, const gpu::Target& target);
  std::size_t size() const { return kernels_.size(); }

 private:
  friend struct KernelBench;
  using Key = std::tuple<shaders::KernelId, std::vector<std::uint32_t>, BindingStorage, std::vector<Share>>;
  std::map<Key, std::pair<PlanKernel, CompiledKernel>> kernels_;
};

struct KernelBench {
  /// Compiles each. One that fails does not keep the others from it. `texts`: for dump_kernels().
  static Result<KernelBench> compile(gpu::Device& device, KernelList list, bool texts);

  std::vector<CompiledKernel> kernels;  ///< by instructions, most first; then by name
  std::string untold;                   ///< why the driver tells nothing of them; empty: it does
};

/// Those of the self-test's problems, with all variants that the device can run, with elements of 16 bits, with and
/// without rounding.
Status add_choices(const gpu::Target& target, KernelList& list);

void print_kernels(const KernelBench& bench);
nlohmann::ordered_json kernels_json(const KernelBench& bench);
/// The last text that the driver gives of each kernel, as files of `folder`.
Status dump_kernels(const KernelBench& bench, const std::string& folder);
/// ok unless a kernel does not compile, spills or uses scratch memory: then it is named.
Status verdict_on(const KernelBench& bench);

}  // namespace graft::cli
