#include "runtime/distribute/slot_transfer.h"

#include <algorithm>
#include <numeric>

#include "platform/base/checked.h"
#include "platform/base/hash.h"
#include "platform/os/threads.h"

namespace graft::distribute {
namespace {

/// With a thread: one slot on its way, and the next.
constexpr std::uint64_t kAhead = 2;

void add_to(std::uint64_t& sum, std::span<const std::byte> bytes) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // parts that change places show
  sum = sum * kOdd + hash64(bytes);
}

}  // namespace

std::uint64_t SlotTransfer::begin_of(std::uint64_t worker) const {
  return elements_ * worker / group_->size() * bytes_of(options_.wire);
}

std::uint64_t SlotTransfer::own_bytes() const { return begin_of(group_->rank() + 1) - begin_of(group_->rank()); }

/// Of each worker's elements, how many bytes are on their way at once.
std::uint64_t SlotTransfer::part_bytes() const {
  return std::max<std::uint64_t>(options_.piece / group_->size(), 1) * bytes_of(options_.wire);
}

Status SlotTransfer::begin(std::vector<std::uint64_t> slots, std::uint64_t elements) {
  stop();
  slots_ = std::move(slots);
  elements_ = elements;
  given_ = rounds_ = 0;
  stopping_ = false;
  failed_ = {};
  sent_.assign(group_->size(), 0);
  received_sums_.assign(group_->size(), 0);
  const std::uint64_t mine = slots_[group_->rank()];
  own_.resize(options_.overlap ? std::min(mine, kAhead) : mine);
  for (std::vector<std::byte>& slot : own_) slot.resize(elements * bytes_of(options_.wire));
  received_.resize(std::accumulate(slots_.begin(), slots_.end(), std::uint64_t{0}));
  for (std::vector<std::byte>& slot : received_) slot.resize(own_bytes());
  if (!options_.overlap) return ok_status();
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
    if (!has_room()) return error(Code::internal, "More slots came than were agreed upon.");
  }
  std::span<std::byte> to = own_[given_ % own_.size()];
  for (const Capture::Entry& entry : gradients) {
    const std::uint64_t bytes = entry.bytes.size() / sizeof(float) * bytes_of(options_.wire);
    if (bytes > to.size()) return error(Code::internal, "A slot gave more gradients than were agreed upon.");
    pack(entry.bytes, options_.wire, to.first(bytes));
    to = to.subspan(bytes);
  }
  if (!to.empty()) return error(Code::internal, "A slot gave fewer gradients than were agreed upon.");
  const std::lock_guard lock(mutex_);
  ++given_;
  changed_.notify_all();
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
      if (gives) own = own_[round % own_.size()];
    }
    GRAFT_TRY(send_round(round, own));
    const std::lock_guard lock(mutex_);
    rounds_ = round + 1;
    changed_.notify_all();
  }
  return ok_status();
}

/// `own`: empty where this worker has no such slot.
Status SlotTransfer::send_round(std::uint64_t round, std::span<const std::byte> own) {
  const std::size_t workers = group_->size(), rank = group_->rank();
  std::vector<std::span<const std::byte>> out(workers);
  std::vector<std::span<std::byte>> in(workers);
  const std::uint64_t longest = ceil_div<std::uint64_t>(elements_, workers) * bytes_of(options_.wire);
  for (std::uint64_t at = 0; at < longest; at += part_bytes()) {
    const auto part_of = [&](std::uint64_t bytes) {
      const std::uint64_t begin = std::min(at, bytes);
      return std::pair(begin, std::min(part_bytes(), bytes - begin));
    };
    std::uint64_t first = 0;  // slot of worker j
    for (std::size_t j = 0; j < workers; ++j) {
      const auto [begin, bytes] = part_of(begin_of(j + 1) - begin_of(j));
      const auto [own_begin, own_part] = part_of(own_bytes());
      const bool takes = j != rank && round < slots_[j];
      out[j] = own.empty() || j == rank ? std::span<const std::byte>() : own.subspan(begin_of(j) + begin, bytes);
      in[j] = takes ? std::span(received_[first + round]).subspan(own_begin, own_part) : std::span<std::byte>();
      if (j == rank && !own.empty()) {
        std::ranges::copy(own.subspan(begin_of(j) + begin, bytes),
                          received_[first + round].begin() + static_cast<std::ptrdiff_t>(begin));
      }
      first += slots_[j];
    }
    GRAFT_TRY(group_->exchange(out, in, options_.deadline));
    for (std::size_t j = 0; j < workers; ++j) {
      if (!out[j].empty()) add_to(sent_[j], out[j]);
      if (!in[j].empty()) add_to(received_sums_[j], in[j]);
    }
  }
  return ok_status();
}

Result<std::span<const std::span<const std::byte>>> SlotTransfer::end() {
  if (given_ != slots_[group_->rank()]) return error(Code::internal, "Fewer slots came than were agreed upon.");
  if (options_.overlap) {
    thread_.join();
    GRAFT_TRY(Status(failed_));
  } else {
    GRAFT_TRY(transfer());
  }
  views_.assign(received_.begin(), received_.end());
  return std::span<const std::span<const std::byte>>(views_);
}

Status SlotTransfer::spread(std::span<std::byte> sums) {
  const std::size_t workers = group_->size(), rank = group_->rank();
  std::vector<std::span<const std::byte>> out(workers);
  std::vector<std::span<std::byte>> in(workers);
  const std::uint64_t longest = ceil_div<std::uint64_t>(elements_, workers) * bytes_of(options_.wire);
  for (std::uint64_t at = 0; at < longest; at += part_bytes()) {
    const auto part_of = [&](std::size_t j) {
      const std::uint64_t begin = std::min(begin_of(j) + at, begin_of(j + 1));
      return sums.subspan(begin, std::min(part_bytes(), begin_of(j + 1) - begin));
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
