// Bytes with a page behind them that nothing may touch: who reads or writes past the end is killed on the spot.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

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
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    room_ = (size + page - 1) / page * page;
    mapped_ = room_ + page;
    void* const at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    GRAFT_CHECK(at != MAP_FAILED);
    at_ = static_cast<std::byte*>(at);
    GRAFT_CHECK(mprotect(at_ + room_, page, PROT_NONE) == 0);
  }
  ~GuardedBytes() { munmap(at_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::span<std::byte> bytes() { return {at_ + room_ - size_, size_}; }

 private:
  std::size_t size_ = 0, room_ = 0, mapped_ = 0;
  std::byte* at_ = nullptr;
};

}  // namespace graft::test
