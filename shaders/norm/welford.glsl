// Means and sums of squared deviations of four columns side by side, combined pairwise (Chan, Golub and LeVeque 1983): no
// cancellation, fixed order.
#ifndef GRAFT_WELFORD_GLSL
#define GRAFT_WELFORD_GLSL

struct Moments {
  float n;
  vec4 mean;
  vec4 m2;
};

Moments combine(Moments a, Moments b) {
  if (b.n == 0.0) return a;
  if (a.n == 0.0) return b;
  const float n = a.n + b.n;
  const vec4 delta = b.mean - a.mean;
  const float share = b.n / n;
  return Moments(n, a.mean + delta * share, a.m2 + b.m2 + delta * delta * (a.n * share));
}

shared Moments moments_lanes[128];

// Adds up lanes that are `least`, 2 * least, ... apart; lane i < least gets the result. Called by all lanes.
Moments combine_lanes(Moments m, uint least) {
  const uint lane = gl_LocalInvocationIndex;
  moments_lanes[lane] = m;
  barrier();
  // Always to the same end: where that depends on `least`, llvmpipe of Mesa 26.2 gives wrong sums.
  [[dont_unroll]] for (uint distance = 64u; distance > 0u; distance >>= 1) {
    if (distance < least) continue;
    if (lane < distance) moments_lanes[lane] = combine(moments_lanes[lane], moments_lanes[lane + distance]);
    barrier();
  }
  return moments_lanes[lane];
}

#endif
