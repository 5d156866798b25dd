// Contents of residents with the host, while the device holds none of them.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "platform/base/allocator.h"
#include "runtime/exec/memory.h"

namespace graft {

using HostState = std::map<std::string, HostBuffer, std::less<>>;

/// Reads the residents that are `wanted` and not streamed, into the buffers that `state` has already, where it has any.
/// A failure leaves `state` part old, part new.
Status read_residents(Memory& memory, const std::function<bool(const Resident&)>& wanted, HostState& state,
                      const HostAllocator& allocator = default_host_allocator());
/// Writes them back. The memory has all of them.
Status write_residents(Memory& memory, const HostState& state);

}  // namespace graft
