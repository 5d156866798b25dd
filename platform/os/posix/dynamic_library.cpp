#include "platform/os/dynamic_library.h"

#include <dlfcn.h>

#include <utility>

namespace graft::os {

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Result<DynamicLibrary> DynamicLibrary::open(const std::string& name) {
  DynamicLibrary library;
  library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle_ == nullptr) {
    const char* reason = dlerror();
    return error(Code::not_found, "The library \"", name,
                 "\" could not be loaded: ", reason ? reason : "no reason given", ".");
  }
  return library;
}

void* DynamicLibrary::find(const char* symbol) const { return handle_ == nullptr ? nullptr : dlsym(handle_, symbol); }

}  // namespace graft::os
