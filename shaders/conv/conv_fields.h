#ifdef __cplusplus
#pragma once
#endif
// Sizes of one convolution: x [images, h, w, c], y [images, oh, ow, o], weight [o, kh, kw, c / groups]. Of these what
// kernels need that have all along a line as constants:
#define CONV_LINES_FIELDS \
  uint h;                 \
  uint w;                 \
  uint oh;                \
  uint ow;                \
  uint o;                 \
  uint kh;                \
  uint stride_h;          \
  uint pad_h;

#define CONV_FIELDS  \
  CONV_LINES_FIELDS  \
  uint c;            \
  uint kw;           \
  uint stride_w;     \
  uint pad_w;        \
  uint dilation_h;   \
  uint dilation_w;   \
  uint group_c; /* input channels of a group */ \
  uint group_o; /* output channels of a group */
