// graft plan: memory and cost before anything runs. Where there is no device, for the limits that every one has.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "platform/base/checked.h"
#include "runtime/core/quantized.h"
#include "runtime/distribute/group_exchange.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/passes/bind.h"
#include "runtime/passes/pipeline.h"
#include "runtime/passes/precision.h"
#include "runtime/passes/train_mode.h"
#include "runtime/plan/stream_choice.h"
#include "runtime/session/session.h"
#include "runtime/train/training_plan.h"
#include "tools/bench/budget.h"
#include "tools/bench/device.h"
#include "tools/bench/model_io.h"
#include "tools/bench/model_plans.h"
#include "tools/bench/time_estimate.h"
#include "tools/common/options.h"
#include "tools/convert/language_model/convert_decoder.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/output.h"
#include "tools/graft/plan_ops.h"
#include "tools/graft/plan_passes.h"
#include "tools/graft/plan_report.h"
#include "tools/graft/quantize_flag.h"
#include "tools/graft/svg_memory.h"
#include "tools/graft/train_flags.h"
#include "tools/graft/train_setup.h"

namespace graft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanArguments {
  DeviceFlags flags;
  TrainFlags train;
  std::string path;
  std::string mode = "train";
  std::string budget;
  std::uint64_t workers = 1;
  bool shard_optimizer = false;
  std::string caps;
  std::string svg;
  std::string html;
  bool json = false;
  bool curve = false;
  bool fits_device = false;
  bool no_fusion = false;
  bool passes = false;
  bool ops = false;
  std::string fetch;
  std::string quantize;
  std::optional<std::string> time;  // figures of a device; empty: of the one that is planned for
};

struct Planned {
  std::string title;
  Plan plan;
};

// Of one of several workers.
struct WorkerForecast {
  std::uint64_t workers = 1;
  std::uint64_t slots = 0;       ///< micro-batches of a step
  std::uint64_t most = 0;        ///< of these, of one worker
  std::uint64_t host_bytes = 0;  ///< of gradients, in the host's memory
  std::uint64_t sent_bytes = 0;  ///< in a step; as many are received
  MemoryByClass sum;             ///< what adding gradients up takes of the device, at most
};

struct Forecast {
  std::vector<Planned> plans;
  WorkerForecast workers;
  MemoryByClass memory;  ///< of the whole run
  std::int64_t micro_batch = 0;
  std::int64_t micro_batches = 1;  ///< of a step
  bool accumulates = false;
  train::BudgetChoice choice;
  passes::PrecisionReport precision;
  train::TrainingCurve curve;            ///< no points where it was not asked for
  std::optional<KnownSpeed> speed;       ///< of a device whose time was asked for
  ModelTime time;                        ///< of a step or a forward pass there
  std::vector<passes::PassNote> passes;  ///< likewise
};

Result<Forecast> plan_inference(const Model& model, const PlanArguments& options, const Bindings& bindings,
                                const gpu::Target& target, PlanOptions plan_options) {
  TRY_ASSIGN(const Bindings complete, complete_bindings(model, bindings, true));
  TRY_ASSIGN(const DType precision, passes::parse_precision(options.train.precision));
  TRY_ASSIGN(SessionGraph session, session_graph(model, complete, {}, precision));
  Forecast forecast;
  forecast.precision = std::move(session.precision);
  TRY_ASSIGN(const Graph graph, fused_graph(session.graph, target, plan_options));
  const Graph* const graphs[] = {&graph};
  TRY_ASSIGN(plan_options.budget, parse_budget(options.budget, [&]() -> Result<std::uint64_t> {
               TRY_ASSIGN(const Residents all, residents_within(target, graphs, plan_options));
               TRY_ASSIGN(const Plan free, make_plan(graph, target, all, plan_options));
               return free.memory[MemoryClass::weights] + free.memory[MemoryClass::parameters];
             }));
  TRY_ASSIGN(const Residents residents, residents_within(target, graphs, plan_options));
  TRY_ASSIGN(Plan plan, make_plan(graph, target, residents, plan_options));
  forecast.memory = plan.memory;
  forecast.choice.budget = plan_options.budget;
  const Plan* const plans[] = {&plan};
  if (const std::string text = streaming_text(residents, plans); !text.empty()) forecast.choice.reasons = {text};
  forecast.plans.push_back({"inference", std::move(plan)});
  return forecast;
}

