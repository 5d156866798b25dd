#include "runtime/session/run_profile.h"

#include <algorithm>
#include <set>

namespace graft {

RunProfile::StepTrace& RunProfile::current(Time begin) {
  if (steps_.empty()) steps_.push_back({next_, begin, begin, {}, {}});
  return steps_.back();
}

void RunProfile::phase(HostPhase phase, Time begin, Time end) {
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

Status RunProfile::ran(Program& program) {
  if (paused_) {
    submitted_ = false;
    return ok_status();
  }
  const auto [at, fresh] = known_.try_emplace(&program, plans_.size());
  if (fresh) plans_.push_back(program.plan());
  Run run;
  run.plan = at->second;
  run.submissions = program.submissions();
  GRAFT_TRY_ASSIGN(run.times, program.step_times());
  if (!run.times.empty() && submitted_) {
    earliest_ = std::max(earliest_, seconds_of(first_submit_) - run.times.front().begin);
    latest_ = std::min(latest_, seconds_of(last_wait_) - run.times.back().end);
  }
  submitted_ = false;
  current(last_wait_).runs.push_back(std::move(run));
  return ok_status();
}

std::vector<const RunProfile::StepTrace*> RunProfile::steps() const {
  std::vector<const StepTrace*> out;
  for (const StepTrace& step : steps_) {
    if (!step.runs.empty()) out.push_back(&step);
  }
  if (out.size() > most_) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(most_));
  return out;
}

double RunProfile::device_offset() const { return 0.5 * earliest_ + 0.5 * latest_; }

namespace {

const char* copy_row_name(StepKind kind) {
  switch (kind) {
    case StepKind::upload: return "(inputs)";
    case StepKind::readback: return "(outputs)";
    case StepKind::refill: return "(streamed weights)";
    default: return "(copies)";
  }
}

/// Live bytes at the fullest moment, by the node that made them; inputs by "(inputs)".
std::map<std::string, std::uint64_t> held_at_peak(const Plan& plan) {
  std::map<std::string, std::uint64_t> held;
  if (plan.peak_node == kNoIndex) return held;
  std::set<std::uint32_t> inputs;
  for (const PlanPort& port : plan.inputs) inputs.insert(port.value);
  // Values that share memory count once, as the last that was made.
  std::map<std::uint32_t, const PlanValue*> owners;
  std::map<std::uint32_t, std::uint64_t> bytes;
  for (const PlanValue& value : plan.values) {
    if (value.space != Space::transient || value.bytes == 0) continue;
    if (value.first > plan.peak_node || value.last < plan.peak_node) continue;
    const PlanValue*& owner = owners[value.storage];
    if (owner == nullptr || owner->first < value.first) owner = &value;
    bytes[value.storage] = std::max(bytes[value.storage], value.bytes);
  }
  for (const auto& [storage, value] : owners) {
    const bool input = inputs.contains(value->value);
    held[input ? "(inputs)" : plan.nodes[value->first].name] += bytes[storage];
  }
  const PlanNode& peak = plan.nodes[plan.peak_node];
  if (peak.scratch_bytes != 0) held[peak.name] += peak.scratch_bytes;
  return held;
}

/// Adds up rows of the same name.
class ConsumerTable {
 public:
  Consumer& row(const std::string& name, const std::string& op) {
    const auto [at, fresh] = index_.try_emplace(name, rows_.size());
    if (fresh) rows_.push_back({name, op, 0, 0, 0, 0, 0, 0});
    return rows_[at->second];
  }
  void add(const Plan& plan, const StepTime& time) {
    const Step& step = plan.steps[time.step];
    const PlanNode* node = step.node == kNoIndex ? nullptr : &plan.nodes[step.node];
    Consumer& row = node == nullptr ? this->row(copy_row_name(step.kind), "copy") : this->row(node->name, node->op);
    row.calls += 1;
    row.seconds += time.end - time.begin;
    row.flops += step.flops;
    row.bytes += step.bytes;
  }
  std::vector<Consumer> sorted() && {
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const Consumer& a, const Consumer& b) { return a.seconds > b.seconds; });
    return std::move(rows_);
  }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<Consumer> rows_;
};

void add_consumer(Consumer& sum, const Consumer& node) {
  sum.nodes += 1;
  sum.calls += node.calls;
  sum.seconds += node.seconds;
  sum.flops += node.flops;
  sum.bytes += node.bytes;
  sum.peak_bytes += node.peak_bytes;
}

std::vector<Consumer> consumers_by_op(const std::vector<Consumer>& nodes) {
  ConsumerTable table;
  for (const Consumer& node : nodes) {
    Consumer& row = table.row(node.op, node.op);
    add_consumer(row, node);
  }
  return std::move(table).sorted();
}

}  // namespace

Consumers consumers_of(const RunProfile& profile) {
  Consumers all;
  ConsumerTable table;
  const Plan* fullest = nullptr;
  for (const RunProfile::StepTrace* step : profile.steps()) {
    ++all.steps;
    all.step_seconds += step->seconds();
    for (const RunProfile::Phase& phase : step->phases) {
      all.host_seconds[static_cast<std::size_t>(phase.phase)] +=
          std::chrono::duration<double>(phase.end - phase.begin).count();
    }
    for (const RunProfile::Run& run : step->runs) {
      const Plan& plan = profile.plans()[run.plan];
      if (fullest == nullptr || plan.lower_bound > fullest->lower_bound) fullest = &plan;
      all.barriers += plan.barriers;
      all.submissions += run.submissions;
      for (const StepTime& time : run.times) {
        table.add(plan, time);
        all.device_seconds += time.end - time.begin;
        all.dispatches += plan.steps[time.step].kind == StepKind::dispatch ? 1 : 0;
      }
    }
  }
  for (std::size_t i = 0; i < std::size(kHostPhaseNames); ++i) {
    all.total_host_seconds[i] = profile.seconds_in(static_cast<HostPhase>(i));
  }
  if (fullest != nullptr) {
    std::map<std::string, std::string> op_of;
    for (const PlanNode& node : fullest->nodes) op_of[node.name] = node.op;
    for (const auto& [name, bytes] : held_at_peak(*fullest)) {
      const auto op = op_of.find(name);
      table.row(name, op == op_of.end() ? "copy" : op->second).peak_bytes = bytes;
    }
    all.arena_at_peak = fullest->lower_bound;
    all.resident_bytes = fullest->memory.total() - fullest->transient_bytes;
    if (fullest->peak_node != kNoIndex) all.peak_node = fullest->nodes[fullest->peak_node].name;
  }
  all.nodes = std::move(table).sorted();
  all.ops = consumers_by_op(all.nodes);
  return all;
}

}  // namespace graft
