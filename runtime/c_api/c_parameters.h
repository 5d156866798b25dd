// Weights by name, of models and of trainers.
#pragma once

#include <cstring>

#include "runtime/c_api/c_handles.h"
#include "runtime/core/source_order.h"
#include "runtime/session/parameters.h"

namespace graft::c_api {

/// contents(id) gives the bytes in graft's order of axes.
template <typename Contents>
Status read_weight(const Graph& graph, const char* name, void* data, std::size_t bytes, graft_tensor_info* info,
                   Contents contents) {
  if (name == nullptr) return invalid("The name of the parameter is NULL.");
  GRAFT_TRY_ASSIGN(const ValueId id, find_weight(graph, name));
  const Value& value = graph.value(id);
  if (data != nullptr) {
    GRAFT_TRY_ASSIGN(const auto held, contents(id));
    if (held.size() != bytes) {
      return invalid("\"", name, "\" has ", held.size(), " bytes; there is room for ", bytes, ".");
    }
    const auto ordered = weight_to_source(value, held);
    if (bytes != 0) std::memcpy(data, ordered.data(), bytes);
  }
  if (info != nullptr) *info = info_of(value.name.c_str(), value.dtype, source_shape(value));
  return ok_status();
}

/// The model's own bytes; not_found where it has none.
Result<std::span<const std::byte>> weight_of(const Model& model, ValueId id);

/// What is written to a weight of the model, in graft's order of axes.
Result<std::vector<std::byte>> contents_for(const graft_model& model, const char* name, const void* data,
                                            std::size_t bytes);

}  // namespace graft::c_api
