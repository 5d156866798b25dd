#include "runtime/distribute/group_exchange.h"

#include <algorithm>
#include <cstring>

#include "platform/base/checked.h"
#include "platform/base/hash.h"
#include "platform/os/process.h"

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

std::uint64_t host_bytes(std::uint64_t gradient_bytes, std::uint64_t workers, std::uint64_t own, std::uint64_t slots) {
  constexpr std::uint64_t kAtOnce = 2;  // that are computed and not yet sent
  const std::uint64_t part = ceil_div(gradient_bytes, workers), before = (own - 1) * workers;
  const std::uint64_t piece = elements_to_sum(gradient_bytes, workers) * sizeof(float);
  // Others' slots of the last round; of one slot each the own one is read where it is.
  const std::uint64_t last = slots > before ? std::min(slots - before, workers) - 1 : 0;
  const std::uint64_t of_own = own > 1 ? std::min(own, kAtOnce) * gradient_bytes + own * part : 0;
  return gradient_bytes + of_own + last * std::min(piece, part) + (slots - std::min(slots, own + last)) * part;
}

/// Of a slot.
std::uint64_t GroupExchange::result_bytes() const { return sizeof(SlotResult) + step_.statistics_bytes; }

std::vector<std::uint64_t> GroupExchange::all_slots() const {
  std::vector<std::uint64_t> slots;
  train::Share one = share();
  for (one.rank = 0; one.rank < one.workers; ++one.rank) slots.push_back(one.of(step_.slots).count);
  return slots;
}

Status GroupExchange::check_same(const Step& mine, const Step& other, std::size_t rank) const {
  const auto same = [&](std::uint64_t a, std::uint64_t b, const char* what) -> Status {
    if (a == b) return ok_status();
    return invalid("Worker ", rank, " has ", b, " ", what, ", worker ", group_.rank(), " has ", a,
                   ": their options or data differ.");
  };
  GRAFT_TRY(same(mine.number, other.number, "steps behind it"));
  GRAFT_TRY(same(mine.samples, other.samples, "samples in the step's batch"));
  GRAFT_TRY(same(mine.slots, other.slots, "micro-batches in a step"));
  GRAFT_TRY(same(mine.gradient_bytes, other.gradient_bytes, "bytes of gradients"));
  GRAFT_TRY(same(mine.statistics_bytes, other.statistics_bytes, "bytes of running statistics"));
  GRAFT_TRY(same(mine.seed, other.seed, "as its seed"));
  GRAFT_TRY(same(mine.epoch, other.epoch, "epochs behind it"));
  GRAFT_TRY(same(mine.place, other.place, "samples of the epoch behind it"));
  return same(mine.precision, other.precision, "as its precision (of numbers times 256, and of products)");
}

/// What worker 0 decides, unless another worker decided something else by itself.
Status GroupExchange::check_decisions(Step& step) const {
  const auto first = read_as<Step>(parcels_.in(0));
  for (std::size_t rank = 1; rank < group_.size(); ++rank) {
    const auto other = read_as<Step>(parcels_.in(rank));
    if (other.learning_rate != first.learning_rate && other.learning_rate != rate_) {
      return invalid("Worker ", rank, " has the learning rate ", other.learning_rate, ", worker 0 has ",
                     first.learning_rate, ": set it for all, or for worker 0 alone.");
    }
    if (other.ends != 0 && first.ends == 0) return invalid("Worker ", rank, " ends the run, worker 0 does not.");
  }
  step.learning_rate = first.learning_rate;
  step.monitors = first.monitors;
  step.evaluated_at = first.evaluated_at;
  step.ends = first.ends;
  step.wants_whole = first.wants_whole;
  return ok_status();
}

Status GroupExchange::begin(Step& step) {
  watch_.restart();
  step.ends = asks_end_ ? 1 : 0;
  step.newcomers = group_.rank() == 0 && group_.somebody_waits() ? 1 : 0;
  GRAFT_TRY(note(parcels_.share(std::as_bytes(std::span(&step, 1)), options_.between_steps)));
  differs_ = false;
  train::LossWeights weights;
  std::vector<std::uint64_t> hashes;
  for (std::size_t rank = 0; rank < group_.size(); ++rank) {
    const auto other = read_as<Step>(parcels_.in(rank));
    GRAFT_TRY(check_same(step, other, rank));
    weights.add(other.weights);
    hashes.push_back(other.state_hash);
  }
  step_.number = step.number;
  if (read_as<Step>(parcels_.in(0)).newcomers != 0) {
    lost_ = lets_in_ = true;
    return error(Code::io_error, "Another worker wants to take part.");
  }
  GRAFT_TRY(check_states(hashes));
  GRAFT_TRY(check_decisions(step));
  rate_ = step.learning_rate;
  ended_ = step.ends != 0;
  if (ended_) return error(Code::cancelled, "Worker 0 has ended the run.");
  step.weights = weights;
  step_ = step;
  slots_ = all_slots();
  given_ = 0;
  own_results_.clear();
  section_.loss_sum = 0;
  GRAFT_TRY(transfer_.begin(slots_, step.gradient_bytes / sizeof(float)));
  computing_ = 0;
  waiting_ = watch_.seconds();
  watch_.restart();
  return ok_status();
}

