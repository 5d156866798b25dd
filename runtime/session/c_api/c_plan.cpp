// graft/plan.h: layers of models, plans of what would run.
#include "graft/plan.h"

#include <set>

#include "platform/gpu/presets.h"
#include "runtime/core/features.gen.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/passes/bind.h"
#include "runtime/plan/stream_choice.h"
#include "runtime/session/c_api/c_session.h"
#include "runtime/session/c_api/c_trainer.h"
#include "runtime/session/layers.h"

using namespace graft;
using namespace graft::c_api;

struct graft_plan {
  Ref<graft_context> context;
  Plan plan = {};
  graft_forecast forecast = {};
  std::string explanation = {};
  std::optional<std::vector<graft_plan_point>> curve = {};
  std::set<std::uint32_t> saved = {};  ///< indices of values
  std::vector<std::string> classes = {};
  Users users = {};
};

namespace {

std::string lines_of(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "\n") + sentence;
  return text;
}

Result<gpu::Target> target_for(const graft_context& context, const graft_plan_options& options) {
  gpu::Target target = target_of(context);
  if (options.caps != nullptr) GRAFT_TRY(gpu::apply_caps_preset(options.caps, target));
  return target;
}

Status plan_inference(const graft_model& model, const graft_plan_options& given, const gpu::Target& target,
                      graft_plan& out) {
  GRAFT_TRY_ASSIGN(SessionOptions options, session_options_of(given.session));
  GRAFT_TRY_ASSIGN(const Bindings bindings, complete_bindings(model.model, options.bindings, true));
  GRAFT_TRY_ASSIGN(const SessionGraph session,
                   session_graph(model.model, bindings, options.gradients, options.precision));
  GRAFT_TRY_ASSIGN(const Graph graph, fused_graph(session.graph, target, options.plan));
  const Graph* const graphs[] = {&graph};
  GRAFT_TRY_ASSIGN(const Residents residents, residents_within(target, graphs, options.plan));
  GRAFT_TRY_ASSIGN(out.plan, make_plan(graph, target, residents, options.plan));
  const Plan* const plans[] = {&out.plan};
  out.explanation = streaming_text(residents, plans);
  set_memory(out.plan.memory, out.forecast);
  out.forecast.flops = out.plan.flops;
  out.forecast.extra_flops = out.plan.recomputed_flops;
  out.forecast.recomputed = static_cast<std::uint32_t>(out.plan.recomputed.size());
  return ok_status();
}

/// Inline, so that a library without training does not hold it, whatever is optimized.
inline Status plan_training_step(const graft_model& model, const graft_plan_options& given, const gpu::Target& target,
                                 graft_plan& out) {
  GRAFT_TRY_ASSIGN(const graft_trainer_options options, read_options(given.training, "graft_trainer_options"));
  PlannedRun run;
  GRAFT_TRY(plan_run(model.model, options, target, run));
  if (given.curve != 0) {
    GRAFT_TRY_ASSIGN(const train::TrainingCurve curve,
                     train::training_curve(run.model->graph, run.options, run.request, target));
    out.curve.emplace();
    for (const RecomputePoint& point : curve.points) {
      out.curve->push_back({curve.fixed_bytes + point.peak, point.extra_flops, point.extra_bytes, point.recomputed});
    }
  }
  out.explanation = lines_of(run.plan->choice.reasons);
  out.forecast = forecast_of(*run.plan, out.explanation);
  out.plan = std::move(run.plan->training.front().plan);
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
    if (given.training != nullptr && given.session != nullptr) {
      return invalid("A plan is of a training step or of a session, not of both.");
    }
    if (given.curve != 0 && given.training == nullptr) return invalid("The curve is of a training step.");
    GRAFT_TRY_ASSIGN(const gpu::Target target, target_for(*model->context, given));
    auto made = std::make_unique<graft_plan>();
    made->context = model->context;
    if (given.training == nullptr) {
      GRAFT_TRY(plan_inference(*model, given, target, *made));
    } else if constexpr (kHasTraining) {
      GRAFT_TRY(plan_training_step(*model, given, target, *made));
    } else {
      return unsupported("This build of graft leaves out training (GRAFT_TRAINING).");
    }
    for (const SavedValue& value : made->plan.saved) made->saved.insert(value.value);
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
    graft_forecast out = plan->forecast;
    out.explanation = plan->explanation.c_str();
    return write_info(out, forecast, "graft_forecast");
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

size_t graft_plan_node_count(const graft_plan* plan) { return plan == nullptr ? 0 : plan->plan.nodes.size(); }

graft_status graft_plan_node_at(const graft_plan* plan, size_t index, graft_plan_node* node) {
  return with_index(plan, index, graft_plan_node_count(plan), "nodes", [&] {
    const PlanNode& from = plan->plan.nodes[index];
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
    return write_info(out, node, "graft_plan_node");
  });
}

size_t graft_plan_value_count(const graft_plan* plan) { return plan == nullptr ? 0 : plan->plan.values.size(); }

graft_status graft_plan_value_at(const graft_plan* plan, size_t index, graft_plan_value* value) {
  return with_index(plan, index, graft_plan_value_count(plan), "values", [&] {
    const PlanValue& from = plan->plan.values[index];
    graft_plan_value out{};
    out.name = from.name.c_str();
    out.memory_class = plan->classes[static_cast<std::size_t>(from.memory_class)].c_str();
    out.offset = from.offset;
    out.bytes = from.bytes;
    out.first = from.first;
    out.last = from.last;
    out.saved = plan->saved.contains(from.value) ? 1 : 0;
    return write_info(out, value, "graft_plan_value");
  });
}
