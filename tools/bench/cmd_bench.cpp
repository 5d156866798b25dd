// graft bench: what a device reaches; what kernels and models reach of that, beside simpler kernels where there are
// any.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>

#include "runtime/exec/plan_fused.h"
#include "runtime/passes/decode_graph.h"
#include "runtime/passes/precision.h"
#include "runtime/session/session.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_cases.h"
#include "tools/bench/bench_rows.h"
#include "tools/bench/bench_time.h"
#include "tools/bench/device.h"
#include "tools/bench/kernel_bench.h"
#include "tools/bench/language_bench.h"
#include "tools/bench/model_io.h"
#include "tools/bench/model_plans.h"
#include "tools/bench/startup_bench.h"
#include "tools/bench/time_estimate.h"
#include "tools/bench/tune.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

struct BenchArguments {
  DeviceFlags flags;
  std::string what;
  std::vector<std::string> filters;
  std::vector<std::string> bind;
  std::string caps;
  int repeat = 7;
  bool json = false;
  bool processor_time = false;
  bool alone = false;
  bool nodes = false;
  LanguageBenchFlags language;
  bool tune = false;
  bool estimate = false;
  std::string model;  // of "startup" and "kernels"
  bool compile_only = false;
  std::string dump;                // folder
  std::vector<std::string> given;  // names of the flags that the command line has
  bool wants(const BenchCase& c) const {
    return filters.empty() || std::ranges::any_of(filters, [&](const std::string& part) {
             return c.name.find(part) != std::string::npos;
           });
  }
  Clock clock() const { return processor_time ? Clock::processor : Clock::wall; }
};

// What a model keeps in 16 bits: frozen weights and results on the way. Not what an optimizer updates or reads, nor
// statistics, scales and biases, which have fewer dimensions than what they belong to.
void keep_as(DType storage, Graph& graph) {
  const auto keep = [&](ValueId id) {
    if (Value& value = graph.mutable_value(id); value.dtype == DType::f32) value.storage = storage;
  };
  for (const Node& node : graph.nodes()) {
    if (op_def(node.op).mutates != 0) continue;
    const std::size_t rank = graph.value(node.inputs[0]).shape.rank();
    for (const ValueId id : node.inputs) {
      if (id.valid() && graph.value(id).shape.rank() >= rank) keep(id);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (passes::wide_output(node.op, i, false).empty()) keep(node.outputs[i]);
    }
  }
}

// `speed`: what to estimate its time by; null: none.
Result<Row> run_case(gpu::Device& device, const gpu::Target& target, const BenchCase& c, int repeat, Clock clock,
                     const gpu::Speed* speed = nullptr, DType storage = DType::f32) {
  TRY_ASSIGN(Graph graph, c.build());
  keep_as(storage, graph);
  Residents residents(target.caps);
  TRY(residents.add(graph));
  TRY_ASSIGN(Plan plan, plan_fused(graph, target, residents));
  Row row{c.name, plan.flops, 0, {}};
  for (const Value& value : graph.values()) row.bytes += storage_bytes(stored_dtype(value), value.shape.elements());
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {  // what is updated is written too
      if ((op_def(node.op).mutates >> i & 1) == 0) continue;
      const Value& value = graph.value(node.inputs[i]);
      row.bytes += storage_bytes(stored_dtype(value), value.shape.elements());
    }
  }
  if (speed != nullptr) {
    for (const TimeEstimate& node : estimate_plan(plan, target, *speed).nodes) row.estimated += node.seconds();
  }
  for (const BenchCase::Rival& rival : c.rivals) {
    Plan other = plan;
    rival.replace(other);
    TRY_ASSIGN(const Timing time,
               time_plan(device, graph, residents, std::move(other), std::max(2, repeat / 2), clock));
    row.rivals.push_back({rival.name, time});
  }
  TRY_ASSIGN(row.time, time_plan(device, graph, residents, std::move(plan), repeat, clock));
  return row;
}

// The device, as every report begins.
nlohmann::ordered_json device_json(const gpu::Device& device) {
  return {{"device", device.caps().device_name}, {"driver", device.caps().driver_info}};
}

void print_device(const gpu::Device& device, const DeviceFigures& figures) {
  to_stdout("%s, %s\n\n", device.caps().device_name.c_str(), device.caps().driver_info.c_str());
  print_figures(figures);
}

