#include <stdlib.h>  // declares rand_s where _CRT_RAND_S is defined: platform/CMakeLists.txt

#include <algorithm>
#include <cstring>

#include "platform/os/entropy.h"

namespace graft::os {

Status fill_with_entropy(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    unsigned int word = 0;
    if (rand_s(&word) != 0) return error(Code::io_error, "The system gave no random numbers.");
    const std::size_t some = std::min(bytes.size(), sizeof word);
    std::memcpy(bytes.data(), &word, some);
    bytes = bytes.subspan(some);
  }
  return ok_status();
}

}  // namespace graft::os
