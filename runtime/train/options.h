// What a training run is asked to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/text.h"
#include "platform/gpu/gpu.h"
#include "runtime/core/dtype.h"
#include "runtime/core/shape.h"
#include "runtime/train/schedule.h"

namespace graft::train {

/// All losses are means: over the rows that count (cross entropy), or over the elements (all others).
enum class Loss : std::uint8_t {
  cross_entropy,  ///< of logits, with integer labels
  mse,
  l1,
  bce,  ///< binary cross entropy of logits, with targets from 0 to 1
};
std::string_view loss_name(Loss loss);  ///< "ce", "mse", "l1", "bce": as the command line takes them
Result<Loss> parse_loss(std::string_view name);

struct LossOptions {
  Loss kind = Loss::cross_entropy;
  std::string output;                      ///< the model's output that it is taken of; empty: the first
  double label_smoothing = 0;              ///< cross entropy, [0, 1)
  std::int32_t ignore_index = -100;        ///< cross entropy: rows with this label count for nothing
  std::optional<std::int64_t> class_axis;  ///< cross entropy; default: 1 (the last axis of a matrix), but the last one
                                           ///< of logits of a language model (add_loss)
};

enum class OptimizerKind : std::uint8_t {
  sgd,
  adam,
  adamw,
  adamw8bit,  ///< adamw with its state as 8-bit codes, for parameters of kMinElementsOf8Bit elements or more
};
/// Smaller ones would save nothing.
inline constexpr std::uint64_t kMinElementsOf8Bit = 4096;
std::string_view optimizer_name(OptimizerKind kind);
Result<OptimizerKind> parse_optimizer(std::string_view name);

/// Names and defaults are PyTorch's. adam adds weight_decay * w to the gradient, adamw shrinks w by lr * weight_decay.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double weight_decay = 0;
  double momentum = 0;    ///< sgd
  double dampening = 0;   ///< sgd
  bool nesterov = false;  ///< sgd
  double beta1 = 0.9;     ///< adam, adamw
  double beta2 = 0.999;   ///< adam, adamw
  double epsilon = 1e-8;  ///< adam, adamw
  /// mu of a loss term mu/2 |w - w0|^2 that pulls to Trainer::set_anchor(); 0: none. Not with loss scaling. FedProx: Li
  /// et al., "Federated Optimization in Heterogeneous Networks", 2020.
  double proximal = 0;
};

/// Parameters whose name matches `pattern` ('*' any characters, '?' one): the first group that matches decides.
struct ParameterGroup {
  std::string pattern;
  double learning_rate_scale = 1;
  std::optional<double> weight_decay;  ///< default: the optimizer's
};
/// Groups that may be given: one of the 16 of the step state is for parameters that match none.
inline constexpr std::size_t kMaxParameterGroups = 15;

/// Dynamic loss scaling, with the words and defaults of torch.amp.GradScaler. It all happens on the device; the scale
/// and its counters are part of the training state. Optimizers count the steps that were taken.
struct LossScaling {
  double initial = 65536;  ///< 0: none
  double growth_factor = 2;
  double backoff_factor = 0.5;           ///< after a step whose gradients overflowed, which is left out
  std::uint64_t growth_interval = 2000;  ///< good steps in a row that make it grow
};

struct TrainOptions {
  LossOptions loss;
  OptimizerOptions optimizer;
  Schedule schedule;
  std::vector<ParameterGroup> groups;
  std::vector<std::string> freeze;  ///< patterns of parameters that stay as they are

  /// Samples of one optimizer step.
  std::int64_t batch = 32;
  /// Samples that are on the device at once; 0: the whole batch. Where it is less, gradients are accumulated, and the
  /// step is that of the whole batch (batch statistics aside, which belong to a micro-batch).
  std::int64_t micro_batch = 0;

  /// How the device keeps results of the forward and backward pass, and frozen weights: f32, f16 or bf16
  /// (runtime/passes/precision.h).
  DType precision = DType::f32;
  std::optional<LossScaling> loss_scaling;  ///< default: with f16, and not with others, whose range is that of f32

  double clip_value = 0;  ///< each element of a gradient to [-clip_value, clip_value]; 0: not. Before clip_norm.
  double clip_norm = 0;   ///< scales all gradients so that their norm together is no more; 0: not
  /// A parameter takes its step as soon as its gradient is complete, so that memory never holds all gradients; as
  /// optimizers in backward do in PyTorch. Then a gradient that is not finite holds back its own parameter alone: the
  /// step fails all the same, but others may have moved. Of no effect where gradients are accumulated. Not with
  /// clip_norm or loss scaling, which need all of them.
  bool optimizer_in_backward = false;

  bool batch_statistics = true;  ///< false: batch norm uses its running statistics, and does not update them
  std::optional<double> batch_norm_momentum;  ///< weight of the new statistics in the running ones; default: the
                                              ///< model's, else 0.1
  bool metrics = true;                        ///< cross entropy: count right answers

  /// Values of the forward pass to read after each step: Trainer::fetch(). Each is kept to the end of the step and
  /// copied.
  std::vector<std::string> fetch;

  std::uint32_t seed = 0;
  /// Sizes of symbolic dimensions other than the batch.
  Bindings bindings;
};

/// What applies; nullopt: none.
std::optional<LossScaling> loss_scaling_of(const TrainOptions& options);

/// Errors name the option, its value and its limits.
Status check(const TrainOptions& options);

/// Gradients that products round to f16 on this device (Policy::matmul_precision) need the scale of f16 training too:
/// sets it where the options do not say.
void scale_for_rounding(const gpu::Target& target, TrainOptions& options);

}  // namespace graft::train
