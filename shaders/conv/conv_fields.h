#ifdef __cplusplus
#pragma once
#endif
// Sizes of one convolution: x [images, h, w, c], y [images, oh, ow, o], weight [o, kh, kw, c / groups].
#define CONV_FIELDS \
  uint h;           \
  uint w;           \
  uint c;           \
  uint oh;          \
  uint ow;          \
  uint o;           \
  uint kh;          \
  uint kw;          \
  uint stride_h;    \
  uint stride_w;    \
  uint pad_h;       \
  uint pad_w;       \
  uint dilation_h;  \
  uint dilation_w;  \
  uint group_c; /* input channels of a group */ \
  uint group_o; /* output channels of a group */
