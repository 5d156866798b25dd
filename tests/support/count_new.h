// Counts the host allocations of this process. Include it in one source file of a test program only: it replaces
// the global operator new.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace graft::test {
inline std::atomic<unsigned long long> new_calls = 0;
}

// GCC cannot see that these belong together.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes) {
  ++graft::test::new_calls;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
#pragma GCC diagnostic pop