// --bind may name the batch too; the rest goes to the training graph.
Result<train::TrainOptions> options_for_training(const Model& model, TrainFlags flags) {
  TRY_ASSIGN(Bindings bindings, parse_bindings(flags.bind));
  TRY_ASSIGN(const std::string symbol, train::batch_symbol(model.graph));
  if (const auto batch = bindings.find(symbol); batch != bindings.end()) flags.batch = batch->second;
  TRY_ASSIGN(train::TrainOptions options, train_options(flags, 1000));
  options.bindings.erase(symbol);
  TRY(set_teacher(flags, model.graph, options));
  return options;
}

Result<WorkerForecast> forecast_worker(const PlanArguments& given, const train::TrainOptions& options,
                                       const train::TrainingPlan& plan, const gpu::Target& target) {
  const std::uint64_t workers = given.workers;
  WorkerForecast forecast{.workers = workers};
  forecast.slots = static_cast<std::uint64_t>(ceil_div(options.batch, plan.micro_batch));
  forecast.most = train::Share{0, workers}.of(forecast.slots).count;
  const std::uint64_t gradients = Capture::planned_bytes(plan.residents, Capture::What::gradients);
  forecast.host_bytes = distribute::host_bytes(gradients, workers, forecast.most, forecast.slots);
  // Slots, their sum, and with a shared optimizer the parameters, which are as many.
  forecast.sent_bytes = (forecast.most + (given.shard_optimizer ? 2 : 1)) * gradients * (workers - 1) / workers;
  TRY_ASSIGN(forecast.sum, distribute::SlotSum::planned(target, distribute::elements_to_sum(gradients, workers)));
  return forecast;
}

Result<Forecast> plan_for_training(const Model& model, const PlanArguments& given, const gpu::Target& target,
                                   const PlanOptions& plan_options, bool with_curve) {
  TRY_ASSIGN(train::TrainOptions options, options_for_training(model, given.train));
  options.fetch = split_list(given.fetch);
  train::scale_for_rounding(target, options);
  train::PlanRequest request;
  request.evaluation = false;
  request.plan = plan_options;
  request.slots = given.workers > 1;
  if (request.slots && given.shard_optimizer) request.shard = {0, static_cast<std::uint32_t>(given.workers)};
  TRY(set_budget(given.budget, model.graph, options, target, request));
  TRY_ASSIGN(train::TrainingPlan training, train::plan_training(model.graph, options, request, target));
  Forecast forecast;
  forecast.memory = training.memory();
  forecast.micro_batch = training.micro_batch;
  forecast.accumulates = training.accumulates;
  forecast.micro_batches = static_cast<std::int64_t>(ceil_div(options.batch, training.micro_batch));
  if (request.slots) {
    TRY_ASSIGN(forecast.workers, forecast_worker(given, options, training, target));
    for (std::size_t i = 0; i < kMemoryClasses; ++i) forecast.memory.bytes[i] += forecast.workers.sum.bytes[i];
  }
  forecast.choice = std::move(training.choice);
  forecast.precision = std::move(training.precision);
  forecast.plans.push_back(
      {cat("training step, batch ", training.training[0].samples, ", ", train::optimizer_name(options.optimizer.kind)),
       std::move(training.training[0].plan)});
  if (training.update) {
    forecast.plans.push_back(
        {cat("optimizer step after ", ceil_div(options.batch, training.micro_batch), " micro-batches"),
         std::move(*training.update)});
  }
  if (with_curve) {
    TRY_ASSIGN(forecast.curve, train::training_curve(model.graph, options, request, target));
  }
  return forecast;
}

Status estimate_time(const std::string& given, const gpu::Target& target, Forecast& forecast) {
  TRY_ASSIGN(forecast.speed, read_speed(given, target));
  const gpu::Speed& speed = forecast.speed->speed;
  forecast.time.add(forecast.plans[0].plan, target, speed, static_cast<double>(forecast.micro_batches));
  if (forecast.plans.size() > 1) forecast.time.add(forecast.plans[1].plan, target, speed, 1);
  return ok_status();
}

