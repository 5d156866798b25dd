#include "runtime/report/run_profile.h"

#include <algorithm>
#include <map>

#include "platform/base/stable_sort.h"

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
    if (steps_.size() > most_ + 1) steps_.erase(steps_.begin());  // the newest may come to nothing
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
  auto known = std::ranges::find(known_, &program, &std::pair<const Program*, std::size_t>::first);
  if (known == known_.end()) {
    known = known_.insert(known, {&program, plans_.size()});
    plans_.push_back(program.plan());
  }
  Run run;
  run.plan = known->second;
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

void RunProfile::closing(const Program& program) {
  std::erase_if(known_, [&](const auto& known) { return known.first == &program; });
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

/// Of a type that others have too: a map of its own would be another two kilobytes of code.
using PlaceOf = std::map<std::string, std::uint32_t, std::less<>>;

/// Live bytes at the fullest moment, by the node that made them; inputs by "(inputs)".
struct HeldAtPeak {
  PlaceOf place;  ///< into `bytes`
  std::vector<std::uint64_t> bytes;

  explicit HeldAtPeak(const Plan& plan) {
    if (plan.peak_node == kNoIndex) return;
    // Values that share memory count once, as the last that was made.
    struct Owner {
      const PlanValue* value = nullptr;
      std::uint64_t bytes = 0;
    };
    std::vector<Owner> owners;  // by storage
    for (const PlanValue& value : plan.values) {
      if (value.space != Space::transient || value.bytes == 0) continue;
      if (value.first > plan.peak_node || value.last < plan.peak_node) continue;
      if (owners.size() <= value.storage) owners.resize(std::size_t{value.storage} + 1);
      Owner& owner = owners[value.storage];
      if (owner.value == nullptr || owner.value->first < value.first) owner.value = &value;
      owner.bytes = std::max(owner.bytes, value.bytes);
    }
    for (const Owner& owner : owners) {
      if (owner.value == nullptr) continue;
      const bool input = std::ranges::find(plan.inputs, owner.value->value, &PlanPort::value) != plan.inputs.end();
      add(input ? "(inputs)" : plan.nodes[owner.value->first].name, owner.bytes);
    }
    const PlanNode& peak = plan.nodes[plan.peak_node];
    if (peak.scratch_bytes != 0) add(peak.name, peak.scratch_bytes);
  }

  void add(const std::string& name, std::uint64_t more) {
    const auto [at, fresh] = place.try_emplace(name, static_cast<std::uint32_t>(bytes.size()));
    if (fresh) bytes.push_back(0);
    bytes[at->second] += more;
  }
};

/// Adds up rows of the same name.
class ConsumerTable {
 public:
  Consumer& row(const std::string& name, const std::string& op) {
    const auto [at, fresh] = index_.try_emplace(name, static_cast<std::uint32_t>(rows_.size()));
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
    graft::stable_sort(rows_, [](const Consumer& a, const Consumer& b) { return a.seconds > b.seconds; });
    return std::move(rows_);
  }

 private:
  PlaceOf index_;
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
    PlaceOf node_of;
    for (std::uint32_t n = 0; n < fullest->nodes.size(); ++n) node_of[fullest->nodes[n].name] = n;
    const HeldAtPeak held(*fullest);
    for (const auto& [name, place] : held.place) {
      const auto node = node_of.find(name);
      table.row(name, node == node_of.end() ? "copy" : fullest->nodes[node->second].op).peak_bytes = held.bytes[place];
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
