// A profile as the JSON that Chrome and Perfetto read.
#include <charconv>

#include "platform/base/json.h"
#include "runtime/report/run_profile.h"

namespace graft {
namespace {

// "Processes" are drawn as groups, "threads" as tracks.
constexpr int kTraceDevice = 1, kTraceHost = 2;
constexpr int kTraceSteps = 1, kTraceDispatches = 2, kTracePhases = 1;

/// Reads back as the same number.
std::string number_text(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  return {text, end};
}

/// Per second, in thousand millions.
std::string giga_per_second(std::uint64_t count, double seconds) {
  return number_text(seconds > 0 ? static_cast<double>(count) / seconds * 1e-9 : 0.0);
}

const char* trace_category(const PlanNode& node) {
  if (node.name.starts_with("update/")) return "update";
  return node.recomputed ? "recompute" : node.backward ? "backward" : "forward";
}

const char* trace_copy_name(StepKind kind) {
  return kind == StepKind::upload ? "upload" : kind == StepKind::readback ? "readback" : "refill";
}

std::string name_event(const char* what, int process, int thread, const char* name) {
  return cat(R"({"ph":"M","pid":)", process, R"(,"tid":)", thread, R"(,"name":")", what, R"(","args":{"name":")", name,
             R"("}})");
}

class TraceWriter {
 public:
  TraceWriter(const RunProfile& profile, double zero) : profile_(profile), zero_(zero) {
    add(name_event("process_name", kTraceDevice, 0, "device"));
    add(name_event("thread_name", kTraceDevice, kTraceSteps, "steps"));
    add(name_event("thread_name", kTraceDevice, kTraceDispatches, "dispatches and copies"));
    add(name_event("process_name", kTraceHost, 0, "host"));
    add(name_event("thread_name", kTraceHost, kTracePhases, "phases"));
  }

  void add_step(const RunProfile::StepTrace& step) {
    const double begin = seconds_of(step.begin);
    add(span(kTraceDevice, kTraceSteps, begin, begin + step.seconds()) + R"(,"name":"step )" +
        std::to_string(step.number) + R"(","cat":"step"})");
    for (const RunProfile::Phase& phase : step.phases) {
      add(span(kTraceHost, kTracePhases, seconds_of(phase.begin), seconds_of(phase.end)) +
          cat(R"(,"name":")", kHostPhaseNames[static_cast<std::size_t>(phase.phase)], R"(","cat":"host"})"));
    }
    for (const RunProfile::Run& run : step.runs) {
      const Plan& plan = profile_.plans()[run.plan];
      for (const StepTime& time : run.times) add_dispatch(plan, time);
      if (!run.times.empty()) add_memory(plan, run.times.back().end, 0);
    }
  }

  std::string take() && { return std::move(events_); }

 private:
  void add(const std::string& event) { events_ += (events_.empty() ? "" : ",") + event; }
  std::string micros(double seconds) const { return number_text((seconds - zero_) * 1e6); }
  /// Without its last brace.
  std::string span(int process, int thread, double begin, double end) const {
    return cat(R"({"ph":"X","pid":)", process, R"(,"tid":)", thread, R"(,"ts":)", micros(begin), R"(,"dur":)",
               number_text((end - begin) * 1e6));
  }

  void add_dispatch(const Plan& plan, const StepTime& time) {
    const Step& step = plan.steps[time.step];
    const double offset = profile_.device_offset(), seconds = time.end - time.begin;
    std::string event = span(kTraceDevice, kTraceDispatches, time.begin + offset, time.end + offset);
    std::string args = cat(R"({"bytes":)", step.bytes, R"(,"GB/s":)", giga_per_second(step.bytes, seconds),
                           R"(,"barrier before":)", step.barrier_before ? "true" : "false");
    if (step.node == kNoIndex) {
      event += cat(R"(,"name":")", trace_copy_name(step.kind), R"(","cat":"copy")");
    } else {
      const PlanNode& node = plan.nodes[step.node];
      event += cat(R"(,"name":)", json::quoted(node.name), R"(,"cat":")", trace_category(node), R"(")");
      args += cat(R"(,"op":)", json::quoted(node.op), R"(,"flops":)", step.flops, R"(,"GFLOP/s":)",
                  giga_per_second(step.flops, seconds));
      if (step.merged > 1) args += cat(R"(,"stands for":)", step.merged);
      add_memory(plan, time.begin, node.live_bytes);
    }
    add(event + R"(,"args":)" + args + "}}");
  }

  void add_memory(const Plan& plan, double at, std::uint64_t live) {
    add(cat(R"({"ph":"C","pid":)", kTraceDevice, R"(,"ts":)", micros(at + profile_.device_offset()),
            R"(,"name":"memory","args":{"stays":)", plan.memory.total() - plan.transient_bytes, R"(,"values":)", live,
            "}}"));
  }

  const RunProfile& profile_;
  double zero_;
  std::string events_;
};

std::string consumers_json(const Consumers& all) {
  std::string host, rows;
  for (std::size_t i = 0; i < std::size(kHostPhaseNames); ++i) {
    host += cat(i == 0 ? "" : ",", "\"", kHostPhaseNames[i], "\":", number_text(all.host_seconds[i]));
  }
  for (const Consumer& row : all.nodes) {
    rows += cat(rows.empty() ? "" : ",", R"({"name":)", json::quoted(row.name), R"(,"op":)", json::quoted(row.op),
                R"(,"calls":)", row.calls, R"(,"seconds":)", number_text(row.seconds));
    rows += cat(R"(,"flops":)", row.flops, R"(,"bytes":)", row.bytes, R"(,"peak_bytes":)", row.peak_bytes, "}");
  }
  std::string out = cat(R"({"steps":)", all.steps, R"(,"step_seconds":)", number_text(all.step_seconds),
                        R"(,"device_seconds":)", number_text(all.device_seconds), R"(,"host_seconds":{)", host, "}");
  out += cat(R"(,"dispatches":)", all.dispatches, R"(,"barriers":)", all.barriers, R"(,"submissions":)",
             all.submissions, R"(,"peak_node":)", json::quoted(all.peak_node));
  return out + cat(R"(,"arena_at_peak":)", all.arena_at_peak, R"(,"resident_bytes":)", all.resident_bytes,
                   R"(,"consumers":[)", rows, "]}");
}

}  // namespace

Status write_trace(os::FileSystem& files, const std::string& path, const RunProfile& profile,
                   const Consumers& consumers) {
  const auto steps = profile.steps();
  TraceWriter trace(profile, steps.empty() ? 0 : seconds_of(steps.front()->begin));
  for (const RunProfile::StepTrace* step : steps) trace.add_step(*step);
  return os::atomic_write_file(files, path,
                               R"({"traceEvents":[)" + std::move(trace).take() +
                                   R"(],"displayTimeUnit":"ms","otherData":)" + consumers_json(consumers) + "}");
}

}  // namespace graft
