#include "runtime/exec/program.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "platform/base/checked.h"
#include "runtime/exec/numbers.h"

namespace graft {
namespace {

constexpr double kListNs = 50e6;  // before anything is measured, of a slow device's time
constexpr std::uint32_t kListSteps = 64;

// How submissions keep to a slice. What took longer twice on end is cut: once may be a driver that compiles, or another
// process. Cut into what should take half a slice, for guesses are wrong and times differ; and so are lists put
// together.
constexpr std::uint32_t kLongRuns = 2;
constexpr double kPartOfSlice = 0.5;
constexpr double kFullSlice = 0.75;
constexpr double kMostParts = 64;  // at once

std::uint32_t list_end(const Plan& plan, const gpu::Quirks& quirks, std::uint32_t first) {
  const std::uint32_t most = quirks.max_submit_dispatches;
  const std::uint32_t limit = most == 0 ? kListSteps : std::min(most, kListSteps);
  double ns = 0;
  std::uint32_t end = first;
  while (end < plan.steps.size() && end - first < limit) {
    // What is refilled for a list must not be needed before it.
    const auto at_end = [&](const Refill& refill) { return refill.first_step == end; };
    if (end != first && std::any_of(plan.refills.begin(), plan.refills.end(), at_end)) break;
    ns += slow_device_ns(plan.steps[end]);
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
  {
    const PhaseScope scope(options.observer, HostPhase::compile);
    const auto compiled = [&options](std::size_t done, std::size_t total) -> Status {
      if (options.control == nullptr) return ok_status();
      options.control->report(Stage::kernels, done, total);
      if (!options.cancellable_build || !options.control->is_cancelled()) return ok_status();
      return error(Code::cancelled, "The call was cancelled when ", done, " of ", total,
                   " kernels were compiled; nothing changed.");
    };
    GRAFT_TRY_ASSIGN(program->kernels_, memory.kernels().get(program->plan_.kernels, false, compiled));
  }
  GRAFT_TRY(program->find_sources());
  const PhaseScope scope(options.observer, HostPhase::record);
  GRAFT_TRY(program->record());
  return program;
}

Program::~Program() {
  if (options_.observer != nullptr) options_.observer->closing(*this);
  while (flying_ != 0) {
    if (!wait_oldest().ok()) return;  // the device's own destructor deals with work that never ends
  }
}

Status Program::record() {
  std::uint32_t first = 0, refill = 0;
  for (const std::uint32_t end : list_ends(plan_, memory_.device().target().quirks)) {
    GRAFT_TRY_ASSIGN(List list, record_list(first, end));
    list.first_refill = refill;
    while (refill < plan_.refills.size() && plan_.refills[refill].first_step == first) ++refill;
    list.end_refill = refill;
    // Unknown yet: as long as a whole submission may take, so that each list is first submitted by itself.
    list.estimate_ns = static_cast<double>(options_.submit_target.count());
    lists_.push_back(std::move(list));
    first = end;
  }
  note_commands();
  return ok_status();
}

void Program::note_commands() {
  commands_.clear();
  for (const List& list : lists_) commands_.push_back(list.commands.get());
}

Result<Program::List> Program::record_list(std::uint32_t first, std::uint32_t end) {
  const std::uint32_t timestamps = options_.profile ? end - first + 1 : 0;
  GRAFT_TRY_ASSIGN(const auto recorder, memory_.device().record(cat("steps ", first, " to ", end - 1), timestamps));
  if (options_.profile) recorder->timestamp(0);
  if (first == 0) {
    for (gpu::Buffer* buffer : bound_buffers()) recorder->acquire(*buffer);
  }
  std::uint32_t labelled = kNoIndex;
  for (std::uint32_t s = first; s < end; ++s) {
    const Step& step = plan_.steps[s];
    if (step.barrier_before && s != first) recorder->barrier();  // a list starts with one
    if (step.node != labelled) {
      if (labelled != kNoIndex) recorder->end_label();
      if (step.node != kNoIndex) recorder->begin_label(plan_.nodes[step.node].name);
      labelled = step.node;
    }
    record_step(*recorder, step);
    if (options_.profile) recorder->timestamp(s - first + 1);
  }
  if (labelled != kNoIndex) recorder->end_label();
  const bool ends_run = end == plan_.steps.size();
  if (ends_run) {
    for (gpu::Buffer* buffer : bound_buffers()) recorder->release(*buffer);
    recorder->host_barrier();
  }
  auto commands = recorder->finish();
  if (!commands.ok()) {
    return std::move(commands).status().with_context(cat("While recording steps ", first, " to ", end - 1));
  }
  return List{.commands = *std::move(commands), .first_step = first, .end_step = end, .ends_run = ends_run};
}

std::vector<gpu::BufferRange> Program::ranges_of(const Step& step) {
  std::vector<gpu::BufferRange> ranges;
  const auto& bound = bound_by(step);
  ranges.reserve(bound.size());
  for (const PlanBinding& b : bound) ranges.push_back(range_of(b));
  return ranges;
}

/// Each once, however many inputs and outputs lie in it.
std::set<gpu::Buffer*> Program::bound_buffers() const {
  std::set<gpu::Buffer*> buffers;
  for (const auto& [name, range] : bound_) buffers.insert(range.buffer);
  return buffers;
}

/// Where inputs and outputs stand: in staging, or in memory of the app's.
gpu::BufferRange Program::range_of(const PlanBinding& b) {
  const bool upload = b.space == Space::upload;
  if (!bound_.empty() && (upload || b.space == Space::readback)) {
    for (const PlanPort& port : upload ? plan_.inputs : plan_.outputs) {
      const bool inside = b.offset >= port.staging_offset && b.offset < port.staging_offset + port.bytes;
      const auto bound = inside ? bound_.find(port.name) : bound_.end();
      if (bound == bound_.end()) continue;
      return {bound->second.buffer, bound->second.offset + (b.offset - port.staging_offset), b.size};
    }
  }
  return memory_.range(b.space, b.offset, b.size);
}

Status Program::bind(std::string_view name, std::optional<gpu::BufferRange> range) {
  const PlanPort* port = nullptr;
  for (const auto* ports : {&plan_.inputs, &plan_.outputs}) {
    const auto found = std::ranges::find(*ports, name, &PlanPort::name);
    if (found != ports->end()) port = &*found;
  }
  if (port == nullptr) return error(Code::not_found, "There is no input or output \"", name, "\".");
  const std::uint64_t words = align_up(port->bytes, std::uint64_t{4});
  if (range) {
    const std::uint64_t alignment = std::max<std::uint64_t>(memory_.device().caps().storage_buffer_alignment, 4);
    if (range->offset % alignment != 0 || range->offset > range->buffer->size() ||
        range->buffer->size() - range->offset < words) {
      return invalid("\"", name, "\" takes ", words, " bytes from a multiple of ", alignment, " on; byte ",
                     range->offset, " of ", range->buffer->size(), " does not suit.");
    }
    range->size = words;
  }
  GRAFT_TRY(drain());
  auto before = bound_;
  bound_.erase(std::string(name));
  if (range) bound_.emplace(name, *range);
  std::vector<List> lists = std::exchange(lists_, {});
  Status recorded = record();
  if (!recorded.ok()) {
    bound_ = std::move(before);
    lists_ = std::move(lists);
    note_commands();
  }
  complete_ = false;
  next_list_ = 0;
  return recorded;
}

void Program::record_step(gpu::Recorder& recorder, const Step& step) {
  const std::vector<gpu::BufferRange> ranges = ranges_of(step);
  if (step.kind != StepKind::dispatch) {
    recorder.copy(ranges[0], ranges[1]);
    return;
  }
  recorder.dispatch(*kernels_[step.kernel], ranges, step.push, step.groups);
}

Result<Program::List> Program::record_part(const List& of, gpu::Kernel& kernel, const Workgroups& part, bool ends_run) {
  const Step& step = plan_.steps[of.first_step];
  GRAFT_TRY_ASSIGN(const auto recorder, memory_.device().record(cat("a part of step ", of.first_step)));
  if (step.node != kNoIndex) recorder->begin_label(plan_.nodes[step.node].name);
  recorder->dispatch(kernel, ranges_of(step), step.push, part.count, part.first);
  if (step.node != kNoIndex) recorder->end_label();
  if (ends_run) recorder->host_barrier();
  GRAFT_TRY_ASSIGN(auto commands, recorder->finish());
  return List{.commands = std::move(commands),
              .first_step = of.first_step,
              .end_step = of.end_step,
              .part = part,
              .ends_run = ends_run};
}

/// What a list becomes where it takes too long; nothing where it cannot be cut.
Result<std::vector<Program::List>> Program::divide(const List& list, std::uint32_t parts) {
  std::vector<List> made;
  if (list.end_step - list.first_step > 1) {
    std::uint32_t first = list.first_step;
    for (const std::uint32_t end : split_steps(plan_.steps, first, list.end_step, parts)) {
      GRAFT_TRY_ASSIGN(List part, record_list(first, end));
      made.push_back(std::move(part));
      first = end;
    }
    return made;
  }
  const Step& step = plan_.steps[list.first_step];
  // Times are of whole steps.
  const bool whole = options_.profile || memory_.device().target().quirks.whole_dispatches;
  if (step.kind != StepKind::dispatch || whole) return made;
  const PlanKernel& kernel = plan_.kernels[step.kernel];
  const auto split = split_dispatch(list.part.value_or(Workgroups{{}, step.groups}), parts);
  if (split.size() < 2) return made;
  GRAFT_TRY_ASSIGN(const auto in_parts, memory_.kernels().get(std::span(&kernel, 1), true, nullptr));
  for (const Workgroups& groups : split) {
    GRAFT_TRY_ASSIGN(List part, record_part(list, *in_parts[0], groups, list.ends_run && &groups == &split.back()));
    made.push_back(std::move(part));
  }
  return made;
}

/// Cuts what kept taking longer than a slice. Nothing may be running.
Status Program::keep_to_slice() {
  const auto slice_ns = static_cast<double>(slice().count());
  const auto is_long = [](const List& list) { return list.divisible && list.long_runs >= kLongRuns; };
  if (slice_ns == 0 || std::none_of(lists_.begin(), lists_.end(), is_long)) return ok_status();
  const PhaseScope scope(options_.observer, HostPhase::record);
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    if (!is_long(lists_[i])) continue;
    const double parts = std::clamp(std::ceil(lists_[i].estimate_ns / (kPartOfSlice * slice_ns)), 2.0, kMostParts);
    GRAFT_TRY_ASSIGN(std::vector<List> made, divide(lists_[i], static_cast<std::uint32_t>(parts)));
    if (made.size() < 2) {
      lists_[i].divisible = false;
      continue;
    }
    made[0].first_refill = lists_[i].first_refill;
    made[0].end_refill = lists_[i].end_refill;
    for (std::size_t k = 1; k < made.size(); ++k) made[k].first_refill = made[k].end_refill = lists_[i].end_refill;
    for (List& part : made) part.estimate_ns = lists_[i].estimate_ns / static_cast<double>(made.size());
    const std::size_t next = i + made.size();
    lists_.erase(lists_.begin() + static_cast<std::ptrdiff_t>(i));
    lists_.insert(lists_.begin() + static_cast<std::ptrdiff_t>(i), std::make_move_iterator(made.begin()),
                  std::make_move_iterator(made.end()));
    i = next - 1;
    note_commands();  // at once: an error further on leaves what was cut
  }
  return ok_status();
}

std::chrono::nanoseconds Program::slice() const {
  return options_.control == nullptr ? std::chrono::nanoseconds(0) : options_.control->slice();
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
  if (!complete_ || i >= plan_.outputs.size() || is_bound(plan_.outputs[i].name)) return {};
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
  GRAFT_TRY(keep_to_slice());
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
  return options_.cancellable && options_.control != nullptr && options_.control->is_cancelled() && !wrote_residents();
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
    // Two submissions in flight: the device goes on with one while the host prepares the next. One where it shall rest.
    const bool rests = options_.control != nullptr && options_.control->duty() < 1;
    while (flying_ >= (rests ? 1u : 2u)) GRAFT_TRY(wait_oldest());
    if (rests) {
      options_.control->rest();
      if (is_cancelled()) continue;
    }
    GRAFT_TRY(submit_next());
  }
  GRAFT_TRY(drain());
  complete_ = true;
  return options_.observer != nullptr ? options_.observer->ran(*this) : ok_status();
}

Status Program::submit_next() {
  auto target = static_cast<double>(options_.submit_target.count());
  if (slice().count() != 0) target = std::min(target, kFullSlice * static_cast<double>(slice().count()));
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
  if (options_.control != nullptr) options_.control->used(took);
  if (work.end_list - work.first_list == 1) {
    List& list = lists_[work.first_list];
    list.long_runs = slice().count() != 0 && took > slice() ? list.long_runs + 1 : 0;
  }
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
