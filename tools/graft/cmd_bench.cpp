// graft bench: what kernels reach on this device, beside a naive kernel of one invocation per output where there is
// one.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/session/session.h"
#include "tools/graft/bench_cases.h"
#include "tools/graft/device.h"
#include "tools/graft/model_io.h"
#include "tools/graft/options.h"

namespace graft::cli {
namespace {

struct Options {
  DeviceFlags flags;
  std::string what;
  std::string filter;
  std::vector<std::string> bind;
  int repeat = 7;
  bool json = false;
};

struct Timing {
  double best = 0;  ///< seconds of device time
  double median = 0;
};

struct Row {
  std::string name;
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;  ///< read plus written, each operand once
  Timing time;
  Timing naive;  ///< zero where there is none
};

// Device time of the whole plan but its copies, by timestamps around every dispatch.
Result<Timing> time_plan(gpu::Device& device, const Graph& graph, const Residents& residents, Plan plan, int repeat) {
  const Plan* plans[] = {&plan};
  GRAFT_TRY_ASSIGN(const auto memory, Memory::create(device, residents, plans));
  for (const Value& value : graph.values()) {
    // Halves: no kernel meets denormal numbers, NaN or a special case.
    if (residents.find(value.name) != nullptr) GRAFT_TRY(memory->fill(value.name, 0x3f000000u));
  }
  ProgramOptions options;
  options.profile = true;
  GRAFT_TRY_ASSIGN(const auto program, Program::create(*memory, std::move(plan), options));
  std::vector<double> seconds;
  for (int i = 0; i <= repeat; ++i) {
    GRAFT_TRY(program->run({}, {}));
    GRAFT_TRY_ASSIGN(const auto times, program->times());
    double sum = 0;
    for (const NodeTime& time : times) sum += time.node == kNoIndex ? 0 : time.seconds;
    if (i > 0) seconds.push_back(sum);  // the first run compiles
  }
  std::sort(seconds.begin(), seconds.end());
  return Timing{seconds.front(), seconds[seconds.size() / 2]};
}

Result<Row> run_case(gpu::Device& device, const BenchCase& c, int repeat) {
  GRAFT_TRY_ASSIGN(const Graph graph, c.build());
  Residents residents(device.caps());
  GRAFT_TRY(residents.add(graph));
  GRAFT_TRY_ASSIGN(Plan plan, make_plan(graph, device.caps(), residents));
  Row row{c.name, plan.flops, 0, {}, {}};
  for (const Value& value : graph.values()) row.bytes += value.shape.elements() * dtype_size(value.dtype);
  if (c.naive) {
    Plan naive = plan;
    c.naive(naive);
    GRAFT_TRY_ASSIGN(row.naive, time_plan(device, graph, residents, std::move(naive), std::max(2, repeat / 2)));
  }
  GRAFT_TRY_ASSIGN(row.time, time_plan(device, graph, residents, std::move(plan), repeat));
  return row;
}

double per_second(std::uint64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds * 1e-9 : 0;
}

void print_row(const Row& row) {
  std::printf("%-40s %10.3f %10.2f %10.2f", row.name.c_str(), row.time.median * 1e3,
              per_second(row.flops, row.time.median), per_second(row.bytes, row.time.median));
  if (row.naive.median > 0) {
    std::printf(" %12.2f %8.1fx", per_second(row.flops, row.naive.median), row.naive.median / row.time.median);
  }
  std::printf("\n");
  std::fflush(stdout);
}

nlohmann::ordered_json row_json(const Row& row) {
  nlohmann::ordered_json out = {{"name", row.name},
                                {"flops", row.flops},
                                {"bytes", row.bytes},
                                {"median_s", row.time.median},
                                {"best_s", row.time.best},
                                {"gflops", per_second(row.flops, row.time.median)},
                                {"gbps", per_second(row.bytes, row.time.median)}};
  if (row.naive.median > 0) {
    out["naive_gflops"] = per_second(row.flops, row.naive.median);
    out["times_naive"] = row.naive.median / row.time.median;
  }
  return out;
}

Status bench_ops(gpu::Device& device, const Options& options) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!options.json) {
    std::printf("%s, %s; medians of %d runs, device time\n\n", device.caps().device_name.c_str(),
                device.caps().driver_info.c_str(), options.repeat);
    std::printf("%-40s %10s %10s %10s %12s %9s\n", "", "ms", "GFLOP/s", "GB/s", "naive GFLOP/s", "ratio");
  }
  for (const BenchCase& c : bench_cases()) {
    if (c.name.find(options.filter) == std::string::npos) continue;
    auto row = run_case(device, c, options.repeat);
    if (!row.ok()) return std::move(row).status().with_context(cat("In the benchmark \"", c.name, "\""));
    if (options.json) rows.push_back(row_json(*row));
    if (!options.json) print_row(*row);
  }
  if (options.json) {
    std::printf("%s\n", nlohmann::ordered_json({{"device", device.caps().device_name},
                                                {"driver", device.caps().driver_info},
                                                {"repeat", options.repeat},
                                                {"cases", rows}})
                            .dump(2)
                            .c_str());
  }
  return ok_status();
}

