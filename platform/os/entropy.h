// Random bytes that nobody can foretell.
#pragma once

#include <cstddef>
#include <span>

#include "platform/base/status.h"

namespace graft::os {

/// From the system's generator for keys. io_error where it gives none. Any thread.
Status fill_with_entropy(std::span<std::byte> bytes);

}  // namespace graft::os
