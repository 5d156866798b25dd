#include "runtime/session/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "runtime/core/op_def.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/reference/compare.h"
#include "runtime/reference/device_run.h"
#include "runtime/reference/probe.h"
#include "runtime/session/session.h"

namespace graft {
namespace {

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
               std::mt19937_64& random, NodeVerdict& verdict) {
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

}  // namespace

Status verify_ops(gpu::Device& device, const Model& model, const Bindings& bindings, std::uint64_t seed,
                  const VerdictReport& report) {
  // What runs: after the passes, with the ops that they found in what an exporter spelled out.
  GRAFT_TRY_ASSIGN(const Graph graph, request_graph(model, bindings, {}));
  // Each op by itself, and those that this device runs as one.
  GRAFT_TRY_ASSIGN(const Graph fused, fused_graph(graph, device.target()));
  RefTensors values = feeds_of(model, graph, seed);
  RefTensors fused_values = values;
  GRAFT_TRY(interpret(graph, values).with_context("While running the model in double precision"));
  GRAFT_TRY(interpret(fused, fused_values).with_context("While running the model with fused ops in double precision"));
  std::mt19937_64 random(seed);
  std::set<std::string> seen;
  std::vector<std::pair<const Node*, bool>> chosen;  // and whether it is of the fused graph
  for (const bool is_fused : {false, true}) {
    const Graph& of = is_fused ? fused : graph;
    for (const Node& node : of.nodes()) {
      // Equal op, attributes and shapes take the same kernels.
      if (seen.insert(signature(of, node)).second) chosen.emplace_back(&node, is_fused);
    }
  }
  std::size_t done = 0;
  for (const auto& [node, is_fused] : chosen) {
    NodeVerdict verdict{node->name, std::string(op_name(node->op)), 0, -1, {}};
    const Status status =
        compare(device, is_fused ? fused : graph, *node, is_fused ? fused_values : values, random, verdict);
    if (!status.ok()) verdict.failure = status.message();
    GRAFT_TRY(report(verdict, ++done, chosen.size()));
  }
  return ok_status();
}

}  // namespace graft
