// The secret of workers that were given none.
#pragma once

#include <string>

#include "platform/base/status.h"

namespace graft::gloo_group {

/// The same for all processes of this user on this machine: 64 hexadecimal digits of the file graft/secret in
/// XDG_CACHE_HOME or ~/.cache, mode 600. Made where it is missing. An error where another user may read it.
Result<std::string> secret_of_user();

}  // namespace graft::gloo_group