// What the shares of every other report are of: the device's own figures and the rate of a plain product.
Result<DeviceFigures> measure_yardsticks(gpu::Device& device, const BenchArguments& options) {
  TRY_ASSIGN(DeviceFigures figures, measure_device(device, options.clock()));
  BenchCase yardstick = gemm_yardstick();
  yardstick.rivals.clear();
  TRY_ASSIGN(const Row gemm, run_case(device, device.target(), yardstick, options.repeat, options.clock()));
  figures.gemm_flops = static_cast<double>(gemm.flops) / gemm.time.median;
  return figures;
}

Status bench_device(gpu::Device& device, const BenchArguments& options) {
  TRY_ASSIGN(const DeviceFigures figures, measure_yardsticks(device, options));
  if (options.json) {
    nlohmann::ordered_json out = device_json(device);
    out.update(figures_json(figures));
    to_stdout("%s\n", out.dump(2).c_str());
  } else {
    print_device(device, figures);
  }
  return ok_status();
}

std::vector<BenchCase> cases_for(const gpu::Caps& caps) {
  std::vector<BenchCase> cases = bench_cases();
  if (caps.type != gpu::DeviceType::cpu) std::ranges::move(large_bench_cases(), std::back_inserter(cases));
  return cases;
}

Status bench_ops(gpu::Device& device, const BenchArguments& options) {
  std::vector<Row> rows;
  gpu::Target target = device.target();
  if (!options.caps.empty()) TRY(apply_caps_to_run(options.caps, target));
  TRY_ASSIGN(const DType storage, passes::parse_precision(options.language.precision));
  TRY_ASSIGN(const DeviceFigures figures, measure_yardsticks(device, options));
  const gpu::Speed speed = measured_speed(figures, device.target());
  if (!options.json) {
    print_device(device, figures);
    to_stdout(
        "\nMedians of %d runs, %s; shares of f32 arithmetic, of the product's rate, and of copying by a kernel.\n",
        options.repeat, options.processor_time ? "processor time" : "device time");
    if (storage != DType::f32) to_stdout("Kept as %s: operands and results.\n", dtype_name(storage).data());
    to_stdout("\n");
    print_row_titles();
  }
  std::vector<BenchCase> cases = cases_for(target.caps);
  for (BenchCase& c : cases) {
    if (!options.wants(c)) continue;
    if (options.alone || storage != DType::f32) c.rivals.clear();  // rivals read f32
    auto row = run_case(device, target, c, options.repeat, options.clock(), &speed, storage);
    if (!row.ok()) return std::move(row).status().with_context(cat("In the benchmark \"", c.name, "\""));
    if (!options.json) print_row(*row, figures);
    rows.push_back(std::move(*row));
  }
  if (rows.empty()) return invalid("No benchmark has \"", options.filters.front(), "\" in its name.");
  if (options.json) {
    nlohmann::ordered_json out = device_json(device);
    out["figures"] = figures_json(figures);
    out["repeat"] = options.repeat;
    out["precision"] = dtype_name(storage);
    out["estimates"] = estimate_quality_json(rows);
    out["cases"] = nlohmann::ordered_json::array();
    for (const Row& row : rows) out["cases"].push_back(row_json(row, figures));
    to_stdout("%s\n", out.dump(2).c_str());
  } else {
    print_estimate_quality(rows);
  }
  return ok_status();
}

Status bench_language_model(gpu::Device& device, const Model& model, const BenchArguments& options) {
  TRY_ASSIGN(const auto rows, bench_language(device, model, options.language, options.repeat, options.clock()));
  if (!options.json) {
    to_stdout("%s, %s\n%s, medians of %d runs, %s\n\n", device.caps().device_name.c_str(),
              device.caps().driver_info.c_str(), options.what.c_str(), options.repeat,
              options.processor_time ? "processor time" : "wall clock");
    print_language_rows(rows);
    return ok_status();
  }
  nlohmann::ordered_json out = device_json(device);
  out.update({{"model", options.what},
              {"repeat", options.repeat},
              {"seq", options.language.seq},
              {"batch", options.language.batch},
              {"rows", language_rows_json(rows)}});
  to_stdout("%s\n", out.dump(2).c_str());
  return ok_status();
}

