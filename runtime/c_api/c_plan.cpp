// graft/plan.h: layers of models, plans of what would run.
#include "graft/plan.h"

#include <set>

#include "platform/gpu/caps_fields.h"
#include "platform/gpu/caps_text.h"
#include "platform/gpu/presets.h"
#include "runtime/c_api/c_plan.h"
#include "runtime/c_api/c_session.h"
#include "runtime/c_api/c_trainer.h"
#include "runtime/core/features.gen.h"
#include "runtime/report/layers.h"
#include "runtime/report/plan_forecast.h"
#include "runtime/report/plan_layers.h"
#include "runtime/report/plan_report.h"

using namespace graft;
using namespace graft::c_api;

struct graft_plan {
  Ref<graft_context> context;
  gpu::Target target = {};
  PlanForecast forecast = {};
  std::string explanation = {};
  std::optional<std::vector<graft_plan_point>> curve = {};
  std::set<std::uint32_t> saved = {};  ///< indices of values
  std::vector<std::string> classes = {};
  std::string report = {};  ///< of the last graft_plan_report()
  Users users = {};

  const Plan& plan() const { return forecast.plans.front().plan; }
};

namespace {

std::string lines_of(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "\n") + sentence;
  return text;
}

/// `given` itself where it is JSON, else what is in the file of that name; `kept` is what it then lies in.
Result<std::string_view> json_or_file(const graft_context& context, std::string_view given, std::string& kept) {
  constexpr std::uint64_t kMostText = 16 << 20;
  const std::size_t begin = given.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && (given[begin] == '[' || given[begin] == '{')) return given;
  GRAFT_TRY_ASSIGN(kept, os::read_text_file(*context.files, std::string(given), kMostText));
  return std::string_view(kept);
}

Status plan_inference(const graft_model& model, const graft_plan_options& given, const gpu::Target& target,
                      PlanForecast& out) {
  GRAFT_TRY_ASSIGN(SessionOptions options, session_options_of(given.session));
  options.plan.fuse = options.plan.merge = given.no_fusion == 0;
  GRAFT_TRY_ASSIGN(out, forecast_inference(model.model, options, given.budget_beside_weights, target));
  if (given.passes != 0) {
    GRAFT_TRY_ASSIGN(out.passes, inference_passes(model.model, options.bindings));
  }
  return ok_status();
}

/// Inline, so that a library without training does not hold it, whatever is optimized.
inline Status plan_training_step(const graft_model& model, const graft_plan_options& given, const gpu::Target& target,
                                 PlanForecast& out) {
  GRAFT_TRY_ASSIGN(const graft_trainer_options options, read_trainer_options(given.training));
  RunForecast asked{.curve = given.curve != 0, .workers = given.workers};
  asked.shard_optimizer = given.shard_optimizer != 0;
  PlannedRun run;
  GRAFT_TRY(prepare_plan(model.model, options, target, run));
  GRAFT_TRY_ASSIGN(out, forecast_training(*run.model, run.options, run.request, asked, target));
  if (given.passes != 0) {
    GRAFT_TRY_ASSIGN(out.passes, training_passes(*run.model, run.options));
  }
  return ok_status();
}

Status check_options(const graft_plan_options& given) {
  if (given.training != nullptr && given.session != nullptr) {
    return invalid("A plan is of a training step or of a session, not of both.");
  }
  if (given.curve != 0 && given.training == nullptr) return invalid("The curve is of a training step.");
  if (given.workers > 1 && given.training == nullptr) return invalid("Several workers take a training step.");
  if (given.workers > 1 && given.figures != nullptr) {
    return invalid("The time of several workers is not estimated: what the network takes is not known.");
  }
  if (given.shard_optimizer != 0 && given.workers < 2) return invalid("Several workers share an optimizer's state.");
  if (given.training != nullptr && given.budget_beside_weights != 0) {
    return invalid("graft_plan_options.budget_beside_weights is of inference; graft_trainer_options has one.");
  }
  return ok_status();
}

/// write(plan) for the index of one of `count` things.
template <typename Write>
graft_status with_index(const graft_plan* plan, std::size_t index, std::size_t count, const char* what, Write write) {
  if (plan == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(plan->context, [&]() -> Status {
    if (index < count) return write();
    return error(Code::not_found, "The plan has ", count, " ", what, "; number ", index, " is not one.");
  });
}

}  // namespace

