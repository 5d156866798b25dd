// Data gradients of convolutions over few channels, which leave the columns of a product mostly empty.
#pragma once

#include "runtime/ops/conv/conv_common.h"

namespace graft::ops::conv {

/// emit_conv_grad_data() of images that a binding can hold, where a kernel of its own can do it and suits the device
/// (Family::few_channels); false: nothing was emitted.
Result<bool> emit_grad_data_lines(Emitter& e, const ConvSizes& sizes, const Binding& dy, const Binding& weight,
                                  const Binding* bias, const Binding& dx);

}  // namespace graft::ops::conv
