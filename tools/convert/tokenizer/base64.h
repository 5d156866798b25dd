// Bytes within texts (RFC 4648).
#pragma once

#include <string>
#include <string_view>

#include "platform/base/status.h"

namespace graft::convert {

std::string to_base64(std::string_view bytes);

/// With or without padding at the end. corrupt: a character that is none of base64's.
Result<std::string> from_base64(std::string_view text);

}  // namespace graft::convert
