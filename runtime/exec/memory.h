// Device memory of a session: residents, one transient arena shared by all programs, the step state, and staging.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/kernels/kernel_cache.h"
#include "runtime/plan/plan.h"

namespace graft {

/// Owns the buffers that plans refer to. Nothing is allocated after create().
///
/// Threads: one at a time, like the device. Lifetime: outlives its programs, not its device. Programs of one Memory
/// share the arena and the staging: they run one after the other, and outputs are read before the next runs.
class Memory {
 public:
  /// Allocates for these residents and for every one of these plans (all made with the same residents).
  /// Memory of residents is undefined until written. A failure frees whatever was allocated.
  static Result<std::unique_ptr<Memory>> create(gpu::Device& device, const Residents& residents,
                                                std::span<const Plan* const> plans);

  /// What create() will allocate. The arena's classes are those of the plan with the largest arena.
  static MemoryByClass planned(const Residents& residents, std::span<const Plan* const> plans);

  /// Bytes of the buffers that were created; equal to planned().total().
  std::uint64_t allocated_bytes() const;

  /// Writes bytes of a resident from `offset` on: through mapped memory where there is any, otherwise in pieces through
  /// staging of its own: inputs and outputs that lie in theirs stay. Waits until it is done. Offset and end are
  /// multiples of 4, unless the end is that of the value. A resident that is kept in 16 bits takes f32 too, rounded on
  /// the way; the multiples are then of 8. not_found, invalid_argument (outside the value; a number that its 16 bits
  /// cannot hold), timeout, device_lost.
  Status write(std::string_view name, std::span<const std::byte> bytes, std::uint64_t offset = 0);
  /// The same the other way.
  Status read(std::string_view name, std::span<std::byte> bytes, std::uint64_t offset = 0);
  /// Writes all of a resident. Of a streamed one only the place of its bytes is noted: they must outlive this
  /// object.
  Status provide(std::string_view name, std::span<const std::byte> bytes);
  /// Bytes of a resident that are put elsewhere in it, as the device keeps them; all are multiples of 4.
  struct Move {
    std::string_view name;
    std::uint64_t from = 0, to = 0, bytes = 0;
  };
  /// One submission for all; no two may write to one place, or read where another writes. As write().
  Status move(std::span<const Move> moves);
  /// Sets every 32-bit word of a resident.
  Status fill(std::string_view name, std::uint32_t word);

  /// How long write, read and fill wait for the device.
  void set_timeout(std::chrono::nanoseconds timeout) { timeout_ = timeout; }

  /// Whether residents are moved through mapped memory where there is such (default), or always through staging.
  void set_use_mapped(bool use) { use_mapped_ = use; }

  gpu::Device& device() { return device_; }
  const Residents& residents() const { return residents_; }
  KernelCache& kernels() { return kernels_; }

  /// The buffer behind a range of a space. Requires that it lies within one segment.
  gpu::BufferRange range(Space space, std::uint64_t offset, std::uint64_t size);
  /// Host views of the staging.
  std::span<std::byte> upload() { return upload_ ? upload_->mapped() : std::span<std::byte>(); }
  std::span<std::byte> readback() { return readback_ ? readback_->mapped() : std::span<std::byte>(); }
  /// Bytes of a streamed resident (an index into Residents::entries()); empty where none were provided.
  std::span<const std::byte> source(std::uint32_t resident) const { return sources_[resident]; }
  /// The source bytes that a refill brings: fewer than its room where they end within the last word.
  std::span<const std::byte> source(const Refill& refill) const;
  /// Where the host puts a refill's bytes.
  std::byte* target(const Plan& plan, const Refill& refill);
  /// Whether a plan's needs are covered by what was allocated.
  bool covers(const Plan& plan) const;

 private:
  Memory(gpu::Device& device, const Residents& residents) : device_(device), residents_(residents), kernels_(device) {}

  Status allocate(std::span<const Plan* const> plans);
  Status allocate_segments(std::uint64_t bytes, gpu::MemoryKind kind, std::string_view name,
                           std::vector<std::unique_ptr<gpu::Buffer>>& out);
  Result<const Resident*> find(std::string_view name, std::uint64_t offset, std::uint64_t size) const;
  std::byte* mapped(const gpu::BufferRange& range) const;
  std::uint64_t transfer_offset(const gpu::Buffer& staging) const;
  Status check_numbers(const Resident& resident, std::span<const std::byte> bytes) const;
  Status submit_copy(const gpu::BufferRange& from, const gpu::BufferRange& to);
  Status submit(gpu::Recorder& recorder);

  gpu::Device& device_;
  Residents residents_;
  KernelCache kernels_;
  std::vector<std::unique_ptr<gpu::Buffer>> resident_;
  std::vector<std::unique_ptr<gpu::Buffer>> transient_;
  std::vector<std::unique_ptr<gpu::Buffer>> stream_;
  std::vector<std::unique_ptr<gpu::Buffer>> stream_staging_;
  std::vector<std::span<const std::byte>> sources_;  ///< per resident: of those that are streamed
  std::unique_ptr<gpu::Buffer> step_state_;
  std::unique_ptr<gpu::Buffer> upload_;
  std::unique_ptr<gpu::Buffer> readback_;
  std::uint64_t transient_bytes_ = 0;
  std::uint64_t stream_bytes_ = 0;
  std::uint64_t stream_staging_bytes_ = 0;
  bool use_mapped_ = true;
  std::chrono::nanoseconds timeout_ = std::chrono::seconds(60);
};

}  // namespace graft