Status bench_nodes(gpu::Device& device, const Model& model, const BenchArguments& options) {
  TRY_ASSIGN(const DeviceFigures figures, measure_yardsticks(device, options));
  SessionOptions session_options;
  TRY_ASSIGN(session_options.precision, passes::parse_precision(options.language.precision));
  TRY_ASSIGN(const Bindings given, parse_bindings(options.bind));
  TRY_ASSIGN(session_options.bindings, complete_bindings(model, given, true));
  session_options.program.profile = true;
  if (!options.caps.empty()) {
    session_options.target = device.target();
    TRY(apply_caps_to_run(options.caps, *session_options.target));
  }
  TRY_ASSIGN(const auto session, Session::create(device, model, session_options));
  for (const PlanPort& port : session->plan().inputs) {
    const std::vector<std::byte> zeros(port.bytes);
    TRY(session->set_input(port.name, zeros));
  }
  std::vector<double> totals;
  std::vector<std::vector<double>> nodes(session->plan().nodes.size());
  for (int i = 0; i <= options.repeat; ++i) {
    TRY(session->run());
    TRY_ASSIGN(const auto times, session->program().times());
    double sum = 0;
    for (const NodeTime& time : times) {
      sum += time.seconds;
      if (i > 0 && time.node != kNoIndex) nodes[time.node].push_back(time.seconds);
    }
    if (i > 0) totals.push_back(sum);
  }
  std::sort(totals.begin(), totals.end());
  const gpu::Target& target = session_options.target ? *session_options.target : device.target();
  const PlanTime estimates = estimate_plan(session->plan(), target, measured_speed(figures, device.target()));
  std::vector<Row> rows;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].empty()) continue;
    std::sort(nodes[i].begin(), nodes[i].end());
    const PlanNode& node = session->plan().nodes[i];
    rows.push_back({node.name + " (" + node.op + ")",
                    node.flops,
                    node.bytes,
                    {nodes[i].front(), nodes[i][nodes[i].size() / 2]},
                    estimates.nodes[i].seconds()});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.time.median > b.time.median; });
  const Row total{"forward", session->plan().flops, 0, {totals.front(), totals[totals.size() / 2]}};
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Row& row : rows) all.push_back(row_json(row, figures));
    nlohmann::ordered_json out = device_json(device);
    out["figures"] = figures_json(figures);
    out["model"] = options.what;
    out["forward"] = row_json(total, figures);
    out["estimates"] = estimate_quality_json(rows);
    out["submissions"] = session->program().submissions();
    out["nodes"] = all;
    to_stdout("%s\n", out.dump(2).c_str());
    return ok_status();
  }
  print_device(device, figures);
  to_stdout("\n%s\n", options.what.c_str());
  print_row_titles();
  print_row(total, figures);
  for (const Row& row : rows) print_row(row, figures);
  print_estimate_quality(rows);
  to_stdout("\n%u submissions of %zu copies and dispatches, %u barriers.\n", session->program().submissions(),
            session->plan().steps.size(), session->plan().barriers);
  return ok_status();
}

// The graphs whose choices are measured: every case, or a model's forward pass and training step.
Result<std::vector<Graph>> graphs_to_tune(const BenchArguments& options, const gpu::Caps& caps) {
  std::vector<Graph> graphs;
  if (options.what == "ops") {
    for (const BenchCase& c : cases_for(caps)) {
      if (!options.wants(c)) continue;
      TRY_ASSIGN(Graph graph, c.build());
      graphs.push_back(std::move(graph));
    }
    return graphs;
  }
  TRY_ASSIGN(const Model model, open_model(options.what));
  TRY_ASSIGN(const Bindings given, parse_bindings(options.bind));
  return graphs_of_model(model, given);
}

Status run_tune(OpenDevice& device, const BenchArguments& options) {
  TRY_ASSIGN(const std::vector<Graph> graphs, graphs_to_tune(options, device.device().caps()));
  gpu::Target target = device.device().target();
  DeviceProfile& profile = device.remembered()->profile();
  const bool kept = options.caps.empty();
  if (!kept) TRY(apply_caps_to_run(options.caps, target));
  std::optional<KnownSpeed> speed;
  if (const gpu::Figures* const known = gpu::figures_of(target.caps); options.estimate && known != nullptr) {
    speed = KnownSpeed{std::string(known->summary), gpu::speed_of(*known)};
  } else if (options.json || options.estimate) {
    TRY_ASSIGN(const DeviceFigures figures, measure_yardsticks(device.device(), options));
    speed = KnownSpeed{device.device().caps().device_name, measured_speed(figures, device.device().target()), true};
  }
  TRY_ASSIGN(const auto choices, tune(device.device(), target, graphs, options.repeat, options.clock(),
                                      kept ? &profile : nullptr, speed ? &speed->speed : nullptr, !options.estimate));
  const std::string path = kept ? profile.path() : "";
  if (options.json) {
    nlohmann::ordered_json out = device_json(device.device());
    out["file"] = path;
    out["estimated"] = options.estimate;
    out["choices"] = tuned_json(choices);
    to_stdout("%s\n", out.dump(2).c_str());
  } else {
    print_tuned(choices, options.estimate ? speed->device : "");
    to_stdout("%s%s\n", path.empty() ? "Nothing is kept." : "Kept in ", path.c_str());
  }
  return ok_status();
}

