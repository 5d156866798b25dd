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

// Adds up the 2^shift neighbouring lanes of each row of lanes; all of them get the result. Called by all lanes.
vec2 sum_row(vec2 value, uint shift) {
  const uint lane = gl_LocalInvocationIndex;
  const uint in_row = lane & ((1u << shift) - 1u);
  sum_lanes_memory[lane] = value;
  barrier();
  for (uint distance = (1u << shift) >> 1; distance > 0u; distance >>= 1) {
    if (in_row < distance) sum_lanes_memory[lane] += sum_lanes_memory[lane + distance];
    barrier();
  }
  const vec2 total = sum_lanes_memory[lane - in_row];
  barrier();  // the memory may be used again at once
  return total;
}

#endif
