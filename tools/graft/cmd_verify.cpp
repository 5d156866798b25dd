// graft verify: every op of a model on this GPU against the double-precision reference, forward and gradient.
//
// The model runs once in double on random inputs; each node is then probed alone on the device with the values that
// reached it there, so that an error in one op cannot hide behind another.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "runtime/core/op_def.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/reference/compare.h"
#include "runtime/reference/device_run.h"
#include "runtime/reference/probe.h"
#include "runtime/session/session.h"
#include "tools/graft/device.h"
#include "tools/graft/model_io.h"
#include "tools/graft/numbers.h"
#include "tools/graft/options.h"
#include "tools/graft/progress.h"

namespace graft::cli {
namespace {

struct VerifyArguments {
  DeviceFlags flags;
  std::string path;
  std::vector<std::string> bind;
  double tolerance = 1e-4;
  std::uint64_t seed = 1;
  bool json = false;
  bool deep = false;
};

struct Verdict {
  std::string node;
  std::string op;
  std::string shapes;
  double forward = 0;    ///< largest |device - reference| over the outputs' root mean square
  double gradient = -1;  ///< the same of gradients; -1: the op has none
  std::string failure;   ///< why it could not be compared
};

std::vector<double> from_bytes(DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> data(bytes.size() / 4);
  for (std::size_t i = 0; i < data.size(); ++i) {
    float as_float = 0;
    std::int32_t as_int = 0;
    std::memcpy(&as_float, bytes.data() + 4 * i, 4);
    std::memcpy(&as_int, bytes.data() + 4 * i, 4);
    data[i] = is_float(dtype) ? as_float : as_int;
  }
  return data;
}

std::vector<double> random_data(DType dtype, std::size_t count, std::mt19937_64& random) {
  std::vector<double> data(count);
  for (double& x : data) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    x = is_float(dtype) ? static_cast<float>(2 * unit - 1) : std::floor(2 * unit);
  }
  return data;
}

RefTensors feeds_of(const Model& model, const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RefTensors feeds;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::temporary) continue;
    const ValueId source = model.graph.find_value(value.name);
    const auto weight = source.valid() ? model.weight(source) : std::nullopt;
    auto& feed = feeds[value.name];
    feed.dims = value.shape.values();
    if (is_quantized(value.dtype) && weight) {
      feed = quantized_tensor(value.dtype, *weight, std::move(feed.dims));
      continue;
    }
    feed.data = weight ? from_bytes(value.dtype, *weight) : random_data(value.dtype, value.shape.elements(), random);
  }
  return feeds;
}

std::string signature(const Graph& graph, const Node& node) {
  std::string text = std::string(op_name(node.op));
  for (const ValueId id : node.inputs) text += id.valid() ? " " + graph.value(id).shape.text() : " -";
  for (const auto& [name, value] : node.attrs.items()) {
    text += " " + name + "=";
    if (const auto* integer = std::get_if<std::int64_t>(&value)) text += cat(*integer);
    if (const auto* number = std::get_if<double>(&value)) text += cat(*number);
    if (const auto* string = std::get_if<std::string>(&value)) text += *string;
    if (const auto* shape = std::get_if<Shape>(&value)) text += shape->text();
    if (const auto* list = std::get_if<Ints>(&value)) {
      for (const std::int64_t x : *list) text += cat(x, ",");
    }
  }
  return text;
}

/// With the gradients of all float inputs, or of all but one: attention has none by its mask.
Result<Probe> probe_of(const Node& node, std::vector<ProbeInput> inputs, bool gradients) {
  Result<Probe> probe = make_probe(node.op, inputs, node.attrs, gradients ? 1 : 0);
  for (std::size_t i = inputs.size(); gradients && i-- > 0;) {
    if (probe.ok() || probe.status().code() != Code::unsupported) break;
    if (inputs[i].missing || !is_float(inputs[i].dtype)) continue;
    inputs[i].grad = false;
    Result<Probe> without = make_probe(node.op, inputs, node.attrs, 1);
    if (without.ok()) return without;
    inputs[i].grad = true;
  }
  return probe;
}

