// Bytes with a page behind them that nothing may touch: who reads or writes past the end is killed on the spot.
#pragma once

#ifdef _WIN32
#include "platform/os/windows/wide.h"
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <cstddef>
#include <cstring>
#include <span>

#include "platform/base/check.h"

namespace graft::test {

class GuardedBytes {
 public:
  explicit GuardedBytes(std::span<const std::byte> contents) : GuardedBytes(contents.size()) {
    if (!contents.empty()) std::memcpy(bytes().data(), contents.data(), contents.size());
  }
  explicit GuardedBytes(std::size_t size) : size_(size) {
    const std::size_t page = page_bytes();
    room_ = (size + page - 1) / page * page;
    map(room_ + page, page);
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::span<std::byte> bytes() { return {at_ + room_ - size_, size_}; }

#ifdef _WIN32
  ~GuardedBytes() { VirtualFree(at_, 0, MEM_RELEASE); }

 private:
  static std::size_t page_bytes() {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
  }
  void map(std::size_t size, std::size_t guard) {
    at_ = static_cast<std::byte*>(VirtualAlloc(nullptr, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE));
    GRAFT_CHECK(at_ != nullptr);
    DWORD before = 0;
    GRAFT_CHECK(VirtualProtect(at_ + size - guard, guard, PAGE_NOACCESS, &before) != 0);
  }
#else
  ~GuardedBytes() { munmap(at_, mapped_); }

 private:
  static std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  void map(std::size_t size, std::size_t guard) {
    mapped_ = size;
    void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    GRAFT_CHECK(at != MAP_FAILED);
    at_ = static_cast<std::byte*>(at);
    GRAFT_CHECK(mprotect(at_ + size - guard, guard, PROT_NONE) == 0);
  }
  std::size_t mapped_ = 0;
#endif
  std::size_t size_ = 0, room_ = 0;
  std::byte* at_ = nullptr;
};

}  // namespace graft::test
