// The double-precision CPU reference of an op: plain loops over row-major doubles (integers and booleans too).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// A tensor of the reference: row-major, every dtype held as double.
struct RefTensor {
  std::vector<std::int64_t> dims;
  std::vector<double> data;
  std::vector<std::byte> blocks = {};  ///< of a quantized value, for devices; data is what they stand for
};

/// Values of the step state that ops may read (see shaders/common/step_state.h).
struct RefStepState {
  std::uint32_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t micro_step = 0;
  std::uint32_t position = 0;
  double learning_rate[16] = {};
  double bias_correction1[16] = {};
  double bias_correction2[16] = {};
  double term_weight[16] = {};
  double loss_weight = 1;
  double loss_scale = 1;
  double inverse_loss_scale = 1;
  double clip_norm = 0;
};

class RefContext {
 public:
  RefContext(const Graph& graph, const Node& node, std::vector<RefTensor*> inputs, std::vector<RefTensor*> outputs,
             const RefStepState& step_state)
      : node_(node), graph_(graph), inputs_(std::move(inputs)), outputs_(std::move(outputs)), step_(step_state) {}

  const Attrs& attrs() const { return node_.attrs; }
  const Node& node() const { return node_; }
  const Graph& graph() const { return graph_; }
  std::size_t inputs() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  std::span<const double> in(std::size_t i) const { return inputs_[i]->data; }
  const std::vector<std::int64_t>& in_dims(std::size_t i) const { return inputs_[i]->dims; }
  /// Zero-filled, of the inferred shape.
  std::span<double> out(std::size_t i = 0) const { return outputs_[i]->data; }
  const std::vector<std::int64_t>& out_dims(std::size_t i = 0) const { return outputs_[i]->dims; }
  DType out_dtype(std::size_t i = 0) const { return graph_.value(node_.outputs[i]).dtype; }
  // Whole tensors; nullptr for an input left out.
  const std::vector<RefTensor*>& input_tensors() const { return inputs_; }
  const std::vector<RefTensor*>& output_tensors() const { return outputs_; }
  /// A mutated input.
  std::span<double> update(std::size_t i) const { return inputs_[i]->data; }
  const RefStepState& step_state() const { return step_; }

 private:
  const Node& node_;
  const Graph& graph_;
  std::vector<RefTensor*> inputs_;
  std::vector<RefTensor*> outputs_;
  const RefStepState& step_;
};

using RefFn = void (*)(RefContext&);
RefFn ref_function(Op op);

}  // namespace graft
