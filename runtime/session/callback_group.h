// A group that somebody else made: graft/distribute.h.
#pragma once

#include "graft/distribute.h"
#include "platform/group/group.h"

namespace graft {

/// Threads: as the group's functions. What they point to outlives it.
class CallbackGroup : public group::Group {
 public:
  explicit CallbackGroup(const graft_group& group) : group_(group) {}
  std::size_t rank() const override { return group_.rank; }
  std::size_t size() const override { return group_.size; }
  Status exchange(group::OutParts out, group::InParts in, std::chrono::nanoseconds deadline) override;
  Status reform() override;
  bool somebody_waits() override {
    return group_.reform != nullptr && group_.waiting != nullptr && group_.waiting(group_.user) != 0;
  }
  void leave(const Status& why) override {
    group_.leave(group_.user, static_cast<graft_status>(why.code()), why.message().c_str());
  }

 private:
  graft_group group_;
};

}  // namespace graft
