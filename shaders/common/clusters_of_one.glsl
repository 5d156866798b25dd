// clusters.glsl without operations of subgroups: each invocation is a cluster of one lane, which has nobody to ask.
const uint kLanes = 1;

uint own_cluster() { return gl_LocalInvocationIndex; }
uint own_lane() { return 0; }

#define HANDED(x, i) (x)
#define OTHER(x, bit) (x)
