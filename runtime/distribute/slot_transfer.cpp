#include "runtime/distribute/slot_transfer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "platform/base/checked.h"
#include "platform/os/caught.h"
#include "runtime/distribute/checksum.h"

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

/// Of a worker's part the piece that begins there: where, in the part, and how many bytes.
std::pair<std::uint64_t, std::uint64_t> SlotTransfer::piece_of(std::size_t worker, std::uint64_t at) const {
  const std::uint64_t bytes = begin_of(worker + 1) - begin_of(worker), begin = std::min(at, bytes);
  return {begin, std::min(piece_bytes(), bytes - begin)};
}

std::uint64_t SlotTransfer::rounds() const { return *std::ranges::max_element(slots_); }

std::uint64_t SlotTransfer::first_slot(std::size_t worker) const {
  return std::accumulate(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(worker), std::uint64_t{0});
}

Status SlotTransfer::begin(std::vector<std::uint64_t> slots, std::uint64_t elements) {
  stop();
  slots_ = std::move(slots);
  elements_ = elements;
  given_ = rounds_ = 0;
  stopping_ = false;
  failed_ = {};
  const std::size_t rank = group_->rank();
  overlaps_ = options_.overlap && rounds() > 1;  // of one slot nothing can be hidden
  own_.resize(overlaps_ ? std::min(slots_[rank], kAhead) : slots_[rank]);
  lent_ = {};
  received_.resize(std::accumulate(slots_.begin(), slots_.end(), std::uint64_t{0}));
  std::size_t slot = 0;
  for (std::size_t j = 0; j < slots_.size(); ++j) {
    for (std::uint64_t round = 0; round < slots_[j]; ++round, ++slot) {
      if (j == rank) continue;
      received_[slot].resize(round + 1 < rounds() ? own_bytes() : piece_of(rank, 0).second);
    }
  }
  if (!overlaps_) return ok_status();
  GRAFT_TRY_ASSIGN(thread_, os::start_thread(
                                [this] {
                                  Status done = os::caught([&] { return send_earlier_rounds(); });
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
  if (rounds() > 1 || options_.wire != Wire::f32 || gradients.empty()) return false;
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

/// Empty where this worker has no such slot.
std::span<const std::byte> SlotTransfer::own_slot(std::uint64_t round) const {
  if (round >= slots_[group_->rank()]) return {};
  return lent_.empty() ? std::span<const std::byte>(own_[round % own_.size()]) : lent_;
}

Status SlotTransfer::send_earlier_rounds() {
  for (std::uint64_t round = 0; round + 1 < rounds(); ++round) {
    {
      std::unique_lock lock(mutex_);
      const bool gives = round < slots_[group_->rank()];
      changed_.wait(lock, [&] { return stopping_ || !gives || given_ > round; });
      if (stopping_) return error(Code::cancelled, "This worker has stopped.");
    }
    GRAFT_TRY(send_round(round));
    const std::lock_guard lock(mutex_);
    rounds_ = round + 1;
    changed_.notify_all();
  }
  return ok_status();
}

Status SlotTransfer::send_round(std::uint64_t round) {
  const std::uint64_t longest = ceil_div<std::uint64_t>(elements_, group_->size()) * bytes_of(options_.wire);
  for (std::uint64_t at = 0; at < longest; at += piece_bytes()) {
    Trade trade(group_->size());
    set_slots(trade, round, at);
    GRAFT_TRY(this->trade(trade));
    std::vector<std::uint64_t> came(group_->size());
    std::ranges::transform(trade.taken, came.begin(), Checksum::of);
    GRAFT_TRY(check_slots(came));
  }
  return ok_status();
}

/// The piece of the round's slots that begins there.
void SlotTransfer::set_slots(Trade& trade, std::uint64_t round, std::uint64_t at) {
  const std::size_t rank = group_->rank();
  const std::span<const std::byte> own = own_slot(round);
  for (std::size_t r = 0; r < group_->size(); ++r) {
    if (r == rank) continue;
    const auto [begin, bytes] = piece_of(r, at);
    if (!own.empty()) trade.given[r] = own.subspan(begin_of(r) + begin, bytes);
    if (round >= slots_[r]) continue;
    const auto [own_begin, own_bytes] = piece_of(rank, at);
    const bool is_kept = round + 1 < rounds();
    trade.taken[r] = std::span(received_[first_slot(r) + round]).subspan(is_kept ? own_begin : 0, own_bytes);
  }
}

/// The piece of the sums that begins there.
void SlotTransfer::set_sums(Trade& trade, std::span<std::byte> sums, std::uint64_t at) {
  for (std::size_t r = 0; r < group_->size(); ++r) {
    const auto [begin, bytes] = piece_of(r, at);
    const std::span<std::byte> piece = sums.subspan(begin_of(r) + begin, bytes);
    if (r == group_->rank()) {
      trade.own_sum = piece;
    } else {
      trade.sums[r] = piece;
    }
  }
}

/// One exchange, and whether the sums came as they were; what came of slots is still to be checked.
Status SlotTransfer::trade(const Trade& trade) {
  const std::size_t workers = group_->size(), rank = group_->rank();
  out_.assign(kParts * workers, {});
  in_.assign(kParts * workers, {});
  for (std::size_t r = 0; r < workers; ++r) {
    out_[r] = trade.given[r];
    in_[r] = trade.taken[r];
    if (r != rank) out_[workers + r] = trade.own_sum;
    in_[workers + r] = trade.sums[r];
    const Note note{Checksum::of(trade.given[r]), trade.own_checksum};
    const std::span<std::byte> told = notes_.out(r, sizeof note + trade.last.size());
    std::memcpy(told.data(), &note, sizeof note);
    std::ranges::copy(trade.last, told.begin() + sizeof note);
    notes_.expect(r, sizeof note + (trade.last_bytes.empty() ? 0 : trade.last_bytes[r]));
  }
  notes_.seal(std::span(out_).subspan(2 * workers), std::span(in_).subspan(2 * workers));
  GRAFT_TRY(group_->exchange(out_, in_, options_.deadline));
  GRAFT_TRY(notes_.check());
  for (std::size_t r = 0; r < workers; ++r) {
    if (r != rank && note_of(r).own_sum != Checksum::of(trade.sums[r])) return changed(r);
  }
  return ok_status();
}

SlotTransfer::Note SlotTransfer::note_of(std::size_t worker) const {
  Note note;
  std::memcpy(&note, notes_.in(worker).data(), sizeof note);
  return note;
}

/// The checksums of what the others gave in the last exchange.
Status SlotTransfer::check_slots(std::span<const std::uint64_t> came) const {
  for (std::size_t r = 0; r < came.size(); ++r) {
    if (r != group_->rank() && note_of(r).given != came[r]) return changed(r);
  }
  return ok_status();
}

Status SlotTransfer::changed(std::size_t worker) const {
  return corrupt("What worker ", worker, " sent to worker ", group_->rank(), " was changed on the way.");
}

std::span<const std::byte> SlotTransfer::last(std::size_t worker) const {
  return notes_.in(worker).subspan(sizeof(Note));
}

/// Of this worker's elements the piece of all slots that begins there. Also sees whether the last round's came as they
/// were, in the same pass.
Status SlotTransfer::add_piece(const Sum& sum, std::uint64_t at, std::span<std::byte> out, std::uint64_t& checksum) {
  std::vector<std::span<const std::byte>> views;
  std::vector<std::pair<std::size_t, std::size_t>> fresh;  // views that came last, and of whom
  const auto [begin, bytes] = piece_of(group_->rank(), at);
  for (std::size_t j = 0; j < slots_.size(); ++j) {
    for (std::uint64_t round = 0; round < slots_[j]; ++round) {
      const std::span<const std::byte> whole = received_[first_slot(j) + round];
      const bool is_last = round + 1 == rounds();
      if (j == group_->rank()) {
        views.push_back((lent_.empty() ? whole : lent_.subspan(begin_of(j), own_bytes())).subspan(begin, bytes));
      } else {
        if (is_last) fresh.emplace_back(views.size(), j);
        views.push_back(whole.subspan(is_last ? 0 : begin, bytes));
      }
    }
  }
  std::vector<Checksum> came(slots_.size());
  Checksum own;
  std::vector<std::span<const std::byte>> blocks(views.size());
  for (std::size_t done = 0; done < bytes; done += Checksum::kBlock) {
    const std::size_t count = std::min<std::size_t>(Checksum::kBlock, bytes - done);
    for (const auto& [view, worker] : fresh) came[worker].add(views[view].subspan(done, count));
    if (!sum.in_blocks) continue;
    std::ranges::transform(views, blocks.begin(), [&](auto view) { return view.subspan(done, count); });
    GRAFT_TRY(sum.add(blocks, out.subspan(done, count)));
    own.add(out.subspan(done, count));
  }
  std::vector<std::uint64_t> values(came.size());
  std::ranges::transform(came, values.begin(), [](const Checksum& one) { return one.value(); });
  GRAFT_TRY(check_slots(values));
  if (!sum.in_blocks && bytes > 0) GRAFT_TRY(sum.add(views, out));
  checksum = sum.in_blocks ? own.value() : Checksum::of(out);
  return ok_status();
}

Status SlotTransfer::end(const Sum& sum, std::span<std::byte> sums) {
  if (given_ != slots_[group_->rank()]) return error(Code::internal, "Fewer slots came than were agreed upon.");
  if (overlaps_) {
    thread_.join();
    GRAFT_TRY(Status(failed_));
  } else {
    GRAFT_TRY(send_earlier_rounds());
  }
  const std::uint64_t longest = ceil_div<std::uint64_t>(elements_, group_->size()) * bytes_of(options_.wire);
  const std::uint64_t pieces = ceil_div(longest, piece_bytes());
  std::uint64_t checksum = 0;
  for (std::uint64_t i = 0; i <= pieces; ++i) {
    const std::uint64_t at = i * piece_bytes();
    Trade trade(group_->size());
    trade.own_checksum = checksum;
    if (i < pieces) set_slots(trade, rounds() - 1, at);
    if (i > 0) set_sums(trade, sums, at - piece_bytes());
    if (i == pieces) {
      trade.last = sum.last();
      trade.last_bytes = sum.last_bytes;
    }
    GRAFT_TRY(this->trade(trade));
    if (i == pieces) break;
    const auto [begin, bytes] = piece_of(group_->rank(), at);
    GRAFT_TRY(add_piece(sum, at, sums.subspan(begin_of(group_->rank()) + begin, bytes), checksum));
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
