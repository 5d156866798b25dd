#include "runtime/c_api/c_worker.h"

#include <condition_variable>
#include <deque>
#include <utility>

namespace graft::c_api {

/// The thread's as well: it may outlive the worker for the moment in which it ends.
struct Worker::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool ends = false;

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ends || !jobs.empty(); });
      if (jobs.empty()) return;
      std::function<void()> job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      job();
      job = nullptr;  // what it holds goes before the lock is taken: perhaps the worker with it
      lock.lock();
    }
  }
};

Worker::~Worker() {
  if (queue_ == nullptr) return;
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->ends = true;
  }
  queue_->changed.notify_all();
  if (thread_.is_this_thread()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

Status Worker::ask(std::function<void()> job) {
  const std::lock_guard starting(starting_);
  if (queue_ == nullptr) {
    auto queue = std::make_shared<Queue>();
    GRAFT_TRY_ASSIGN(thread_, os::start_thread([queue] { queue->work(); }, "to work beside the app"));
    queue_ = std::move(queue);
  }
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->jobs.push_back(std::move(job));
  }
  queue_->changed.notify_all();
  return ok_status();
}

}  // namespace graft::c_api
