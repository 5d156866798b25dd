// Convolutions over few channels and their gradients. As products they load one number at a time, for sums that are
// short, or leave most columns empty; here each lane holds all weights of some output channels, or their gradients.
#pragma once

#include "runtime/ops/conv/conv_common.h"

namespace graft::ops::conv {

/// emit_conv() of images that a binding can hold, where a kernel of its own can do it and suits the device
/// (Family::held_weights); false: nothing was emitted.
Result<bool> emit_conv_few(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& weight,
                           const Binding* bias, const Binding& y);

/// The same of emit_conv_grad_weight().
Result<bool> emit_grad_weight_few(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& dy,
                                  const Binding& dw);

/// The same of emit_conv_grad_data() without bias.
Result<bool> emit_grad_data_few(Emitter& e, const ConvSizes& sizes, const Binding& dy, const Binding& weight,
                                const Binding& dx);

}  // namespace graft::ops::conv
