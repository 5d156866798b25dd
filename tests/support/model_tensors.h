// Between models, the converter's host tensors and the doubles of the reference.
#pragma once

#include "runtime/model/model.h"
#include "runtime/reference/interpreter.h"
#include "runtime/reference/ref_context.h"
#include "tools/convert/common/host_tensor.h"

namespace graft::test {

RefTensor to_ref(const convert::HostTensor& tensor);
/// Every weight of the model by value name; state without contents is left out.
RefTensors weights_of(const Model& model);

}  // namespace graft::test
