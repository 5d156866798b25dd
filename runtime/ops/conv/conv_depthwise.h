// Dispatches of depthwise convolutions: one input channel per group, and many groups.
#pragma once

#include "runtime/ops/conv/conv_common.h"

namespace graft::ops::conv {

inline bool is_depthwise(const ConvSizes& sizes) { return sizes.window.groups > 1 && sizes.group_c() == 1; }

// The three passes of conv_common.h, for images that fit a binding. Require is_depthwise().
Status emit_depthwise(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& weight, const Binding* bias,
                      const Binding& y);
Status emit_depthwise_grad_data(Emitter& e, const ConvSizes& sizes, const Binding& dy, const Binding& weight,
                                const Binding* bias, const Binding& dx);
Status emit_depthwise_grad_weight(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& dy,
                                  const Binding& dw);

}  // namespace graft::ops::conv
