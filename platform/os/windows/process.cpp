#include "platform/os/process.h"

#include <limits>

#include "platform/os/windows/wide.h"

namespace graft::os {

std::uint64_t process_id() { return GetCurrentProcessId(); }

bool process_is_alive(std::uint64_t id) {
  if (id == 0 || id > std::numeric_limits<DWORD>::max()) return false;
  const HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, static_cast<DWORD>(id));
  if (process == nullptr) return GetLastError() != ERROR_INVALID_PARAMETER;  // which says that there is none
  const bool alive = WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
  CloseHandle(process);
  return alive;
}

std::string host_name() {
  char name[256] = "";
  DWORD size = sizeof name;
  return GetComputerNameExA(ComputerNameDnsHostname, name, &size) != 0 ? name : "";
}

}  // namespace graft::os
