// Low-rank adapters: y = x W^T becomes y + (alpha / r) (x A^T) B^T with W frozen and A, B trained.
// E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021; names and initial values as in PEFT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;  ///< of what goes into A, in training
  /// Weights that are adapted: parts of dotted names (q_proj) or patterns (*attn*). Empty: every linear layer but one
  /// whose result is an output of the model.
  std::vector<std::string> targets;

  double scale() const { return alpha / static_cast<double>(rank); }
};

/// "r=8,alpha=16,dropout=0.05,targets=q_proj|v_proj", any part may be missing; alpha is then 2 r.
Result<LoraOptions> parse_lora(std::string_view text);
/// Errors name the option, its value and its limits.
Status check(const LoraOptions& options);

/// One adapted weight. Names of values; a is [r, in], b is [out, r].
struct LoraSite {
  std::string weight;
  std::string a;  ///< "model.layers.0.self_attn.q_proj.lora_A.weight"
  std::string b;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool transposed = false;  ///< the weight is [out, in]
};

struct LoraGraph {
  Graph graph;  ///< values keep their names; parameters other than a and b have become constants
  std::vector<LoraSite> sites;
};

/// The graph with adapters. A weight that several layers share has one adapter. Errors: a target that matches no linear
/// layer, or none at all.
Result<LoraGraph> add_lora(const Graph& model, const LoraOptions& options);

/// Initial A: uniform in +-1/sqrt(in) (Kaiming with a = sqrt(5)). Numbers follow from the seed and the name, so that
/// adapters of equal shape start different. B starts as zeros.
std::vector<float> initial_lora_a(const LoraSite& site, std::int64_t rank, std::uint32_t seed);

}  // namespace graft
