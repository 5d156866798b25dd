#include "tools/graft/self_test.h"

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "runtime/core/op_def.h"
#include "runtime/reference/device_run.h"
#include "runtime/reference/probe.h"
#include "tools/graft/compare.h"

namespace graft::cli {
namespace {

using Dims = std::vector<std::int64_t>;

struct Operand {
  Dims dims;
  DType dtype = DType::f32;
  double low = 0.1;  // positive: no probe meets a pole, a kink or a domain's edge
  double high = 1;
  ValueKind kind = ValueKind::input;
};

struct OpProbe {
  Op op;
  std::vector<Operand> operands;
  Attrs attrs = {};
};

Operand labels(Dims dims, double classes) { return {std::move(dims), DType::i32, 0, classes - 1}; }
Operand state(Dims dims) { return {std::move(dims), DType::f32, 0.1, 1, ValueKind::state}; }

std::vector<OpProbe> elementwise_probes() {
  std::vector<OpProbe> probes;
  for (const Op op : {Op::exp, Op::relu, Op::gelu, Op::silu, Op::tanh, Op::sqrt}) probes.push_back({op, {{{6, 35}}}});
  for (const Op op : {Op::add, Op::mul, Op::div, Op::pow, Op::maximum}) {
    probes.push_back({op, {{{6, 32}}, {{6, 32}}}});
    probes.push_back({op, {{{6, 5, 7}}, {{5, 1}}}});
  }
  probes.push_back({Op::where, {{{5, 9}, DType::boolean, 0, 1}, {{5, 9}}, {{9}}}});
  probes.push_back({Op::cast, {{{5, 9}, DType::i32, -9, 9}}, {{"to", std::int64_t{0}}}});
  probes.push_back({Op::cast, {{{5, 9}}}, {{"to", std::int64_t{1}}}});
  probes.push_back(
      {Op::dropout, {{{11, 13}}}, {{"p", 0.5}, {"training", std::int64_t{1}}, {"stream", std::int64_t{0}}}});
  probes.push_back({Op::step_scalar, {}, {{"field", std::string("loss_weight")}}});
  return probes;
}

std::vector<OpProbe> row_probes() {
  const Attrs last = {{"axis", std::int64_t{1}}};
  std::vector<OpProbe> probes;
  for (const Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_prod, Op::reduce_logsumexp}) {
    probes.push_back({op, {{{9, 33}}}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}});
    probes.push_back({op, {{{33, 9}}}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{1}}}});
  }
  probes.push_back({Op::reduce_sum, {{{3, 20000}}}, {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}}});
  probes.push_back({Op::reduce_sum, {{{5, 7}, DType::i32, -9, 9}}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}});
  probes.push_back({Op::arg_max, {{{5, 7}}}, last});
  probes.push_back({Op::softmax, {{{7, 19}}}, last});
  probes.push_back({Op::softmax, {{{3, 19, 5}}}, last});
  probes.push_back({Op::log_softmax, {{{7, 19}}}, last});
  probes.push_back({Op::cross_entropy, {{{9, 10}}, labels({9}, 10)}});
  probes.push_back({Op::topk_correct, {{{9, 10}}, labels({9}, 10)}, {{"k", std::int64_t{2}}}});
  probes.push_back(
      {Op::layer_norm, {{{6, 40}, DType::f32, -1}, {{40}}, {{40}}}, {{"axis", std::int64_t{1}}, {"epsilon", 1e-5}}});
  probes.push_back(
      {Op::group_norm, {{{2, 5, 8}, DType::f32, -1}, {{8}}, {{8}}}, {{"groups", std::int64_t{2}}, {"epsilon", 1e-5}}});
  probes.push_back({Op::rms_norm, {{{6, 40}, DType::f32, -1}, {{40}}}});
  probes.push_back({Op::rms_norm, {{{90, 40}, DType::f32, -1}, {{40}}}});
  probes.push_back({Op::batch_norm, {{{9, 6}}, {{6}}, {{6}}, {{6}}, {{6}}}, {{"epsilon", 1e-5}}});
  probes.push_back({Op::batch_norm_train, {{{30, 6}, DType::f32, -1}, {{6}}, {{6}}}, {{"epsilon", 1e-5}}});
  probes.push_back({Op::batch_norm_update,
                    {state({6}), state({6}), {{6}}, {{6}}},
                    {{"momentum", 0.1}, {"count", std::int64_t{30}}}});
  return probes;
}

