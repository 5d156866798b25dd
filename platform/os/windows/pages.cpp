#include "platform/os/pages.h"

#include <windows.h>

#include <cstdint>

namespace graft::os {

// Large pages need a privilege there: these are small ones.
Pages::Pages(std::size_t bytes) : block_bytes_(bytes + kLargePage) {
  block_ = ::VirtualAlloc(nullptr, block_bytes_, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  const auto address = reinterpret_cast<std::uintptr_t>(block_);
  data_ = static_cast<std::byte*>(block_) + (kLargePage - address % kLargePage) % kLargePage;
}

Pages::~Pages() {
  if (block_ != nullptr) ::VirtualFree(block_, 0, MEM_RELEASE);
}

}  // namespace graft::os
