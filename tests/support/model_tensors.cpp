#include "tests/support/model_tensors.h"

#include <cstring>

namespace graft::test {

RefTensor to_ref(const convert::HostTensor& tensor) {
  RefTensor out;
  out.dims = tensor.dims;
  for (std::size_t i = 0; i < tensor.count(); ++i) out.data.push_back(tensor.number(i));
  return out;
}

RefTensors weights_of(const Model& model) {
  RefTensors out;
  for (std::uint32_t i = 0; i < model.graph.values().size(); ++i) {
    const Value& value = model.graph.value({i});
    const auto bytes = model.weight({i});
    if (!bytes) continue;
    RefTensor tensor;
    tensor.dims = value.shape.values();
    for (std::size_t at = 0; at + 4 <= bytes->size(); at += 4) {
      if (value.dtype == DType::f32) {
        float element;
        std::memcpy(&element, bytes->data() + at, 4);
        tensor.data.push_back(element);
      } else {
        std::int32_t element;
        std::memcpy(&element, bytes->data() + at, 4);
        tensor.data.push_back(element);
      }
    }
    out[value.name] = std::move(tensor);
  }
  return out;
}

}  // namespace graft::test