Result<gpu::Target> c_api::planned_target(const graft_context& context, const graft_plan_options& options) {
  gpu::Target target = target_of(context);
  if (!context.device) target.caps.device_name = "any Vulkan 1.1 device";
  if (options.caps != nullptr) {
    const std::string_view given = options.caps;
    const bool text = given.starts_with('{') || given.starts_with('[');
    if (text || given.ends_with(".json")) {
      std::string kept;
      GRAFT_TRY_ASSIGN(const std::string_view json, json_or_file(context, given, kept));
      GRAFT_TRY(gpu::read_caps(json, text ? "The device" : std::string(given), target.caps));
    } else {
      GRAFT_TRY(gpu::apply_caps_preset(given, target));
    }
  }
  const auto products = static_cast<unsigned>(options.matmul_precision);
  if (products > GRAFT_MATMUL_MEDIUM) return invalid("There is no matmul precision number ", products, ".");
  if (products != 0) target.policy.matmul_precision = static_cast<gpu::MatmulPrecision>(products);
  return target;
}

graft_status graft_known_device_at(size_t index, graft_known_device* device) {
  if (device == nullptr || device->struct_size < sizeof(size_t)) return GRAFT_INVALID_ARGUMENT;
  const auto presets = gpu::caps_presets();
  const auto figures = gpu::known_figures();
  if (index >= presets.size() + figures.size()) return GRAFT_NOT_FOUND;
  const bool fast = index >= presets.size();
  // Literals, which end in a zero.
  const char* const name = fast ? figures[index - presets.size()].name.data() : presets[index].name.data();
  const char* const summary = fast ? figures[index - presets.size()].summary.data() : presets[index].summary.data();
  const Status written = write_info(graft_known_device{0, name, summary, fast ? 1 : 0}, device, "graft_known_device");
  return static_cast<graft_status>(written.code());
}

graft_status graft_model_layers(graft_model* model, const graft_binding* bindings, size_t binding_count,
                                const graft_layer** layers, size_t* count) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (layers == nullptr || count == nullptr) return invalid("graft_model_layers needs places for the layers.");
    GRAFT_TRY_ASSIGN(const Bindings given, read_bindings(bindings, binding_count));
    GRAFT_TRY_ASSIGN(const Bindings complete, complete_bindings(model->model, given, true));
    GRAFT_TRY_ASSIGN(model->layers, layers_of(model->model, complete));
    model->layer_rows.clear();
    for (const Layer& layer : model->layers) {
      model->layer_rows.push_back(
          {layer.name.c_str(), layer.op.c_str(), layer.shape.c_str(), layer.parameters, layer.bytes, layer.flops});
    }
    *layers = model->layer_rows.data();
    *count = model->layer_rows.size();
    return ok_status();
  });
}

graft_status graft_plan_create(graft_model* model, const graft_plan_options* options, graft_plan** plan) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (plan == nullptr) return invalid("graft_plan_create needs a place for the plan.");
    *plan = nullptr;
    GRAFT_TRY_ASSIGN(const graft_plan_options given, read_options(options, "graft_plan_options"));
    GRAFT_TRY(check_options(given));
    auto made = std::make_unique<graft_plan>();
    made->context = model->context;
    GRAFT_TRY_ASSIGN(made->target, planned_target(*model->context, given));
    PlanForecast& forecast = made->forecast;
    if (given.training == nullptr) {
      GRAFT_TRY(plan_inference(*model, given, made->target, forecast));
    } else if constexpr (kHasTraining) {
      GRAFT_TRY(plan_training_step(*model, given, made->target, forecast));
    } else {
      return unsupported("This build of graft leaves out training (GRAFT_TRAINING).");
    }
    if (given.figures != nullptr) {
      std::string kept;
      std::string_view figures = given.figures;
      if (!is_known_speed(std::string(figures))) {
        GRAFT_TRY_ASSIGN(figures, json_or_file(*model->context, figures, kept));
      }
      GRAFT_TRY(estimate_time(std::string(figures), made->target, forecast));
    }
    if (given.curve != 0) {
      made->curve.emplace();
      for (const RecomputePoint& point : forecast.curve.points) {
        made->curve->push_back(
            {forecast.curve.fixed_bytes + point.peak, point.extra_flops, point.extra_bytes, point.recomputed});
      }
    }
    made->explanation = lines_of(forecast.choice.reasons);
    for (const SavedValue& value : made->plan().saved) made->saved.insert(value.value);
    for (std::size_t i = 0; i < kMemoryClasses; ++i) {
      made->classes.emplace_back(memory_class_name(static_cast<MemoryClass>(i)));
    }
    *plan = made.release();
    return ok_status();
  });
}

void graft_plan_destroy(graft_plan* plan) {
  if (plan != nullptr) destroy<graft_context>(plan->context, plan);
}

