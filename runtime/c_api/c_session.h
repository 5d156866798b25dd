// What a session of the C ABI is asked for.
#pragma once

#include "runtime/c_api/c_handles.h"

namespace graft::c_api {

/// Formats of inputs.
Result<std::vector<passes::PackedInput>> read_formats(const graft_input_format* formats, std::size_t count);

/// May be null.
Result<SessionOptions> session_options_of(const graft_session_options* given);

}  // namespace graft::c_api
