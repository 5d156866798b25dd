#include "runtime/run_state/snapshot_thread.h"

#include <chrono>
#include <utility>

#include "platform/os/caught.h"

namespace graft {

Result<std::unique_ptr<SnapshotThread>> SnapshotThread::create(checkpoint::Store& store, std::mutex& store_mutex,
                                                               const checkpoint::Retention& retention,
                                                               std::uint64_t sync_delay_ms) {
  std::unique_ptr<SnapshotThread> made(new SnapshotThread(store, store_mutex, retention, sync_delay_ms));
  GRAFT_TRY_ASSIGN(made->thread_, os::start_thread([thread = made.get()] { thread->work(); }, "to write snapshots"));
  return made;
}

SnapshotThread::~SnapshotThread() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool SnapshotThread::busy() const {
  std::lock_guard lock(mutex_);
  return job_.has_value();
}

void SnapshotThread::start(std::unique_ptr<checkpoint::SnapshotWriter> writer, std::unique_ptr<RunStreams> streams,
                           bool allow_non_finite) {
  {
    std::lock_guard lock(mutex_);
    job_.emplace(Job{std::move(writer), std::move(streams), allow_non_finite});
  }
  changed_.notify_all();
}

std::optional<Status> SnapshotThread::take_result() {
  std::lock_guard lock(mutex_);
  return std::exchange(result_, std::nullopt);
}

std::optional<Status> SnapshotThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !job_; });
  return std::exchange(result_, std::nullopt);
}

void SnapshotThread::start_sync() {
  {
    std::lock_guard lock(mutex_);
    sync_wanted_ = true;
  }
  changed_.notify_all();
}

Status SnapshotThread::wait_for_sync() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !sync_wanted_; });
  return std::exchange(sync_failure_, {});
}

void SnapshotThread::sync(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  Status status;
  {
    std::lock_guard store_lock(store_mutex_);
    status = os::caught([&] { return store_.sync_journal(); });
  }
  lock.lock();
  if (!status.ok() && sync_failure_.ok()) sync_failure_ = std::move(status);
  sync_wanted_ = false;
  changed_.notify_all();
}

Status SnapshotThread::write(Job& job) {
  if (!job.allow_non_finite) GRAFT_TRY(job.streams->check_finite());
  for (const checkpoint::StreamInput& stream : job.streams->inputs()) GRAFT_TRY(job.writer->add(stream));
  GRAFT_TRY(job.writer->finish());
  std::lock_guard lock(store_mutex_);
  return detail::to_status(store_.commit_snapshot(std::move(job.writer)));
}

/// Old snapshots go, and segments that are mostly waste. What fails here is tried again after the next snapshot.
Status SnapshotThread::tidy() {
  std::unique_ptr<checkpoint::Compactor> compactor;
  {
    std::lock_guard lock(store_mutex_);
    GRAFT_TRY(store_.prune(retention_));
    GRAFT_TRY_ASSIGN(compactor, store_.begin_compaction(true));
  }
  if (!compactor) return ok_status();
  GRAFT_TRY(compactor->run());
  std::lock_guard lock(store_mutex_);
  return detail::to_status(store_.commit_compaction(std::move(compactor)));
}

void SnapshotThread::work() {
  const auto delay = std::chrono::milliseconds(sync_delay_ms_);
  std::unique_lock lock(mutex_);
  const auto called = [&] { return stopping_ || job_ || sync_wanted_; };
  for (;;) {
    if (sync_delay_ms_ == 0) changed_.wait(lock, called);
    const bool overdue = sync_delay_ms_ != 0 && !changed_.wait_for(lock, delay, called);
    if (overdue || sync_wanted_) {
      sync(lock);
      continue;
    }
    if (!job_) return;
    lock.unlock();
    Status status = os::caught([&] { return write(*job_); });
    if (status.ok()) (void)os::caught([&] { return tidy(); });
    lock.lock();
    job_.reset();
    result_ = std::move(status);
    changed_.notify_all();
  }
}

}  // namespace graft
