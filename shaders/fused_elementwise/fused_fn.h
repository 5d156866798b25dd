// What host and kernels agree on about programs of elementwise functions (fused_elementwise.comp, epilogue.glsl).
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace graft::fused_fn {
#define FUSED_CONSTANT(name, value) inline constexpr std::uint32_t name = value;
#else
#define FUSED_CONSTANT(name, value) const uint fused_##name = value;
#endif
// of fused_elementwise.comp
FUSED_CONSTANT(invocations, 128)  // of a workgroup
FUSED_CONSTANT(vectors, 4)        // of four elements, that each invocation computes
FUSED_CONSTANT(inputs, 4)   // registers of inputs; those of steps follow
FUSED_CONSTANT(steps, 8)
FUSED_CONSTANT(short_steps, 4)  // with FUSED_SHORT
FUSED_CONSTANT(outputs, 3)
// of an epilogue, whose first step is what the kernel computed
FUSED_CONSTANT(epilogue_inputs, 2)
FUSED_CONSTANT(epilogue_steps, 4)      // beside the first
FUSED_CONSTANT(epilogue_outputs, 2)
FUSED_CONSTANT(epilogue_constants, 32)  // constant_id of the first; the kernel's own are below
// kinds of steps
FUSED_CONSTANT(unary, 0)   // fn(a)
FUSED_CONSTANT(binary, 1)  // fn(a, b)
FUSED_CONSTANT(slope, 2)   // b times the slope of the unary fn at a
FUSED_CONSTANT(source, 3)  // what the kernel computed
// what a step's result is rounded to before others read it
FUSED_CONSTANT(to_f16, 1)
FUSED_CONSTANT(to_bf16, 2)
// how an input is read
FUSED_CONSTANT(same, 0)    // the element of the output
FUSED_CONSTANT(one, 1)     // its only element
FUSED_CONSTANT(row, 2)     // index % mod, in whole vectors of four
FUSED_CONSTANT(column, 3)  // (index / div) % mod, the same for the four of a vector
FUSED_CONSTANT(any, 4)     // (index / div) % mod
#undef FUSED_CONSTANT
#ifdef __cplusplus
}  // namespace graft::fused_fn
#endif