// What the passes do with the network alone: a loss comes after it, and gradients after that.
Result<std::vector<passes::PassNote>> run_passes(const Model& model, const PlanArguments& options,
                                                 const Bindings& bindings) {
  const bool inference = options.mode == "infer";
  Graph graph;
  if (inference) {
    TRY_ASSIGN(const Bindings complete, complete_bindings(model, bindings, true));
    TRY_ASSIGN(graph, bind(model.graph, complete));
  } else {
    TRY_ASSIGN(const train::TrainOptions training, options_for_training(model, options.train));
    TRY_ASSIGN(const Graph bound, train::bind_batch(model.graph, training.batch, training.bindings));
    std::string note;
    TRY_ASSIGN(const train::LossInputs inputs, train::loss_inputs(bound, training, &note));
    const std::vector<ValueId> targets = train::all_of(inputs);
    const passes::TrainModeOptions mode{training.freeze, training.batch_statistics, training.batch_norm_momentum};
    TRY_ASSIGN(passes::TrainModeGraph forward, passes::to_train_mode(bound, targets, mode));
    graph = std::move(forward.graph);
    for (const ValueId target : targets) graph.add_output(bound.value(target).name, forward.values[target.index]);
  }
  TRY_ASSIGN(passes::Prepared prepared,
             passes::prepare(graph, {}, {.inference = inference, .fixed_weights = inference}));
  if (inference) {
    TRY_ASSIGN(const passes::FoldedGraph folded, passes::fold_constants(prepared.graph));
    prepared.notes.push_back(passes::note_of("fold constants", prepared.graph, folded.graph));
  }
  return std::move(prepared.notes);
}

// The device that was asked for, else any that is here, else what Vulkan guarantees everywhere.
Result<gpu::Target> device_target(const PlanArguments& options) {
  DeviceFlags flags = options.flags;
  flags.use = DeviceUse::plan;
  flags.matmul_precision.clear();  // said of the capabilities that are planned for
  auto opened = OpenDevice::open(flags);
  const bool asked =
      !options.flags.device.empty() || !options.flags.library.empty() || (options.fits_device && options.caps.empty());
  if (!opened.ok() && !asked) return gpu::Target{.caps = {.device_name = "any Vulkan 1.1 device"}};
  TRY_ASSIGN(auto device, std::move(opened));
  const gpu::Target target = device->device().target();
  TRY(device->close());
  return target;
}

Result<gpu::Target> find_target(const PlanArguments& options) {
  TRY_ASSIGN(gpu::Target target, device_target(options));
  if (!options.caps.empty()) TRY(apply_caps_flag(options.caps, target));
  if (options.fits_device && target.caps.heaps.empty()) {
    return invalid("There is no device here, and \"", options.caps,
                   "\" says nothing of heaps: name a real GPU, or a file.");
  }
  apply_matmul_precision(options.flags, target.policy);
  return target;
}

// Device memory is where plans live; a device without memory of its own shares the host's.
std::uint64_t device_heap(const gpu::Caps& caps) {
  std::uint64_t local = 0, any = 0;
  for (const gpu::Caps::Heap& heap : caps.heaps) {
    any = std::max(any, heap.bytes);
    if (heap.device_local) local = std::max(local, heap.bytes);
  }
  return local != 0 ? local : any;
}

Status check_fits(const Forecast& forecast, const gpu::Caps& caps, bool json) {
  const std::uint64_t need = forecast.memory.total(), heap = device_heap(caps);
  if (need > heap) {
    return error(Code::out_of_memory, "This needs ", bytes_text(need), ", but the largest heap of ", caps.device_name,
                 " has ", bytes_text(heap), "; --budget ", heap, " finds a plan that fits, if there is one.");
  }
  if (!json) {
    std::printf("It fits %s, whose largest heap has %s.\n", caps.device_name.c_str(), bytes_text(heap).c_str());
  }
  return ok_status();
}

