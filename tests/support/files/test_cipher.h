// A real cipher for stores: ChaCha20-Poly1305 of OpenSSL, with a random nonce in front.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/checkpoint/cipher.h"

namespace graft::test {

/// Null where the tests were built without OpenSSL. `key` fills the 32 bytes of the key.
std::unique_ptr<checkpoint::Cipher> make_cipher(std::uint8_t key);

}  // namespace graft::test
