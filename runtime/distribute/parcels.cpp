#include "runtime/distribute/parcels.h"

#include <algorithm>
#include <cstring>

#include "platform/base/hash.h"

namespace graft::distribute {

std::span<std::byte> Parcels::out(std::size_t rank, std::size_t bytes) {
  out_[rank].resize(bytes + kSum);
  return std::span(out_[rank]).first(bytes);
}

void Parcels::seal(std::span<std::span<const std::byte>> out, std::span<std::span<std::byte>> in) {
  for (std::size_t rank = 0; rank < in_.size(); ++rank) {
    std::vector<std::byte>& part = out_[rank];
    const std::uint64_t sum = hash64(std::span(part).first(part.size() - kSum));
    std::memcpy(part.data() + part.size() - kSum, &sum, kSum);
    out[rank] = part;
    in[rank] = in_[rank];
  }
}

Status Parcels::send(std::chrono::nanoseconds deadline) {
  std::vector<std::span<const std::byte>> out(out_.size());
  std::vector<std::span<std::byte>> in(in_.size());
  seal(out, in);
  GRAFT_TRY(group_->exchange(out, in, deadline));
  return check();
}

Status Parcels::check() const {
  for (std::size_t rank = 0; rank < in_.size(); ++rank) {
    std::uint64_t sum = 0;
    std::memcpy(&sum, in_[rank].data() + in_[rank].size() - kSum, kSum);
    if (sum == hash64(this->in(rank))) continue;
    return corrupt("What worker ", rank, " sent to worker ", group_->rank(), " was changed on the way.");
  }
  return ok_status();
}

Status Parcels::share(std::span<const std::byte> own, std::chrono::nanoseconds deadline) {
  for (std::size_t rank = 0; rank < group_->size(); ++rank) {
    std::ranges::copy(own, out(rank, own.size()).begin());
    expect(rank, own.size());
  }
  return send(deadline);
}

Status Parcels::broadcast(std::span<std::byte> bytes, std::chrono::nanoseconds deadline) {
  const bool first = group_->rank() == 0;
  for (std::size_t rank = 0; rank < group_->size(); ++rank) {
    const std::size_t given = first && rank != 0 ? bytes.size() : 0;
    std::ranges::copy(bytes.first(given), out(rank, given).begin());
    expect(rank, !first && rank == 0 ? bytes.size() : 0);
  }
  GRAFT_TRY(send(deadline));
  if (!first) std::ranges::copy(in(0), bytes.begin());
  return ok_status();
}

}  // namespace graft::distribute
