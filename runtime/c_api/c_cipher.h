// Encryption by callbacks of the app.
#pragma once

#include <memory>

#include "graft/checkpoint.h"
#include "platform/base/status.h"
#include "runtime/checkpoint/cipher.h"

namespace graft::c_api {

/// Null where none is given.
Result<std::unique_ptr<checkpoint::Cipher>> read_cipher(const graft_cipher* given);

}  // namespace graft::c_api
