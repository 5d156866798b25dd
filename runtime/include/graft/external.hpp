// graft/external.h for C++.
#pragma once

#include "graft/external.h"
#include "graft/graft.hpp"

namespace graft {
inline namespace v0 {

/// See graft_session_bind; struct_size need not be set.
inline Status bind(Session& session, const std::string& name, graft_external_memory memory) {
  memory.struct_size = sizeof memory;
  return detail::to_status(graft_session_bind(session.get(), name.c_str(), &memory), session.context());
}
/// Ends it: the input or output goes through the host again.
inline Status unbind(Session& session, const std::string& name) {
  return detail::to_status(graft_session_bind(session.get(), name.c_str(), nullptr), session.context());
}

}  // namespace v0
}  // namespace graft
