#include "runtime/reference/device_run.h"

#include <cstring>

#include "runtime/core/quantized.h"
#include "shaders/common/step_state.h"

namespace graft {
namespace {

template <typename T>
void append(std::vector<std::byte>& bytes, T x) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof x);
  std::memcpy(bytes.data() + at, &x, sizeof x);
}

template <typename T>
std::vector<double> read_all(const std::vector<std::byte>& bytes) {
  std::vector<double> data(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < data.size(); ++i) {
    T x;
    std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
    data[i] = static_cast<double>(x);
  }
  return data;
}

Result<Tensors> to_bytes(const Graph& graph, const RefTensors& feeds) {
  Tensors tensors;
  for (const auto& [name, tensor] : feeds) {
    const ValueId v = graph.find_value(name);
    if (!v.valid()) continue;
    auto& bytes = tensors[name];
    if (is_quantized(graph.value(v).dtype)) {
      bytes = tensor.blocks;
      continue;
    }
    for (const double x : tensor.data) {
      switch (graph.value(v).dtype) {
        case DType::f32: append(bytes, static_cast<float>(x)); break;
        case DType::i32:
        case DType::boolean: append(bytes, static_cast<std::int32_t>(x)); break;
        default:
          return unsupported("Value \"", name, "\" is ", dtype_name(graph.value(v).dtype),
                             ", which cannot be fed from doubles.");
      }
    }
  }
  return tensors;
}

RefTensor to_tensor(const Value& value, const std::vector<std::byte>& bytes) {
  if (is_quantized(value.dtype)) return quantized_tensor(value.dtype, bytes, value.shape.values());
  return {value.shape.values(), value.dtype == DType::f32 ? read_all<float>(bytes) : read_all<std::int32_t>(bytes)};
}

StepState to_step_state(const RefStepState& from) {
  StepState to;
  to.seed = from.seed;
  to.step = from.step;
  to.micro_step = from.micro_step;
  to.position = from.position;
  to.loss_weight = static_cast<float>(from.loss_weight);
  to.loss_scale = static_cast<float>(from.loss_scale);
  to.inverse_loss_scale = static_cast<float>(from.inverse_loss_scale);
  to.clip_norm = static_cast<float>(from.clip_norm);
  for (std::size_t i = 0; i < 16; ++i) {
    to.learning_rate[i] = static_cast<float>(from.learning_rate[i]);
    to.bias_correction1[i] = static_cast<float>(from.bias_correction1[i]);
    to.bias_correction2[i] = static_cast<float>(from.bias_correction2[i]);
    to.term_weight[i] = static_cast<float>(from.term_weight[i]);
  }
  return to;
}

}  // namespace

Result<RefTensors> run_on_device(gpu::Device& device, const Graph& graph, const RefTensors& feeds,
                                 const RefStepState& step_state, const RunOnceOptions& options) {
  GRAFT_TRY_ASSIGN(const Tensors tensors, to_bytes(graph, feeds));
  GRAFT_TRY_ASSIGN(const RunOnceResult run, run_once(device, graph, tensors, to_step_state(step_state), options));
  RefTensors result;
  for (const auto& [name, bytes] : run.residents) result[name] = to_tensor(graph.value(graph.find_value(name)), bytes);
  for (const Output& output : graph.outputs()) {
    const Value& value = graph.value(output.value);
    result[value.name] = to_tensor(value, run.outputs.find(output.name)->second);
  }
  return result;
}

RefTensor quantized_tensor(DType dtype, std::span<const std::byte> blocks, std::vector<std::int64_t> dims) {
  RefTensor tensor{std::move(dims), {}, {blocks.begin(), blocks.end()}};
  const DTypeBlock block = dtype_block(dtype);
  for (std::size_t at = 0; at + block.bytes <= blocks.size(); at += block.bytes) {
    for (std::uint32_t i = 0; i < block.elements; ++i) {
      tensor.data.push_back(dequantize_element(dtype, blocks.data() + at, i));
    }
  }
  return tensor;
}

void round_to_dtype(DType dtype, std::vector<double>& data) {
  if (is_quantized(dtype)) return;
  for (double& x : data)
    x = is_float(dtype) ? static_cast<double>(static_cast<float>(x))
                        : static_cast<double>(static_cast<std::int32_t>(x));
}

}  // namespace graft
