#include "tools/bench/tune.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "runtime/core/op_def.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/ops/choice.h"
#include "runtime/session/session.h"
#include "runtime/train/step/training_graph.h"
#include "tools/bench/model_io.h"
#include "tools/bench/time_estimate.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

constexpr double kWorthIt = 0.97;  // of the usual time: less may be noise
constexpr double kWorthAnEstimate = 0.9;

// The node alone, on residents.
Result<Graph> only(const Graph& graph, const Node& node) {
  Graph out;
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(kNoValue);
    if (!node.inputs[i].valid()) continue;
    const Value& value = graph.value(node.inputs[i]);
    const bool mutated = i < 32 && (op_def(node.op).mutates >> i & 1) != 0;
    TRY_ASSIGN(inputs.back(),
               out.add_value(cat("in", i), value.dtype, value.shape, mutated ? ValueKind::state : ValueKind::constant));
  }
  TRY_ASSIGN(const NodeId made, out.add_node(node.op, inputs, node.attrs, "y"));
  const std::vector<ValueId> outputs = out.node(made).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) out.add_output(cat("y", i), outputs[i]);
  return out;
}

const PlanChoice* find_choice(const Plan& plan, const std::string& key) {
  for (const PlanNode& node : plan.nodes) {
    for (const PlanChoice& choice : node.choices) {
      if (choice.key == key) return &choice;
    }
  }
  return nullptr;
}

class Tuner {
 public:
  Tuner(gpu::Device& device, const gpu::Target& target, int repeat, Clock clock, const gpu::Speed* speed, bool run)
      : device_(device), target_(target), repeat_(repeat), clock_(clock), speed_(speed), run_(run) {}

  Status tune(const Graph& network) {
    TRY_ASSIGN(const Graph graph, fused_graph(network, target_));
    Residents residents(target_.caps);
    TRY(residents.add(graph));
    TRY_ASSIGN(const Plan plan, make_plan(graph, target_, residents));
    for (const PlanNode& node : plan.nodes) {
      if (node.node >= graph.nodes().size() || node.choices.empty()) continue;
      const auto fresh = [&](const PlanChoice& choice) { return !seen_.contains(choice.key); };
      if (std::ranges::none_of(node.choices, fresh)) continue;
      TRY_ASSIGN(const Graph alone, only(graph, graph.nodes()[node.node]));
      for (const PlanChoice& choice : node.choices) {
        if (!seen_.insert(choice.key).second) continue;
        if (!run_ && !choice.key.starts_with(cat(family_name(Family::gemm), " "))) continue;  // not told apart
        TRY(tune_choice(alone, choice.key).with_context(cat("While tuning \"", choice.key, "\"")));
      }
    }
    return ok_status();
  }

  std::vector<TunedChoice> take() { return std::move(choices_); }
  const gpu::Target& target() const { return target_; }

 private:
  Status tune_choice(const Graph& graph, const std::string& key) {
    Residents residents(target_.caps);
    TRY(residents.add(graph));
    target_.advice.tuned.erase(key);
    TRY_ASSIGN(const Plan usual, make_plan(graph, target_, residents));
    const PlanChoice* chosen = find_choice(usual, key);
    if (chosen == nullptr) return ok_status();  // follows from another choice
    TunedChoice out{.key = key, .usual = chosen->variant, .best = chosen->variant};
    const double usual_estimate = estimated(usual);
    TRY_ASSIGN(out.usual_seconds, seconds_of(graph, residents, usual, usual_estimate));
    out.best_seconds = out.usual_seconds;
    out.measured.push_back({out.usual, out.usual_seconds, usual_estimate});
    for (const Variant& variant : variants()) {
      if (key.substr(0, key.find(' ')) != family_name(variant.family) || variant.name == out.usual) continue;
      target_.advice.tuned[key] = std::string(variant.name);
      auto plan = make_plan(graph, target_, residents);
      const PlanChoice* taken = plan.ok() ? find_choice(*plan, key) : nullptr;
      if (taken == nullptr || taken->variant != variant.name) continue;
      const double estimate = estimated(*plan);
      TRY_ASSIGN(const double seconds, seconds_of(graph, residents, std::move(*plan), estimate));
      ++out.candidates;
      out.measured.push_back({std::string(variant.name), seconds, estimate});
      if (seconds >= out.best_seconds) continue;
      out.best_seconds = seconds;
      out.best = std::string(variant.name);
    }
    if (out.best_seconds > (run_ ? kWorthIt : kWorthAnEstimate) * out.usual_seconds) {
      out.best = out.usual;
      out.best_seconds = out.usual_seconds;
    }
    target_.advice.tuned.erase(key);
    if (out.best != out.usual) target_.advice.tuned[key] = out.best;
    if (out.candidates > 0) choices_.push_back(std::move(out));
    return ok_status();
  }

