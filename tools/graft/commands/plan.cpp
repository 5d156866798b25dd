// graft plan: memory and cost before anything runs. Where there is no device, for the limits that every one has.
#include <cstdio>
#include <memory>
#include <optional>

#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/report/plan_report.h"
#include "tools/graft/report/svg_memory.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/quantize_flag.h"
#include "tools/graft/training/planned_model.h"
#include "tools/graft/training/train_wishes.h"

namespace graft::cli {
namespace {

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

  bool trains() const { return mode == "train"; }
};

/// The flags as graft_plan_options refers to them.
class PlanWishes {
 public:
  /// `teacher` may be null. A failure names the flag.
  Status read(const PlanArguments& given, graft_context* context, graft_model* model, graft_model* teacher);
  graft_plan_options plan() const;
  /// The same for graft_model_parts().
  graft_plan_options parts() const;

 private:
  Status read_training(graft_context* context, graft_model* model, graft_model* teacher);
  Status read_session();
  graft_plan_options both() const;

  const PlanArguments* given_ = nullptr;
  TrainFlags flags_;
  TrainWishes wishes_;
  PublicBindings of_training_{{}};
  PublicBindings of_inference_{{}};
  graft_trainer_options training_ = {};
  graft_session_options session_ = {};
  Budget budget_ = {};
};

/// The name of the dimension that counts samples; empty: there is none.
Result<std::string> batch_dimension(graft_context* context, graft_model* model) {
  for (std::size_t i = 0; i < graft_model_count(model, GRAFT_INPUTS); ++i) {
    graft_tensor_info info = {};
    TRY(checked(graft_model_tensor(model, GRAFT_INPUTS, i, &info), context));
    if (info.rank == 0 || info.dims[0] != -1) continue;
    const char* name = "";
    TRY(checked(graft_model_dimension(model, GRAFT_INPUTS, i, 0, &name), context));
    return std::string(name);
  }
  return std::string();
}

// --bind may name the batch too; the rest goes to the training graph.
Status PlanWishes::read_training(graft_context* context, graft_model* model, graft_model* teacher) {
  TRY_ASSIGN(const std::string symbol, batch_dimension(context, model));
  TRY_ASSIGN(Bindings bindings, bindings_of(flags_));
  if (const auto batch = bindings.find(symbol); batch != bindings.end()) {
    flags_.batch = batch->second;
    bindings.erase(batch);
  }
  TRY(wishes_.read(flags_, 1000));
  of_training_ = PublicBindings(std::move(bindings));
  training_ = wishes_.options();
  training_.bindings = of_training_.data();
  training_.binding_count = of_training_.size();
  training_.teacher = teacher;
  training_.fetch = given_->fetch.c_str();
  training_.no_fusion = given_->no_fusion ? 1 : 0;
  training_.no_evaluation = 1;
  training_.shrinkable = given_->budget.empty() ? 0 : 1;
  training_.budget = budget_.bytes;
  training_.budget_beside_weights = budget_.beside_weights;
  return ok_status();
}

Status PlanWishes::read_session() {
  TRY_ASSIGN(Bindings bindings, bindings_of(given_->train));
  of_inference_ = PublicBindings(std::move(bindings));
  session_.struct_size = sizeof session_;
  session_.bindings = of_inference_.data();
  session_.binding_count = of_inference_.size();
  session_.budget = budget_.bytes;
  TRY_ASSIGN(session_.precision, parse_precision(given_->train.precision));
  return ok_status();
}

Status PlanWishes::read(const PlanArguments& given, graft_context* context, graft_model* model, graft_model* teacher) {
  given_ = &given;
  flags_ = given.train;
  TRY_ASSIGN(budget_, parse_step_budget(given.budget));
  TRY(read_session());
  return given.trains() ? read_training(context, model, teacher) : ok_status();
}

graft_plan_options PlanWishes::both() const {
  auto out = sized<graft_plan_options>();
  out.session = &session_;
  if (given_->trains()) out.training = &training_;
  if (!given_->caps.empty()) out.caps = given_->caps.c_str();
  out.no_fusion = given_->no_fusion ? 1 : 0;
  const std::string& products = given_->flags.matmul_precision;
  out.matmul_precision = products == "high"     ? GRAFT_MATMUL_HIGH
                         : products == "medium" ? GRAFT_MATMUL_MEDIUM
                                                : GRAFT_MATMUL_HIGHEST;
  return out;
}

graft_plan_options PlanWishes::plan() const {
  graft_plan_options out = both();
  const PlanArguments& given = *given_;
  if (given.trains()) {
    out.session = nullptr;
    out.curve = given.curve || given.json || !given.svg.empty() || !given.html.empty() ? 1 : 0;
    out.workers = static_cast<std::uint32_t>(given.workers);
    out.shard_optimizer = given.shard_optimizer ? 1 : 0;
  } else {
    out.budget_beside_weights = budget_.beside_weights;
  }
  out.passes = given.passes ? 1 : 0;
  if (given.time) out.figures = given.time->c_str();
  return out;
}

graft_plan_options PlanWishes::parts() const { return both(); }

/// What a plan says.
struct Told {
  PlanDocument report;
  graft_plan_info info = {};
  graft_forecast forecast = {};
  std::vector<std::string> reasons;  ///< for what was chosen to keep to a budget
  CurvePicture curve;
};

Result<Told> tell(graft_context* context, graft_plan* plan, bool with_curve) {
  Told told;
  told.info.struct_size = sizeof told.info;
  told.forecast.struct_size = sizeof told.forecast;
  TRY(checked(graft_plan_describe(plan, &told.info), context));
  TRY(checked(graft_plan_forecast(plan, &told.forecast), context));
  const char* json = nullptr;
  TRY(checked(graft_plan_report(plan, &json), context));
  told.report = PlanDocument::parse(json);
  told.reasons = split_text(told.forecast.explanation, '\n');
  told.curve.budget = told.info.budget;
  told.curve.chosen_bytes = told.forecast.total;
  told.curve.chosen_flops = told.forecast.extra_flops;
  if (!with_curve) return told;
  const graft_plan_point* points = nullptr;
  std::size_t count = 0;
  TRY(checked(graft_plan_curve(plan, &points, &count), context));
  told.curve.points.assign(points, points + count);
  told.curve.flops = count_in(told.report.at("curve"), "flops");
  return told;
}

Status check_fits(const Told& told, bool json) {
  const std::uint64_t need = told.forecast.total, heap = told.info.largest_heap;
  if (need > heap) {
    return error(Code::out_of_memory, "This needs ", bytes_text(need), ", but the largest heap of ", told.info.device,
                 " has ", bytes_text(heap), "; --budget ", heap, " finds a plan that fits, if there is one.");
  }
  if (!json) to_stdout("It fits %s, whose largest heap has %s.\n", told.info.device, bytes_text(heap).c_str());
  return ok_status();
}

void print_forecast(const PlanArguments& options, const Told& told) {
  for (const std::string& reason : told.reasons) to_stdout("%s\n", reason.c_str());
  if (!told.reasons.empty()) to_stdout("\n");
  if (options.passes) print_passes(told.report);
  const PlanDocument& plans = told.report.at("plans");
  for (const PlanDocument& plan : plans) {
    print_plan(plan, cat(options.path, ": ", text_in(plan, "title"), ", for ", told.info.device));
    to_stdout("\n");
  }
  print_precision(told.report);
  if (const std::string text = matmul_precision_text(told.report); !text.empty()) to_stdout("%s\n\n", text.c_str());
  if (plans.size() > 1) {
    to_stdout("The whole run needs %s: its plans share the arena.\n", bytes_text(told.forecast.total).c_str());
  }
  if (const graft_plan_info& w = told.info; w.worker_slots > 0) {
    to_stdout(
        "%llu workers: each needs that, computes at most %llu of the %llu micro-batches of a step, keeps %s of "
        "the host's memory for their gradients, and sends and receives about %s in a step.\n",
        static_cast<unsigned long long>(options.workers), static_cast<unsigned long long>(w.worker_most),
        static_cast<unsigned long long>(w.worker_slots), bytes_text(w.worker_host_bytes).c_str(),
        bytes_text(w.worker_sent_bytes).c_str());
  }
  if (options.time) print_time(told.report, options.trains() ? "a step" : "it");
  if (options.curve && !told.curve.points.empty()) print_curve(told.report);
}

Status write_pictures(const PlanArguments& options, const Told& told) {
  const PlanDocument& plan = told.report.at("plans").front();
  const std::string title = cat(options.path.substr(options.path.rfind('/') + 1), ": ", text_in(plan, "title"));
  if (!options.svg.empty()) TRY(write_text(options.svg, memory_svg(title, plan, told.curve)));
  if (!options.html.empty()) TRY(write_text(options.html, plan_html(title, told.reasons, plan, told.curve)));
  for (const std::string& path : {options.svg, options.html}) {
    if (!path.empty()) to_stderr("Wrote %s.\n", path.c_str());
  }
  return ok_status();
}

Status plan_model(const PlanArguments& options, graft_context* context, graft_model* model, graft_model* teacher) {
  PlanWishes wishes;
  TRY(wishes.read(options, context, model, teacher));
  if (options.ops) {
    const graft_plan_options wanted = wishes.parts();
    const bool one = !options.caps.empty() || !options.flags.device.empty();
    const char* text = nullptr;
    TRY(checked(graft_model_parts(model, &wanted, one ? 1 : 0, &text), context));
    to_stdout("%s", text);
    return ok_status();
  }
  const graft_plan_options wanted = wishes.plan();
  graft_plan* made = nullptr;
  const graft_status planned = graft_plan_create(model, &wanted, &made);
  const Owned<graft_plan> plan(made);
  TRY(checked(planned, context));
  TRY_ASSIGN(const Told told, tell(context, made, wanted.curve != 0));
  if (options.fits_device && told.info.largest_heap == 0) {
    return invalid("There is no device here, and \"", options.caps,
                   "\" says nothing of heaps: name a real GPU, or a file.");
  }
  if (options.json) {
    to_stdout("%s\n", plan_json(told.report, options.path).dump(2).c_str());
  } else {
    print_forecast(options, told);
  }
  TRY(write_pictures(options, told));
  return options.fits_device ? check_fits(told, options.json) : ok_status();
}

Result<Owned<graft_context>> open_planner(const PlanArguments& options) {
  const bool any = options.ops && options.caps.empty() && options.flags.device.empty();
  if (any) return open_context_without_device();
  return open_context_for_plans(options.flags, options.fits_device && options.caps.empty());
}

Status run_plan(const PlanArguments& options) {
  if (options.mode != "train" && options.mode != "infer") {
    return invalid("--mode takes train or infer, not \"", options.mode, "\".");
  }
  Outputs outputs;
  outputs.reads("the model", options.path);
  TRY(outputs.file("--svg", options.svg));
  TRY(outputs.file("--html", options.html));
  TRY_ASSIGN(auto context, open_planner(options));
  {
    TRY_ASSIGN(const auto model, open_planned(context.get(), options.path, options.quantize, options.train));
    Owned<graft_model> teacher;
    if (!options.train.teacher.empty()) {
      TRY_ASSIGN(teacher, open_planned(context.get(), options.train.teacher, {}));
    }
    TRY(plan_model(options, context.get(), model.get(), teacher.get()));
  }
  return close_context(std::move(context));
}

std::string caps_help() {
  std::string help = "As for another device: FILE.json, as graft devices --json prints it there, or";
  graft_known_device device = {};
  device.struct_size = sizeof device;
  for (std::size_t i = 0; graft_known_device_at(i, &device) == GRAFT_OK; ++i) {
    help += cat("\n  ", device.name, ": ", device.summary);
  }
  return help;
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
  const std::size_t others = app.get_options().size();
  add_train_flags(app, options->train);
  add_teacher_flag(app, options->train);
  // Of training, but for what sizes an inference, too.
  std::vector<std::string> of_training = {"--workers", "--curve", "--fetch"};
  for (const CLI::Option* option : app.get_options()) of_training.push_back(option->get_name());
  of_training.erase(of_training.begin() + 3, of_training.begin() + 3 + static_cast<std::ptrdiff_t>(others));
  std::erase_if(of_training, [](const std::string& name) {
    return name == "--batch" || name == "--seq" || name == "--bind" || name == "--precision";
  });
  app.add_option("--caps", options->caps, caps_help());
  add_device_flags(app, options->flags);
  app.callback([&app, options, of_training] {
    refuse_idle(app, options->mode != "train", of_training, cat("with --mode ", options->mode, "."));
    refuse_idle_train_flags(app, options->train);
    refuse_idle(app, options->workers > 1, {"--time"}, "with --workers: what the network takes is not known.");
    refuse_idle(app, options->workers == 1, {"--shard-optimizer"}, "without --workers N.");
  });
  return [options] { return run_plan(*options); };
}

}  // namespace graft::cli
