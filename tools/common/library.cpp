#include "tools/common/library.h"

#include "platform/os/dynamic_library.h"

namespace graft::cli {

Result<Library> Library::open(const std::string& name) {
  auto library = os::DynamicLibrary::open(name);
  if (!library.ok()) return Status(library.status());
  Library made;
  made.loaded_ = std::make_shared<const os::DynamicLibrary>(std::move(*library));
  return made;
}

void* Library::find(const char* symbol) const {
  return static_cast<const os::DynamicLibrary*>(loaded_.get())->find(symbol);
}

}  // namespace graft::cli
