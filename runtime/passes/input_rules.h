// What the numbers of a graph's inputs must be, found by looking at who reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/graph.h"

namespace graft::passes {

/// Of an i32 input whose numbers name rows or classes: they lie in [least, most], or are `ignored`. Of an f32 input:
/// they are no NaN, and finite where `infinity` does not say that they may be infinite, as in a mask.
struct InputRule {
  std::string input;
  DType dtype = DType::f32;
  std::int64_t least = 0, most = 0;     ///< i32
  std::optional<std::int32_t> ignored;  ///< i32: stands for no class
  bool infinity = false;                ///< f32
  std::string why;                      ///< the rest of "It holds 12, but ..."
};

/// By a graph before gradients and fusion. Inputs that are looked at as they are, views of them included; whose
/// numbers go through arithmetic first have no rule, and those of a network that asks for NaN or infinity (is_nan,
/// is_inf) none either.
std::vector<InputRule> input_rules(const Graph& graph);

/// The index of the first number of `bytes` that breaks the rule; nullopt where none does.
/// Costs about what copying the bytes costs.
std::optional<std::size_t> find_offence(const InputRule& rule, std::span<const std::byte> bytes);

/// "It holds nan at [0, 3], but numbers must be finite.", without the first word: of the number at `index` of a tensor
/// of this shape.
std::string offence_text(const InputRule& rule, std::span<const std::byte> bytes, std::size_t index,
                         const std::vector<std::int64_t>& shape);

}  // namespace graft::passes