CurvePicture curve_picture(const Forecast& forecast) {
  CurvePicture picture;
  picture.points = forecast.curve.points;
  picture.fixed_bytes = forecast.curve.fixed_bytes;
  picture.flops = forecast.curve.flops;
  picture.budget = forecast.choice.budget;
  picture.chosen_bytes = forecast.memory.total();
  picture.chosen_flops = forecast.plans[0].plan.recomputed_flops;
  return picture;
}

nlohmann::ordered_json forecast_json(const PlanArguments& options, const Forecast& forecast,
                                     const gpu::Target& target) {
  Json plans = Json::array();
  for (const Planned& one : forecast.plans) {
    Json row = {{"title", one.title}};
    row.update(plan_json(one.plan, target.quirks));
    plans.push_back(std::move(row));
  }
  Json all = {{"model", options.path},
              {"device", target.caps.device_name},
              {"memory", memory_json(forecast.memory)},
              {"total", forecast.memory.total()}};
  all["precision"] = precision_json(forecast.precision);
  all["matmul_precision"] = matmul_precision_json(target);
  if (options.mode == "train") {
    all["micro_batch"] = forecast.micro_batch;
    all["accumulates"] = forecast.accumulates;
    all["curve"] = curve_json(forecast.curve);
  }
  if (forecast.choice.budget != 0) {
    all["budget"] = {{"bytes", forecast.choice.budget},
                     {"unconstrained", forecast.choice.unconstrained},
                     {"reasons", forecast.choice.reasons}};
  }
  if (const WorkerForecast& w = forecast.workers; w.workers > 1) {
    all["workers"] = {{"number", w.workers},
                      {"micro_batches", w.slots},
                      {"most_of_one", w.most},
                      {"host_bytes", w.host_bytes},
                      {"bytes_sent", w.sent_bytes}};
  }
  if (forecast.speed) all["time"] = time_json(forecast.time, *forecast.speed);
  if (options.passes) all["passes"] = passes_json(forecast.passes);
  all["plans"] = std::move(plans);
  return all;
}

void print_forecast(const PlanArguments& options, const Forecast& forecast, const gpu::Target& target) {
  for (const std::string& reason : forecast.choice.reasons) std::printf("%s\n", reason.c_str());
  if (!forecast.choice.reasons.empty()) std::printf("\n");
  if (options.passes) print_passes(forecast.passes);
  for (const Planned& one : forecast.plans) {
    print_plan(one.plan, target.quirks, cat(options.path, ": ", one.title, ", for ", target.caps.device_name));
    std::printf("\n");
  }
  print_precision(forecast.precision);
  if (const std::string text = matmul_precision_text(target); !text.empty()) std::printf("%s\n\n", text.c_str());
  if (forecast.plans.size() > 1) {
    std::printf("The whole run needs %s: its plans share the arena.\n", bytes_text(forecast.memory.total()).c_str());
  }
  if (const WorkerForecast& w = forecast.workers; w.workers > 1) {
    std::printf(
        "%llu workers: each needs that, computes at most %llu of the %llu micro-batches of a step, keeps %s of "
        "the host's memory for their gradients, and sends and receives about %s in a step.\n",
        static_cast<unsigned long long>(w.workers), static_cast<unsigned long long>(w.most),
        static_cast<unsigned long long>(w.slots), bytes_text(w.host_bytes).c_str(), bytes_text(w.sent_bytes).c_str());
  }
  if (forecast.speed) print_time(forecast.time, *forecast.speed, options.mode == "train" ? "a step" : "it");
  if (options.curve && !forecast.curve.points.empty()) print_curve(forecast.curve);
}

Status write_pictures(const PlanArguments& options, const Forecast& forecast) {
  const std::string title = cat(options.path.substr(options.path.rfind('/') + 1), ": ", forecast.plans[0].title);
  const Plan& plan = forecast.plans[0].plan;
  const CurvePicture curve = curve_picture(forecast);
  if (!options.svg.empty()) TRY(write_text(options.svg, memory_svg(title, plan, curve)));
  if (!options.html.empty()) {
    TRY(write_text(options.html, plan_html(title, forecast.choice.reasons, plan, curve)));
  }
  for (const std::string& path : {options.svg, options.html}) {
    if (!path.empty()) std::fprintf(stderr, "Wrote %s.\n", path.c_str());
  }
  return ok_status();
}

