// Back to the order of axes that the source model had.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// In the names of nodes that are not the source's own: transposes that an importer puts around ops which know one order
/// of axes alone.
inline constexpr std::string_view kLayoutSuffix = "/layout";

/// The dims as the source model orders them: source axis source_perm[i] is graft's axis i.
Shape source_shape(const Value& value);

/// Appends a transpose to the source's order of axes, given how the value's axes came from it.
Result<ValueId> to_source_order(Graph& graph, ValueId value, const SourcePerm& perm);

/// A packed tensor of 32-bit words in the source's order of axes; `dims` are graft's. An empty perm: a copy.
std::vector<std::byte> words_in_source_order(std::span<const std::byte> words, const std::vector<std::int64_t>& dims,
                                             const SourcePerm& perm);

}  // namespace graft
