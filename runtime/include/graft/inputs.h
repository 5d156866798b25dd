/* graft's C ABI, inputs in other element types: bytes of images, halves, which the device turns into the f32 numbers
 * that the model takes. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_INPUTS_H
#define GRAFT_INPUTS_H

GRAFT_BEGIN_C

/* Element types that an f32 input may be given in. */
typedef enum graft_element GRAFT_ENUM_OF_INT {
  GRAFT_ELEMENT_U8 = 0,
  GRAFT_ELEMENT_I8 = 1,
  GRAFT_ELEMENT_F16 = 2, /* IEEE 754 binary16 */
  GRAFT_ELEMENT_BF16 = 3 /* the upper half of an f32 */
} graft_element;

/* How one input of a session or of a trainer's samples is given: see their options. The model gets x * scale + offset,
   so pixels of 0 to 255 that PyTorch normalises by mean and std of 0 to 1 have scale 1 / (255 * std) and offset -mean /
   std. */
typedef struct graft_input_format {
  const char* name; /* of an f32 input */
  graft_element element;
  int channels_last;   /* 1: [N, H, W, C] where the model takes [N, C, H, W]; so for every rank from 3 on */
  const float* scale;  /* NULL: 1; one number, or one for each channel (axis 1 of the model's input), at most four */
  size_t scale_count;  /* 0 where scale is NULL */
  const float* offset; /* the same; NULL: 0 */
  size_t offset_count; /* 0 where offset is NULL */
} graft_input_format;

GRAFT_END_C
#endif
