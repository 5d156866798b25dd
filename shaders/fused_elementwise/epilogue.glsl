// What follows a kernel's result, done before it is stored: a program of elementwise functions, as in
// fused_elementwise.comp, over the result and up to two further operands. Variants of kernels ask for it by
// -DEPILOGUE=B: bindings B and B + 1 are the operands, B + 2 takes a second output (what lies between, where others want
// it). Without EPILOGUE nothing is compiled.
// The kernel stores finished(value, address, column), or finished4() where four elements begin at a multiple of four.
#ifndef GRAFT_EPILOGUE_GLSL
#define GRAFT_EPILOGUE_GLSL
#ifdef EPILOGUE
#extension GL_EXT_control_flow_attributes : require
#define FUSED_FEW
#include "shaders/fused_elementwise/fused_apply.glsl"

// The constants follow fused_fn::epilogue_constants.
layout(constant_id = 32) const uint EPILOGUE_MODES = 0;    // four bits for each operand, from the lowest
layout(constant_id = 33) const uint EPILOGUE_FURTHER = 0;  // register of the second output; 0 for none
layout(constant_id = 34) const uint EPILOGUE_STEPS = 0;    // beside the kernel's own
layout(constant_id = 35) const uint EPILOGUE_SOURCE = 0;   // codes: as in fused_elementwise.comp
layout(constant_id = 36) const uint EPILOGUE_STEP_0 = 0;
layout(constant_id = 37) const uint EPILOGUE_STEP_1 = 0;
layout(constant_id = 38) const uint EPILOGUE_STEP_2 = 0;
layout(constant_id = 39) const uint EPILOGUE_STEP_3 = 0;
layout(constant_id = 40) const float EPILOGUE_ALPHA_0 = 0;
layout(constant_id = 41) const float EPILOGUE_ALPHA_1 = 0;
layout(constant_id = 42) const float EPILOGUE_ALPHA_2 = 0;
layout(constant_id = 43) const float EPILOGUE_ALPHA_3 = 0;
layout(constant_id = 44) const float EPILOGUE_BETA_0 = 0;
layout(constant_id = 45) const float EPILOGUE_BETA_1 = 0;
layout(constant_id = 46) const float EPILOGUE_BETA_2 = 0;
layout(constant_id = 47) const float EPILOGUE_BETA_3 = 0;

layout(std430, set = 0, binding = EPILOGUE) readonly buffer Other { float other[]; };
layout(std430, set = 0, binding = EPILOGUE) readonly buffer OtherVectors { vec4 other4[]; };
layout(std430, set = 0, binding = EPILOGUE + 1) readonly buffer Another { float another[]; };
layout(std430, set = 0, binding = EPILOGUE + 1) readonly buffer AnotherVectors { vec4 another4[]; };
layout(std430, set = 0, binding = EPILOGUE + 2) writeonly buffer Further { float further[]; };
layout(std430, set = 0, binding = EPILOGUE + 2) writeonly buffer FurtherVectors { vec4 further4[]; };

#define EPILOGUE_AT(mode) ((mode) == fused_same ? address : (mode) == fused_one ? 0u : column)
#define EPILOGUE_STEP(n)                                                                    \
  if (n < EPILOGUE_STEPS) {                                                                 \
    r[fused_inputs + 1 + n] =                                                               \
        fused_apply(EPILOGUE_STEP_##n >> 8, r[EPILOGUE_STEP_##n >> 4 & 15u], r[EPILOGUE_STEP_##n & 15u], \
                    EPILOGUE_ALPHA_##n, EPILOGUE_BETA_##n);                                 \
  }

// Elements from `address` on, or (single) that element alone, in the first component. To be called in as few places as
// can be: drivers inline every function of every step, and only then throw away what is not this program.
vec4 epilogue(vec4 value, uint address, uint column, bool single) {
  vec4 x0 = vec4(0.0), x1 = vec4(0.0), y0, y1;
  if ((EPILOGUE_MODES >> 8) > 0) {
    const uint mode = EPILOGUE_MODES & 15u;
    const uint at = EPILOGUE_AT(mode);
    if (single || mode == fused_one) x0 = vec4(other[at]); else x0 = other4[at / 4];
  }
  if ((EPILOGUE_MODES >> 8) > 1) {
    const uint mode = EPILOGUE_MODES >> 4 & 15u;
    const uint at = EPILOGUE_AT(mode);
    if (single || mode == fused_one) x1 = vec4(another[at]); else x1 = another4[at / 4];
  }
  for (uint q = 0; q < (single ? 1u : 4u); ++q) {  // a driver unrolls it where a step is little work
    float r[fused_inputs + 5];
    r[0] = x0[q];
    r[1] = x1[q];
    r[fused_inputs] = fused_rounded(EPILOGUE_SOURCE >> 24, value[q]);
    EPILOGUE_STEP(0)
    EPILOGUE_STEP(1)
    EPILOGUE_STEP(2)
    EPILOGUE_STEP(3)
    y0[q] = r[fused_inputs + EPILOGUE_STEPS];
    y1[q] = r[EPILOGUE_FURTHER];
  }
  if (EPILOGUE_FURTHER != 0) {
    if (single) further[address] = y1.x; else further4[address / 4] = y1;
  }
  return y0;
}

float finished(float value, uint address, uint column) { return epilogue(vec4(value), address, column, true).x; }
vec4 finished4(vec4 value, uint address, uint column) { return epilogue(value, address, column, false); }

// In a kernel of rows: four columns, as ROW_LOAD and ROW_STORE know them.
#define ROW_FINISH(value, start, c, columns)                                                        \
  if (VECTOR) {                                                                                     \
    value = finished4(value, (start) + (c), c);                                                     \
  } else {                                                                                          \
    [[dont_unroll]] for (uint i_ = 0; i_ < 4; ++i_) {                                               \
      const uint column_ = row_column(c, i_);                                                       \
      if (column_ < (columns)) value[i_] = finished(value[i_], (start) + column_, column_);         \
    }                                                                                               \
  }
#else
#define ROW_FINISH(value, start, c, columns)
#define finished(value, address, column) (value)
#define finished4(value, address, column) (value)
#endif
#endif
