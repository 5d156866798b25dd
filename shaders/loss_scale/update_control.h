// What loss_scale_step tells the optimizer's kernels, as four floats. Without loss scaling it is the factor alone, from
// clip_factor; there a NaN is the verdict to skip.
#ifdef __cplusplus
#pragma once
namespace graft {
inline constexpr unsigned kUpdateControlFields = 4;
}
#else
#ifndef GRAFT_UPDATE_CONTROL
#define GRAFT_UPDATE_CONTROL
const uint kFactor = 0;       // of gradients: 1 / scale, times what clipping asks for
const uint kCorrection1 = 1;  // as loss_scale_step's "corrections" asks, for the step that this would be
const uint kCorrection2 = 2;
const uint kVerdict = 3;
const float kVerdictSkip = 1;   // the loss or a gradient is not finite: nothing may change
const float kVerdictFirst = 2;  // of all steps that were taken
#include "shaders/common/nan.glsl"
// Of a kernel with `factor[]` and the push constant has_factor: the step is not taken.
#define UPDATE_SKIPPED                                          \
  (p.has_factor == 2u ? factor[kVerdict] == kVerdictSkip : \
                        p.has_factor == 1u && is_nan(factor[kFactor]))
#endif
#endif
