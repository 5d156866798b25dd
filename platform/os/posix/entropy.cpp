#include "platform/os/entropy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace graft::os {

// Not getentropy(), which Android has from API level 28 on only.
Status fill_with_entropy(std::span<std::byte> bytes) {
  const int device = ::open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  while (device >= 0 && !bytes.empty()) {
    const ssize_t count = ::read(device, bytes.data(), bytes.size());
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      break;
    }
  }
  if (device >= 0) ::close(device);
  return bytes.empty() ? ok_status() : error(Code::io_error, "\"/dev/urandom\" gave no random bytes.");
}

}  // namespace graft::os
