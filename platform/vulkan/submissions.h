// Queueing work and waiting for it: a timeline semaphore where there is one, fences elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "platform/vulkan/context.h"

namespace graft::vulkan {

class Submissions {
 public:
  explicit Submissions(Context& context) : context_(context) {}
  ~Submissions();
  Submissions(const Submissions&) = delete;
  Submissions& operator=(const Submissions&) = delete;

  Status initialize(bool timeline);

  /// Queues the buffers in order. Allocates nothing once as many submissions were in flight as ever will be.
  Result<gpu::Ticket> submit(std::span<const VkCommandBuffer> buffers);
  Status wait(gpu::Ticket ticket, std::chrono::nanoseconds timeout);

  /// True when `ticket` is known to be complete; asks the device without waiting.
  bool completed(gpu::Ticket ticket);

  /// Waits until nothing runs, so that objects may be destroyed; does nothing when idle. False where the device
  /// does not answer for a minute: what it may still use must then be leaked rather than freed under it.
  bool quiesce();

 private:
  struct Pending {
    gpu::Ticket ticket = 0;
    VkFence fence = VK_NULL_HANDLE;
  };
  Result<VkFence> take_fence();
  /// VK_TIMEOUT once so much time has passed in which this process ran.
  VkResult wait_raw(gpu::Ticket ticket, std::chrono::nanoseconds timeout, CallFaults* faults);
  VkResult wait_once(gpu::Ticket ticket, std::uint64_t timeout_ns, CallFaults* faults);
  void mark_complete(gpu::Ticket ticket);

  Context& context_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  std::vector<VkFence> free_fences_;
  std::vector<Pending> pending_;  ///< fences only; oldest first
  gpu::Ticket submitted_ = 0;
  gpu::Ticket completed_ = 0;
};

}  // namespace graft::vulkan
