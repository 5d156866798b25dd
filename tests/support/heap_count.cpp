#include "tests/support/heap_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::uint64_t> allocations{0}, bytes_asked_for{0};
}

namespace graft::test {
std::uint64_t heap_allocations() { return allocations; }
std::uint64_t heap_bytes_asked_for() { return bytes_asked_for; }
}  // namespace graft::test

// The array, nothrow and sized forms call these. Aligned forms keep the library's. A sanitizer has its own, which must
// not be replaced by halves: nothing is counted in its builds.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t bytes) {
  ++allocations;
  bytes_asked_for += bytes;
  if (void* block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
#endif