std::vector<OpProbe> product_probes() {
  const auto conv = [](std::int64_t stride, std::int64_t groups) {
    return Attrs{
        {"strides", Ints{stride, stride}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"groups", groups}};
  };
  const Attrs pool = {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}};
  std::vector<OpProbe> probes;
  for (const std::int64_t a : {0, 1}) {
    for (const std::int64_t b : {0, 1}) {
      probes.push_back({Op::matmul,
                        {{a ? Dims{21, 37} : Dims{37, 21}}, {b ? Dims{45, 21} : Dims{21, 45}}},
                        {{"trans_a", a}, {"trans_b", b}}});
    }
  }
  probes.push_back({Op::matmul, {{{8, 5000}}, {{5000, 8}}}});
  probes.push_back({Op::matmul, {{{1, 300}}, {{300, 70}}}});
  probes.push_back({Op::matmul, {{{2, 300}}, {{300, 72}}}});
  probes.push_back({Op::matmul, {{{2, 300}}, {{70, 300}}}, {{"trans_b", std::int64_t{1}}}});
  probes.push_back({Op::matmul, {{{36, 40}}, {{40, 44}}}});
  probes.push_back({Op::conv, {{{2, 9, 9, 5}}, {{7, 3, 3, 5}}, {{7}}}, conv(1, 1)});
  probes.push_back({Op::conv, {{{2, 9, 9, 6}}, {{8, 3, 3, 3}}}, conv(2, 2)});
  probes.push_back({Op::conv, {{{2, 9, 9, 6}}, {{6, 3, 3, 1}}}, conv(1, 6)});
  probes.push_back({Op::conv, {{{2, 9, 9, 8}}, {{8, 3, 3, 1}}}, conv(1, 8)});
  probes.push_back({Op::conv, {{{2, 9, 9, 8}}, {{8, 3, 3, 8}}}, conv(2, 1)});
  probes.push_back({Op::conv_transpose, {{{2, 5, 5, 6}}, {{6, 3, 3, 4}}}, conv(2, 1)});
  probes.push_back({Op::max_pool, {{{2, 8, 8, 5}}}, pool});
  probes.push_back({Op::avg_pool, {{{2, 8, 8, 5}}}, pool});
  const Dims keys = {2, 37, 2, 20};
  probes.push_back({Op::attention, {{{2, 37, 4, 20}}, {keys}, {keys}}, {{"causal", std::int64_t{1}}}});
  probes.push_back(
      {Op::resize,
       {{{1, 4, 5, 3}}},
       {{"sizes", Ints{8, 9}}, {"mode", std::string("linear")}, {"coordinates", std::string("half_pixel")}}});
  return probes;
}

std::vector<OpProbe> other_probes() {
  const Attrs adam = {{"group", std::int64_t{0}}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}};
  return {
      {Op::transpose, {{{70, 40}}}, {{"perm", Ints{1, 0}}}},
      {Op::transpose, {{{72, 40}}}, {{"perm", Ints{1, 0}}}},
      {Op::transpose, {{{3, 4, 5}}}, {{"perm", Ints{2, 0, 1}}}},
      {Op::expand, {{{3, 1, 5}}}, {{"shape", Shape({3, 4, 5})}}},
      {Op::slice, {{{9, 7}}}, {{"starts", Ints{1, 0}}, {"ends", Ints{8, 7}}, {"steps", Ints{2, 1}}}},
      {Op::concat, {{{3, 4}}, {{3, 5}}}, {{"axis", std::int64_t{1}}}},
      {Op::pad, {{{4, 5}}}, {{"pads", Ints{1, 2, 1, 2}}, {"mode", std::string("reflect")}}},
      {Op::rope, {{{2, 7, 3, 8}}}, {{"theta", 10000.0}}},
      {Op::gated, {{{5, 9}}, {{5, 9}}}},
      {Op::lora, {{{9, 20}}, {{9, 33}}, {{4, 33}}, {{20, 4}}}, {{"scale", 2.0}}},
      {Op::linear_cross_entropy, {{{9, 16}}, {{40, 16}}, labels({9}, 40)}},
      {Op::gather, {{{9, 6}}, labels({4}, 9)}, {{"axis", std::int64_t{0}}}},
      {Op::sgd_step, {state({40}), {{40}}}, {{"group", std::int64_t{0}}}},
      {Op::adam_step, {state({40}), {{40}}, state({40}), state({40})}, adam},
      {Op::accumulate, {state({40}), {{40}}}},
      {Op::zero_state, {state({40})}},
      {Op::squared_norm, {{{40}}, {{5000}}}},
      {Op::state_hash, {{{40}}, {{5000}}}},
      {Op::clip_factor, {{{}}}, {{"max_norm", 0.5}}},
  };
}

