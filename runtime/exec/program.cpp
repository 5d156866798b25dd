#include "runtime/exec/program.h"

#include <algorithm>
#include <cstring>

#include "runtime/exec/numbers.h"

namespace graft {
namespace {

// Before anything is measured, lists are cut by what a slow device would need: 10 GFLOP/s and 5 GB/s.
constexpr double kSlowFlopsPerNs = 10;
constexpr double kSlowBytesPerNs = 5;
constexpr double kListNs = 50e6;
constexpr std::uint32_t kListSteps = 64;

std::uint32_t list_end(const Plan& plan, const gpu::Quirks& quirks, std::uint32_t first) {
  const std::uint32_t most = quirks.max_submit_dispatches;
  const std::uint32_t limit = most == 0 ? kListSteps : std::min(most, kListSteps);
  double ns = 0;
  std::uint32_t end = first;
  while (end < plan.steps.size() && end - first < limit) {
    // What is refilled for a list must not be needed before it.
    const auto at_end = [&](const Refill& refill) { return refill.first_step == end; };
    if (end != first && std::any_of(plan.refills.begin(), plan.refills.end(), at_end)) break;
    const Step& step = plan.steps[end];
    ns += static_cast<double>(step.flops) / kSlowFlopsPerNs + static_cast<double>(step.bytes) / kSlowBytesPerNs;
    if (end != first && ns > kListNs) break;
    ++end;
  }
  return end;
}

}  // namespace

std::vector<std::uint32_t> list_ends(const Plan& plan, const gpu::Quirks& quirks) {
  std::vector<std::uint32_t> ends;
  for (std::uint32_t first = 0; first < plan.steps.size(); first = ends.back()) {
    ends.push_back(list_end(plan, quirks, first));
  }
  return ends;
}

Result<std::unique_ptr<Program>> Program::create(Memory& memory, Plan plan, const ProgramOptions& options) {
  if (!memory.covers(plan)) {
    return invalid("The plan needs ", bytes_text(plan.transient_bytes), " of transient memory, ",
                   bytes_text(plan.upload_bytes + plan.readback_bytes), " of staging and ",
                   bytes_text(plan.resident_bytes),
                   " of residents, which the memory was not created for: give it to Memory::create().");
  }
  if (options.profile && memory.device().caps().timestamp_period_ns <= 0) {
    return unsupported("The device \"", memory.device().caps().device_name,
                       "\" has no timestamps, so a program cannot be profiled on it.");
  }
  std::unique_ptr<Program> program(new Program(memory, std::move(plan), options));
  std::vector<gpu::Kernel*> kernels;
  {
    const PhaseScope scope(options.observer, HostPhase::compile);
    GRAFT_TRY_ASSIGN(kernels, memory.kernels().get(program->plan_));
  }
  GRAFT_TRY(program->find_sources());
  const PhaseScope scope(options.observer, HostPhase::record);
  GRAFT_TRY(program->record(kernels));
  return program;
}

Program::~Program() {
  if (options_.observer != nullptr) options_.observer->closing(*this);
  while (flying_ != 0) {
    if (!wait_oldest().ok()) return;  // the device's own destructor deals with work that never ends
  }
}

Status Program::record(const std::vector<gpu::Kernel*>& kernels) {
  std::uint32_t first = 0;
  for (const std::uint32_t end : list_ends(plan_, memory_.device().target().quirks)) {
    GRAFT_TRY(record_list(kernels, first, end).with_context(cat("While recording steps ", first, " to ", end - 1)));
    first = end;
  }
  for (const List& list : lists_) commands_.push_back(list.commands.get());
  return ok_status();
}

Status Program::record_list(const std::vector<gpu::Kernel*>& kernels, std::uint32_t first, std::uint32_t end) {
  const std::uint32_t timestamps = options_.profile ? end - first + 1 : 0;
  GRAFT_TRY_ASSIGN(const auto recorder, memory_.device().record(cat("steps ", first, " to ", end - 1), timestamps));
  if (options_.profile) recorder->timestamp(0);
  std::uint32_t labelled = kNoIndex;
  for (std::uint32_t s = first; s < end; ++s) {
    const Step& step = plan_.steps[s];
    if (step.barrier_before && s != first) recorder->barrier();  // a list starts with one
    if (step.node != labelled) {
      if (labelled != kNoIndex) recorder->end_label();
      if (step.node != kNoIndex) recorder->begin_label(plan_.nodes[step.node].name);
      labelled = step.node;
    }
    record_step(*recorder, kernels, step);
    if (options_.profile) recorder->timestamp(s - first + 1);
  }
  if (labelled != kNoIndex) recorder->end_label();
  if (end == plan_.steps.size()) recorder->host_barrier();
  GRAFT_TRY_ASSIGN(auto commands, recorder->finish());
  // Unknown yet: as long as a whole submission may take, so that each list is first submitted by itself.
  const auto estimate = static_cast<double>(options_.submit_target.count());
  List list{std::move(commands), first, end, estimate};
  list.first_refill = lists_.empty() ? 0 : lists_.back().end_refill;
  list.end_refill = list.first_refill;
  while (list.end_refill < plan_.refills.size() && plan_.refills[list.end_refill].first_step == first) {
    ++list.end_refill;
  }
  lists_.push_back(std::move(list));
  return ok_status();
}

void Program::record_step(gpu::Recorder& recorder, const std::vector<gpu::Kernel*>& kernels, const Step& step) {
  std::vector<gpu::BufferRange> ranges;
  const auto& bound = bound_by(step);
  ranges.reserve(bound.size());
  for (const PlanBinding& b : bound) ranges.push_back(memory_.range(b.space, b.offset, b.size));
  if (step.kind != StepKind::dispatch) {
    recorder.copy(ranges[0], ranges[1]);
    return;
  }
  recorder.dispatch(*kernels[step.kernel], ranges, step.push, step.groups);
}

Status Program::find_sources() {
  for (const Refill& refill : plan_.refills) {
    const Resident& resident = memory_.residents().entries()[refill.resident];
    const std::span<const std::byte> source = memory_.source(refill);
    if (source.empty()) {
      return error(Code::not_found, "The streamed value \"", resident.name, "\" was not provided.");
    }
    refills_.push_back({source, memory_.target(plan_, refill), resident.dtype, resident.stored});
  }
  return ok_status();
}

Status Program::refill(const List& list) {
  for (std::uint32_t i = list.first_refill; i < list.end_refill; ++i) {
    // Until what had this place before is used up; the device goes on with what was submitted since.
    while (flying_ != 0 && lists_[in_flight_[0].first_list].first_step < plan_.refills[i].after_step) {
      GRAFT_TRY(wait_oldest());
    }
    const PhaseScope scope(options_.observer, HostPhase::refill);
    const auto start = std::chrono::steady_clock::now();
    const Source& from = refills_[i];
    convert_numbers(from.dtype, from.bytes, from.stored, from.target);
    refill_time_ += std::chrono::steady_clock::now() - start;
  }
  return ok_status();
}

std::span<std::byte> Program::input(std::size_t i) {
  const PlanPort& port = plan_.inputs[i];
  if (!port.used) return {};
  return memory_.upload().subspan(port.staging_offset, port.bytes);
}

std::span<const std::byte> Program::output(std::size_t i) const {
  if (!complete_ || i >= plan_.outputs.size()) return {};
  return memory_.readback().subspan(plan_.outputs[i].staging_offset, plan_.outputs[i].bytes);
}

std::span<const std::byte> Program::output(std::string_view name) const {
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    if (plan_.outputs[i].name == name) return output(i);
  }
  return {};
}

