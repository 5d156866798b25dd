#include "platform/os/pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace graft::os {

Pages::Pages(std::size_t bytes) : block_bytes_(bytes + kLargePage) {  // what is too much is never touched
  void* block = ::mmap(nullptr, block_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return;
  block_ = block;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  data_ = static_cast<std::byte*>(block) + (kLargePage - address % kLargePage) % kLargePage;
#if defined(MADV_HUGEPAGE)
  (void)::madvise(data_, bytes, MADV_HUGEPAGE);  // a wish: without it these are small pages
#endif
}

Pages::~Pages() {
  if (block_ != nullptr) ::munmap(block_, block_bytes_);
}

}  // namespace graft::os
