// Low-rank adapters: y = x W^T becomes y + (alpha / r) (x A^T) B^T with W frozen and A, B trained.
// E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021; names and initial values as in PEFT.
// rsLoRA: D. Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", 2023. DoRA: S. Liu et al.,
// "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024. PiSSA: F. Meng et al., "PiSSA: Principal Singular Values and
// Singular Vectors Adaptation of Large Language Models", 2024.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// What the names of a layer's matrices add to the layer's: A is [rank, in], B is [out, rank]. DoRA has a vector of
/// [out] too.
inline constexpr std::string_view kLoraA = ".lora_A.weight";
inline constexpr std::string_view kLoraB = ".lora_B.weight";
inline constexpr std::string_view kLoraMagnitude = ".lora_magnitude_vector";
/// And those of an embedding: A is [rows of the table, rank], B is [columns, rank].
inline constexpr std::string_view kLoraEmbeddingA = ".lora_embedding_A";
inline constexpr std::string_view kLoraEmbeddingB = ".lora_embedding_B";
/// And of the constants that hold A and B as PiSSA begins with them.
inline constexpr std::string_view kPissaA = ".pissa_A.weight";
inline constexpr std::string_view kPissaB = ".pissa_B.weight";

struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;  ///< of what goes into A, in training
  /// Each row of W + scale B A is brought to a length m that is trained, and starts as the length of W's row. Gradients
  /// go through the length too; PEFT leaves that part of them out.
  bool dora = false;
  /// A and B begin as the strongest directions of the weight (principal.h), in place of noise and zeros. What stays
  /// frozen is the weight without them: y = x W^T + scale (x A^T) B^T - scale (x A0^T) B0^T, so that the weight itself
  /// is left as it is.
  bool pissa = false;
  /// Weights that are adapted: parts of dotted names (q_proj) or patterns (*attn*) of linear layers, and parts of names
  /// of tables whose rows are looked up. A linear layer whose weight is such a table, too, has the name of its product
  /// (lm_head). Empty: every linear layer but one whose result is an output of the model.
  std::vector<std::string> targets;

  double scale() const { return alpha / static_cast<double>(rank); }
};

/// "r=8,alpha=16,dropout=0.05,targets=q_proj|v_proj,dora=yes,rslora=yes,init=pissa", any part may be missing; alpha is
/// then 2 r, init is "default".
/// targets=all-linear is as none. With rslora the result's alpha is sqrt(r) times what is written, so that the scale is
/// alpha / sqrt(r).
Result<LoraOptions> parse_lora(std::string_view text);
/// Errors name the option, its value and its limits.
Status check(const LoraOptions& options);

/// One adapted weight. Names of values; a is [r, in], b is [out, r]. Of an embedding a is [in, r], `in` its rows.
struct LoraSite {
  std::string weight;
  std::string layer;  ///< what its adapter is called by
  std::string a;      ///< "model.layers.0.self_attn.q_proj.lora_A.weight"
  std::string b;
  std::string magnitude;     ///< DoRA's m, [out]; empty: LoRA
  std::string squared_norm;  ///< a constant, [out], for the squared lengths of the weight's rows; empty: LoRA
  std::string pissa_a;       ///< constants like a and b, for what PiSSA begins with; empty: no PiSSA
  std::string pissa_b;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool transposed = false;  ///< the weight is [out, in]
  bool embedding = false;
};

struct LoraGraph {
  Graph graph;  ///< values keep their names; parameters other than a and b have become constants
  std::vector<LoraSite> sites;
};

/// The graph with adapters. A weight that several layers share has one adapter; a table that is a linear layer's weight
/// as well has one for each of the two. Errors: a target that matches neither a linear layer nor an embedding, no layer
/// at all, an embedding with DoRA or PiSSA.
Result<LoraGraph> add_lora(const Graph& model, const LoraOptions& options);

/// `count` numbers uniform in +-1/sqrt(fan_in) (Kaiming with a = sqrt(5)), as weights and biases of PyTorch's Linear
/// and Conv2d begin. They follow from the seed and the name, so that tensors of equal shape start different.
std::vector<float> initial_linear(const std::string& name, std::int64_t count, std::int64_t fan_in, std::uint32_t seed);
/// Initial A: initial_linear(). B starts as zeros.
std::vector<float> initial_lora_a(const LoraSite& site, std::int64_t rank, std::uint32_t seed);
/// Initial B of an embedding: normal, of the variance 1. A starts as zeros.
std::vector<float> initial_embedding_b(const LoraSite& site, std::int64_t rank, std::uint32_t seed);

/// Whether both a lookup of rows and products read the weight: an embedding that is the head as well. `name` is the
/// weight's or its product's.
bool is_looked_up_and_multiplied(const Graph& graph, std::string_view name);

}  // namespace graft