// The kernels of a model, or of the whole table of choices, as the device's compiler makes them.
Status bench_kernels(const BenchArguments& options) {
  if (!options.compile_only) return invalid("graft bench kernels compiles kernels and runs none: say --compile-only.");
  DeviceFlags flags = options.flags;
  flags.use = DeviceUse::compile;
  TRY_ASSIGN(auto opened, OpenDevice::open(flags));
  gpu::Device& device = opened->device();
  gpu::Target target = device.target();
  if (!options.caps.empty()) TRY(apply_caps_to_run(options.caps, target));
  std::string untrained;
  KernelList list;
  if (options.model.empty()) {
    TRY(add_choices(target, list));
  } else {
    TRY_ASSIGN(const Model model, open_model(options.model));
    ModelUse use{.batch = options.language.batch, .lora = options.language.lora};
    TRY_ASSIGN(use.precision, passes::parse_precision(options.language.precision));
    TRY_ASSIGN(use.bindings, parse_bindings(options.bind));
    if (passes::decoder_ports(model.graph).ok()) use.bindings.emplace("seq", options.language.seq);
    TRY_ASSIGN(const auto plans, plans_of_model(model, use, target, untrained));
    for (const NamedPlan& plan : plans) list.add(plan.name, plan.plan, target);
  }
  TRY_ASSIGN(const KernelBench bench, KernelBench::compile(device, std::move(list), !options.dump.empty()));
  if (options.json) {
    nlohmann::ordered_json out = device_json(device);
    out["model"] = options.model.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(options.model);
    if (!untrained.empty()) out["untrained"] = untrained;
    out.update(kernels_json(bench));
    to_stdout("%s\n", out.dump(2).c_str());
  } else {
    to_stdout("%s, %s: compiled, not run\n\n", device.caps().device_name.c_str(), device.caps().driver_info.c_str());
    print_kernels(bench);
    if (!untrained.empty()) to_stdout("Without a training step: %s\n", untrained.c_str());
  }
  if (!options.dump.empty()) TRY(dump_kernels(bench, options.dump));
  TRY(opened->close());
  return verdict_on(bench);
}

// Flags that were given and do nothing for this model, which the command line alone does not tell.
Status refuse_idle_model_flags(const BenchArguments& options, bool is_language) {
  const auto refuse = [&](std::initializer_list<std::string_view> names, const char* why) -> Status {
    for (const std::string_view name : names) {
      if (std::ranges::find(options.given, name) != options.given.end()) return invalid(name, " has no effect ", why);
    }
    return ok_status();
  };
  if (is_language && !options.nodes) return refuse({"--bind", "--caps"}, "on a language model without --nodes.");
  TRY(refuse({"--seq", "--batch", "--decode", "--lora", "--budget", "--no-steps"},
             is_language ? "with --nodes." : "on a model that is no language model."));
  TRY(refuse({"--processor-time"}, "on nodes, whose times are the device's own."));
  return is_language ? ok_status()
                     : refuse({"--nodes"}, "on a model that is no language model: it is measured so anyway.");
}

