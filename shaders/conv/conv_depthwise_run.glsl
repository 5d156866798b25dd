// The channels of one lane of a depthwise window: a vector, or with WINDOW_PAIRS two that lie side by side in memory.
#ifdef WINDOW_PAIRS
#define Run mat2x4
#define VECTOR(run, v) run[v]
const uint kVectors = 2;
#else
#define Run vec4
#define VECTOR(run, v) run
const uint kVectors = 1;
#endif
