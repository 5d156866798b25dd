// Libraries that a command loads when it needs them.
#pragma once

#include <memory>
#include <string>

#include "tools/common/status.h"

namespace graft::cli {

/// Stays loaded as long as it, or a copy, lives.
class Library {
 public:
  Library() = default;
  /// `name` is a path or a name that the system's search finds. not_found carries the system's own reason.
  static Result<Library> open(const std::string& name);

  /// The address of `symbol`, or null.
  template <typename Function>
  Function find_as(const char* symbol) const {
    return reinterpret_cast<Function>(find(symbol));
  }

 private:
  void* find(const char* symbol) const;

  std::shared_ptr<const void> loaded_;
};

}  // namespace graft::cli
