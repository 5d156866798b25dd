#include "runtime/exec/host_state.h"

namespace graft {

Status read_residents(Memory& memory, const std::function<bool(const Resident&)>& wanted, HostState& state,
                      const HostAllocator& allocator) {
  for (const Resident& resident : memory.residents().entries()) {
    if (resident.streamed || !wanted(resident)) continue;
    HostBuffer& contents = state[resident.name];
    if (contents.size() != resident.bytes) {
      GRAFT_TRY_ASSIGN(contents, HostBuffer::create(resident.bytes, "what the device gives back", allocator));
    }
    GRAFT_TRY(memory.read(resident.name, contents.bytes()));
  }
  return ok_status();
}

Status write_residents(Memory& memory, const HostState& state) {
  for (const auto& [name, contents] : state) GRAFT_TRY(memory.write(name, contents.bytes()));
  return ok_status();
}

}  // namespace graft
