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
#include "runtime/passes/packed_inputs.h"
#include "runtime/train/step/schedule.h"

namespace graft::train {

/// What each is the mean over: see loss_kinds.h.
enum class Loss : std::uint8_t {
  cross_entropy,  ///< of logits, with integer labels, or with targets of the output's shape that are probabilities
  mse,
  l1,
  bce,    ///< binary cross entropy of logits, with targets from 0 to 1; several labels at once are such targets
  focal,  ///< cross entropy or, with targets of the output's shape, bce, that looks away from what is easy
  dice,   ///< 1 - overlap of each class of each sample: softmax and labels, or sigmoid and targets of its shape
  huber,
  smooth_l1,
  kl,        ///< divergence of the softmax of logits from targets that are probabilities; mean over samples
  cosine,    ///< cosine embedding: of two outputs, with targets 1 (alike) and -1
  triplet,   ///< of three outputs: anchor, positive, negative; no targets
  info_nce,  ///< of two outputs, pairs by rows: each against all others of the batch; no targets (a row of the second
             ///< may be several keys, of which the first is the row's own; text_vectors.h makes such of texts)
  ctc,      ///< of logits [batch, time, classes], with labels that end at the first below 0
  output,   ///< an output of the graph that is the loss; no targets
  distill,  ///< of two outputs, logits and a teacher's: cross entropy and the divergence of the softened softmaxes
  // Of language models, from pairs of texts in a sample (loss_preference.cpp).
  dpo,   ///< R. Rafailov et al., "Direct Preference Optimization", 2023
  ipo,   ///< M. Azar et al., "A General Theoretical Paradigm to Understand Learning from Human Preferences", 2023
  orpo,  ///< J. Hong et al., "ORPO: Monolithic Preference Optimization without Reference Model", 2024
  kto,   ///< K. Ethayarajh et al., "KTO: Model Alignment as Prospect Theoretic Optimization", 2024
};
/// Of pairs of texts: samples hold two, one after the other.
bool is_preference(Loss loss);
/// Compares with what a reference model says of the same texts.
bool needs_reference(Loss loss);
std::string_view loss_name(Loss loss);  ///< "ce", "mse", ...: as the command line takes them
Result<Loss> parse_loss(std::string_view name);

/// One term of the loss. Names and defaults are PyTorch's where it has the loss.
struct LossOptions {
  Loss kind = Loss::cross_entropy;
  std::string output;  ///< the model's output that it is taken of, several with commas between; empty: the first ones
  double label_smoothing = 0;              ///< cross entropy, [0, 1]; dpo: share of wrong pairs, [0, 0.5]
  std::int32_t ignore_index = -100;        ///< cross entropy, focal, dice: rows with this label count for nothing
  std::optional<std::int64_t> class_axis;  ///< of labels; default: the one that `target_shape` lacks, else 1, but the
                                           ///< last one of logits of a language model (add_loss)
  double weight = 1;                       ///< of this term in the sum
  std::string target;                      ///< name of the data's field; empty: in order
  std::vector<double> class_weights;       ///< cross entropy, focal: one for each class; empty: 1
  std::vector<double> pos_weight;          ///< bce: of targets of 1, for all or one for each of the last axis; empty: 1
  double focal_gamma = 2;
  double focal_alpha = -1;  ///< focal with targets of the output's shape: weight of ones against zeros; below 0: none
  double delta = 1;         ///< huber
  double beta = 1;          ///< smooth_l1
  std::optional<double> margin;   ///< cosine (0), triplet (1)
  std::optional<double> temperature;  ///< info_nce (0.07), distill (2): temperature_of()
  double distill_weight = 0.5;    ///< distill: of the divergence; the cross entropy has the rest, 0 to 1
  std::int32_t blank = 0;         ///< ctc
  double preference_beta = 0.1;   ///< dpo, ipo, kto: how much leaving the reference costs; orpo: weight of the odds
  double desirable_weight = 1;    ///< kto: of samples that are wanted
  double undesirable_weight = 1;  ///< kto: of the others
  bool zero_infinity = false;     ///< ctc: 0 instead of infinity where labels do not fit the time
  /// Of the targets, without the batch: where it is known it tells the class axis, and labels from targets of the
  /// output's shape. set_targets() (loss_terms.h) finds it.
  std::optional<Shape> target_shape;
  DType target_dtype = DType::i32;
};
/// What logits are divided by: as the term says, else its kind's default.
double temperature_of(const LossOptions& term);
/// A loss may have as many terms.
inline constexpr std::size_t kMaxLossTerms = 16;

/// "ce:label+0.5*mse:box": terms W*KIND:NAME. NAME is an output of the model (several with commas between), or a field
/// of the data where there is no such output; OUTPUT=FIELD says both. `like` gives all else.
Result<std::vector<LossOptions>> parse_losses(std::string_view text, const LossOptions& like = {});

enum class OptimizerKind : std::uint8_t {
  sgd,
  adam,
  adamw,
  adamw8bit,  ///< adamw with its state as 8-bit codes, for parameters of kMinElementsOf8Bit elements or more
  lion,       ///< Chen et al. 2023
  rmsprop,
  adagrad,
  adafactor,  ///< Shazeer and Stern 2018: second moments of matrices by rows and columns
  lamb,       ///< You et al. 2020: adamw, with the size of a step in proportion to the parameter's
  muon,       ///< Jordan et al. 2024: the orthogonal direction of momentum for matrices, adamw for all else
};
/// Smaller ones would save nothing.
inline constexpr std::uint64_t kMinElementsOf8Bit = 4096;
std::string_view optimizer_name(OptimizerKind kind);
struct OptimizerOptions;
/// PyTorch's defaults of this optimizer, and those of its paper where PyTorch has none; no weight decay.
OptimizerOptions optimizer_defaults(OptimizerKind kind);
/// Whether its state holds moments by beta1 and beta2, whose bias is corrected.
bool corrects_bias(OptimizerKind kind);
Result<OptimizerKind> parse_optimizer(std::string_view name);

/// What a convolution's or a linear layer's step is multiplied by under muon.
enum class MuonAdjust : std::uint8_t {
  original,         ///< sqrt(max(1, rows / columns))
  match_rms_adamw,  ///< 0.2 sqrt(max(rows, columns)): rates of adamw hold
};

/// Names and defaults are PyTorch's (of adamw; others: optimizer_defaults()). adam adds weight_decay * w to the
/// gradient, adamw shrinks w by lr * weight_decay.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double weight_decay = 0;
  double momentum = 0;                   ///< sgd, rmsprop, muon
  double dampening = 0;                  ///< sgd
  bool nesterov = false;                 ///< sgd, muon
  double beta1 = 0.9;                    ///< the Adams, lion, lamb, and muon's adamw
  double beta2 = 0.999;                  ///< the same
  double epsilon = 1e-8;                 ///< the Adams, rmsprop, adagrad, lamb, and muon's adamw
  double alpha = 0.99;                   ///< rmsprop: of the mean of squares
  bool centered = false;                 ///< rmsprop: squares about the mean
  double lr_decay = 0;                   ///< adagrad
  double initial_accumulator_value = 0;  ///< adagrad
  double beta2_decay = -0.8;             ///< adafactor
  double epsilon2 = 1e-3;                ///< adafactor: least size of a parameter, for the size of its step
  double clip_threshold = 1;             ///< adafactor: d
  std::uint32_t ns_steps = 5;            ///< muon: of Newton and Schulz
  MuonAdjust adjust = MuonAdjust::original;
  std::vector<std::string> adamw_parameters;  ///< muon: patterns of matrices that adamw takes, as of embeddings
  /// Weight of the past in a running mean of the parameters, kept beside them (Trainer::read_ema()); 0: none.
  double ema = 0;
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
  std::vector<LossOptions> more_losses;  ///< added to it, each with its weight
  /// Field of the data: one number a sample that its loss counts by; the loss is the mean by these weights.
  std::string sample_weights;
  /// Evaluation also gives what the loss is taken of, for Trainer::evaluate() with a reader.
  bool predictions = false;
  OptimizerOptions optimizer;
  Schedule schedule;
  std::vector<ParameterGroup> groups;
  std::vector<std::string> freeze;  ///< patterns of parameters that stay as they are
  double layer_decay = 1;           ///< learning rate of a layer over that of the layer behind it (layer_rates.h)

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
  double neftune_alpha = 0;                   ///< of noise on embeddings of tokens (passes/train_mode.h); 0: none

  /// Values of the forward pass to read after each step: Trainer::fetch(). Each is kept to the end of the step and
  /// copied.
  std::vector<std::string> fetch;

  /// Inputs that samples give in fewer than 32 bits (data::Field::packed). They cannot be fetched.
  std::vector<passes::PackedInput> inputs;

  std::uint32_t seed = 0;
  /// Sizes of symbolic dimensions other than the batch.
  Bindings bindings;
};

/// All terms of the loss.
std::vector<const LossOptions*> loss_terms(const TrainOptions& options);

/// What applies; nullopt: none.
std::optional<LossScaling> loss_scaling_of(const TrainOptions& options);

/// Refuses what cannot be together, and numbers whose limits depend on others. The ranges of single numbers are in
/// graft/trainer_options.h and checked where its struct is read.
Status check(const TrainOptions& options);

/// Gradients that products round to f16 on this device (Policy::matmul_precision) need the scale of f16 training too:
/// sets it where the options do not say.
void scale_for_rounding(const gpu::Target& target, TrainOptions& options);

}  // namespace graft::train
