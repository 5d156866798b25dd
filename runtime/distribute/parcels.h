// Exchanges whose parts carry a checksum.
#pragma once

#include <span>
#include <vector>

#include "platform/group/group.h"

namespace graft::distribute {

/// The parts for and from each worker of one exchange after the other, in memory that is kept.
class Parcels {
 public:
  /// The group outlives it.
  explicit Parcels(group::Group& group) : group_(&group), out_(group.size()), in_(group.size()) {}

  /// What worker `rank` will get: the caller fills it in before send().
  std::span<std::byte> out(std::size_t rank, std::size_t bytes);
  /// What will come from it.
  void expect(std::size_t rank, std::size_t bytes) { in_[rank].resize(bytes + kSum); }
  std::span<const std::byte> in(std::size_t rank) const { return std::span(in_[rank]).first(in_[rank].size() - kSum); }

  /// corrupt names the worker whose part was changed on the way; else as Group::exchange().
  Status send(std::chrono::nanoseconds deadline);
  /// send(), where an exchange has other parts as well: what goes and comes, by rank, and afterwards whether it came as
  /// it was.
  void seal(std::span<std::span<const std::byte>> out, std::span<std::span<std::byte>> in);
  Status check() const;
  /// As many bytes to and from every worker: the same to all.
  Status share(std::span<const std::byte> own, std::chrono::nanoseconds deadline);
  /// Worker 0's bytes to all, whose `bytes` are as many.
  Status broadcast(std::span<std::byte> bytes, std::chrono::nanoseconds deadline);

 private:
  static constexpr std::size_t kSum = 8;
  group::Group* group_;
  std::vector<std::vector<std::byte>> out_;
  std::vector<std::vector<std::byte>> in_;
};

}  // namespace graft::distribute
