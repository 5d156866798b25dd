#include "tools/graft/trace.h"

#include <nlohmann/json.hpp>

#include "tools/common/options.h"

namespace graft::cli {
namespace {

using Json = nlohmann::ordered_json;

// "Processes" are drawn as groups, "threads" as tracks.
constexpr int kDevice = 1, kHost = 2;
constexpr int kSteps = 1, kDispatches = 2, kPhases = 1;

/// Per second, in thousand millions.
double giga(std::uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds * 1e-9 : 0.0;
}

const char* category(const PlanNode& node) {
  if (node.name.starts_with("update/")) return "update";
  return node.recomputed ? "recompute" : node.backward ? "backward" : "forward";
}

const char* copy_name(StepKind kind) {
  return kind == StepKind::upload ? "upload" : kind == StepKind::readback ? "readback" : "refill";
}

Json name_event(const char* what, int process, int thread, const char* name) {
  return {{"ph", "M"}, {"pid", process}, {"tid", thread}, {"name", what}, {"args", {{"name", name}}}};
}

class Trace {
 public:
  Trace(const Profile& profile, double zero) : profile_(profile), zero_(zero) {
    events_ = {name_event("process_name", kDevice, 0, "device"), name_event("thread_name", kDevice, kSteps, "steps"),
               name_event("thread_name", kDevice, kDispatches, "dispatches and copies"),
               name_event("process_name", kHost, 0, "host"), name_event("thread_name", kHost, kPhases, "phases")};
  }

  void add_step(const Profile::StepTrace& step) {
    const double begin = seconds_of(step.begin);
    Json event = span(kDevice, kSteps, begin, begin + step.seconds());
    event["name"] = cat("step ", step.number);
    event["cat"] = "step";
    events_.push_back(std::move(event));
    for (const Profile::Phase& phase : step.phases) {
      Json row = span(kHost, kPhases, seconds_of(phase.begin), seconds_of(phase.end));
      row["name"] = kHostPhaseNames[static_cast<std::size_t>(phase.phase)];
      row["cat"] = "host";
      events_.push_back(std::move(row));
    }
    for (const Profile::Run& run : step.runs) {
      for (const StepTime& time : run.times) add_dispatch(profile_.plans()[run.plan], time);
      if (!run.times.empty()) add_memory(profile_.plans()[run.plan], run.times.back().end, 0);
    }
  }

  Json take() && { return std::move(events_); }

 private:
  double micros(double seconds) const { return (seconds - zero_) * 1e6; }
  Json span(int process, int thread, double begin, double end) const {
    return {{"ph", "X"}, {"pid", process}, {"tid", thread}, {"ts", micros(begin)}, {"dur", (end - begin) * 1e6}};
  }

  void add_dispatch(const Plan& plan, const StepTime& time) {
    const Step& step = plan.steps[time.step];
    const double offset = profile_.device_offset();
    Json event = span(kDevice, kDispatches, time.begin + offset, time.end + offset);
    const double seconds = time.end - time.begin;
    Json args = {{"bytes", step.bytes}, {"GB/s", giga(step.bytes, seconds)}, {"barrier before", step.barrier_before}};
    if (step.node == kNoIndex) {
      event["name"] = copy_name(step.kind);
      event["cat"] = "copy";
    } else {
      const PlanNode& node = plan.nodes[step.node];
      event["name"] = node.name;
      event["cat"] = category(node);
      args["op"] = node.op;
      args["flops"] = step.flops;
      args["GFLOP/s"] = giga(step.flops, seconds);
      if (step.merged > 1) args["stands for"] = step.merged;
      add_memory(plan, time.begin, node.live_bytes);
    }
    event["args"] = std::move(args);
    events_.push_back(std::move(event));
  }

  void add_memory(const Plan& plan, double at, std::uint64_t live) {
    events_.push_back({{"ph", "C"},
                       {"pid", kDevice},
                       {"ts", micros(at + profile_.device_offset())},
                       {"name", "memory"},
                       {"args", {{"stays", plan.memory.total() - plan.transient_bytes}, {"values", live}}}});
  }

  const Profile& profile_;
  double zero_;
  Json events_;
};

Json consumers_json(const Consumers& all) {
  Json rows = Json::array();
  for (const Consumer& row : all.nodes) {
    rows.push_back({{"name", row.name},
                    {"op", row.op},
                    {"calls", row.calls},
                    {"seconds", row.seconds},
                    {"flops", row.flops},
                    {"bytes", row.bytes},
                    {"peak_bytes", row.peak_bytes}});
  }
  Json host = Json::object();
  for (std::size_t i = 0; i < std::size(kHostPhaseNames); ++i) {
    host[std::string(kHostPhaseNames[i])] = all.host_seconds[i];
  }
  return {{"steps", all.steps},
          {"step_seconds", all.step_seconds},
          {"device_seconds", all.device_seconds},
          {"host_seconds", host},
          {"dispatches", all.dispatches},
          {"barriers", all.barriers},
          {"submissions", all.submissions},
          {"peak_node", all.peak_node},
          {"arena_at_peak", all.arena_at_peak},
          {"resident_bytes", all.resident_bytes},
          {"consumers", rows}};
}

}  // namespace

Status write_trace(const std::string& path, const Profile& profile, const Consumers& consumers) {
  const auto steps = profile.steps();
  Trace trace(profile, steps.empty() ? 0 : seconds_of(steps.front()->begin));
  for (const Profile::StepTrace* step : steps) trace.add_step(*step);
  const Json document = {
      {"traceEvents", std::move(trace).take()}, {"displayTimeUnit", "ms"}, {"otherData", consumers_json(consumers)}};
  return write_text(path, document.dump());
}

}  // namespace graft::cli
