// Training runs, and groups of threads that share one. Included by graft.hpp.
#pragma once

#include "graft/trainer_calls.hpp"

namespace graft {
inline namespace v0 {

/// A training run: Model::trainer() makes it. One call, one optimizer step.
class Trainer : public detail::TrainerCalls {
 public:
  using TrainerCalls::TrainerCalls;
  /// As Model::read(), of what training has made so far.
  template <typename T = float>
  Result<std::vector<T>> read(const std::string& name) {
    return detail::read_tensor<T>(context(), [&](void* data, std::size_t bytes, TensorInfo* info) {
      return graft_trainer_read(get(), name.c_str(), data, bytes, info);
    });
  }
  /// Between two steps; frozen weights cannot be changed. A checkpoint takes a snapshot at once.
  template <typename T>
  Status write(const std::string& name, std::span<const T> data) {
    return status(graft_trainer_write(get(), name.c_str(), data.data(), data.size_bytes()));
  }
};

/// The ends of a group of threads of this process, by rank, for TrainerOptions::group. Outlives their trainers.
class ThreadGroup {
 public:
  /// Of so many threads; empty where the system refuses it.
  explicit ThreadGroup(std::uint32_t size) : ends_(size) {
    if (graft_group_in_process(size, ends_.data()) != GRAFT_OK) ends_.clear();
  }
  ThreadGroup(ThreadGroup&&) = default;  ///< leaves none
  ThreadGroup& operator=(ThreadGroup&&) = delete;
  ~ThreadGroup() {
    for (graft_group& end : ends_) graft_group_release(&end);
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }  ///< 0: there is none
  /// How workers share a step may be set before trainers are made.
  graft_group& operator[](std::uint32_t rank) { return ends_[rank]; }

 private:
  std::vector<graft_group> ends_;
};

}  // namespace v0
}  // namespace graft