// What a library with this model may be asked to run: inference, text, and with --mode train all of a training run, in
// whole batches and in micro-batches.
Result<std::vector<Plan>> all_plans(const Model& model, const PlanArguments& given, const gpu::Target& target) {
  TRY_ASSIGN(const DType precision, passes::parse_precision(given.train.precision));
  TRY_ASSIGN(const Bindings bindings, bindings_of(given.train));
  TRY_ASSIGN(std::vector<Plan> plans, decode_plans(model, target, precision));
  TRY_ASSIGN(Forecast inference, plan_inference(model, given, bindings, target, {}));
  plans.push_back(std::move(inference.plans[0].plan));
  if (given.mode == "infer") return plans;
  TRY_ASSIGN(train::TrainOptions options, options_for_training(model, given.train));
  options.fetch = split_list(given.fetch);
  train::scale_for_rounding(target, options);
  train::PlanRequest request;
  request.checkpoints = true;
  for (const std::int64_t micro : {options.micro_batch, std::int64_t{1}}) {
    options.micro_batch = micro;
    TRY_ASSIGN(train::TrainingPlan run, train::plan_training(model.graph, options, request, target));
    for (train::SizedPlan& sized : run.training) plans.push_back(std::move(sized.plan));
    for (train::SizedPlan& sized : run.evaluation) plans.push_back(std::move(sized.plan));
    for (std::optional<Plan>* one : {&run.update, &run.hash}) {
      if (*one) plans.push_back(std::move(**one));
    }
  }
  return plans;
}

// --caps and --device name the one device that the library is for; else it is for all that graft knows.
Status print_ops(const Model& model, const PlanArguments& options, const OpUse& seen) {
  std::vector<gpu::Target> targets = known_targets();
  const bool one = !options.caps.empty() || !options.flags.device.empty();
  if (one) {
    TRY_ASSIGN(const gpu::Target target, find_target(options));
    targets = {target};
  }
  for (gpu::Target& target : targets) apply_matmul_precision(options.flags, target.policy);
  const auto plan = [&](const gpu::Target& target) { return all_plans(model, options, target); };
  TRY_ASSIGN(const NeededParts parts, needed_parts(targets, plan, seen));
  const std::string title = cat("What ", options.path.substr(options.path.rfind('/') + 1), " needs for ",
                                options.mode == "train" ? "training and inference" : "inference", " on ",
                                one ? targets[0].caps.device_name : "all devices that graft knows", ".");
  std::printf("%s", ops_text(parts, title).c_str());
  return ok_status();
}

// A .graft file, or a language model by its config.json alone: what it takes is known before it is there.
Result<AdaptedModel> open_planned(const PlanArguments& options) {
  const std::string& path = options.path;
  if (!path.ends_with(".json")) {
    if (!options.quantize.empty()) return invalid("--quantize goes with a config.json; convert takes it for models.");
    return open_adapted(path, options.train.adapter, WeightCheck::on_use, options.train.fresh());
  }
  convert::WeightOptions weights;
  TRY_ASSIGN(weights.quantize, parse_block_format(options.quantize));
  TRY_ASSIGN(convert::ConvertedDecoder shapes, convert::shapes_of_config(os::system_files(), path, weights));
  return put_adapters_on(std::move(shapes.model), options.train.adapter, options.train.fresh());
}

Result<AdaptedModel> open_planned_teacher(const PlanArguments& options) {
  PlanArguments of;
  of.path = options.train.teacher;
  return open_planned(of);
}

