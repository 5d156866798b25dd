#include "runtime/report/plan_forecast.h"

#include "runtime/exec/plan_fused.h"
#include "runtime/passes/bind.h"
#include "runtime/plan/stream_choice.h"
#include "runtime/report/layers.h"

namespace graft {

Result<PlanForecast> forecast_inference(const Model& model, const SessionOptions& options, std::uint64_t beside_weights,
                                        const gpu::Target& target) {
  GRAFT_TRY_ASSIGN(const Bindings bindings, complete_bindings(model, options.bindings, true));
  GRAFT_TRY_ASSIGN(SessionGraph session,
                   session_graph(model, bindings, options.gradients, options.precision, options.keep_outputs));
  PlanForecast forecast;
  forecast.precision = std::move(session.precision);
  PlanOptions plan_options = options.plan;
  GRAFT_TRY_ASSIGN(const Graph graph, fused_graph(session.graph, target, plan_options));
  const Graph* const graphs[] = {&graph};
  if (beside_weights != 0) {
    GRAFT_TRY_ASSIGN(const Residents all, residents_within(target, graphs, plan_options));
    GRAFT_TRY_ASSIGN(const Plan free, make_plan(graph, target, all, plan_options));
    plan_options.budget = free.memory[MemoryClass::weights] + free.memory[MemoryClass::parameters] + beside_weights;
  }
  GRAFT_TRY_ASSIGN(const Residents residents, residents_within(target, graphs, plan_options));
  GRAFT_TRY_ASSIGN(Plan plan, make_plan(graph, target, residents, plan_options));
  forecast.memory = plan.memory;
  forecast.choice.budget = plan_options.budget;
  const Plan* const plans[] = {&plan};
  if (const std::string text = streaming_text(residents, plans); !text.empty()) forecast.choice.reasons = {text};
  forecast.plans.push_back({"inference", std::move(plan)});
  return forecast;
}

Result<std::vector<passes::PassNote>> inference_passes(const Model& model, const Bindings& given) {
  GRAFT_TRY_ASSIGN(const Bindings bindings, complete_bindings(model, given, true));
  GRAFT_TRY_ASSIGN(const Graph graph, bind(model.graph, bindings));
  GRAFT_TRY_ASSIGN(passes::Prepared prepared, passes::prepare(graph, {}, {.inference = true, .fixed_weights = true}));
  GRAFT_TRY_ASSIGN(const passes::FoldedGraph folded, passes::fold_constants(prepared.graph));
  prepared.notes.push_back(passes::note_of("fold constants", prepared.graph, folded.graph));
  return std::move(prepared.notes);
}

Status estimate_time(const std::string& figures, const gpu::Target& target, PlanForecast& forecast) {
  GRAFT_TRY_ASSIGN(forecast.speed, read_speed(figures, target));
  const gpu::Speed& speed = forecast.speed->speed;
  forecast.time.add(forecast.plans[0].plan, target, speed, static_cast<double>(forecast.micro_batches));
  if (forecast.plans.size() > 1) forecast.time.add(forecast.plans[1].plan, target, speed, 1);
  return ok_status();
}

}  // namespace graft
