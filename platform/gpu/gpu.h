// The GPU interface: what graft needs of a compute device, and nothing of tensors.
//
// Implementations: platform/vulkan (any Vulkan 1.1 device) and platform/null (records, runs nothing).
// Threads: a Device and everything made from it belong to one thread at a time; wait() may block.
// Errors: every fallible call returns Status or Result; device_lost means that only a new Device can go on.
// Lifetime: buffers, kernels and command lists must be destroyed before their Device.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"

namespace graft::gpu {

/// One size of cooperative matrices: D [m, n] = A [m, k] B [k, n] + C, shared by a subgroup, sums in f32.
struct MatrixShape {
  enum class Operand : std::uint8_t { f16, bf16 };
  Operand operand = Operand::f16;  ///< of A and B
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
};

/// What products of f32 operands may become; the words are those of torch.set_float32_matmul_precision.
enum class MatmulPrecision : std::uint8_t {
  highest,  ///< f32
  high,  ///< operands rounded to f16, the 11 bits of TF32 but not its range, where matrix units take them; sums in f32
  medium,  ///< also to integers of 8 bits beside quantized weights, and to bf16 beside what is kept so
};

enum class DeviceType { other, integrated, discrete, virtual_gpu, cpu };

/// What is known of a device beyond what it says of itself: found out on it, now or in an earlier run.
struct Advice {
  std::set<std::string, std::less<>> avoided;             ///< names of kernels that failed their self-test
  std::map<std::string, std::string, std::less<>> tuned;  ///< measured choices: problem -> variant
};

/// A known fault that these capabilities were adjusted for; see quirks.h.
struct AppliedQuirk {
  std::string name;
  std::string action;
  std::string reason;
  std::string link;
};

/// What the device can do. Plain data, so that a plan may be made for a device that is not here.
struct Caps {
  std::string device_name;
  std::string driver_name;
  std::string driver_info;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t driver_version = 0;
  std::uint32_t api_version = 0;
  DeviceType type = DeviceType::other;

  std::uint64_t max_storage_buffer_range = 128ull << 20;  ///< bytes in one binding
  std::uint64_t max_allocation = 1ull << 30;              ///< bytes in one memory allocation
  std::uint32_t storage_buffer_alignment = 256;           ///< of a binding's offset, bytes
  std::uint32_t max_storage_buffers_per_stage = 8;
  std::uint32_t max_push_constants = 128;  ///< bytes
  std::uint32_t max_workgroup_invocations = 128;
  std::array<std::uint32_t, 3> max_workgroup_size = {128, 128, 64};
  std::array<std::uint32_t, 3> max_workgroup_count = {65535, 65535, 65535};
  std::uint32_t max_shared_memory = 16384;  ///< bytes per workgroup
  std::uint32_t subgroup_size = 1;
  bool subgroup_basic = false;
  bool subgroup_arithmetic = false;
  bool subgroup_shuffle = false;
  bool shader_float16 = false;
  bool shader_int8 = false;
  bool shader_int64 = false;
  bool storage_16bit = false;
  bool storage_8bit = false;
  bool integer_dot = false;  ///< dot products of four 8-bit integers
  bool cooperative_matrix = false;
  std::vector<MatrixShape> matrix_shapes = {};  ///< in the driver's order; none without cooperative_matrix
  std::uint32_t matrix_subgroup = 0;            ///< invocations of the subgroups that share matrices
  bool shader_bfloat16 = false;                 ///< bf16 as a type of kernels and of matrices
  /// Sizes that those of matrices may be multiples of, up to max_flexible_side, in kernels that meet single elements by
  /// row and column (VK_NV_cooperative_matrix2); none without cooperative_matrix.
  std::vector<MatrixShape> flexible_shapes = {};
  std::uint32_t max_flexible_side = 0;
  MatmulPrecision matmul_precision = MatmulPrecision::highest;  ///< not the device's but the user's
  bool software_matrices = false;  ///< kernels for matrix units also where software runs them, to test them
  bool timeline_semaphore = false;
  bool unified_memory = false;     ///< device memory is host-visible
  double timestamp_period_ns = 0;  ///< 0: no timestamps
  struct Heap {
    std::uint64_t bytes = 0;
    bool device_local = false;
  };
  std::vector<Heap> heaps;

  bool pipeline_cache = true;               ///< compiled pipelines may be kept in a file
  bool align_fills = false;                 ///< fills are cut so that large ones begin at multiples of 16 bytes
  std::uint32_t max_submit_dispatches = 0;  ///< of one submission; 0: any number
  std::vector<AppliedQuirk> quirks;
  Advice advice;
};

enum class MemoryKind {
  device,    ///< fastest for kernels; mapped() only where memory is unified
  upload,    ///< host writes, device reads; always mapped
  readback,  ///< device writes, host reads; always mapped, cached on the host where possible
};

/// What Device::available_memory() returns where the device does not say.
inline constexpr std::uint64_t kUnknownMemory = ~std::uint64_t{0};

/// A range of device memory. Destroying it frees the memory.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::uint64_t size() const = 0;
  virtual std::string_view name() const = 0;
  /// Host view, coherent with the device at submit and wait; empty when not host-visible.
  virtual std::span<std::byte> mapped() = 0;
};

