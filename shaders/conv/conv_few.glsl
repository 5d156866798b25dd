// What convolutions over few channels and their gradients by the weight have in common: a walk along runs of kRun pixels
// of y, under each of which lies one stretch of every line of x that taps reach. The lanes load those stretches by fours,
// as many lanes as it takes, and hand their numbers round.
#include "shaders/conv/conv_few_push.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint kLanes = 8;    // of one subgroup
layout(constant_id = 1) const uint kRun = 8;      // pixels of y; under them lie whole fours of x
layout(constant_id = 2) const uint kC = 1;        // channels of x, of whose lines the numbers are whole fours
layout(constant_id = 3) const uint kKh = 3;
layout(constant_id = 4) const uint kKw = 3;
layout(constant_id = 5) const uint kStride = 1;
layout(constant_id = 6) const uint kPad = 0;
layout(constant_id = 7) const uint kColumns = 4;  // channels of y of each lane
layout(constant_id = 8) const bool kFours = false;  // which are whole fours, and so are those of y
#include "shaders/common/index.glsl"

const uint kTaps = kKw * kC;                // numbers of a line of x in one sum
const uint kAllTaps = kKh * kTaps;
const uint kBack = (kPad * kC + 3) / 4;     // fours before the one where pixel 0 of x under the run begins
const uint kFirst = 4 * kBack - kPad * kC;  // of the numbers of a stretch, the first in a sum
const uint kStretch = (kFirst + (kRun - 1) * kStride * kC + kTaps + 3) / 4;  // fours
const uint kLoads = (kKh * kStretch + kLanes - 1) / kLanes;

// Number n of the stretch of line r: of four `FOUR_OF` of all.
#define FOUR_OF(r, n) ((r) * kStretch + (n) / 4)
#define X_AT(r, n) subgroupShuffle(x[FOUR_OF(r, n) / kLanes][(n) % 4], FOUR_OF(r, n) % kLanes)

// The channel of y that is column i of a lane.
uint channel_of(uint lane, uint i) { return kFours ? (i / 4 * kLanes + lane) * 4 + i % 4 : i * kLanes + lane; }

// Declares where the run with this number lies and what a lane loads: of each load its line, from the first, and its four
// of the stretch; a line below all where there is none.
#define FEW_BEGIN(run)                                              \
  uint rows[kLoads];                                                \
  uint fours[kLoads];                                               \
  [[unroll]] for (uint l = 0; l < kLoads; ++l) {                    \
    const uint n = l * kLanes + lane;                               \
    const uint r = n / kStretch;                                    \
    rows[l] = r < kKh ? r - p.pad_h : 0x40000000;                   \
    fours[l] = n - r * kStretch - kBack;                            \
  }                                                                 \
  const uint line_runs = (p.ow + kRun - 1) / kRun;                  \
  const uint line_fours = p.w * kC / 4;                             \
  uint line = (run) / line_runs;                                    \
  uint w = ((run) - line * line_runs) * kRun;                       \
  uint image = line / p.oh;                                         \
  uint h = line - image * p.oh;

// Loads x under the run, lines of the kernel from first_r on.
#define FEW_LOAD(first_r)                                                            \
  [[unroll]] for (uint l = 0; l < kLoads; ++l) {                                     \
    const uint row = h * p.stride_h + (first_r) + rows[l];                           \
    const uint four = w * (kStride * kC) / 4 + fours[l]; /* before the line: beyond all */ \
    const bool there = row < p.h && four < line_fours;                               \
    const vec4 loaded = x4[there ? (image * p.h + row) * line_fours + four : 0u];    \
    x[l] = there ? loaded : vec4(0.0);                                               \
  }

// Divisions are done by CPUs one lane at a time: none from run to run.
#define FEW_NEXT           \
  w += kRun;               \
  if (w >= p.ow) {         \
    w = 0;                 \
    ++line;                \
    if (++h == p.oh) {     \
      h = 0;               \
      ++image;             \
    }                      \
  }
