#include "platform/os/dynamic_library.h"

#include <utility>

#include "platform/os/windows/wide.h"

namespace graft::os {

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) FreeLibrary(static_cast<HMODULE>(handle_));
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Result<DynamicLibrary> DynamicLibrary::open(const std::string& name) {
  DynamicLibrary library;
  library.handle_ = LoadLibraryW(wide(name).c_str());
  if (library.handle_ == nullptr) {
    return error(Code::not_found, "The library \"", name, "\" could not be loaded: ", system_reason(GetLastError()),
                 ".");
  }
  return library;
}

void* DynamicLibrary::find(const char* symbol) const {
  if (handle_ == nullptr) return nullptr;
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), symbol));
}

}  // namespace graft::os
