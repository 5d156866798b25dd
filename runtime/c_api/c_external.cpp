#include "graft/external.h"

#include "runtime/c_api/c_handles.h"

using namespace graft;
using namespace graft::c_api;

graft_status graft_session_bind(graft_session* session, const char* name, const graft_external_memory* memory) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context, [&]() -> Status {
    if (name == nullptr) return invalid("graft_session_bind needs a name.");
    if (memory == nullptr) return session->session->bind(name, std::nullopt);
    GRAFT_TRY_ASSIGN(const graft_external_memory given, read_options(memory, "graft_external_memory"));
    const auto kind = static_cast<unsigned>(given.kind);
    if (kind > GRAFT_EXTERNAL_HARDWARE_BUFFER) return invalid("There is no kind number ", kind, " of external memory.");
    gpu::ExternalMemory external{
        static_cast<gpu::ExternalMemory::Kind>(kind), given.fd, given.pointer, given.bytes, {}};
    if (given.own_memory_type != 0) external.memory_type = given.memory_type;
    return session->session->bind(name, external, given.offset);
  });
}