struct BufferRange {
  Buffer* buffer = nullptr;
  std::uint64_t offset = 0;  ///< a multiple of Caps::storage_buffer_alignment for bindings, of 4 for copies
  std::uint64_t size = 0;
};

/// What a pipeline is made of. The entry point is "main"; bindings are storage buffers 0..bindings-1 of set 0.
struct KernelDesc {
  std::string_view name;  ///< shown by profilers and in errors
  std::span<const std::uint32_t> spirv;
  std::span<const std::uint32_t> specialization;  ///< constant_id 0, 1, 2, ... as raw 32-bit words
  std::uint32_t bindings = 0;
  std::uint32_t push_bytes = 0;
  std::uint32_t subgroup_size = 0;  ///< that it counts on, with full subgroups; 0: any
};

/// A compiled compute pipeline.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

/// A finished recording; may be submitted any number of times, once at a time.
class CommandList {
 public:
  virtual ~CommandList() = default;
};

/// Records commands. Nothing runs until the finished CommandList is submitted.
/// There is no implicit ordering between dispatches or copies of one list: say barrier() where one reads or
/// overwrites what an earlier one wrote or read. Lists are ordered: each begins with a barrier against those before it.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// groups are workgroup counts, each within Caps::max_workgroup_count.
  virtual void dispatch(Kernel& kernel, std::span<const BufferRange> bindings, std::span<const std::byte> push,
                        std::array<std::uint32_t, 3> groups) = 0;
  virtual void copy(const BufferRange& from, const BufferRange& to) = 0;  ///< sizes must be equal
  virtual void fill(const BufferRange& to, std::uint32_t word) = 0;
  /// Orders everything recorded before (dispatch, copy, fill) against everything after, all memory visible,
  /// on the device.
  virtual void barrier() = 0;
  /// As barrier(), and makes device writes visible to the host after the submission completes. Once, at the end.
  virtual void host_barrier() = 0;
  /// Writes the device clock into slot `index` (< the count given to Device::record) once all earlier work is done.
  virtual void timestamp(std::uint32_t index) = 0;
  virtual void begin_label(std::string_view name) = 0;
  virtual void end_label() = 0;
  /// Ends the recording; the first error of any call above is returned here.
  virtual Result<std::unique_ptr<CommandList>> finish() = 0;
};

/// Names a submission: submissions complete in order, and tickets grow by one.
using Ticket = std::uint64_t;

struct MemoryStats {
  std::uint64_t bytes = 0;  ///< live in buffers, as allocated from the driver
  std::uint64_t peak_bytes = 0;
  std::uint64_t allocations = 0;     ///< driver allocations ever made
  std::uint64_t reserved_bytes = 0;  ///< held from the driver now; small buffers share allocations, so >= bytes
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Caps& caps() const = 0;
  /// Replaces caps().advice: plans made from now on follow it.
  virtual void set_advice(Advice advice) = 0;

  /// Memory of a new device buffer is undefined. `name` shows in tools and in errors.
  virtual Result<std::unique_ptr<Buffer>> create_buffer(std::uint64_t bytes, MemoryKind kind,
                                                        std::string_view name) = 0;

  /// Creates all pipelines in one batch; the pipeline cache is used and updated. All or nothing.
  virtual Result<std::vector<std::unique_ptr<Kernel>>> create_kernels(std::span<const KernelDesc> kernels) = 0;

  /// A list starts with an implicit barrier(): it is ordered after every list submitted before it.
  virtual Result<std::unique_ptr<Recorder>> record(std::string_view name, std::uint32_t timestamps = 0) = 0;

  /// Queues the lists in order. A list that is still running must not be submitted again before wait().
  virtual Result<Ticket> submit(std::span<CommandList* const> lists) = 0;
  virtual Status wait(Ticket ticket, std::chrono::nanoseconds timeout) = 0;

  /// Timestamps of a completed list in ticks; multiply by Caps::timestamp_period_ns.
  virtual Status read_timestamps(CommandList& list, std::span<std::uint64_t> ticks) = 0;

  virtual MemoryStats memory() const = 0;
  /// Bytes that this process may still allocate for device buffers without harm to others, as the driver reckons now.
  virtual std::uint64_t available_memory() const { return kUnknownMemory; }

  /// Kernels created from now on are looked up in this file (see save_pipeline_cache()); one that is damaged, or of
  /// another device or driver, is ignored with a log line.
  virtual Status open_pipeline_cache(const std::string& path) = 0;
  /// Writes the pipeline cache to its file, when one was configured. Losing it costs only time.
  virtual Status save_pipeline_cache() = 0;
};

}  // namespace graft::gpu
