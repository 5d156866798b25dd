#include "runtime/distribute/group_exchange.h"

#include <algorithm>
#include <cstring>

#include "platform/base/checked.h"

namespace graft::distribute {
namespace {

struct SlotResult {
  double loss_sum = 0;
  double correct = 0;
  double top5 = 0;
  std::uint32_t has_correct = 0;
  std::uint32_t has_top5 = 0;
};

template <typename T>
T read_as(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

ExchangeOptions deadlines_of(std::chrono::nanoseconds within_step) {
  if (within_step == group::kNoDeadline) return {};
  return {10 * within_step, within_step};
}

std::uint64_t elements_to_sum(std::uint64_t gradient_bytes, std::uint64_t workers, const ExchangeOptions& options) {
  const std::uint64_t piece = std::min(options.piece, gradient_bytes / sizeof(float));
  return std::max<std::uint64_t>(ceil_div(piece, workers), 1);
}

Status GroupExchange::begin(Step& step) {
  step.newcomers = group_.rank() == 0 && group_.somebody_waits() ? 1 : 0;
  GRAFT_TRY(note(parcels_.share(std::as_bytes(std::span(&step, 1)), options_.between_steps)));
  differs_ = false;
  train::LossWeights weights;
  std::vector<std::uint64_t> hashes;
  for (std::size_t rank = 0; rank < group_.size(); ++rank) {
    const auto other = read_as<Step>(parcels_.in(rank));
    const auto same = [&](std::uint64_t mine, std::uint64_t its, const char* what) -> Status {
      if (mine == its) return ok_status();
      return invalid("Worker ", rank, " has ", its, " ", what, ", worker ", group_.rank(), " has ", mine,
                     ": their options or data differ.");
    };
    GRAFT_TRY(same(step.number, other.number, "steps behind it"));
    GRAFT_TRY(same(step.samples, other.samples, "samples in the step's batch"));
    GRAFT_TRY(same(step.slots, other.slots, "micro-batches in a step"));
    GRAFT_TRY(same(step.gradient_bytes, other.gradient_bytes, "bytes of gradients"));
    GRAFT_TRY(same(step.statistics_bytes, other.statistics_bytes, "bytes of running statistics"));
    weights.add(other.weights);
    hashes.push_back(other.state_hash);
  }
  step_.number = step.number;
  if (read_as<Step>(parcels_.in(0)).newcomers != 0) {
    lost_ = lets_in_ = true;
    return error(Code::io_error, "Another worker wants to take part.");
  }
  GRAFT_TRY(check_states(hashes));
  step.weights = weights;
  step_ = step;
  given_ = 0;
  own_results_.clear();
  own_gradients_.clear();
  own_gradients_.reserve(share().of(step.slots).count * step.gradient_bytes);
  return ok_status();
}

Status GroupExchange::give(std::uint64_t slot, const train::SlotPart& part) {
  if (slot != share().of(step_.slots).first + given_) return error(Code::internal, "Slot ", slot, " is not the next.");
  ++given_;
  const train::Metrics& m = part.metrics;
  const SlotResult result{m.loss_sum, m.correct, m.top5, m.has_correct, m.has_top5};
  append(own_results_, std::as_bytes(std::span(&result, 1)));
  append(own_results_, part.statistics);
  for (const Capture::Entry& entry : part.gradients) append(own_gradients_, entry.bytes);
  const std::uint64_t each = sizeof result + step_.statistics_bytes;
  if (own_results_.size() == given_ * each && own_gradients_.size() == given_ * step_.gradient_bytes) return {};
  return error(Code::internal, "Slot ", slot, " gave other sizes than were agreed upon.");
}

/// What most workers have is right; where there is no such, what worker 0 has.
Status GroupExchange::check_states(const std::vector<std::uint64_t>& hashes) {
  std::uint64_t right = hashes[0];
  for (const std::uint64_t hash : hashes) {
    if (2 * static_cast<std::size_t>(std::ranges::count(hashes, hash)) > hashes.size()) right = hash;
  }
  std::string others;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != right) others += cat(others.empty() ? "" : ", ", rank);
  }
  if (others.empty()) return ok_status();
  differs_ = hashes[0] == right;
  return corrupt("Before step ", step_.number + 1,
                 " the parameters of these workers are not those of the others: ", others,
                 ". Their memory is at fault, or another driver or device gives other bits.");
}

Status GroupExchange::note(Status sent) {
  lost_ = sent.code() == Code::io_error || sent.code() == Code::timeout;
  return sent;
}

Status GroupExchange::reform() {
  GRAFT_TRY(group_.reform());
  lost_ = lets_in_ = false;
  parcels_ = Parcels(group_);
  return ok_status();
}

/// Metrics and statistics of all slots, in their order.
Status GroupExchange::share_results() {
  const std::uint64_t each = sizeof(SlotResult) + step_.statistics_bytes;
  for (std::size_t rank = 0; rank < group_.size(); ++rank) {
    std::ranges::copy(own_results_, parcels_.out(rank, own_results_.size()).begin());
    parcels_.expect(rank, slots_at(rank) * each);
  }
  GRAFT_TRY(note(parcels_.send(options_.within_step)));
  results_.clear();
  for (std::size_t rank = 0; rank < group_.size(); ++rank) append(results_, parcels_.in(rank));
  return ok_status();
}

/// A piece at a time: each worker adds its part of all slots, then all get all parts.
Status GroupExchange::share_gradients() {
  const std::uint64_t workers = group_.size();
  const std::uint64_t total = step_.gradient_bytes / sizeof(float);
  const std::uint64_t piece = std::min(options_.piece, total);
  if (sum_ == nullptr) {
    GRAFT_TRY_ASSIGN(sum_, SlotSum::create(device_, elements_to_sum(step_.gradient_bytes, workers, options_)));
  }
  sums_.resize(step_.gradient_bytes);
  std::vector<std::span<const std::byte>> slots(step_.slots);
  for (std::uint64_t first = 0; first < total; first += piece) {
    const std::uint64_t count = std::min(piece, total - first);
    // Bytes of the gradients that worker j adds.
    const auto begin_of = [&](std::uint64_t j) { return (first + count * j / workers) * sizeof(float); };
    const auto bytes_of = [&](std::uint64_t j) { return begin_of(j + 1) - begin_of(j); };
    const std::uint64_t own_bytes = bytes_of(group_.rank());
    for (std::uint64_t j = 0; j < workers; ++j) {
      const std::span<std::byte> out = parcels_.out(j, given_ * bytes_of(j));
      for (std::uint64_t k = 0; k < given_; ++k) {
        std::memcpy(out.data() + k * bytes_of(j), own_gradients_.data() + k * step_.gradient_bytes + begin_of(j),
                    bytes_of(j));
      }
      parcels_.expect(j, slots_at(j) * own_bytes);
    }
    GRAFT_TRY(note(parcels_.send(options_.within_step)));
    auto slot = slots.begin();
    for (std::uint64_t j = 0; j < workers; ++j) {
      for (std::uint64_t k = 0; k < slots_at(j); ++k) *slot++ = parcels_.in(j).subspan(k * own_bytes, own_bytes);
    }
    const std::span<std::byte> own = std::span(sums_).subspan(begin_of(group_.rank()), own_bytes);
    GRAFT_TRY(sum_->add(slots, own));
    for (std::uint64_t j = 0; j < workers; ++j) {
      std::ranges::copy(own, parcels_.out(j, own_bytes).begin());
      parcels_.expect(j, bytes_of(j));
    }
    GRAFT_TRY(note(parcels_.send(options_.within_step)));
    for (std::uint64_t j = 0; j < workers; ++j) {
      std::ranges::copy(parcels_.in(j), sums_.begin() + static_cast<std::ptrdiff_t>(begin_of(j)));
    }
  }
  return ok_status();
}

Result<train::SlotExchange::Sums> GroupExchange::end() {
  GRAFT_TRY(share_results());
  GRAFT_TRY(share_gradients());
  Sums sums;
  statistics_.clear();
  const std::uint64_t each = sizeof(SlotResult) + step_.statistics_bytes;
  for (std::uint64_t slot = 0; slot < step_.slots; ++slot) {
    const std::span<const std::byte> bytes = std::span(results_).subspan(slot * each, each);
    const auto result = read_as<SlotResult>(bytes);
    sums.metrics.add({.loss_sum = result.loss_sum,
                      .correct = result.correct,
                      .top5 = result.top5,
                      .has_correct = result.has_correct != 0,
                      .has_top5 = result.has_top5 != 0});
    statistics_.push_back(bytes.subspan(sizeof result));
  }
  sums.statistics = statistics_;
  sums.gradients = sums_;
  return sums;
}

}  // namespace graft::distribute
