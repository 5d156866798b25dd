#include "platform/os/process.h"

#include <process.h>

#include <cstdlib>
#include <limits>
#include <vector>

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

std::string program_path() {
  wchar_t path[4096];
  const DWORD size = GetModuleFileNameW(nullptr, path, 4096);
  return size > 0 && size < 4096 ? narrow(path) : std::string();
}

void become_program(const std::string& path, char** argv) {
  std::vector<std::wstring> words;
  for (char** word = argv; *word != nullptr; ++word) words.push_back(L'"' + wide(*word) + L'"');
  std::vector<const wchar_t*> pointers;
  for (const std::wstring& word : words) pointers.push_back(word.c_str());
  pointers.push_back(nullptr);
  const auto code = _wspawnv(_P_WAIT, wide(path).c_str(), pointers.data());
  if (code != -1) std::exit(static_cast<int>(code));
}

std::string host_name() {
  char name[256] = "";
  DWORD size = sizeof name;
  return GetComputerNameExA(ComputerNameDnsHostname, name, &size) != 0 ? name : "";
}

}  // namespace graft::os
