// What depthwise convolutions by sliding windows share: for CPU devices, where a load is one scalar load per lane and
// component, and all else is cheap. An invocation owns four channels and walks along a band of kLines output lines, so
// that the lines under it are read as runs of memory, which caches fetch ahead. The input columns that it sees stay in
// registers (or on its stack), so that each input is loaded about once.
// WINDOW_PAIRS: eight channels instead, so that the lanes together read longer runs and in fewer loads
// (runtime/kernels/wide_kernel.h).
// Before the include: `p` and the buffer X { Run x[]; }, Run as below.
layout(local_size_x = 8) in;
layout(constant_id = 0) const uint kKh = 3;
layout(constant_id = 1) const uint kKw = 3;
layout(constant_id = 2) const uint kStrideH = 1;
layout(constant_id = 3) const uint kStrideW = 1;  // at most kKw
#include "shaders/common/index.glsl"

const uint kLines = 4;
const uint kIn = (kLines - 1) * kStrideH + kKh;  // input lines under them
const uint kTaps = kKh * kKw;
// Output columns before the first in which the window fills.
const int kWarmUp = int((kKw - 1) / kStrideW);

vec4 window[kKw * kIn * kVectors];

struct Unit {
  uint image;
  uint ow0;
  uint columns;
  uint oh0;
};

Unit unit_at(uint index) {
  Unit unit;
  const uint rest = index / p.column_blocks;
  unit.ow0 = (index - rest * p.column_blocks) * p.columns_per_block;
  unit.columns = min(p.columns_per_block, p.ow - unit.ow0);
  unit.image = rest / p.row_blocks;
  unit.oh0 = (rest - unit.image * p.row_blocks) * kLines;
  return unit;
}

// Of output line unit.oh0 + line, column unit.ow0 + column; in vectors or pairs of them.
uint y_at(Unit unit, uint line, int column, uint strip) {
  return ((unit.image * p.oh + unit.oh0 + line) * p.ow + unit.ow0 + uint(column)) * p.strips + strip;
}

// Moves the window along to what output column unit.ow0 + column sees.
void slide_window(Unit unit, int column, uint strip) {
  [[unroll]] for (uint i = 0; i < (kKw - kStrideW) * kIn * kVectors; ++i) {
    window[i] = window[i + kStrideW * kIn * kVectors];
  }
  const int first = (int(unit.ow0) + column) * int(kStrideW) - int(p.pad_w) + int(kKw - kStrideW);
  const int h0 = int(unit.oh0 * kStrideH) - int(p.pad_h);
  [[unroll]] for (uint s = 0; s < kStrideW; ++s) {
    const uint w = uint(first + int(s));
    [[unroll]] for (uint i = 0; i < kIn; ++i) {
      const uint h = uint(h0 + int(i));
      const bool inside = h < p.h && w < p.w;
      const uint at = inside ? ((unit.image * p.h + h) * p.w + w) * p.strips + strip : strip;
      const uint to = ((kKw - kStrideW + s) * kIn + i) * kVectors;
      const Run run = x[at];
      [[unroll]] for (uint v = 0; v < kVectors; ++v) window[to + v] = inside ? VECTOR(run, v) : vec4(0.0);
    }
  }
}
