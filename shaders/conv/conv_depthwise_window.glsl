// What depthwise convolutions by sliding windows share: for CPU devices, where a load is one scalar load per lane and
// component, and all else is cheap. An invocation owns four channels and walks down a block of kPixels output columns.
// The input rows that it sees stay in registers (or on its stack), so that each input is loaded about once.
// Before the include: `p` and the buffer X { vec4 x[]; }.
layout(local_size_x = 8) in;
layout(constant_id = 0) const uint kKh = 3;
layout(constant_id = 1) const uint kKw = 3;
layout(constant_id = 2) const uint kStrideH = 1;  // at most kKh
layout(constant_id = 3) const uint kStrideW = 1;
#include "shaders/common/index.glsl"

const uint kPixels = 4;
const uint kIn = (kPixels - 1) * kStrideW + kKw;  // input columns under them
const uint kTaps = kKh * kKw;
// Output rows before the first in which the window fills.
const int kWarmUp = int((kKh - 1) / kStrideH);

vec4 window[kKh * kIn];

struct Unit {
  uint image;
  uint oh0;
  uint rows;
  uint ow0;
};

Unit unit_at(uint index) {
  Unit unit;
  const uint rest = index / p.column_blocks;
  unit.ow0 = (index - rest * p.column_blocks) * kPixels;
  unit.image = rest / p.row_blocks;
  unit.oh0 = (rest - unit.image * p.row_blocks) * p.rows_per_block;
  unit.rows = min(p.rows_per_block, p.oh - unit.oh0);
  return unit;
}

// Moves the window down to what output row unit.oh0 + row sees.
void slide_window(Unit unit, int row, uint quad) {
  [[unroll]] for (uint i = 0; i < (kKh - kStrideH) * kIn; ++i) window[i] = window[i + kStrideH * kIn];
  const int first = (int(unit.oh0) + row) * int(kStrideH) - int(p.pad_h) + int(kKh - kStrideH);
  const int w0 = int(unit.ow0 * kStrideW) - int(p.pad_w);
  [[unroll]] for (uint r = 0; r < kStrideH; ++r) {
    const uint h = uint(first + int(r));
    const uint line = (unit.image * p.h + h) * p.w;
    [[unroll]] for (uint j = 0; j < kIn; ++j) {
      const uint w = uint(w0 + int(j));
      const bool inside = h < p.h && w < p.w;
      const vec4 value = x[inside ? (line + w) * p.quads + quad : quad];
      window[(kKh - kStrideH + r) * kIn + j] = inside ? value : vec4(0.0);
    }
  }
}
