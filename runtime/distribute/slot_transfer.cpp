#include "runtime/distribute/slot_transfer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "platform/base/checked.h"
#include "platform/base/hash.h"
#include "platform/os/threads.h"

namespace graft::distribute {
namespace {

/// With a thread: one slot on its way, and the next.
constexpr std::uint64_t kAhead = 2;

}  // namespace

std::uint64_t SlotTransfer::first_element(std::uint64_t worker) const { return elements_ * worker / group_->size(); }

std::uint64_t SlotTransfer::begin_of(std::uint64_t worker) const {
  return first_element(worker) * bytes_of(options_.wire);
}

std::uint64_t SlotTransfer::own_bytes() const { return begin_of(group_->rank() + 1) - begin_of(group_->rank()); }

/// Of each worker's elements, how many bytes are on their way at once.
std::uint64_t SlotTransfer::piece_bytes() const {
  return std::max<std::uint64_t>(options_.piece / group_->size(), 1) * bytes_of(options_.wire);
}

Status SlotTransfer::begin(std::vector<std::uint64_t> slots, std::uint64_t elements) {
  stop();
  slots_ = std::move(slots);
  elements_ = elements;
  given_ = rounds_ = 0;
  stopping_ = false;
  failed_ = {};
  const std::uint64_t mine = slots_[group_->rank()];
  overlaps_ = options_.overlap && *std::ranges::max_element(slots_) > 1;  // of one slot nothing can be hidden
  own_.resize(overlaps_ ? std::min(mine, kAhead) : mine);
  lent_ = {};
  received_.resize(std::accumulate(slots_.begin(), slots_.end(), std::uint64_t{0}));
  for (std::size_t slot = 0; slot < received_.size(); ++slot) {
    const bool is_mine = slot >= first_slot(group_->rank()) && slot < first_slot(group_->rank()) + mine;
    if (!is_mine) received_[slot].resize(own_bytes());
  }
  if (!overlaps_) return ok_status();
  GRAFT_TRY_ASSIGN(thread_, os::start_thread(
                                [this] {
                                  Status done = transfer();
                                  const std::lock_guard lock(mutex_);
                                  failed_ = std::move(done);
                                  changed_.notify_all();
                                },
                                "for what workers send each other"));
  return ok_status();
}

Status SlotTransfer::give(std::span<const Capture::Entry> gradients) {
  {
    std::unique_lock lock(mutex_);
    const auto has_room = [&] { return given_ < rounds_ + own_.size(); };
    if (thread_.joinable()) changed_.wait(lock, [&] { return has_room() || !failed_.ok(); });
    if (!failed_.ok()) return failed_;
    if (!has_room() || given_ >= slots_[group_->rank()])
      return error(Code::internal, "More slots came than were agreed upon.");
  }
  if (!lend(gradients)) GRAFT_TRY(pack_parts(gradients));
  const std::lock_guard lock(mutex_);
  ++given_;
  changed_.notify_all();
  return ok_status();
}

/// Whether the slot can be read where it is: nothing is computed before it has been sent, and it stands in one piece.
bool SlotTransfer::lend(std::span<const Capture::Entry> gradients) {
  if (*std::ranges::max_element(slots_) > 1 || options_.wire != Wire::f32 || gradients.empty()) return false;
  const std::byte* const begin = gradients[0].bytes.data();
  std::uint64_t bytes = 0;
  for (const Capture::Entry& entry : gradients) {
    if (entry.bytes.data() != begin + bytes) return false;
    bytes += entry.bytes.size();
  }
  if (bytes != elements_ * sizeof(float)) return false;
  lent_ = {begin, bytes};
  return true;
}

/// Each worker's part, this one's own to where those of the others come.
Status SlotTransfer::pack_parts(std::span<const Capture::Entry> gradients) {
  const std::size_t rank = group_->rank();
  own_[given_ % own_.size()].resize(begin_of(group_->size()));
  received_[first_slot(rank) + given_].resize(own_bytes());
  std::uint64_t element = 0, worker = 0;
  for (const Capture::Entry& entry : gradients) {
    std::span<const std::byte> from = entry.bytes;
    if (from.size() / sizeof(float) > elements_ - element) {
      return error(Code::internal, "A slot gave more gradients than were agreed upon.");
    }
    while (!from.empty()) {
      while (element == first_element(worker + 1)) ++worker;
      const std::uint64_t count =
          std::min<std::uint64_t>(from.size() / sizeof(float), first_element(worker + 1) - element);
      const std::uint64_t at = (element - first_element(worker)) * bytes_of(options_.wire);
      const std::span<std::byte> to = worker == rank
                                          ? std::span(received_[first_slot(rank) + given_]).subspan(at)
                                          : std::span(own_[given_ % own_.size()]).subspan(begin_of(worker) + at);
      pack(from.first(count * sizeof(float)), options_.wire, to.first(count * bytes_of(options_.wire)));
      from = from.subspan(count * sizeof(float));
      element += count;
    }
  }
  if (element != elements_) return error(Code::internal, "A slot gave fewer gradients than were agreed upon.");
  return ok_status();
}

Status SlotTransfer::transfer() {
  const std::uint64_t most = *std::ranges::max_element(slots_);
  for (std::uint64_t round = 0; round < most; ++round) {
    std::span<const std::byte> own;
    {
      std::unique_lock lock(mutex_);
      const bool gives = round < slots_[group_->rank()];
      changed_.wait(lock, [&] { return stopping_ || !gives || given_ > round; });
      if (stopping_) return error(Code::cancelled, "This worker has stopped.");
      if (gives) own = lent_.empty() ? std::span<const std::byte>(own_[round % own_.size()]) : lent_;
    }
    GRAFT_TRY(send_round(round, own));
    const std::lock_guard lock(mutex_);
    rounds_ = round + 1;
    changed_.notify_all();
  }
  return ok_status();
}

std::uint64_t SlotTransfer::first_slot(std::size_t worker) const {
  return std::accumulate(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(worker), std::uint64_t{0});
}

/// `own`: empty where this worker has no such slot.
Status SlotTransfer::send_round(std::uint64_t round, std::span<const std::byte> own) {
  const std::size_t workers = group_->size(), rank = group_->rank();
  std::vector<std::span<const std::byte>> given(workers), out(workers);
  std::vector<std::span<std::byte>> taken(workers), in(workers);
  std::uint64_t longest = 0;
  for (std::size_t j = 0; j < workers; ++j) {
    const std::uint64_t begin = begin_of(j), size = begin_of(j + 1) - begin;
    longest = std::max(longest, size);
    if (j == rank) continue;
    if (!own.empty()) given[j] = own.subspan(begin, size);
    if (round < slots_[j]) taken[j] = received_[first_slot(j) + round];
  }
  for (std::uint64_t at = 0; at < longest; at += piece_bytes()) {
    const auto piece_of = [&](auto part) {
      const std::uint64_t begin = std::min<std::uint64_t>(at, part.size());
      return part.subspan(begin, std::min<std::uint64_t>(piece_bytes(), part.size() - begin));
    };
    std::ranges::transform(given, out.begin(), piece_of);
    std::ranges::transform(taken, in.begin(), piece_of);
    GRAFT_TRY(group_->exchange(out, in, options_.deadline));
  }
  return send_checksums(given, taken);
}

/// Of parts that have been sent, to whom they were sent, and compares.
Status SlotTransfer::send_checksums(std::span<const std::span<const std::byte>> given,
                                    std::span<const std::span<std::byte>> taken) {
  const std::size_t workers = group_->size();
  std::vector<std::uint64_t> mine(workers), theirs(workers);
  std::vector<std::span<const std::byte>> out(workers);
  std::vector<std::span<std::byte>> in(workers);
  for (std::size_t j = 0; j < workers; ++j) {
    mine[j] = hash64(given[j]);
    if (!given[j].empty()) out[j] = std::as_bytes(std::span(&mine[j], 1));
    if (!taken[j].empty()) in[j] = std::as_writable_bytes(std::span(&theirs[j], 1));
  }
  GRAFT_TRY(group_->exchange(out, in, options_.deadline));
  for (std::size_t j = 0; j < workers; ++j) {
    if (taken[j].empty() || theirs[j] == hash64(taken[j])) continue;
    return corrupt("What worker ", j, " sent to worker ", group_->rank(), " was changed on the way.");
  }
  return ok_status();
}

Result<std::span<const std::span<const std::byte>>> SlotTransfer::end() {
  if (given_ != slots_[group_->rank()]) return error(Code::internal, "Fewer slots came than were agreed upon.");
  if (overlaps_) {
    thread_.join();
    GRAFT_TRY(Status(failed_));
  } else {
    GRAFT_TRY(transfer());
  }
  views_.assign(received_.begin(), received_.end());
  if (!lent_.empty()) views_[first_slot(group_->rank())] = lent_.subspan(begin_of(group_->rank()), own_bytes());
  return std::span<const std::span<const std::byte>>(views_);
}

Status SlotTransfer::spread(std::span<std::byte> sums) {
  const std::size_t workers = group_->size(), rank = group_->rank();
  std::vector<std::span<const std::byte>> out(workers);
  std::vector<std::span<std::byte>> in(workers);
  const std::uint64_t longest = ceil_div<std::uint64_t>(elements_, workers) * bytes_of(options_.wire);
  for (std::uint64_t at = 0; at < longest; at += piece_bytes()) {
    const auto part_of = [&](std::size_t j) {
      const std::uint64_t begin = std::min(begin_of(j) + at, begin_of(j + 1));
      return sums.subspan(begin, std::min(piece_bytes(), begin_of(j + 1) - begin));
    };
    for (std::size_t j = 0; j < workers; ++j) {
      if (j == rank) continue;
      out[j] = part_of(rank);
      in[j] = part_of(j);
    }
    GRAFT_TRY(group_->exchange(out, in, options_.deadline));
  }
  return ok_status();
}

void SlotTransfer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace graft::distribute
