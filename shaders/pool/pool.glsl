// Positions of pooling windows. Included after the push block.
#ifndef GRAFT_POOL_GLSL
#define GRAFT_POOL_GLSL
#include "shaders/common/index.glsl"

/// An invocation serves every channel_step-th channel of one pixel: finding the pixel takes divisions, which cost more
/// than the window itself on devices that divide one lane at a time; neighbours still touch neighbouring channels.
struct Pixel {
  uint base;  // flat index of the pixel's channel 0
  uint image;
  uint h;
  uint w;
  uint channel;  // the invocation's first
};

Pixel pixel_of(uint invocation, uint height, uint width) {
  Pixel at;
  const uint pixel = invocation / p.channel_step;
  at.channel = invocation - pixel * p.channel_step;
  at.base = pixel * p.c;
  const uint line = pixel / width;
  at.w = pixel - line * width;
  at.image = line / height;
  at.h = line - at.image * height;
  return at;
}

/// The windows [x, y) along one axis whose span covers `position`.
uvec2 windows_over(uint position, uint pad, uint kernel, uint dilation, uint stride, uint windows) {
  const uint at = position + pad;
  const uint span = (kernel - 1) * dilation;
  const uint first = at > span ? (at - span + stride - 1) / stride : 0;
  return uvec2(first, min(at / stride + 1, windows));
}

/// By how much the sum over window (oh, ow) is divided: its elements, with or without those in the padding.
float pool_divisor(uint oh, uint ow) {
  const int h0 = int(oh * p.stride_h) - int(p.pad_h);
  const int w0 = int(ow * p.stride_w) - int(p.pad_w);
  int h1 = min(h0 + int(p.kernel_h), int(p.padded_h - p.pad_h));
  int w1 = min(w0 + int(p.kernel_w), int(p.padded_w - p.pad_w));
  if (p.count_include_pad != 0) return float((h1 - h0) * (w1 - w0));
  h1 = min(h1, int(p.h));
  w1 = min(w1, int(p.w));
  return float(max(h1 - max(h0, 0), 0) * max(w1 - max(w0, 0), 0));
}

#endif
