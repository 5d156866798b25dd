// Makes heap allocation k of graft's code fail, and counts what such code allocates and still holds. Replaces operator
// new and delete of the program: include this in one file of a test program, and do not use heap_count.h there.
//
// Drivers are shared libraries that would take the program's operators and templates for their own, and do not survive
// a failure: such a program exports nothing (tests/support/no_exports.map), so that only its own code is counted. That
// includes std::string, which C++20 instantiates where it is used. A block may therefore be taken from here and given
// back in a library, or the other way around: blocks are plain malloc, and those that count are noted apart.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_set>

namespace graft::test::heap_faults {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kReplaced = false;  // a sanitizer has its own operators
#else
inline constexpr bool kReplaced = true;
#endif

struct State {
  std::atomic<bool> armed{false};
  std::atomic<std::uint64_t> calls{0};      // since arm()
  std::atomic<std::uint64_t> fail_call{0};  // from 1; 0: none
  std::atomic<bool> fired{false};
  std::atomic<std::int64_t> live{0};  // blocks that were allocated while armed
};
inline State state;

/// Allocates by malloc alone.
template <typename T>
struct Plain {
  using value_type = T;
  Plain() = default;
  template <typename U>
  Plain(const Plain<U>&) {}  // NOLINT: as allocators convert
  T* allocate(std::size_t count) {
    return static_cast<T*>(std::malloc(count * sizeof(T)));  // NOLINT(bugprone-sizeof-expression): of pointers too
  }
  void deallocate(T* block, std::size_t) { std::free(block); }
  friend bool operator==(Plain, Plain) { return true; }
};

struct Noted {
  std::mutex mutex;
  std::unordered_set<void*, std::hash<void*>, std::equal_to<>, Plain<void*>> blocks;
};

/// Never destroyed: blocks are given back until the program's end.
inline Noted& noted() {
  alignas(Noted) static char memory[sizeof(Noted)];
  static auto* made = new (memory) Noted();
  return *made;
}

/// The next fault; also for allocators of other kinds, which count their own blocks.
inline bool next_fails() {
  const std::uint64_t call = ++state.calls;
  if (call != state.fail_call) return false;
  state.fired = true;
  return true;
}

inline void* allocate(std::size_t bytes) {
  const bool counted = state.armed;
  if (counted && next_fails()) return nullptr;
  void* block = std::malloc(bytes == 0 ? 1 : bytes);
  if (counted && block != nullptr) {
    const std::lock_guard lock(noted().mutex);
    noted().blocks.insert(block);
    ++state.live;
  }
  return block;
}

inline void release(void* block) {
  if (block != nullptr && state.live > 0) {
    const std::lock_guard lock(noted().mutex);
    state.live -= static_cast<std::int64_t>(noted().blocks.erase(block));
  }
  std::free(block);
}

inline void arm(std::uint64_t fail_call) {
  state.calls = 0;
  state.fired = false;
  state.fail_call = fail_call;
  state.armed = true;
}
inline std::uint64_t disarm() {
  state.armed = false;
  return state.calls;
}

}  // namespace graft::test::heap_faults

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The array and sized forms call these. Aligned forms keep the library's.
void* operator new(std::size_t bytes) {
  if (void* block = graft::test::heap_faults::allocate(bytes)) return block;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return graft::test::heap_faults::allocate(bytes);
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept { return operator new(bytes, tag); }
void operator delete(void* block) noexcept { graft::test::heap_faults::release(block); }
void operator delete(void* block, std::size_t) noexcept { graft::test::heap_faults::release(block); }
void operator delete[](void* block) noexcept { graft::test::heap_faults::release(block); }
void operator delete[](void* block, std::size_t) noexcept { graft::test::heap_faults::release(block); }
#endif