  Result<double> seconds_of(const Graph& graph, const Residents& residents, Plan plan, double estimate) {
    if (!run_) return estimate;
    TRY_ASSIGN(const Timing time, time_plan(device_, graph, residents, std::move(plan), repeat_, clock_));
    return time.best;
  }

  double estimated(const Plan& plan) const {
    double seconds = 0;
    if (speed_ == nullptr) return seconds;
    for (const TimeEstimate& node : estimate_plan(plan, target_, *speed_).nodes) seconds += node.seconds();
    return seconds;
  }

  gpu::Device& device_;
  gpu::Target target_;
  int repeat_;
  Clock clock_;
  const gpu::Speed* speed_;
  bool run_;
  std::set<std::string> seen_;
  std::vector<TunedChoice> choices_;
};

}  // namespace

Result<std::vector<TunedChoice>> tune(gpu::Device& device, const gpu::Target& target, std::span<const Graph> graphs,
                                      int repeat, Clock clock, DeviceProfile* profile, const gpu::Speed* speed,
                                      bool run) {
  Tuner tuner(device, target, repeat, clock, speed, run);
  for (const Graph& graph : graphs) TRY(tuner.tune(graph));
  if (profile != nullptr) {
    profile->set_tuned(tuner.target().advice.tuned);
    profile->save();
    device.set_advice(profile->advice());
  }
  return tuner.take();
}

Result<std::vector<Graph>> graphs_of_model(const Model& model, const Bindings& given) {
  std::vector<Graph> graphs;
  TRY_ASSIGN(const Bindings bindings, complete_bindings(model, given, true));
  TRY_ASSIGN(SessionGraph forward, session_graph(model, bindings, {}, DType::f32));
  graphs.push_back(std::move(forward.graph));
  TRY_ASSIGN(const std::string symbol, train::batch_symbol(model.graph));
  train::TrainOptions options;
  options.bindings = bindings;
  const auto batch = options.bindings.find(symbol);
  const std::int64_t samples = batch == options.bindings.end() ? 1 : batch->second;
  if (batch != options.bindings.end()) options.bindings.erase(batch);
  auto training = train::build_training_graph(model.graph, samples, options, train::GradientUse::step);
  if (training.ok()) {
    graphs.push_back(std::move(training->graph));
  } else {
    to_stderr("Its forward pass alone: %s\n", training.status().message().c_str());
  }
  return graphs;
}

void print_tuned(const std::vector<TunedChoice>& choices, const std::string& estimated) {
  if (!estimated.empty()) to_stdout("Estimated by the figures of %s; nothing ran.\n\n", estimated.c_str());
  using Kind = Table::Kind;
  Table table({{"choice", 52, Kind::name},
               {"ms", 10, Kind::number},
               {" usual", 23, Kind::name},
               {"ms", 10, Kind::number},
               {" fastest", 0, Kind::name}});
  const auto ms = [](double seconds) { return number_text("%.3f", seconds * 1e3); };
  for (const TunedChoice& c : choices) {
    table.row({c.key, ms(c.usual_seconds), cat(" ", c.usual), ms(c.best_seconds),
               c.best == c.usual ? " the same" : cat(" ", c.best)});
  }
  table.print();
}

nlohmann::ordered_json tuned_json(const std::vector<TunedChoice>& choices) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const TunedChoice& c : choices) {
    rows.push_back({{"key", c.key},
                    {"usual", c.usual},
                    {"usual_seconds", c.usual_seconds},
                    {"best", c.best},
                    {"best_seconds", c.best_seconds},
                    {"candidates", c.candidates}});
    nlohmann::ordered_json measured = nlohmann::ordered_json::array();
    for (const TunedChoice::Measured& m : c.measured) {
      measured.push_back({{"variant", m.variant}, {"seconds", m.seconds}, {"estimated_s", m.estimated}});
    }
    rows.back()["measured"] = std::move(measured);
  }
  return rows;
}

}  // namespace graft::cli