Status run_plan(const PlanArguments& options) {
  if (options.mode != "train" && options.mode != "infer") {
    return invalid("--mode takes train or infer, not \"", options.mode, "\".");
  }
  Outputs outputs;
  outputs.reads("the model", options.path);
  TRY(outputs.file("--svg", options.svg));
  TRY(outputs.file("--html", options.html));
  OpUse seen;
  TRY_ASSIGN(AdaptedModel opened, open_planned(options));
  std::optional<AdaptedModel> teacher;
  std::optional<Model> taught;
  if (!options.train.teacher.empty()) {
    TRY_ASSIGN(teacher, open_planned_teacher(options));
    TRY_ASSIGN(taught, with_teacher(opened.get(), teacher->base));
  }
  const Model& model = taught ? *taught : opened.get();
  if (options.ops) return print_ops(model, options, seen);
  PlanOptions plan_options;
  plan_options.fuse = plan_options.merge = !options.no_fusion;
  TRY_ASSIGN(const gpu::Target target, find_target(options));
  TRY_ASSIGN(const Bindings bindings, bindings_of(options.train));
  const bool with_curve = options.curve || options.json || !options.svg.empty() || !options.html.empty();
  auto planned = options.mode == "infer" ? plan_inference(model, options, bindings, target, plan_options)
                                         : plan_for_training(model, options, target, plan_options, with_curve);
  TRY_ASSIGN(Forecast forecast, std::move(planned));
  if (options.passes) {
    TRY_ASSIGN(forecast.passes, run_passes(model, options, bindings));
  }
  if (options.time) TRY(estimate_time(*options.time, target, forecast));
  if (options.json) {
    std::printf("%s\n", forecast_json(options, forecast, target).dump(2).c_str());
  } else {
    print_forecast(options, forecast, target);
  }
  TRY(write_pictures(options, forecast));
  return options.fits_device ? check_fits(forecast, target.caps, options.json) : ok_status();
}

}  // namespace

Action add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanArguments>();
  app.add_option("MODEL", options->path, "A .graft file, or the config.json of a language model that is not here")
      ->required();
  app.add_option("--mode", options->mode, "train or infer (default train)");
  app.add_option("--budget", options->budget, kBudgetHelp);
  app.add_flag("--json", options->json, "Print JSON");
  app.add_flag("--curve", options->curve, "Print what computing results again would save, and its FLOPs");
  app.add_option("--svg", options->svg, "Draw the memory map, the curve and the largest layers to this file");
  app.add_option("--html", options->html, "The same as a page with every layer; hovering names the values");
  app.add_flag("--no-fusion", options->no_fusion, "Give every op and every tensor dispatches of its own");
  app.add_option("--fetch", options->fetch, "Values to read after each training step; the plan shows what that costs");
  app.add_flag("--passes", options->passes, "Print what each pass over the graph did before the plan was made");
  app.add_flag(
      "--ops", options->ops,
      "Print the ops and kernels that a build of graft needs for this model (GRAFT_OPS), on all known devices or "
      "on that of --caps or --device");
  app.add_option_function<std::string>(
         "--time", [options](const std::string& figures) { options->time = figures; },
         "Estimate how long a step takes: by public figures of the device that is planned for, or by FIGURES, what "
         "graft bench device --json printed there (or a file of it), or a GPU's name as of --caps")
      ->expected(0, 1)
      ->type_name("[FIGURES]");
  app.add_flag("--fits-device", options->fits_device, "Fail where the device's memory does not suffice");
  add_quantize_flag(app, options->quantize);
  app.add_option("--workers", options->workers,
                 "Of so many workers of one run (graft train --workers): what each needs")
      ->check(whole(1, 1024));
  app.add_flag("--shard-optimizer", options->shard_optimizer, "As of graft train: what worker 0 of these needs");
  add_train_flags(app, options->train);
  add_teacher_flag(app, options->train);
  add_caps_flag(app, options->caps);
  add_device_flags(app, options->flags);
  app.callback([&app, options] {
    refuse_idle_train_flags(app, options->train);
    refuse_idle(app, options->mode != "train", {"--workers", "--teacher"}, cat("with --mode ", options->mode, "."));
    refuse_idle(app, options->workers > 1, {"--time"}, "with --workers: what the network takes is not known.");
    refuse_idle(app, options->workers == 1, {"--shard-optimizer"}, "without --workers N.");
  });
  return [options] { return run_plan(*options); };
}

}  // namespace graft::cli
