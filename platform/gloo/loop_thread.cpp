#include "platform/gloo/loop_thread.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "platform/gloo/wire.h"

namespace graft::gloo_group {

Result<std::unique_ptr<LoopThread>> LoopThread::of(const std::shared_ptr<::gloo::transport::Device>& device) {
  auto over_tcp = std::dynamic_pointer_cast<::gloo::transport::tcp::Device>(device);
  if (over_tcp == nullptr) return error(Code::internal, "Gloo's device is not one over TCP.");
  const int wakes = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wakes < 0) return failure("Gloo's thread cannot be woken");
  std::unique_ptr<LoopThread> made(new LoopThread(std::move(over_tcp), wakes));
  made->device_->registerDescriptor(wakes, EPOLLIN, made.get());
  return made;
}

LoopThread::~LoopThread() {
  device_->unregisterDescriptor(wakes_, this);
  close(wakes_);
}

void LoopThread::run(const std::function<void()>& body) {
  std::unique_lock lock(mutex_);
  body_ = &body;
  thrown_ = nullptr;
  const std::uint64_t one = 1;
  if (write(wakes_, &one, sizeof one) != sizeof one) throw std::runtime_error("Gloo's thread cannot be woken.");
  changed_.wait(lock, [&] { return body_ == nullptr; });
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void LoopThread::handleEvents(int) {
  std::uint64_t count = 0;
  if (read(wakes_, &count, sizeof count) != sizeof count) return;
  const std::unique_lock lock(mutex_);
  if (body_ == nullptr) return;
  try {
    (*body_)();
  } catch (...) {
    thrown_ = std::current_exception();
  }
  body_ = nullptr;
  changed_.notify_all();
}

}  // namespace graft::gloo_group
