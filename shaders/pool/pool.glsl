// Which channels of which pixels an invocation of a pooling kernel serves, and which windows lie over a pixel.
//
// CPUs divide and load one lane at a time. So windows are constants, which leaves no division by a stride; a division
// by a size serves a whole run of pixels; and channels are loaded by fours.
// Before the include: the push block.
#ifndef GRAFT_POOL_GLSL
#define GRAFT_POOL_GLSL
#extension GL_EXT_control_flow_attributes : require

layout(constant_id = 0) const uint kKernelH = 1;
layout(constant_id = 1) const uint kKernelW = 1;
layout(constant_id = 2) const uint kStrideH = 1;
layout(constant_id = 3) const uint kStrideW = 1;
layout(constant_id = 4) const uint kDilationH = 1;
layout(constant_id = 5) const uint kDilationW = 1;
layout(constant_id = 6) const uint kSingly = 1;  // channels that are loaded one by one; 0: four at a time
layout(constant_id = 7) const uint kWorkgroup = 64;
layout(local_size_x_id = 7) in;
#include "shaders/common/index.glsl"

const uint kSide = 2;  // of a gradient's block

struct Run {
  uint strip;
  uint image;
  uint line;    // of pixels or blocks
  uint column;  // of the next of them
  uint end;     // and where to stop
};

Run run_of(uint invocation, uint lines, uint columns) {
  Run run;
  uint rest = invocation / p.strips;
  run.strip = invocation - rest * p.strips;
  const uint of_line = rest / p.runs;
  run.column = (rest - of_line * p.runs) * p.run;
  run.end = min(run.column + p.run, columns);
  run.image = of_line / lines;
  run.line = of_line - run.image * lines;
  return run;
}

/// The flat index of a channel of the strip. Those past the last repeat it: they are loaded, but not stored.
uint channel_at(uint pixel, uint strip, uint channel) { return pixel * p.c + min(strip * 4 + channel, p.c - 1); }

/// How a kernel loads and stores the strip of a pixel: load_NAME(pixel, strip), store_NAME(pixel, strip, four).
#define POOL_LOAD(name, type, elements, vectors)                                           \
  type load_##name(uint pixel, uint strip) {                                               \
    if (kSingly == 0) return vectors[pixel * p.strips + strip];                            \
    type four = type(0);                                                                   \
    [[unroll]] for (uint i = 0; i < kSingly; ++i) four[i] = elements[channel_at(pixel, strip, i)]; \
    return four;                                                                           \
  }
#define POOL_STORE(name, type, elements, vectors)                                  \
  void store_##name(uint pixel, uint strip, type four) {                           \
    if (kSingly == 0) {                                                            \
      vectors[pixel * p.strips + strip] = four;                                    \
    } else {                                                                       \
      [[unroll]] for (uint i = 0; i < kSingly; ++i) {                              \
        if (strip * 4 + i < p.c) elements[channel_at(pixel, strip, i)] = four[i];  \
      }                                                                            \
    }                                                                              \
  }

/// The windows [x, y) along one axis whose span covers any of the positions from `first` to `last`.
uvec2 windows_over(uint first, uint last, uint pad, uint kernel, uint dilation, uint stride, uint windows) {
  const uint span = (kernel - 1) * dilation;
  const uint from = first + pad > span ? (first + pad - span + stride - 1) / stride : 0;
  return uvec2(from, min((last + pad) / stride + 1, windows));
}

uvec2 rows_over(uint h) {
  return windows_over(h, h + kSide - 1, p.pad_h, kKernelH, kDilationH, kStrideH, p.oh);
}
uvec2 columns_over(uint w) {
  return windows_over(w, w + kSide - 1, p.pad_w, kKernelW, kDilationW, kStrideW, p.ow);
}

/// By how much the sum over window (oh, ow) is divided: its elements, with or without those in the padding.
float pool_divisor(uint oh, uint ow) {
  const int h0 = int(oh * kStrideH) - int(p.pad_h);
  const int w0 = int(ow * kStrideW) - int(p.pad_w);
  int h1 = min(h0 + int(kKernelH), int(p.padded_h - p.pad_h));
  int w1 = min(w0 + int(kKernelW), int(p.padded_w - p.pad_w));
  if (p.count_include_pad != 0) return float((h1 - h0) * (w1 - w0));
  h1 = min(h1, int(p.h));
  w1 = min(w1, int(p.w));
  return float(max(h1 - max(h0, 0), 0) * max(w1 - max(w0, 0), 0));
}

#endif
