#include "platform/os/process.h"

#include <sys/types.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include <cerrno>
#include <csignal>
#include <limits>

namespace graft::os {

std::uint64_t process_id() { return static_cast<std::uint64_t>(::getpid()); }

bool process_is_alive(std::uint64_t id) {
  if (id == 0 || id > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())) return false;
  return ::kill(static_cast<pid_t>(id), 0) == 0 || errno != ESRCH;
}

std::string program_path() {
  char path[4096] = "";
#ifdef __APPLE__
  std::uint32_t size = sizeof path;
  return _NSGetExecutablePath(path, &size) == 0 ? path : "";
#else
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  const bool whole = size > 0 && static_cast<std::size_t>(size) < sizeof path;
  return whole ? std::string(path, static_cast<std::size_t>(size)) : std::string();
#endif
}

void become_program(const std::string& path, char** argv) { ::execv(path.c_str(), argv); }

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace graft::os
