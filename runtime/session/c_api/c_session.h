// What a session of the C ABI is asked for.
#pragma once

#include "runtime/session/c_api/c_handles.h"

namespace graft::c_api {

/// May be null.
Result<SessionOptions> session_options_of(const graft_session_options* given);

}  // namespace graft::c_api
