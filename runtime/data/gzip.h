// Reading gzip files as a stream: several members one after another, checksums verified, memory bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "platform/base/allocator.h"
#include "platform/os/file.h"

namespace graft::data {

/// True for the two bytes that start every gzip file.
bool is_gzip(std::span<const std::byte> start);

/// A file's contents from front to back, decompressed where the file is gzip and as they are where it is not.
class StreamReader {
 public:
  /// No more than `limit` bytes will be given: a file that unpacks to more is an error, however small it is packed.
  static Result<StreamReader> open(os::FileSystem& files, const std::string& path, std::uint64_t limit);
  StreamReader(StreamReader&&) noexcept;
  StreamReader& operator=(StreamReader&&) noexcept;
  ~StreamReader();

  /// Fills `out` as far as there is data; fewer bytes, or 0, only at the end. corrupt: damaged or truncated gzip data.
  /// After an error every further call gives the same error. A member's checksum is known to be right once read() has
  /// gone past its end: read until fewer bytes than asked for come back.
  Result<std::size_t> read(std::span<std::byte> out);

 private:
  struct Impl;
  explicit StreamReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A whole file, unpacked, of at most `limit` bytes.
Result<HostBuffer> read_unpacked(os::FileSystem& files, const std::string& path, std::uint64_t limit,
                                 const HostAllocator& allocator = default_host_allocator());

}  // namespace graft::data
