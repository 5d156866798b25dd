// Reads numbers and strings from bytes that may end anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "platform/base/checked.h"
#include "platform/base/status.h"

namespace graft {

/// Little endian. Every error is corrupt and names the offset. The bytes must outlive what is read from them.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t offset() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }

  template <typename T>
  Result<T> number() {
    GRAFT_TRY_ASSIGN(const std::span<const std::byte> from, take(sizeof(T)));
    T out;
    std::memcpy(&out, from.data(), sizeof(T));
    return out;
  }

  Result<std::span<const std::byte>> take(std::uint64_t size) {
    if (!in_bounds(at_, size, bytes_.size())) {
      return corrupt("The file ends too early: ", size, " bytes are needed at offset ", at_, ", but only ", left(),
                     " follow.");
    }
    const auto out = bytes_.subspan(at_, size);
    at_ += size;
    return out;
  }

  Result<std::string_view> text(std::uint64_t size) {
    GRAFT_TRY_ASSIGN(const std::span<const std::byte> from, take(size));
    return std::string_view(reinterpret_cast<const char*>(from.data()), from.size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
};

}  // namespace graft
