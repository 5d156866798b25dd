// The GPU interface: what graft needs from a compute device. It knows nothing of tensors.
//
// Implementations: platform/vulkan (any Vulkan 1.1 device) and platform/null (records, runs nothing).
// Threads: a Device and everything made from it belong to one thread at a time; wait() may block.
// Errors: every call that can fail returns Status or Result. After device_lost, only a new Device can go on.
// Lifetime: buffers, kernels and command lists must be destroyed before their Device.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "platform/gpu/target.h"

namespace graft::gpu {

enum class MemoryKind {
  device,    ///< fastest for kernels; mapped() only where memory is unified
  upload,    ///< host writes, device reads; always mapped
  readback,  ///< device writes, host reads; always mapped, cached on the host where possible
};

/// What Device::available_memory() returns if the device does not tell.
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

/// Memory that another API, device or part of the app allocated, as one whole.
struct ExternalMemory {
  enum class Kind : std::uint8_t {
    opaque_fd,        ///< exported by Vulkan on the same GPU and driver
    dma_buf,          ///< of Linux: cameras, video decoders, displays
    host_pointer,     ///< of the app's own memory
    hardware_buffer,  ///< of Android: an AHardwareBuffer of blobs
  };
  Kind kind{};
  int fd = -1;              ///< of the first two; stays the caller's
  void* pointer = nullptr;  ///< of the others
  std::uint64_t bytes = 0;  ///< of the whole allocation
  /// Index of the memory type that it was allocated with, which opaque_fd needs where the device has several.
  std::optional<std::uint32_t> memory_type = {};
};

struct BufferRange {
  Buffer* buffer = nullptr;
  std::uint64_t offset = 0;  ///< a multiple of Caps::storage_buffer_alignment for bindings, of 4 for copies
  std::uint64_t size = 0;
};

/// A storage buffer's bytes once more, as an array of texels of 1, 2 or 4 words (VkBufferView, R32_UINT and so on).
struct TexelView {
  std::uint32_t binding = 0;  ///< of the storage buffer
  std::uint32_t words = 1;    ///< of a texel
};

/// Describes a pipeline. Its entry point is "main", its bindings are storage buffers 0..bindings-1 of set 0, followed
/// by those of `texels`.
struct KernelDesc {
  std::string_view name;  ///< shown by profilers and in errors
  std::span<const std::uint32_t> spirv;
  std::span<const std::uint32_t> specialization;  ///< constant_id 0, 1, 2, ... as raw 32-bit words
  std::uint32_t bindings = 0;
  std::uint32_t push_bytes = 0;
  std::span<const TexelView> texels = {};
  std::uint32_t subgroup_size = 0;  ///< required, with full subgroups; 0: any
  bool in_parts = false;            ///< dispatches need not begin at workgroup 0; some drivers take longer for such
};

/// What a driver's compiler tells of a kernel, by the driver's own names.
struct KernelReport {
  struct Statistic {
    std::string name;  ///< as in "SGPRs"
    double value = 0;
  };
  struct Text {
    std::string name;  ///< as in "IR3 Assembly"
    std::string text;
  };
  std::uint32_t subgroup_size = 0;  ///< that it was compiled for; 0: the driver says nothing
  std::vector<Statistic> statistics = {};
  std::vector<Text> texts = {};  ///< its forms on the way to machine code, the last one last
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
/// Dispatches and copies of one list are not ordered: call barrier() before one that reads or overwrites what an
/// earlier one wrote or read. Lists are ordered: each begins with a barrier.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// groups are workgroup counts; with `first` each is within Caps::max_workgroup_count. A `first` other than zeros,
  /// the number of the first workgroup, is for kernels with KernelDesc::in_parts.
  virtual void dispatch(Kernel& kernel, std::span<const BufferRange> bindings, std::span<const std::byte> push,
                        std::array<std::uint32_t, 3> groups, std::array<std::uint32_t, 3> first = {}) = 0;
  virtual void copy(const BufferRange& from, const BufferRange& to) = 0;  ///< sizes must be equal
  virtual void fill(const BufferRange& to, std::uint32_t word) = 0;
  /// Orders everything recorded before (dispatch, copy, fill) against everything after, all memory visible,
  /// on the device.
  virtual void barrier() = 0;
  /// As barrier(), and makes device writes visible to the host after the submission completes. Once, at the end.
  virtual void host_barrier() = 0;
  /// Takes an imported buffer over from whoever used it before this list, and gives it back after this list.
  virtual void acquire(Buffer&) {}
  virtual void release(Buffer&) {}
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
  std::uint64_t reserved_bytes = 0;  ///< allocated from the driver now; >= bytes, as small buffers share allocations
};

class Device {
 public:
  virtual ~Device() = default;
  /// What plans for this device are made for.
  virtual const Target& target() const = 0;
  const Caps& caps() const { return target().caps; }
  /// Replaces target().advice: plans made from now on follow it.
  virtual void set_advice(Advice advice) = 0;

  /// Memory of a new device buffer is undefined. `name` shows in tools and in errors.
  virtual Result<std::unique_ptr<Buffer>> create_buffer(std::uint64_t bytes, MemoryKind kind,
                                                        std::string_view name) = 0;

  /// A buffer over all of the memory, which must outlive it. Nothing else may use it while submissions that do run.
  /// unsupported where the device or its driver cannot; invalid_argument for sizes or addresses that do not suit it.
  virtual Result<std::unique_ptr<Buffer>> import_buffer(const ExternalMemory&, std::string_view name) {
    return unsupported("The device cannot import the memory of \"", name, "\".");
  }

  /// Creates all pipelines in one batch; the pipeline cache is used and updated. All or nothing.
  virtual Result<std::vector<std::unique_ptr<Kernel>>> create_kernels(std::span<const KernelDesc> kernels) = 0;

  /// What the driver tells of a kernel of this device. unsupported where it tells nothing, or was not asked to when the
  /// device was opened.
  virtual Result<KernelReport> report(const Kernel&) { return unsupported("The device tells nothing of its kernels."); }

  /// A list starts with an implicit barrier(): it is ordered after every list submitted before it.
  virtual Result<std::unique_ptr<Recorder>> record(std::string_view name, std::uint32_t timestamps = 0) = 0;

  /// Queues the lists in order. A list that is still running must not be submitted again before wait().
  virtual Result<Ticket> submit(std::span<CommandList* const> lists) = 0;
  virtual Status wait(Ticket ticket, std::chrono::nanoseconds timeout) = 0;

  /// Timestamps of a completed list in ticks; multiply by Caps::timestamp_period_ns.
  virtual Status read_timestamps(CommandList& list, std::span<std::uint64_t> ticks) = 0;

  virtual MemoryStats memory() const = 0;
  /// Bytes that this process may still allocate for device buffers, as the driver estimates now.
  virtual std::uint64_t available_memory() const { return kUnknownMemory; }

  /// Kernels created from now on are looked up in this file (see save_pipeline_cache()); one that is damaged, or of
  /// another device or driver, is ignored with a log line.
  virtual Status open_pipeline_cache(const std::string& path) = 0;
  /// Writes the pipeline cache to its file, when one was configured. Losing it costs only time.
  virtual Status save_pipeline_cache() = 0;
};

}  // namespace graft::gpu
