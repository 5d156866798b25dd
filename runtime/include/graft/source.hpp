// What graft.hpp says of models that are no files of their own. Included by graft.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "graft/graft.h"
#include "graft/thrown.hpp"

namespace graft {
inline namespace v0 {

/// Where the bytes of one .graft file are; see graft_source.
class Source {
 public:
  /// Fills `out` with the bytes from `offset` on; false: failed. If it throws, the call that reads throws the same.
  using Reader = std::function<bool(std::uint64_t offset, std::span<std::byte> out)>;

  /// Borrowed: starts at a multiple of 8 bytes and stays as it is while the model lives.
  static Source borrow(std::span<const std::byte> bytes, std::string name = {}) {
    Source source(GRAFT_SOURCE_MEMORY, bytes.size(), std::move(name));
    source.data_ = bytes.data();
    return source;
  }
  /// Copied while the model is loaded.
  static Source copy(std::span<const std::byte> bytes, std::string name = {}) {
    Source source = borrow(bytes, std::move(name));
    source.copy_ = true;
    return source;
  }
  /// A part of an open file, which may be closed afterwards; bytes = 0: to its end.
  static Source descriptor(int descriptor, std::uint64_t offset = 0, std::uint64_t bytes = 0, std::string name = {}) {
    Source source(GRAFT_SOURCE_DESCRIPTOR, bytes, std::move(name));
    source.descriptor_ = descriptor;
    source.offset_ = offset;
    return source;
  }
  /// Read through a function, `bytes` in all, into memory of the context's allocator.
  static Source reader(Reader read, std::uint64_t bytes, std::string name = {}) {
    Source source(GRAFT_SOURCE_READER, bytes, std::move(name));
    source.read_ = std::move(read);
    return source;
  }

  /// Valid as long as this object, unmoved.
  graft_source raw() const {
    graft_source raw{};
    raw.struct_size = sizeof raw;
    raw.kind = kind_;
    raw.name = name_.empty() ? nullptr : name_.c_str();
    raw.bytes = bytes_;
    raw.data = data_;
    raw.copy = copy_ ? 1 : 0;
    raw.descriptor = descriptor_;
    raw.offset = offset_;
    if (read_) {
      raw.user = const_cast<Source*>(this);  // handed back as const
      raw.read = [](void* user, std::uint64_t offset, std::size_t bytes, void* out) {
        const std::span to(static_cast<std::byte*>(out), bytes);
        const auto& of = *static_cast<const Source*>(user);
        return detail::Thrown::caught(nullptr, false, [&] { return of.read_(offset, to); }) ? 0 : 1;
      };
    }
    return raw;
  }

 private:
  Source(graft_source_kind kind, std::uint64_t bytes, std::string name)
      : kind_(kind), name_(std::move(name)), bytes_(bytes) {}
  graft_source_kind kind_;
  std::string name_;
  std::uint64_t bytes_;
  const void* data_ = nullptr;
  bool copy_ = false;
  int descriptor_ = -1;
  std::uint64_t offset_ = 0;
  Reader read_;
};

}  // namespace v0
}  // namespace graft
