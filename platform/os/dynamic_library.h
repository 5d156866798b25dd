// Loading a shared library at run time.
#pragma once

#include <string>

#include "platform/base/status.h"

namespace graft::os {

/// Owns a loaded library; unloads it when destroyed. Movable.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;
  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;

  /// `name` is a path or a name that the system's search finds. not_found carries the system's own reason.
  static Result<DynamicLibrary> open(const std::string& name);

  /// It stays loaded until the process ends.
  void keep() { handle_ = nullptr; }

  /// The address of `symbol`, or null.
  void* find(const char* symbol) const;

  template <typename Function>
  Function find_as(const char* symbol) const {
    return reinterpret_cast<Function>(find(symbol));
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace graft::os
