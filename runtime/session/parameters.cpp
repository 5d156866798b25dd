#include "runtime/session/parameters.h"

#include <cmath>
#include <cstring>

#include "runtime/core/source_order.h"

namespace graft {
namespace {

std::vector<std::int64_t> sizes_of(const Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : shape) sizes.push_back(dim.value());
  return sizes;
}

}  // namespace

Result<ValueId> find_weight(const Graph& graph, std::string_view name) {
  const ValueId id = graph.find_value(name);
  const ValueKind kind = id.valid() ? graph.value(id).kind : ValueKind::input;
  if (kind != ValueKind::parameter && kind != ValueKind::constant && kind != ValueKind::state) {
    return error(Code::not_found, "The model has no parameter \"", name, "\".");
  }
  const DType dtype = graph.value(id).dtype;
  if (dtype != DType::f32 && dtype != DType::i32 && dtype != DType::boolean) {
    return unsupported("\"", name, "\" is kept as ", dtype_name(dtype), "; f32, i32 and bool can be read and written.");
  }
  return id;
}

std::vector<std::byte> weight_to_source(const Value& value, std::span<const std::byte> contents) {
  return words_in_source_order(contents, sizes_of(value.shape), value.source_perm);
}

Result<std::vector<std::byte>> weight_from_source(const Value& value, std::span<const std::byte> contents) {
  const std::uint64_t bytes = 4 * value.shape.elements();  // find_weight() sees to it
  if (contents.size() != bytes) {
    return invalid("\"", value.name, "\" has ", bytes, " bytes; ", contents.size(), " were given.");
  }
  if (value.dtype == DType::f32) {
    for (std::size_t at = 0; at < contents.size(); at += sizeof(float)) {
      float number = 0;
      std::memcpy(&number, contents.data() + at, sizeof number);
      if (std::isfinite(number)) continue;
      return invalid("Number ", at / sizeof number, " for \"", value.name, "\" is ", number, ".");
    }
  }
  // The source's axis that is graft's axis i goes there.
  SourcePerm back = value.source_perm;
  for (std::size_t i = 0; i < value.source_perm.size(); ++i) {
    back[static_cast<std::size_t>(value.source_perm[i])] = static_cast<SourcePerm::value_type>(i);
  }
  return words_in_source_order(contents, sizes_of(source_shape(value)), back);
}

}  // namespace graft