Status Program::stage(std::span<const Feed> feeds, const StepState& state) {
  const PhaseScope scope(options_.observer, HostPhase::upload);
  for (const Feed& feed : feeds) {
    const auto port =
        std::find_if(plan_.inputs.begin(), plan_.inputs.end(), [&](const PlanPort& p) { return p.name == feed.name; });
    if (port == plan_.inputs.end()) return invalid("The graph has no input \"", feed.name, "\".");
    if (feed.bytes.size() != port->bytes) {
      return invalid("Input \"", feed.name, "\" of shape ", port->shape.text(), " takes ", port->bytes,
                     " bytes, but was given ", feed.bytes.size(), ".");
    }
    if (!port->used || feed.bytes.empty()) continue;
    std::memcpy(memory_.upload().data() + port->staging_offset, feed.bytes.data(), feed.bytes.size());
  }
  if (plan_.uses_step_state) std::memcpy(memory_.upload().data(), &state, sizeof(StepState));
  if (!plan_.tables.empty()) {
    std::memcpy(memory_.upload().data() + plan_.table_offset(), plan_.tables.data(), 4 * plan_.tables.size());
  }
  return ok_status();
}

Status Program::run(std::span<const Feed> feeds, const StepState& state) {
  GRAFT_TRY(drain());  // what a timeout left behind still reads the staging
  complete_ = false;
  GRAFT_TRY(stage(feeds, state));
  next_list_ = 0;
  submissions_ = 0;
  longest_ = {};
  refill_time_ = {};
  return go();
}

Status Program::resume() {
  if (complete_) return invalid("There is no run to resume: the last one is complete.");
  return go();
}

bool Program::wrote_residents() const {
  const std::uint32_t end = next_list_ == 0 ? 0 : lists_[next_list_ - 1].end_step;
  return std::any_of(plan_.steps.begin(), plan_.steps.begin() + end, [](const Step& step) {
    return std::any_of(step.bindings.begin(), step.bindings.end(),
                       [](const PlanBinding& b) { return b.space == Space::resident && b.access != Access::read; });
  });
}

bool Program::is_cancelled() const {
  return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed) && !wrote_residents();
}

