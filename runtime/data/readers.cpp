#include "runtime/data/readers.h"

#include <algorithm>
#include <utility>

#include "platform/os/caught.h"

namespace graft::data {

Readers::Readers(std::size_t threads) {
  for (std::size_t i = 0; i < threads; ++i) {
    auto thread = os::start_thread([this] { work(); }, "to read samples");
    if (!thread.ok()) return;  // fewer do the same work, only later
    threads_.push_back(std::move(thread).value());
  }
}

Readers::~Readers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (os::Thread& thread : threads_) thread.join();
}

void Readers::take_part() {
  for (;;) {
    std::size_t mine = 0;
    {
      std::lock_guard lock(mutex_);
      if (next_ >= count_) return;
      mine = next_++;
      ++busy_;
    }
    Status status = os::caught([&] { return (*read_)(mine); });
    std::lock_guard lock(mutex_);
    --busy_;
    if (!status.ok() && mine < failed_) {
      failed_ = mine;
      status_ = std::move(status);
      count_ = std::min(count_, next_);  // those before it are read all the same: one of them may be the first to fail
    }
    if (busy_ == 0 && next_ >= count_) changed_.notify_all();
  }
}

void Readers::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || next_ < count_; });
      if (stopping_) return;
    }
    take_part();
  }
}

Status Readers::run(std::size_t count, const std::function<Status(std::size_t)>& read, std::size_t& failed) {
  {
    std::lock_guard lock(mutex_);
    read_ = &read;
    next_ = 0;
    count_ = count;
    failed_ = count;
    status_ = {};
  }
  changed_.notify_all();
  take_part();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_ == 0 && next_ >= count_; });
  failed = failed_;
  return std::move(status_);
}

}  // namespace graft::data
