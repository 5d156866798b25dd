#include "platform/gpu/checks.h"

#include <algorithm>

#include "platform/base/checked.h"

namespace graft::gpu {
namespace {

constexpr std::uint32_t kSpirvMagic = 0x07230203;
constexpr std::size_t kSpirvHeaderWords = 5;
// Whatever a device claims: sizes up to here can be rounded up and added without overflow.
constexpr std::uint64_t kMaxBufferBytes = 1ull << 62;

/// `what` makes the range's name, and is called only for an error: recordings have thousands of ranges.
template <typename What>
Status check_range(const BufferRange& range, std::uint64_t alignment, const What& what) {
  if (range.buffer == nullptr) return invalid(what(), " has no buffer.");
  const Buffer& buffer = *range.buffer;
  if (range.offset % alignment != 0) {
    return invalid(what(), " starts at byte ", range.offset, " of buffer \"", buffer.name(),
                   "\", not at a multiple of ", alignment, ".");
  }
  if (range.size == 0) return invalid(what(), " has 0 bytes of buffer \"", buffer.name(), "\".");
  if (!in_bounds(range.offset, range.size, usable_size(buffer.size()))) {
    return invalid(what(), " covers ", range.size, " bytes from byte ", range.offset, " of buffer \"", buffer.name(),
                   "\", which has ", buffer.size(), ".");
  }
  return ok_status();
}

}  // namespace

Status check_runs(const Caps& caps) {
  if (!caps.compiles_only) return ok_status();
  return unsupported("The device \"", caps.device_name,
                     "\" only compiles kernels: no hardware stands behind its driver, and nothing runs on it.");
}

Status check_buffer_size(std::uint64_t bytes, std::string_view name, const Caps& caps) {
  if (bytes == 0) return invalid("Buffer \"", name, "\" has 0 bytes; a buffer needs at least 1.");
  const std::uint64_t limit = std::min(caps.max_allocation, kMaxBufferBytes);
  if (bytes > limit) {
    return error(Code::out_of_memory, "Buffer \"", name, "\" needs ", bytes_text(bytes), ", but one allocation on \"",
                 caps.device_name, "\" holds at most ", bytes_text(limit), ".");
  }
  return ok_status();
}

Status check_kernel(const KernelDesc& desc, const Caps& caps) {
  if (desc.spirv.size() < kSpirvHeaderWords || desc.spirv[0] != kSpirvMagic) {
    return invalid("Kernel \"", desc.name, "\" has no SPIR-V in its ", desc.spirv.size(), " words.");
  }
  if (desc.bindings > caps.max_storage_buffers_per_stage) {
    return unsupported("Kernel \"", desc.name, "\" binds ", desc.bindings, " buffers, but \"", caps.device_name,
                       "\" takes at most ", caps.max_storage_buffers_per_stage, ".");
  }
  if (desc.push_bytes % 4 != 0 || desc.push_bytes > caps.max_push_constants) {
    return unsupported("Kernel \"", desc.name, "\" has ", desc.push_bytes, " bytes of push constants; \"",
                       caps.device_name, "\" takes a multiple of 4 up to ", caps.max_push_constants, ".");
  }
  return ok_status();
}

Status check_dispatch(const KernelShape& kernel, std::span<const BufferRange> bindings, std::size_t push_bytes,
                      const std::array<std::uint32_t, 3>& groups, const std::array<std::uint32_t, 3>& first,
                      const Caps& caps) {
  if (bindings.size() != kernel.bindings) {
    return invalid("Kernel \"", kernel.name, "\" takes ", kernel.bindings, " bindings, but got ", bindings.size(), ".");
  }
  if (push_bytes != kernel.push_bytes) {
    return invalid("Kernel \"", kernel.name, "\" takes ", kernel.push_bytes, " push bytes, but got ", push_bytes, ".");
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] > caps.max_workgroup_count[i] || first[i] > caps.max_workgroup_count[i] - groups[i]) {
      return invalid("Kernel \"", kernel.name, "\" got ", groups[i], " workgroups",
                     first[i] == 0 ? "" : cat(" from number ", first[i], " on"), " in dimension ", i,
                     "; the device allows ", caps.max_workgroup_count[i], ".");
    }
    if (first[i] != 0 && !kernel.in_parts) {
      return invalid("Kernel \"", kernel.name, "\" was not made to be dispatched in parts.");
    }
  }
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const auto what = [&] { return cat("Binding ", i, " of kernel \"", kernel.name, "\""); };
    GRAFT_TRY(check_range(bindings[i], caps.storage_buffer_alignment, what));
    if (bindings[i].size > caps.max_storage_buffer_range) {
      return invalid(what(), " has ", bytes_text(bindings[i].size), "; the device allows ",
                     bytes_text(caps.max_storage_buffer_range), ".");
    }
  }
  return ok_status();
}

Status check_copy(const BufferRange& from, const BufferRange& to) {
  GRAFT_TRY(check_range(from, 4, [] { return "The source of a copy"; }));
  GRAFT_TRY(check_range(to, 4, [] { return "The target of a copy"; }));
  if (from.size != to.size) return invalid("A copy of ", from.size, " bytes into ", to.size, " bytes was asked for.");
  if (from.buffer == to.buffer && from.offset < to.offset + to.size && to.offset < from.offset + from.size) {
    return invalid("A copy of ", from.size, " bytes within buffer \"", from.buffer->name(), "\" overlaps itself: from ",
                   from.offset, " to ", to.offset, ".");
  }
  return ok_status();
}

Status check_fill(const BufferRange& to) {
  GRAFT_TRY(check_range(to, 4, [] { return "A fill"; }));
  if (to.size % 4 != 0) return invalid("A fill of ", to.size, " bytes was asked for; it must be a multiple of 4.");
  return ok_status();
}

}  // namespace graft::gpu