// What each kind of benchmark looks at; all others are refused.
void refuse_idle_bench_flags(const CLI::App& app, const BenchArguments& options) {
  const std::string& what = options.what;
  const bool device = what == "device", ops = what == "ops", kernels = what == "kernels";
  const bool startup = what == "startup" || what == "startup-once";
  const bool model = !device && !ops && !kernels && !startup, with_model = model || (kernels && !options.model.empty());
  const std::string with = cat("with ", model ? "a model" : what, ".");
  refuse_idle(app, !kernels && !startup, {"MODEL"}, with);
  refuse_idle(app, !kernels, {"--compile-only"}, "but with kernels.");
  refuse_idle(app, !ops && !model, {"--tune"}, with);
  refuse_idle(app, !options.tune, {"--estimate"}, "without --tune.");
  refuse_idle(app, !ops, {"--filter", "--alone"}, with);
  refuse_idle(app, kernels || startup, {"--repeat", "--processor-time"}, with);
  refuse_idle(app, !model, {"--nodes", "--decode", "--budget", "--no-steps"}, with);
  refuse_idle(app, !with_model, {"--bind", "--seq", "--batch", "--lora"},
              kernels ? "with all kernels; name a model." : with);
  refuse_idle(app, !with_model && !ops, {"--precision"}, with);
  refuse_idle(app, device || startup, {"--caps"}, with);
  refuse_idle(app, startup, {"--cache", "--validate", "--verbose", "--matmul-precision"}, with);
  refuse_idle(app, options.tune,
              {"--alone", "--nodes", "--seq", "--batch", "--decode", "--lora", "--budget", "--no-steps", "--precision"},
              "with --tune.");
}

Status run_bench(const BenchArguments& options) {
  if (options.repeat < 1 || options.repeat > 1000) return invalid("--repeat takes 1 to 1000.");
  if (options.what == "startup-once") return run_startup(options.flags, options.model);
  if (options.what == "kernels") return bench_kernels(options);
  if (options.what == "startup") return bench_startup(options.flags, options.model, options.json);
  TRY_ASSIGN(auto device, OpenDevice::open(options.flags));
  if (options.tune) {
    TRY(run_tune(*device, options));
    return device->close();
  }
  if (options.what == "device") {
    TRY(bench_device(device->device(), options));
    return device->close();
  }
  std::optional<Model> model;
  if (options.what != "ops") {
    TRY_ASSIGN(model, open_model(options.what));
  }
  const bool is_language = model && passes::decoder_ports(model->graph).ok();
  const bool language = is_language && !options.nodes;
  if (model) TRY(refuse_idle_model_flags(options, is_language));
  const bool timed = language || (!model && options.processor_time);
  if (!timed && device->device().caps().timestamp_period_ns <= 0) {
    return unsupported("\"", device->device().caps().device_name, "\" has no timestamps to measure with.");
  }
  if (language) {
    TRY(bench_language_model(device->device(), *model, options));
  } else {
    TRY(model ? bench_nodes(device->device(), *model, options) : bench_ops(device->device(), options));
  }
  return device->close();
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchArguments>();
  app.add_option("WHAT", options->what, "\"device\", \"ops\", \"kernels\", \"startup\", or a .graft file")->required();
  app.add_option("MODEL", options->model,
                 "startup: the .graft file to start training with; kernels: the .graft file that uses them (all "
                 "variants that rules may choose)");
  auto* compile_only = app.add_flag("--compile-only", options->compile_only,
                                    "kernels: compile each and print what the driver's compiler says of it, but run "
                                    "nothing: the device may be a driver without hardware");
  app.add_option("--dump", options->dump, "kernels: write the assembly of each to a file of this folder")
      ->needs(compile_only);
  app.add_flag(
      "--tune", options->tune,
      "Measure the variants of every kernel that WHAT chooses one of, and remember the fastest for this device");
  app.add_flag("--estimate", options->estimate,
               "With --tune: run nothing, and take the variants that graft plan --time ranks first, by the device's "
               "public figures where they are known");
  app.add_option("--filter", options->filters, "Only benchmarks whose name holds this; several may be given")
      ->allow_extra_args(false);
  app.add_option("--bind", options->bind, "Sizes of named dimensions of the model (default 1)");
  app.add_option("--repeat", options->repeat, "Runs to take the median of (7)")->check(whole(1, 1 << 20));
  app.add_flag("--processor-time", options->processor_time,
               "device, ops, language models: processor time per core instead; for CPU devices of a shared machine");
  app.add_flag("--alone", options->alone, "ops: without the simpler kernels for comparison");
  app.add_flag("--nodes", options->nodes, "A language model's forward pass node by node, as that of other models");
  add_language_bench_flags(app, options->language);
  app.add_flag("--json", options->json, "Print JSON");
  add_caps_flag(app, options->caps);
  add_device_flags(app, options->flags);
  app.callback([&app, options] {
    refuse_idle_bench_flags(app, *options);
    for (const CLI::Option* option : app.get_options()) {
      if (option->count() > 0) options->given.push_back(option->get_name());
    }
  });
  return [options] { return run_bench(*options); };
}

}  // namespace graft::cli