Status compare(gpu::Device& device, const Graph& graph, const Node& node, const RefTensors& values,
               std::mt19937_64& random, Verdict& verdict) {
  const OpDef& def = op_def(node.op);
  const bool differentiable = std::holds_alternative<VjpFn>(def.gradient);
  std::vector<ProbeInput> inputs;
  RefTensors feeds;
  bool any_float = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) {
      inputs.push_back({.missing = true});
      continue;
    }
    const Value& value = graph.value(node.inputs[i]);
    const bool mutated = i < 32 && (def.mutates >> i & 1u) != 0;
    const ValueKind kind = mutated                     ? ValueKind::state
                           : is_quantized(value.dtype) ? ValueKind::constant
                                                       : ValueKind::input;
    inputs.push_back({value.dtype, value.shape, kind, true, false});
    any_float = any_float || is_float(value.dtype);
    feeds[cat("in", i)] = values.find(value.name)->second;
    round_to_dtype(value.dtype, feeds[cat("in", i)].data);
  }
  GRAFT_TRY_ASSIGN(const Probe probe, probe_of(node, std::move(inputs), differentiable && any_float));
  for (const auto& [output, cotangent] : probe.weighted) {
    const Value& value = probe.graph.value(probe.graph.find_value(cotangent));
    feeds[cotangent] = {value.shape.values(), random_data(value.dtype, value.shape.elements(), random)};
  }
  RefTensors reference = feeds;
  GRAFT_TRY(interpret(probe.graph, reference));
  GRAFT_TRY_ASSIGN(const RefTensors actual, run_on_device(device, probe.graph, feeds, {}, {}));
  for (const auto& [name, tensor] : actual) {
    const double error = worst_error(tensor.data, reference[name].data);
    const bool gradient = std::find(probe.gradients.begin(), probe.gradients.end(), name) != probe.gradients.end();
    double& worst = gradient ? verdict.gradient : verdict.forward;
    worst = std::max(worst, error);
  }
  return ok_status();
}

bool passed(const Verdict& verdict, double tolerance) {
  return verdict.failure.empty() && verdict.forward <= tolerance && verdict.gradient <= tolerance;
}

void print(const std::vector<Verdict>& verdicts, double tolerance) {
  std::printf("%-32s %-18s %12s %12s  %s\n", "node", "op", "forward", "gradient", "");
  for (const Verdict& verdict : verdicts) {
    char gradient[32] = "none";
    if (verdict.gradient >= 0) std::snprintf(gradient, sizeof gradient, "%.2e", verdict.gradient);
    std::printf("%-32s %-18s %12.2e %12s  %s%s\n", verdict.node.c_str(), verdict.op.c_str(), verdict.forward, gradient,
                passed(verdict, tolerance) ? "ok" : "FAILED ", verdict.failure.c_str());
  }
}

// The file alone, for which no device is needed: all that is damaged, by name and place.
Status verify_file(const VerifyArguments& options) {
  GRAFT_TRY_ASSIGN(const Model model, open_model(options.path));
  const std::vector<WeightDamage> damage = model.find_damage();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const WeightDamage& d : damage) {
    const std::string& name = model.graph.value(d.value).name;
    rows.push_back({{"weight", name}, {"first_byte", d.begin}, {"last_byte", d.end - 1}});
    if (!options.json) {
      std::printf("%s  bytes %llu to %llu of the file are damaged\n", name.c_str(),
                  static_cast<unsigned long long>(d.begin), static_cast<unsigned long long>(d.end - 1));
    }
  }
  if (options.json) {
    std::printf("%s\n",
                nlohmann::ordered_json({{"weight_bytes", model.weight_bytes()}, {"damage", rows}}).dump(2).c_str());
  } else if (damage.empty()) {
    std::printf("The tables and %s of weights are what their checksums say.\n",
                bytes_text(model.weight_bytes()).c_str());
  }
  if (damage.empty()) return ok_status();
  return corrupt("The model file \"", options.path, "\" is damaged in ", damage.size(), " ",
                 damage.size() == 1 ? "place" : "places", ", the first in the weight \"",
                 model.graph.value(damage.front().value).name, "\", bytes ", damage.front().begin, " to ",
                 damage.front().end - 1, ".");
}

