// Sums of two vectors over lanes of a workgroup of 128, in a fixed order.
#ifndef GRAFT_SUM_LANES_GLSL
#define GRAFT_SUM_LANES_GLSL

struct Sums {
  vec4 first;
  vec4 second;
};

shared Sums sum_lanes_memory[128];

// Adds up lanes that are `least`, 2 * least, ... apart; lane i < least gets the result. Called by all lanes.
Sums sum_lanes(Sums value, uint least) {
  const uint lane = gl_LocalInvocationIndex;
  sum_lanes_memory[lane] = value;
  barrier();
  // Always to the same end: where that depends on `least`, llvmpipe of Mesa 26.2 gives wrong sums.
  [[dont_unroll]] for (uint distance = 64u; distance > 0u; distance >>= 1) {
    if (distance < least) continue;
    if (lane < distance) {
      sum_lanes_memory[lane].first += sum_lanes_memory[lane + distance].first;
      sum_lanes_memory[lane].second += sum_lanes_memory[lane + distance].second;
    }
    barrier();
  }
  return sum_lanes_memory[lane];
}

#endif