Status bench_model(gpu::Device& device, const Options& options) {
  GRAFT_TRY_ASSIGN(const Model model, open_model(options.what));
  SessionOptions session_options;
  GRAFT_TRY_ASSIGN(const Bindings given, parse_bindings(options.bind));
  GRAFT_TRY_ASSIGN(session_options.bindings, complete_bindings(model, given, true));
  session_options.program.profile = true;
  GRAFT_TRY_ASSIGN(const auto session, Session::create(device, model, session_options));
  for (const PlanPort& port : session->plan().inputs) {
    const std::vector<std::byte> zeros(port.bytes);
    GRAFT_TRY(session->set_input(port.name, zeros));
  }
  std::vector<double> totals;
  std::vector<std::vector<double>> nodes(session->plan().nodes.size());
  for (int i = 0; i <= options.repeat; ++i) {
    GRAFT_TRY(session->run());
    GRAFT_TRY_ASSIGN(const auto times, session->program().times());
    double sum = 0;
    for (const NodeTime& time : times) {
      sum += time.seconds;
      if (i > 0 && time.node != kNoIndex) nodes[time.node].push_back(time.seconds);
    }
    if (i > 0) totals.push_back(sum);
  }
  std::sort(totals.begin(), totals.end());
  std::vector<Row> rows;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].empty()) continue;
    std::sort(nodes[i].begin(), nodes[i].end());
    const PlanNode& node = session->plan().nodes[i];
    rows.push_back({node.name + " (" + node.op + ")",
                    node.flops,
                    node.bytes,
                    {nodes[i].front(), nodes[i][nodes[i].size() / 2]},
                    {}});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.time.median > b.time.median; });
  const Row total{"forward", session->plan().flops, 0, {totals.front(), totals[totals.size() / 2]}, {}};
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Row& row : rows) all.push_back(row_json(row));
    std::printf("%s\n", nlohmann::ordered_json({{"device", device.caps().device_name},
                                                {"model", options.what},
                                                {"forward", row_json(total)},
                                                {"nodes", all}})
                            .dump(2)
                            .c_str());
    return ok_status();
  }
  std::printf("%-40s %10s %10s %10s\n", options.what.c_str(), "ms", "GFLOP/s", "GB/s");
  print_row(total);
  for (const Row& row : rows) print_row(row);
  return ok_status();
}

Status run(const Options& options) {
  if (options.repeat < 1 || options.repeat > 1000) return invalid("--repeat takes 1 to 1000.");
  GRAFT_TRY_ASSIGN(auto device, OpenDevice::open(options.flags));
  if (device->device().caps().timestamp_period_ns <= 0) {
    return unsupported("\"", device->device().caps().device_name, "\" has no timestamps to measure with.");
  }
  GRAFT_TRY(options.what == "ops" ? bench_ops(device->device(), options) : bench_model(device->device(), options));
  return device->close();
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("WHAT", options->what, "\"ops\", or a .graft file")->required();
  app.add_option("--filter", options->filter, "Only benchmarks whose name holds this");
  app.add_option("--bind", options->bind, "Sizes of named dimensions of the model (default 1)");
  app.add_option("--repeat", options->repeat, "Runs to take the median of (7)");
  app.add_flag("--json", options->json, "Print JSON");
  add_device_flags(app, options->flags);
  return [options] { return run(*options); };
}

}  // namespace graft::cli
