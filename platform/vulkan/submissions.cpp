#include "platform/vulkan/submissions.h"

#include <algorithm>

#include "platform/base/patience.h"

namespace graft::vulkan {
namespace {

constexpr std::chrono::nanoseconds kQuiesceTimeout = std::chrono::seconds(60);

}  // namespace

Submissions::~Submissions() {
  if (!quiesce()) return;
  if (semaphore_ != VK_NULL_HANDLE) context_.fn.DestroySemaphore(context_.device, semaphore_, nullptr);
  for (const Pending& it : pending_) context_.fn.DestroyFence(context_.device, it.fence, nullptr);
  for (VkFence fence : free_fences_) context_.fn.DestroyFence(context_.device, fence, nullptr);
}

Status Submissions::initialize(bool timeline) {
  if (!timeline) return ok_status();
  VkSemaphoreTypeCreateInfoKHR type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO_KHR};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE_KHR;
  VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  info.pNext = &type;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context_, CreateSemaphore, &info, nullptr, &semaphore_);
  if (result != VK_SUCCESS) semaphore_ = VK_NULL_HANDLE;
  // Mesa's answer where a driver claims the feature without any means to wait: without hardware.
  if (result == VK_SUCCESS || result == VK_ERROR_INVALID_EXTERNAL_HANDLE) return ok_status();
  return context_.failed(result, "vkCreateSemaphore", "Creating the timeline semaphore");
}

Result<VkFence> Submissions::take_fence() {
  if (!free_fences_.empty()) {
    VkFence fence = free_fences_.back();
    const VkResult result = GRAFT_VK_DEVICE_CALL(context_, ResetFences, 1u, &fence);
    if (result != VK_SUCCESS) return context_.failed(result, "vkResetFences", "Preparing a submission");
    free_fences_.pop_back();
    return fence;
  }
  const VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence = VK_NULL_HANDLE;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context_, CreateFence, &info, nullptr, &fence);
  if (result != VK_SUCCESS) return context_.failed(result, "vkCreateFence", "Preparing a submission");
  return fence;
}

Result<gpu::Ticket> Submissions::submit(std::span<const VkCommandBuffer> buffers) {
  if (context_.lost)
    return error(Code::device_lost, "The device \"", context_.caps().device_name, "\" was lost before.");
  const gpu::Ticket ticket = submitted_ + 1;
  VkTimelineSemaphoreSubmitInfoKHR timeline{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO_KHR};
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &ticket;
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.commandBufferCount = static_cast<std::uint32_t>(buffers.size());
  info.pCommandBuffers = buffers.data();
  VkFence fence = VK_NULL_HANDLE;
  if (semaphore_ != VK_NULL_HANDLE) {
    info.pNext = &timeline;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &semaphore_;
  } else {
    (void)completed(submitted_);  // recycles fences of a caller that never waits for each ticket
    GRAFT_TRY_ASSIGN(fence, take_fence());
  }
  const bool shared = context_.given && context_.given->lock_queue != nullptr;
  if (shared) context_.given->lock_queue(context_.given->queue_user);
  const VkResult result = GRAFT_VK_CALL(context_.faults, context_.fn, QueueSubmit, context_.queue, 1u, &info, fence);
  if (shared) context_.given->unlock_queue(context_.given->queue_user);
  if (result != VK_SUCCESS) {
    if (fence != VK_NULL_HANDLE) free_fences_.push_back(fence);
    return context_.failed(result, "vkQueueSubmit", cat("Submitting ", buffers.size(), " command lists"));
  }
  if (fence != VK_NULL_HANDLE) pending_.push_back({ticket, fence});
  submitted_ = ticket;
  return ticket;
}

VkResult Submissions::wait_raw(gpu::Ticket ticket, std::chrono::nanoseconds timeout, CallFaults* faults) {
  VkResult result = VK_TIMEOUT;
  (void)wait_in_slices(timeout, [&](std::chrono::nanoseconds slice) {
    result = wait_once(ticket, static_cast<std::uint64_t>(slice.count()), faults);
    return result != VK_TIMEOUT;
  });
  return result;
}

VkResult Submissions::wait_once(gpu::Ticket ticket, std::uint64_t timeout_ns, CallFaults* faults) {
  if (semaphore_ != VK_NULL_HANDLE) {
    VkSemaphoreWaitInfoKHR info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO_KHR};
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore_;
    info.pValues = &ticket;
    return GRAFT_VK_CALL(faults, context_.fn, WaitSemaphoresKHR, context_.device, &info, timeout_ns);
  }
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [&](const Pending& it) { return it.ticket == ticket; });
  if (found == pending_.end()) return VK_SUCCESS;
  return GRAFT_VK_CALL(faults, context_.fn, WaitForFences, context_.device, 1u, &found->fence, VK_TRUE, timeout_ns);
}

void Submissions::mark_complete(gpu::Ticket ticket) {
  completed_ = std::max(completed_, ticket);
  // A fence also covers all that was submitted before it.
  auto keep = pending_.begin();
  for (; keep != pending_.end() && keep->ticket <= completed_; ++keep) free_fences_.push_back(keep->fence);
  pending_.erase(pending_.begin(), keep);
}

Status Submissions::wait(gpu::Ticket ticket, std::chrono::nanoseconds timeout) {
  if (ticket == 0 || ticket > submitted_) {
    return invalid("Ticket ", ticket, " names no submission; the newest is ", submitted_, ".");
  }
  if (ticket <= completed_) return ok_status();
  const VkResult result = wait_raw(ticket, timeout, context_.faults);
  if (result == VK_TIMEOUT) {
    return error(Code::timeout, "Submission ", ticket, " did not finish within ",
                 std::chrono::duration<double>(timeout).count(), " s.");
  }
  const char* name = semaphore_ != VK_NULL_HANDLE ? "vkWaitSemaphores" : "vkWaitForFences";
  if (result != VK_SUCCESS) return context_.failed(result, name, cat("Waiting for submission ", ticket));
  mark_complete(ticket);
  return ok_status();
}

bool Submissions::completed(gpu::Ticket ticket) {
  if (ticket <= completed_) return true;
  if (semaphore_ != VK_NULL_HANDLE) {
    std::uint64_t value = 0;
    if (context_.fn.GetSemaphoreCounterValueKHR(context_.device, semaphore_, &value) == VK_SUCCESS)
      mark_complete(value);
  } else {
    while (!pending_.empty() && wait_raw(pending_.front().ticket, {}, nullptr) == VK_SUCCESS) {
      mark_complete(pending_.front().ticket);
    }
  }
  return ticket <= completed_;
}

bool Submissions::quiesce() {
  if (completed_ == submitted_) return true;
  if (context_.stuck) return false;
  const VkResult result = wait_raw(submitted_, kQuiesceTimeout, nullptr);
  // After a real device loss nothing runs any more, and destroying is allowed.
  if (result != VK_SUCCESS && result != VK_ERROR_DEVICE_LOST) {
    context_.stuck = true;
    context_.log(LogLevel::error, "The device \"", context_.caps().device_name, "\" does not answer (",
                 result_name(result), "); what it uses is not freed.");
    return false;
  }
  mark_complete(submitted_);
  return true;
}

}  // namespace graft::vulkan