RefTensors feeds_of(const OpProbe& probe, const Probe& built) {
  std::mt19937_64 random(17);
  const auto fill = [&](const Operand& operand) {
    RefTensor tensor{operand.dims, std::vector<double>(Shape::of(operand.dims).elements())};
    for (double& x : tensor.data) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      x = is_float(operand.dtype) ? operand.low + unit * (operand.high - operand.low)
                                  : std::floor(operand.low + unit * (operand.high - operand.low + 1));
    }
    round_to_dtype(operand.dtype, tensor.data);
    return tensor;
  };
  RefTensors feeds;
  for (std::size_t i = 0; i < probe.operands.size(); ++i) feeds[cat("in", i)] = fill(probe.operands[i]);
  for (const auto& [output, cotangent] : built.weighted) {
    feeds[cotangent] = fill({built.graph.value(built.graph.find_value(cotangent)).shape.values()});
  }
  return feeds;
}

// Empty when the device agrees with the reference.
std::string fault_of(gpu::Device& device, const OpProbe& probe, const Probe& built) {
  RefStepState step;
  step.learning_rate[0] = 0.01;
  step.bias_correction1[0] = 0.1;
  step.bias_correction2[0] = 0.001;
  const RefTensors feeds = feeds_of(probe, built);
  RefTensors expected = feeds;
  if (const Status status = interpret(built.graph, expected, step); !status.ok()) return status.message();
  const auto actual = run_on_device(device, built.graph, feeds, step, {});
  if (!actual.ok()) return actual.status().message();
  for (const auto& [name, tensor] : *actual) {
    const double error = worst_error(tensor.data, expected[name].data);
    if (!(error <= 1e-4))
      return cat("\"", name, "\" differs from the reference by ", error, " of its root mean square.");
  }
  return {};
}

Status run_probe(gpu::Device& device, const OpProbe& probe, std::size_t number, SelfTest& test) {
  const bool differentiable = std::holds_alternative<VjpFn>(op_def(probe.op).gradient) && !probe.operands.empty();
  std::vector<ProbeInput> inputs;
  bool any_float = false;
  for (const Operand& operand : probe.operands) {
    inputs.push_back({operand.dtype, Shape::of(operand.dims), operand.kind});
    any_float = any_float || is_float(operand.dtype);
  }
  GRAFT_TRY_ASSIGN(const Probe built, make_probe(probe.op, inputs, probe.attrs, differentiable && any_float ? 1 : 0));
  Residents residents(device.caps());
  GRAFT_TRY(residents.add(built.graph));
  GRAFT_TRY_ASSIGN(const Plan plan, make_plan(built.graph, device.caps(), residents));
  const std::string fault = fault_of(device, probe, built);
  if (!fault.empty()) test.failures[cat(op_name(probe.op), " (probe ", number, ")")] = fault;
  for (const PlanKernel& kernel : plan.kernels) {
    KernelVerdict& verdict = test.kernels[std::string(shaders::kernel_info(kernel.id).name)];
    if (!fault.empty()) {
      verdict = KernelVerdict::failed;
    } else if (verdict == KernelVerdict::not_chosen) {
      verdict = KernelVerdict::passed;
    }
  }
  return ok_status();
}

}  // namespace

Result<SelfTest> run_self_test(gpu::Device& device) {
  SelfTest test;
  for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(shaders::KernelId::count_); ++i) {
    test.kernels[std::string(shaders::kernel_info(static_cast<shaders::KernelId>(i)).name)] = KernelVerdict::not_chosen;
  }
  std::size_t number = 0;
  for (const auto& probes : {elementwise_probes(), row_probes(), product_probes(), other_probes()}) {
    for (const OpProbe& probe : probes) {
      GRAFT_TRY(run_probe(device, probe, number++, test).with_context(cat("In the self-test of ", op_name(probe.op))));
    }
  }
  return test;
}

}  // namespace graft::cli
