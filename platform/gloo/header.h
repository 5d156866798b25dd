// What workers say to each other with every exchange.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "platform/base/status.h"

namespace graft::gloo_group {

/// For each worker in an exchange, at most.
constexpr std::size_t kMostParts = 4;
/// Bytes of parts that stand in a header.
constexpr std::size_t kSmall = 1024;

/// What an exchange is asked for: part p for or from worker r is [p * size + r].
struct Parts {
  std::size_t count = 0;  ///< for each worker
  const void* const* out = nullptr;
  const std::size_t* out_bytes = nullptr;
  void* const* in = nullptr;
  const std::size_t* in_bytes = nullptr;
};

/// Of a fixed size. Small parts come along; large ones at the same time by their sizes: Gloo sends nothing before the
/// other end waits for just that, and aborts where sizes differ.
struct Header {
  std::uint64_t call = 0;
  std::uint32_t leaves = 0;
  std::int32_t why = 0;  ///< graft_status
  std::uint64_t parts = 0;
  std::uint64_t bytes[kMostParts] = {};
  char words[kSmall] = {};  ///< small parts, one after another; of one that leaves, the reason

  /// For worker `to` of so many.
  void write(std::uint64_t number, const Parts& given, std::uint32_t to, std::uint32_t size);
  /// From worker `from`, who gives worker `rank` what it waits for, in the call that it is at.
  Status check(std::uint64_t number, const Parts& wanted, std::uint32_t from, std::uint32_t rank,
               std::uint32_t size) const;
  /// After check(): the small parts.
  void read(const Parts& wanted, std::uint32_t from, std::uint32_t size) const;
};

/// How many bytes of the parts for or from one worker stand in its header, by part: 0 of those that go by themselves.
std::array<std::size_t, kMostParts> along(std::size_t parts, const std::size_t* bytes, std::uint32_t worker,
                                          std::uint32_t size);

}  // namespace graft::gloo_group
