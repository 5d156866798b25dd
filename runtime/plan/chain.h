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

/// A dispatch that is no elementwise one, but whose kernel can end with a chain over what it computes: see
/// shaders/chain/epilogue.glsl.
struct ChainSource {
  Step step;
  PlanKernel kernel;
  shaders::KernelId with{};  ///< the variant that ends so
  std::size_t out = 0;       ///< the binding of what it computes
  /// An operand that is repeated has an element for each column: this many; 0: as many as may be.
  std::uint32_t columns = 0;
};

/// `count` elements; the first output is what the last step gives.
struct Chain {
  std::optional<ChainSource> source;  ///< where the chain ends another kernel; the first step is then that kernel's
  std::uint32_t count = 0;
  std::vector<ChainInput> inputs;
  std::vector<ChainStep> steps;
  std::vector<ChainOutput> outputs;
};

/// Kernels that chains are made of, those that can end with one, and those that can begin with a sum.
bool is_link(shaders::KernelId kernel);
bool can_end_with_chain(shaders::KernelId kernel);
bool can_take_sum(shaders::KernelId kernel);
/// Whether kernels of this device end with chains (Family::ends).
bool ends_with_chains(const gpu::Caps& caps);

/// What a dispatch does, where it is one of an elementwise kernel that a chain may hold.
std::optional<Chain> chain_of(const Step& step, const PlanKernel& kernel);

/// The dispatch of a kernel that can end with a chain, as one of no further steps. `choices` are its node's.
std::optional<Chain> chain_from(const gpu::Caps& caps, const Step& step, const PlanKernel& kernel,
                                const std::vector<PlanChoice>& choices);

/// `first`, and `second` behind it, which may read outputs of the first as they are. `kept`: which of these are
/// stored all the same. nullopt where that exceeds what the kernel takes.
std::optional<Chain> join_chains(const Chain& first, const std::vector<char>& kept, const Chain& second);

/// Whether it is within what its kernel takes.
bool chain_fits(const Chain& chain);

/// What it touches, each once.
std::vector<PlanBinding> chain_bindings(const Chain& chain);

/// Makes `step` the dispatch of a chain of two or more steps; gives its kernel.
PlanKernel chain_dispatch(const gpu::Caps& caps, const Chain& chain, Step& step);
/// The same of one that has a source.
PlanKernel epilogue_dispatch(const Chain& chain, Step& step);

/// Word of a step in the specialization constants of chain.comp and epilogue.glsl.
std::uint32_t step_code(const Chain& chain, std::size_t step);

/// Lets the dispatch of a norm add up what it normalises, as the chain of one addition would; it gives the sum as well.
/// nullopt, and no change, where it cannot; else its kernel.
std::optional<PlanKernel> take_sum(const gpu::Caps& caps, Step& norm, const PlanKernel& kernel, const Chain& sum);

/// Lets the dispatch of a product add `bias` (of `length` elements, one for each column) to what it writes, to `out`
/// instead of its own output. False, and no change, where its kernel cannot.
bool take_bias(Step& step, const PlanKernel& kernel, const PlanBinding& bias, std::uint32_t length,
               const PlanBinding& out);

}  // namespace graft
