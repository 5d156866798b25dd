// What host and kernel agree on about chains (shaders/chain/chain.comp).
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace graft::chain_fn {
#define CHAIN_CONSTANT(name, value) inline constexpr std::uint32_t name = value;
#else
#define CHAIN_CONSTANT(name, value) const uint chain_##name = value;
#endif
CHAIN_CONSTANT(inputs, 4)   // registers of inputs; those of steps follow
CHAIN_CONSTANT(steps, 8)
CHAIN_CONSTANT(outputs, 3)
// of a chain that ends another kernel (epilogue.glsl), whose result is its first step
CHAIN_CONSTANT(epilogue_inputs, 2)
CHAIN_CONSTANT(epilogue_steps, 4)      // beside the first
CHAIN_CONSTANT(epilogue_outputs, 2)
CHAIN_CONSTANT(epilogue_constants, 32)  // constant_id of the first; the kernel's own are below
// kinds of steps
CHAIN_CONSTANT(unary, 0)   // fn(a)
CHAIN_CONSTANT(binary, 1)  // fn(a, b)
CHAIN_CONSTANT(slope, 2)   // b times the slope of the unary fn at a
CHAIN_CONSTANT(source, 3)  // what the kernel computed
// what a step's result is rounded to before others read it
CHAIN_CONSTANT(to_f16, 1)
CHAIN_CONSTANT(to_bf16, 2)
// how an input is read
CHAIN_CONSTANT(same, 0)    // the element of the output
CHAIN_CONSTANT(one, 1)     // its only element
CHAIN_CONSTANT(row, 2)     // index % mod, in whole vectors of four
CHAIN_CONSTANT(column, 3)  // (index / div) % mod, the same for the four of a vector
CHAIN_CONSTANT(any, 4)     // (index / div) % mod
#undef CHAIN_CONSTANT
#ifdef __cplusplus
}  // namespace graft::chain_fn
#endif
