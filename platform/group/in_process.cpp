#include "platform/group/in_process.h"

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "platform/base/patience.h"

namespace graft::group {
namespace {

// Where the workers meet. A round has two halves: all parts are there, and all parts were copied.
class Meeting {
 public:
  Meeting(std::size_t size, std::vector<Fault> faults) : workers_(size), faults_(std::move(faults)) {}

  std::size_t size() const { return workers_.size(); }

  Status exchange(std::size_t rank, OutParts out, InParts in, std::chrono::nanoseconds deadline) {
    if (out.size() != in.size() || out.empty() || out.size() % size() != 0) {
      return invalid("An exchange among ", size(), " workers takes as many parts for each.");
    }
    const Fault* const fault = fault_of(rank);
    if (fault != nullptr && fault->kind == Fault::Kind::delay) std::this_thread::sleep_for(fault->delay);
    if (fault != nullptr && fault->kind == Fault::Kind::disconnect) {
      leave(rank, error(Code::io_error, "its connection was cut."));
    }
    std::unique_lock lock(mutex_);
    if (!broken_.ok()) return broken_;
    if (fault == nullptr || fault->kind != Fault::Kind::drop) {
      workers_[rank].out = out;
      workers_[rank].corrupt = fault != nullptr && fault->kind == Fault::Kind::corrupt;
      workers_[rank].here = true;
      if (++here_ == size()) changed_.notify_all();
    }
    wait_for_all(lock, deadline);
    if (here_ != size()) return broken_;  // nobody has begun to copy, and nobody will
    const std::uint64_t round = round_;
    lock.unlock();
    Status taken = take(rank, in);
    lock.lock();
    if (!taken.ok() && failed_.ok()) failed_ = std::move(taken);
    if (++done_ == size()) end_round();
    changed_.wait(lock, [&] { return round_ != round; });  // parts stay until all have copied them
    return outcome_;
  }

  void leave(std::size_t rank, const Status& why) {
    const std::lock_guard lock(mutex_);
    if (!broken_.ok()) return;
    broken_ = why.ok() ? error(Code::cancelled, "Worker ", rank, " has ended its work.")
                       : error(why.code(), "Worker ", rank, " stopped: ", why.message());
    changed_.notify_all();
  }

 private:
  struct Worker {
    OutParts out;
    bool here = false;
    bool corrupt = false;
    std::uint64_t calls = 0;  // of its own thread
  };

  const Fault* fault_of(std::size_t rank) {
    const std::uint64_t call = workers_[rank].calls++;
    for (const Fault& fault : faults_) {
      if (fault.rank == rank && fault.call == call) return &fault;
    }
    return nullptr;
  }

  void end_round() {
    for (Worker& worker : workers_) worker.here = false;
    here_ = done_ = 0;
    ++round_;
    outcome_ = failed_;
    if (broken_.ok()) broken_ = failed_;
    changed_.notify_all();
  }

  // Or until somebody has left, or the deadline.
  void wait_for_all(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds deadline) {
    const auto over = [&] { return !broken_.ok() || here_ == size(); };
    if (wait_in_slices(deadline, [&](auto slice) { return changed_.wait_for(lock, slice, over); })) return;
    std::string missing;
    for (std::size_t r = 0; r < size(); ++r) {
      if (!workers_[r].here) missing += cat(missing.empty() ? "" : ", ", r);
    }
    broken_ =
        error(Code::timeout, "Of ", size(), " workers, these did not come to an exchange in time: ", missing, ".");
    changed_.notify_all();
  }

  Status take(std::size_t rank, InParts in) const {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t r = i % size(), part = i - r;
      if (workers_[r].out.size() != in.size()) {
        return invalid("Worker ", r, " gives ", workers_[r].out.size() / size(), " parts; worker ", rank, " waits for ",
                       in.size() / size(), ".");
      }
      const std::span<const std::byte> from = workers_[r].out[part + rank];
      if (from.size() != in[i].size()) {
        return invalid("Worker ", r, " gives worker ", rank, " ", from.size(), " bytes; it waits for ", in[i].size(),
                       ".");
      }
      if (!from.empty()) std::memcpy(in[i].data(), from.data(), from.size());
      if (workers_[r].corrupt && r != rank && !from.empty()) in[i][0] ^= std::byte{1};
    }
    return {};
  }

  std::vector<Worker> workers_;
  const std::vector<Fault> faults_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t here_ = 0;  // workers of this round that have come,
  std::size_t done_ = 0;  // and that have copied
  std::uint64_t round_ = 0;
  Status failed_;   // of a round in which not all could copy
  Status outcome_;  // of the round before: no other ends before all have read it
  Status broken_;   // why there is no further round
};

class InProcess : public Group {
 public:
  InProcess(std::shared_ptr<Meeting> meeting, std::size_t rank) : meeting_(std::move(meeting)), rank_(rank) {}
  ~InProcess() override { meeting_->leave(rank_, {}); }
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return meeting_->size(); }
  Status exchange(OutParts out, InParts in, std::chrono::nanoseconds deadline) override {
    return meeting_->exchange(rank_, out, in, deadline);
  }
  void leave(const Status& why) override { meeting_->leave(rank_, why); }

 private:
  const std::shared_ptr<Meeting> meeting_;  // the last to go takes it along
  const std::size_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> in_process(std::size_t size, std::vector<Fault> faults) {
  const auto meeting = std::make_shared<Meeting>(size, std::move(faults));
  std::vector<std::unique_ptr<Group>> ends;
  for (std::size_t r = 0; r < size; ++r) ends.push_back(std::make_unique<InProcess>(meeting, r));
  return ends;
}

}  // namespace graft::group
