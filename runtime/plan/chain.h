// Dispatches of elementwise kernels as programs that can be put one behind the other, and back. Internal to
// runtime/plan.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/plan.h"

namespace graft {

/// How an operand's element is found from the index of the result's: (index / div) % mod.
struct ChainReach {
  std::uint32_t mode = 0;  ///< of chain_fn.h
  std::uint32_t div = 1;
  std::uint32_t mod = 1;
  friend bool operator==(const ChainReach&, const ChainReach&) = default;
};

struct ChainInput {
  PlanBinding binding;
  ChainReach reach;
  Stored stored = Stored::declared;
};

/// Register i is input i; chain_fn::inputs + i is what step i gives.
struct ChainStep {
  std::uint32_t kind = 0;  ///< of chain_fn.h
  std::uint32_t fn = 0;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  float alpha = 0;
  float beta = 0;
  Stored rounded = Stored::declared;  ///< as others read it: what is kept in 16 bits has their precision
};

struct ChainOutput {
  PlanBinding binding;
  std::uint32_t reg = 0;
  Stored stored = Stored::declared;
};

/// `count` elements; the first output is what the last step gives.
struct Chain {
  std::uint32_t count = 0;
  std::vector<ChainInput> inputs;
  std::vector<ChainStep> steps;
  std::vector<ChainOutput> outputs;
};

/// What a dispatch does, where it is one of an elementwise kernel that a chain may hold.
std::optional<Chain> chain_of(const Step& step, const PlanKernel& kernel);

/// `first`, and `second` behind it, which may read outputs of the first as they are. `kept`: which of these are
/// stored all the same. nullopt where that exceeds what the kernel takes.
std::optional<Chain> join_chains(const Chain& first, const std::vector<char>& kept, const Chain& second);

/// What it touches, each once.
std::vector<PlanBinding> chain_bindings(const Chain& chain);

/// Makes `step` the dispatch of a chain of two or more steps; gives its kernel.
PlanKernel chain_dispatch(const gpu::Caps& caps, const Chain& chain, Step& step);

/// Lets the dispatch of a product add `bias` (of `length` elements, one for each column) to what it writes, to `out`
/// instead of its own output. False, and no change, where its kernel cannot.
bool take_bias(Step& step, const PlanKernel& kernel, const PlanBinding& bias, std::uint32_t length,
               const PlanBinding& out);

}  // namespace graft
