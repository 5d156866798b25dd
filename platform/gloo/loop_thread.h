// The thread in which Gloo reads and writes.
#pragma once

#include <gloo/transport/tcp/device.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "platform/base/status.h"

namespace graft::gloo_group {

/// Runs functions there, so that what they send and receive takes a connection's lock in no other thread: while another
/// has it, Gloo's asks again and again, at the full speed of a core, whether the connection has something to read.
///
/// Threads: run() from one at a time, not from Gloo's.
class LoopThread : private ::gloo::transport::tcp::Handler {
 public:
  static Result<std::unique_ptr<LoopThread>> of(const std::shared_ptr<::gloo::transport::Device>& device);
  ~LoopThread() override;
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  /// Returns once it has run; throws what it throws.
  void run(const std::function<void()>& body);

 private:
  LoopThread(std::shared_ptr<::gloo::transport::tcp::Device> device, int wakes)
      : device_(std::move(device)), wakes_(wakes) {}
  void handleEvents(int events) override;

  const std::shared_ptr<::gloo::transport::tcp::Device> device_;
  const int wakes_;  ///< an eventfd
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* body_ = nullptr;
  std::exception_ptr thrown_;
};

}  // namespace graft::gloo_group