Status run_verify(const VerifyArguments& options) {
  if (options.deep) return verify_file(options);
  GRAFT_TRY_ASSIGN(const Model model, open_model(options.path, WeightCheck::at_once));
  GRAFT_TRY_ASSIGN(const Bindings given, parse_bindings(options.bind));
  GRAFT_TRY_ASSIGN(const Bindings bindings, complete_bindings(model, given, true));
  // What runs: after the passes, with the ops that they found in what an exporter spelled out.
  GRAFT_TRY_ASSIGN(const Graph graph, request_graph(model, bindings, {}));
  GRAFT_TRY_ASSIGN(auto device, OpenDevice::open(options.flags));
  // Each op by itself, and those that this device runs as one.
  GRAFT_TRY_ASSIGN(const Graph fused, fused_graph(graph, device->device().target()));
  RefTensors values = feeds_of(model, graph, options.seed);
  RefTensors fused_values = values;
  GRAFT_TRY(interpret(graph, values).with_context("While running the model in double precision"));
  GRAFT_TRY(interpret(fused, fused_values).with_context("While running the model with fused ops in double precision"));

  std::mt19937_64 random(options.seed);
  std::vector<Verdict> verdicts;
  std::set<std::string> seen;
  {
    Progress progress("op", graph.nodes().size() + fused.nodes().size(), options.json);
    std::size_t done = 0;
    const auto verify = [&](const Graph& of, const RefTensors& reference) {
      for (const Node& node : of.nodes()) {
        progress.update(++done, node.name);
        // Equal op, attributes and shapes take the same kernels.
        if (!seen.insert(signature(of, node)).second) continue;
        Verdict verdict{node.name, std::string(op_name(node.op)), {}, 0, -1, {}};
        const Status status = compare(device->device(), of, node, reference, random, verdict);
        if (!status.ok()) verdict.failure = status.message();
        verdicts.push_back(std::move(verdict));
      }
    };
    verify(graph, values);
    verify(fused, fused_values);
  }
  const auto failed =
      std::count_if(verdicts.begin(), verdicts.end(), [&](const Verdict& v) { return !passed(v, options.tolerance); });
  if (options.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Verdict& v : verdicts) {
      rows.push_back({{"node", v.node},
                      {"op", v.op},
                      {"forward", v.forward},
                      {"gradient", v.gradient},
                      {"failure", v.failure},
                      {"passed", passed(v, options.tolerance)}});
    }
    std::printf(
        "%s\n",
        nlohmann::ordered_json({{"device", device->device().caps().device_name}, {"nodes", rows}}).dump(2).c_str());
  } else {
    print(verdicts, options.tolerance);
    std::printf("%zu of %zu different nodes agree with the reference on %s (tolerance %g).\n",
                verdicts.size() - static_cast<std::size_t>(failed), verdicts.size(),
                device->device().caps().device_name.c_str(), options.tolerance);
  }
  GRAFT_TRY(device->close());
  if (failed == 0) return ok_status();
  return error(Code::device_error, failed, " of ", verdicts.size(), " nodes differ from the reference on this device.");
}

}  // namespace

Action add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyArguments>();
  app.add_option("MODEL", options->path, "A .graft file")->required();
  app.add_option("--bind", options->bind, "Sizes of named dimensions (default 1)");
  app.add_option("--tolerance", options->tolerance, "Largest error over the root mean square (default 1e-4)")
      ->check(positive());
  app.add_option("--seed", options->seed, "Seed of the random inputs")->check(whole(0));
  app.add_flag("--deep", options->deep,
               "Check the file alone, and name every damaged weight and where; needs no device");
  app.add_flag("--json", options->json, "Print JSON");
  add_device_flags(app, options->flags);
  return [options] { return run_verify(*options); };
}

}  // namespace graft::cli
