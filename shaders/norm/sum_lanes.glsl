// Sums of two numbers over lanes of a workgroup of 128, in a fixed order.
#ifndef GRAFT_SUM_LANES_GLSL
#define GRAFT_SUM_LANES_GLSL

shared vec2 sum_lanes_memory[128];

// Adds up lanes that are `least`, 2 * least, ... apart; lane i < least gets the result. Called by all lanes.
vec2 sum_lanes(vec2 value, uint least) {
  const uint lane = gl_LocalInvocationIndex;
  sum_lanes_memory[lane] = value;
  barrier();
  for (uint distance = 64u; distance >= least; distance >>= 1) {
    if (lane < distance) sum_lanes_memory[lane] += sum_lanes_memory[lane + distance];
    barrier();
  }
  return sum_lanes_memory[lane];
}

#endif
