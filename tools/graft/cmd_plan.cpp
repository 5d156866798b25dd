// graft plan: memory and cost before anything runs. Where there is no device, for the limits that every one has.
#include <cstdio>
#include <memory>

#include "platform/base/checked.h"
#include "runtime/plan/plan.h"
#include "runtime/session/session.h"
#include "runtime/train/training_plan.h"
#include "tools/graft/device.h"
#include "tools/graft/model_io.h"
#include "tools/graft/options.h"
#include "tools/graft/plan_report.h"
#include "tools/graft/svg_memory.h"
#include "tools/graft/train_flags.h"

namespace graft::cli {
namespace {

struct Options {
  DeviceFlags flags;
  TrainFlags train;
  std::string path;
  std::string mode = "train";
  std::string budget;
  std::string svg;
  bool json = false;
};

struct Planned {
  std::string title;
  Plan plan;
};

Result<std::vector<Planned>> plan_inference(const Model& model, const Bindings& bindings, const gpu::Caps& caps,
                                            const PlanOptions& plan_options) {
  GRAFT_TRY_ASSIGN(const Bindings complete, complete_bindings(model, bindings, true));
  GRAFT_TRY_ASSIGN(const Graph graph, request_graph(model, complete, {}));
  Residents residents(caps);
  GRAFT_TRY(residents.add(graph));
  GRAFT_TRY_ASSIGN(Plan plan, make_plan(graph, caps, residents, plan_options));
  std::vector<Planned> plans;
  plans.push_back({"inference", std::move(plan)});
  return plans;
}

// --bind may name the batch too; the rest goes to the training graph.
Result<train::TrainOptions> options_for_training(const Model& model, TrainFlags flags) {
  GRAFT_TRY_ASSIGN(Bindings bindings, parse_bindings(flags.bind));
  GRAFT_TRY_ASSIGN(const std::string symbol, train::batch_symbol(model.graph));
  if (const auto batch = bindings.find(symbol); batch != bindings.end()) flags.batch = batch->second;
  GRAFT_TRY_ASSIGN(train::TrainOptions options, train_options(flags, 1000));
  options.bindings.erase(symbol);
  return options;
}

Result<std::vector<Planned>> plan_for_training(const Model& model, const TrainFlags& flags, const gpu::Caps& caps,
                                               const PlanOptions& plan_options) {
  GRAFT_TRY_ASSIGN(const train::TrainOptions options, options_for_training(model, flags));
  train::PlanRequest request;
  request.evaluation = false;
  request.plan = plan_options;
  request.shrink_micro_batch = plan_options.budget != 0;
  GRAFT_TRY_ASSIGN(train::TrainingPlan training, train::plan_training(model.graph, options, request, caps));
  std::vector<Planned> plans;
  plans.push_back(
      {cat("training step, batch ", training.training[0].samples, ", ", train::optimizer_name(options.optimizer.kind)),
       std::move(training.training[0].plan)});
  if (training.update) {
    plans.push_back({cat("optimizer step after ", ceil_div(options.batch, training.micro_batch), " micro-batches"),
                     std::move(*training.update)});
  }
  return plans;
}

// The device that was asked for, else any that is here, else what Vulkan guarantees everywhere.
Result<gpu::Caps> find_caps(const DeviceFlags& flags) {
  auto opened = OpenDevice::open(flags);
  const bool asked = !flags.device.empty() || !flags.library.empty();
  if (!opened.ok() && !asked) return gpu::Caps{.device_name = "any Vulkan 1.1 device"};
  GRAFT_TRY_ASSIGN(auto device, std::move(opened));
  const gpu::Caps caps = device->device().caps();
  GRAFT_TRY(device->close());
  return caps;
}

Status run(const Options& options) {
  if (options.mode != "train" && options.mode != "infer") {
    return invalid("--mode takes train or infer, not \"", options.mode, "\".");
  }
  GRAFT_TRY_ASSIGN(const Model model, open_model(options.path));
  PlanOptions plan_options;
  if (!options.budget.empty()) {
    GRAFT_TRY_ASSIGN(plan_options.budget, parse_size(options.budget));
  }
  GRAFT_TRY_ASSIGN(const gpu::Caps caps, find_caps(options.flags));
  GRAFT_TRY_ASSIGN(const Bindings bindings, parse_bindings(options.train.bind));
  auto planned = options.mode == "infer" ? plan_inference(model, bindings, caps, plan_options)
                                         : plan_for_training(model, options.train, caps, plan_options);
  GRAFT_TRY_ASSIGN(const auto plans, std::move(planned));
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Planned& one : plans) {
      nlohmann::ordered_json row = {{"title", one.title}};
      row.update(plan_json(one.plan));
      all.push_back(std::move(row));
    }
    std::printf("%s\n", nlohmann::ordered_json({{"model", options.path}, {"device", caps.device_name}, {"plans", all}})
                            .dump(2)
                            .c_str());
  } else {
    for (const Planned& one : plans) {
      print_plan(one.plan, cat(options.path, ": ", one.title, ", for ", caps.device_name));
      std::printf("\n");
    }
  }
  if (options.svg.empty()) return ok_status();
  const std::string name = options.path.substr(options.path.rfind('/') + 1);
  GRAFT_TRY(write_text(options.svg, memory_svg(cat(name, ": ", plans[0].title), plans[0].plan)));
  std::fprintf(stderr, "Wrote %s.\n", options.svg.c_str());
  return ok_status();
}

}  // namespace

Action add_plan(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->path, "A .graft file")->required();
  app.add_option("--mode", options->mode, "train or infer (default train)");
  app.add_option("--budget", options->budget,
                 "Largest device memory, as in 512MiB; an error where the plan needs more");
  app.add_flag("--json", options->json, "Print JSON");
  app.add_option("--svg", options->svg, "Draw the memory map to this file");
  add_train_flags(app, options->train);
  add_device_flags(app, options->flags);
  return [options] { return run(*options); };
}

}  // namespace graft::cli
