#include "runtime/session/callback_group.h"

#include <array>
#include <vector>

namespace graft {
namespace {

Status status_of(graft_status status, std::array<char, 1024>& message, const char* otherwise) {
  if (status == GRAFT_OK) return ok_status();
  message.back() = '\0';
  const bool known = status > GRAFT_OK && status <= static_cast<graft_status>(Code::internal);
  return Status(known ? static_cast<Code>(status) : Code::io_error, message[0] == '\0' ? otherwise : message.data());
}

}  // namespace

Status CallbackGroup::exchange(group::OutParts out, group::InParts in, std::chrono::nanoseconds deadline) {
  std::vector<const void*> from;
  std::vector<std::size_t> from_bytes, to_bytes;
  std::vector<void*> to;
  for (const std::span<const std::byte> part : out) {
    from.push_back(part.data());
    from_bytes.push_back(part.size());
  }
  for (const std::span<std::byte> part : in) {
    to.push_back(part.data());
    to_bytes.push_back(part.size());
  }
  const std::uint64_t ms =
      deadline == group::kNoDeadline
          ? UINT64_MAX
          : static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(deadline).count());
  std::array<char, 1024> message = {};
  const graft_status status = group_.exchange(group_.user, out.size() / group_.size, from.data(), from_bytes.data(),
                                              to.data(), to_bytes.data(), ms, message.data(), message.size());
  return status_of(status, message, "An exchange with the other workers failed.");
}

Status CallbackGroup::reform() {
  if (group_.reform == nullptr) return Group::reform();
  std::array<char, 1024> message = {};
  const graft_status status = group_.reform(group_.user, &group_.rank, &group_.size, message.data(), message.size());
  GRAFT_TRY(status_of(status, message, "The workers could not meet again."));
  if (group_.rank < group_.size) return ok_status();
  return invalid("The graft_group's rank ", group_.rank, " is not below its size, ", group_.size, ".");
}

}  // namespace graft
