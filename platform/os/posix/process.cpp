#include "platform/os/process.h"

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <limits>

namespace graft::os {

std::uint64_t process_id() { return static_cast<std::uint64_t>(::getpid()); }

bool process_is_alive(std::uint64_t id) {
  if (id == 0 || id > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())) return false;
  return ::kill(static_cast<pid_t>(id), 0) == 0 || errno != ESRCH;
}

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace graft::os