Status Program::go() {
  while (next_list_ < lists_.size()) {
    if (pause_.exchange(false, std::memory_order_relaxed)) {
      GRAFT_TRY(drain());
      return error(Code::cancelled, "The run was paused before step ", lists_[next_list_].first_step, " of ",
                   plan_.steps.size(), ".");
    }
    if (is_cancelled()) {
      GRAFT_TRY(drain());
      return error(Code::cancelled, "The call was cancelled; nothing changed.");
    }
    // Two submissions in flight: the device goes on with one while the host prepares the next.
    if (flying_ == 2) GRAFT_TRY(wait_oldest());
    GRAFT_TRY(submit_next());
  }
  GRAFT_TRY(drain());
  complete_ = true;
  return options_.observer != nullptr ? options_.observer->ran(*this) : ok_status();
}

Status Program::submit_next() {
  const auto target = static_cast<double>(options_.submit_target.count());
  std::uint32_t end = next_list_ + 1;
  GRAFT_TRY(refill(lists_[next_list_]));
  const bool alone = memory_.device().target().quirks.max_submit_dispatches != 0;
  for (double ns = lists_[next_list_].estimate_ns; !alone && end < lists_.size(); ++end) {
    if (lists_[end].first_refill != lists_[end].end_refill) break;  // not there yet
    ns += lists_[end].estimate_ns;
    if (ns > target) break;
  }
  const PhaseScope scope(options_.observer, HostPhase::submit);
  InFlight work{0, next_list_, end, std::chrono::steady_clock::now()};
  auto ticket = memory_.device().submit(std::span(commands_).subspan(next_list_, end - next_list_));
  if (!ticket.ok()) return std::move(ticket).status().with_context(describe(work));
  work.ticket = *ticket;
  in_flight_[flying_++] = work;
  next_list_ = end;
  ++submissions_;
  return ok_status();
}

Status Program::wait_oldest() {
  const InFlight work = in_flight_[0];
  const PhaseScope scope(options_.observer, HostPhase::wait);
  if (Status status = memory_.device().wait(work.ticket, options_.timeout); !status.ok()) {
    if (status.code() == Code::device_lost) flying_ = 0;
    return std::move(status).with_context(describe(work));
  }
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds took = now - std::max(work.submitted, last_done_);
  last_done_ = now;
  longest_ = std::max(longest_, took);
  in_flight_[0] = in_flight_[1];
  --flying_;
  // The time is shared out as the estimates were.
  double sum = 0;
  for (std::uint32_t i = work.first_list; i < work.end_list; ++i) sum += lists_[i].estimate_ns;
  for (std::uint32_t i = work.first_list; i < work.end_list; ++i) {
    lists_[i].estimate_ns = std::max(static_cast<double>(took.count()) * lists_[i].estimate_ns / sum, 1.0);
  }
  return ok_status();
}

Status Program::drain() {
  while (flying_ != 0) GRAFT_TRY(wait_oldest());
  return ok_status();
}

std::string Program::describe(const InFlight& work) const {
  const std::uint32_t first = lists_[work.first_list].first_step;
  const std::uint32_t last = lists_[work.end_list - 1].end_step - 1;
  std::string text = cat("While running steps ", first, " to ", last);
  const auto name = [&](std::uint32_t s) -> std::string {
    const std::uint32_t node = plan_.steps[s].node;
    return node == kNoIndex ? "copies" : cat("node \"", plan_.nodes[node].name, "\"");
  };
  return text + cat(" (", name(first), " to ", name(last), ")");
}

Result<std::vector<StepTime>> Program::step_times() {
  if (!options_.profile) return invalid("The program was not created with ProgramOptions::profile.");
  if (!complete_) return invalid("There is no complete run to take times from.");
  const double tick = memory_.device().caps().timestamp_period_ns * 1e-9;
  std::vector<StepTime> times;
  times.reserve(plan_.steps.size());
  std::vector<std::uint64_t> ticks;
  for (const List& list : lists_) {
    ticks.assign(list.end_step - list.first_step + 1, 0);
    GRAFT_TRY(memory_.device().read_timestamps(*list.commands, ticks));
    for (std::uint32_t s = list.first_step; s < list.end_step; ++s) {
      const std::uint32_t i = s - list.first_step;
      times.push_back({s, tick * static_cast<double>(ticks[i]), tick * static_cast<double>(ticks[i + 1])});
    }
  }
  return times;
}

Result<std::vector<NodeTime>> Program::times() {
  GRAFT_TRY_ASSIGN(const std::vector<StepTime> steps, step_times());
  std::vector<NodeTime> times;
  std::vector<std::uint32_t> entry(plan_.nodes.size(), kNoIndex);  // of each node in times
  for (const StepTime& step : steps) {
    const std::uint32_t node = plan_.steps[step.step].node;
    // A node's dispatches need not stand side by side; copies count by where they stand.
    std::size_t at = times.size();
    if (node != kNoIndex && entry[node] != kNoIndex) at = entry[node];
    if (node == kNoIndex && !times.empty() && times.back().node == kNoIndex) at = times.size() - 1;
    if (at == times.size()) {
      times.push_back({node, 0});
      if (node != kNoIndex) entry[node] = static_cast<std::uint32_t>(at);
    }
    times[at].seconds += step.end - step.begin;
  }
  return times;
}

}  // namespace graft