Status GroupExchange::give(std::uint64_t slot, const train::SlotPart& part) {
  computing_ += watch_.seconds();
  watch_.restart();
  if (slot != share().of(step_.slots).first + given_) return error(Code::internal, "Slot ", slot, " is not the next.");
  ++given_;
  const train::Metrics& m = part.metrics;
  const SlotResult result{m.loss_sum, m.correct, m.top5, m.has_correct, m.has_top5};
  section_.loss_sum += m.loss_sum;
  append(own_results_, std::as_bytes(std::span(&result, 1)));
  append(own_results_, part.statistics);
  if (own_results_.size() != given_ * result_bytes()) {
    return error(Code::internal, "Slot ", slot, " gave other sizes than were agreed upon.");
  }
  GRAFT_TRY(note(transfer_.give(part.gradients)));
  waiting_ += watch_.seconds();
  watch_.restart();
  return ok_status();
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
  transfer_.stop();
  GRAFT_TRY(group_.reform());
  lost_ = lets_in_ = false;
  paces_ = {};  // not all may have ended the last step
  parcels_ = Parcels(group_);
  transfer_.reset();
  return ok_status();
}

void GroupExchange::end_section() {
  const auto ns = [](double seconds) { return static_cast<std::uint64_t>(1e9 * seconds); };
  train::WorkerSection& mine = section_;
  const std::string host = os::host_name();
  std::ranges::copy(std::string_view(host).substr(0, mine.host.size() - 1), mine.host.begin());
  mine.step = step_.number + 1;
  mine.epoch = step_.epoch;
  mine.place = step_.place;
  mine.first_sample = step_.first_sample;
  mine.samples = step_.own_samples;
  mine.seed = step_.seed;
  mine.first_slot = share().of(step_.slots).first;
  mine.slots = given_;
  mine.weight = step_.own_weight;
  mine.computing_ns = ns(computing_);
  mine.waiting_ns = ns(waiting_);
  ++mine.all_steps;
  mine.all_samples += mine.samples;
  mine.all_computing_ns += mine.computing_ns;
  mine.all_waiting_ns += mine.waiting_ns;
}

/// The sums of all slots, and their sections, metrics and statistics. A worker that fails in the last exchange may be
/// alone with it; the others hear of it as they begin the next step.
Status GroupExchange::share_sums() {
  if (sum_ == nullptr) {
    const std::uint64_t most = elements_to_sum(step_.gradient_bytes, group_.size(), options_);
    GRAFT_TRY_ASSIGN(sum_, SlotSum::create(device_, most));
  }
  sums_.resize(step_.gradient_bytes);
  const bool is_packed = options_.wire != Wire::f32;
  on_wire_.resize(is_packed ? step_.gradient_bytes / sizeof(float) * bytes_of(options_.wire) : 0);
  std::vector<std::uint64_t> told_bytes;
  for (const std::uint64_t slots : slots_) told_bytes.push_back(sizeof section_ + slots * result_bytes());
  SlotTransfer::Sum sum;
  sum.add = [&](std::span<const std::span<const std::byte>> slots, std::span<std::byte> out) {
    return sum_->add(slots, options_.wire, out);
  };
  sum.in_blocks = sum_->on_host();
  sum.last = [&] {
    waiting_ += watch_.seconds();
    end_section();
    told_.assign(sizeof section_, {});
    std::memcpy(told_.data(), &section_, sizeof section_);
    append(told_, own_results_);
    return std::span<const std::byte>(told_);
  };
  sum.last_bytes = told_bytes;
  GRAFT_TRY(note(transfer_.end(sum, is_packed ? on_wire_ : sums_)));
  if (is_packed) unpack(on_wire_, options_.wire, sums_);
  return ok_status();
}

/// As all told them with the last sums.
void GroupExchange::take_results() {
  results_.clear();
  sections_.clear();
  for (std::size_t rank = 0; rank < group_.size(); ++rank) {
    const std::span<const std::byte> told = transfer_.last(rank);
    sections_.push_back(read_as<train::WorkerSection>(told));
    append(results_, told.subspan(sizeof section_));
  }
  if (options_.moves_shares) paces_.note(sections_);
}

Status GroupExchange::gather(std::span<const std::span<std::byte>> parts, bool to_first) {
  // A part is as large as a worker's share of the optimizer's state: it goes in pieces.
  const std::uint64_t piece = std::max<std::uint64_t>(options_.piece / group_.size(), 1) * sizeof(float);
  std::uint64_t longest = 0;
  for (const std::span<std::byte> part : parts) longest = std::max<std::uint64_t>(longest, part.size());
  const std::size_t rank = group_.rank();
  for (std::uint64_t at = 0; at < longest; at += piece) {
    const auto part_of = [&](std::size_t r) {
      const std::uint64_t begin = std::min<std::uint64_t>(at, parts[r].size());
      return parts[r].subspan(begin, std::min<std::uint64_t>(piece, parts[r].size() - begin));
    };
    for (std::size_t r = 0; r < group_.size(); ++r) {
      const bool gives = r != rank && (!to_first || r == 0), takes = r != rank && (!to_first || rank == 0);
      const std::span<std::byte> given = gives ? part_of(rank) : std::span<std::byte>();
      std::ranges::copy(given, parcels_.out(r, given.size()).begin());
      parcels_.expect(r, takes ? part_of(r).size() : 0);
    }
    GRAFT_TRY(note(parcels_.send(options_.within_step)));
    for (std::size_t r = 0; r < group_.size(); ++r) std::ranges::copy(parcels_.in(r), part_of(r).begin());
  }
  return ok_status();
}

Result<train::SlotExchange::Sums> GroupExchange::end() {
  computing_ += watch_.seconds();
  watch_.restart();
  GRAFT_TRY(share_sums());
  take_results();
  Sums sums;
  statistics_.clear();
  const std::uint64_t each = result_bytes();
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
