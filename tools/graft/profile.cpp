#include "tools/graft/profile.h"

#include <algorithm>

namespace graft::cli {

Profile::StepTrace& Profile::current(Time begin) {
  if (steps_.empty()) steps_.push_back({next_, begin, begin, {}, {}});
  return steps_.back();
}

void Profile::phase(HostPhase phase, Time begin, Time end) {
  if (paused_) return;
  totals_[static_cast<std::size_t>(phase)] += std::chrono::duration<double>(end - begin).count();
  if (!began_ && (phase == HostPhase::compile || phase == HostPhase::record)) return;  // setting up
  if (phase == HostPhase::data) {
    if (!began_) steps_.clear();  // what came before the first batch
    if (!steps_.empty() && !steps_.back().runs.empty()) ++next_;
    if (!steps_.empty() && steps_.back().runs.empty()) steps_.pop_back();
    began_ = true;
    steps_.push_back({next_, begin, end, {}, {}});
    if (steps_.size() > most_ + 1) steps_.pop_front();  // the newest may come to nothing
  }
  StepTrace& step = current(begin);
  step.phases.push_back({phase, begin, end});
  step.end = std::max(step.end, end);
  if (phase == HostPhase::submit && !submitted_) {
    submitted_ = true;
    first_submit_ = begin;
  }
  if (phase == HostPhase::wait) last_wait_ = end;
}

graft::Status Profile::ran(Program& program) {
  if (paused_) {
    submitted_ = false;
    return ok_status();
  }
  const auto [at, fresh] = known_.try_emplace(&program, plans_.size());
  if (fresh) plans_.push_back(program.plan());
  Run run;
  run.plan = at->second;
  run.submissions = program.submissions();
  TRY_ASSIGN(run.times, program.step_times());
  if (!run.times.empty() && submitted_) {
    earliest_ = std::max(earliest_, seconds_of(first_submit_) - run.times.front().begin);
    latest_ = std::min(latest_, seconds_of(last_wait_) - run.times.back().end);
  }
  submitted_ = false;
  current(last_wait_).runs.push_back(std::move(run));
  return ok_status();
}

std::vector<const Profile::StepTrace*> Profile::steps() const {
  std::vector<const StepTrace*> out;
  for (const StepTrace& step : steps_) {
    if (!step.runs.empty()) out.push_back(&step);
  }
  if (out.size() > most_) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(most_));
  return out;
}

double Profile::device_offset() const { return 0.5 * earliest_ + 0.5 * latest_; }

}  // namespace graft::cli
