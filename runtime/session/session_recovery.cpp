// Sessions whose device memory is given back, or whose device is lost, and that go on.
#include <algorithm>

#include "runtime/core/features.h"
#include "runtime/session/session.h"

namespace graft {

Status Session::try_pause() {
  if (paused_) return ok_status();
  GRAFT_TRY(now_->program->settle());
  GRAFT_TRY(unbind_all());
  Paused paused{memory_->residents(), sizes_.front()->program->plan(), plan(), {}, {}};
  GRAFT_TRY(read_residents(*memory_, changes_on_device, paused.state));
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const auto staging = now_->program->input(i);
    paused.inputs.emplace_back(staging.begin(), staging.end());
  }
  for (auto& sized : sizes_) sized->program.reset();
  std::erase_if(sizes_, [&](const auto& sized) { return sized.get() != now_ && sized != sizes_.front(); });
  memory_.reset();
  paused_ = std::move(paused);
  return ok_status();
}

Status Session::try_resume() {
  if (!paused_) return ok_status();
  const Plan* const plans[] = {&paused_->bound, &paused_->plan};
  GRAFT_TRY_ASSIGN(auto memory, Memory::create(*device_, paused_->residents, plans));
  GRAFT_TRY(upload(*memory));
  GRAFT_TRY(write_residents(*memory, paused_->state));
  GRAFT_TRY_ASSIGN(auto bound, Program::create(*memory, paused_->bound, options_.program));
  std::unique_ptr<Program> now;
  if (now_ != sizes_.front().get()) {
    GRAFT_TRY_ASSIGN(now, Program::create(*memory, paused_->plan, options_.program));
  }
  Program& current = now ? *now : *bound;
  for (std::size_t i = 0; i < given_.size(); ++i) std::ranges::copy(paused_->inputs[i], current.input(i).begin());
  memory_ = std::move(memory);
  sizes_.front()->program = std::move(bound);
  if (now) now_->program = std::move(now);
  kept_ = std::move(paused_->state);
  paused_.reset();
  return ok_status();
}

Status Session::pause() {
  return on_device([&] { return try_pause(); });
}

Status Session::resume() {
  return on_device([&] { return try_resume(); });
}

Status Session::swap_adapters(const Model* adapter) {
  return on_device([&]() -> Status {
    GRAFT_TRY(try_resume());
    GRAFT_TRY(adapters_.swap(*memory_, adapter));
    return kHasRecovery && options_.reopen ? keep_copy() : ok_status();
  });
}

/// What the device alone has, for recover(): all of it or, where a call fails, none.
Status Session::keep_copy() {
  GRAFT_TRY(read_residents(*memory_, changes_on_device, next_kept_));
  std::swap(kept_, next_kept_);
  return ok_status();
}

/// The session as if it were paused, on a new device.
Status Session::recover(const Status& why) {
  if constexpr (!kHasRecovery) return why;
  if (!paused_) {
    const bool was_bound = !now_->imported.empty();
    for (const auto& [name, buffer] : now_->imported) {
      const auto& ports = plan().inputs;
      const auto port = std::ranges::find(ports, name, &PlanPort::name);
      if (buffer && port != ports.end()) given_[static_cast<std::size_t>(port - ports.begin())] = false;
    }
    Paused paused{memory_->residents(), sizes_.front()->program->plan(), plan(), std::move(kept_), {}};
    kept_.clear();
    paused.inputs = copies_;
    paused.inputs.resize(given_.size());
    for (auto& sized : sizes_) {
      sized->program.reset();
      sized->imported.clear();
    }
    std::erase_if(sizes_, [&](const auto& sized) { return sized.get() != now_ && sized != sizes_.front(); });
    memory_.reset();
    paused_ = std::move(paused);
    GRAFT_TRY_ASSIGN(device_, options_.reopen(*device_));
    if (was_bound) return Status(why).with_context("What was bound to memory of the app's has to be bound again");
    return ok_status();
  }
  GRAFT_TRY_ASSIGN(device_, options_.reopen(*device_));
  return ok_status();
}

}  // namespace graft
