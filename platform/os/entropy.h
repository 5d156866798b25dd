// Random bytes that nobody can foretell.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "platform/base/status.h"

namespace graft::os {

/// From the system's generator for keys. io_error where it gives none. Any thread.
Status fill_with_entropy(std::span<std::byte> bytes);

/// 16 hexadecimal digits of it, for names of temporary files.
Result<std::string> random_name();

}  // namespace graft::os