graft_status graft_plan_forecast(const graft_plan* plan, graft_forecast* forecast) {
  if (plan == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(plan->context, [&] {
    graft_forecast out{};
    set_memory(plan->forecast.memory, out);
    out.flops = plan->plan().flops;
    out.extra_flops = plan->plan().recomputed_flops;
    out.micro_batch = static_cast<std::uint32_t>(plan->forecast.micro_batch);
    out.recomputed = static_cast<std::uint32_t>(plan->plan().recomputed.size());
    out.explanation = plan->explanation.c_str();
    return write_info(out, forecast, "graft_forecast");
  });
}

graft_status graft_plan_describe(const graft_plan* plan, graft_plan_info* info) {
  if (plan == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(plan->context, [&] {
    const PlanForecast& forecast = plan->forecast;
    const Plan& step = plan->plan();
    graft_plan_info out{};
    out.device = plan->target.caps.device_name.c_str();
    out.largest_heap = gpu::largest_heap(plan->target.caps);
    out.budget = forecast.choice.budget;
    out.unconstrained = forecast.choice.unconstrained;
    out.micro_batches = static_cast<std::uint32_t>(forecast.micro_batches);
    out.accumulates = forecast.accumulates ? 1 : 0;
    out.arena = step.transient_bytes;
    out.lower_bound = step.lower_bound;
    out.peak_node = step.peak_node == kNoIndex ? step.nodes.size() : step.peak_node;
    const PlanWork work = work_of(step);
    out.bytes_moved = work.moved;
    out.dispatches = static_cast<std::uint32_t>(work.dispatches);
    out.kernels = static_cast<std::uint32_t>(step.kernels.size());
    out.barriers = step.barriers;
    out.submissions = static_cast<std::uint32_t>(list_ends(step, plan->target.quirks).size());
    if (const WorkerForecast& workers = forecast.workers; workers.workers > 1) {
      out.worker_slots = workers.slots;
      out.worker_most = workers.most;
      out.worker_host_bytes = workers.host_bytes;
      out.worker_sent_bytes = workers.sent_bytes;
    }
    out.seconds = forecast.time.all.seconds();
    out.arithmetic_seconds = forecast.time.all.arithmetic;
    out.memory_seconds = forecast.time.all.memory;
    out.dispatching_seconds = forecast.time.all.dispatching;
    return write_info(out, info, "graft_plan_info");
  });
}

graft_status graft_plan_report(graft_plan* plan, const char** json) {
  if (plan == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(plan->context, [&]() -> Status {
    if (json == nullptr) return invalid("graft_plan_report needs a place for the text.");
    plan->report = plan_report(plan->forecast, plan->target);
    *json = plan->report.c_str();
    return ok_status();
  });
}

graft_status graft_plan_curve(const graft_plan* plan, const graft_plan_point** points, size_t* count) {
  if (plan == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(plan->context, [&]() -> Status {
    if (points == nullptr || count == nullptr) return invalid("graft_plan_curve needs places for the points.");
    if (!plan->curve) return error(Code::not_found, "The plan was made without graft_plan_options.curve.");
    *points = plan->curve->data();
    *count = plan->curve->size();
    return ok_status();
  });
}

size_t graft_plan_node_count(const graft_plan* plan) { return plan == nullptr ? 0 : plan->plan().nodes.size(); }

graft_status graft_plan_node_at(const graft_plan* plan, size_t index, graft_plan_node* node) {
  return with_index(plan, index, graft_plan_node_count(plan), "nodes", [&] {
    const PlanNode& from = plan->plan().nodes[index];
    graft_plan_node out{};
    out.name = from.name.c_str();
    out.op = from.op.c_str();
    out.backward = from.backward ? 1 : 0;
    out.recomputed = from.recomputed ? 1 : 0;
    out.flops = from.flops;
    out.bytes = from.bytes;
    out.scratch_bytes = from.scratch_bytes;
    out.live_bytes = from.live_bytes;
    out.dispatches = from.steps;
    out.parts = from.parts;
    return write_info(out, node, "graft_plan_node");
  });
}

size_t graft_plan_value_count(const graft_plan* plan) { return plan == nullptr ? 0 : plan->plan().values.size(); }

graft_status graft_plan_value_at(const graft_plan* plan, size_t index, graft_plan_value* value) {
  return with_index(plan, index, graft_plan_value_count(plan), "values", [&] {
    const PlanValue& from = plan->plan().values[index];
    graft_plan_value out{};
    out.name = from.name.c_str();
    out.memory_class = plan->classes[static_cast<std::size_t>(from.memory_class)].c_str();
    out.offset = from.offset;
    out.bytes = from.bytes;
    out.first = from.first;
    out.last = from.last;
    out.saved = plan->saved.contains(from.value) ? 1 : 0;
    out.storage = from.space == Space::transient ? std::int64_t{from.storage} : -1;
    return write_info(out, value, "graft_plan_value");
  });
}
