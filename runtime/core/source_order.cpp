#include "runtime/core/source_order.h"

#include "runtime/core/op_id.gen.h"

#include <cstring>

namespace graft {

Shape source_shape(const Value& value) {
  if (value.source_perm.empty()) return value.shape;
  std::vector<Dim> dims(value.shape.rank());
  for (std::size_t i = 0; i < dims.size(); ++i) dims[value.source_perm[i]] = value.shape[i];
  return Shape(std::move(dims));
}

Result<ValueId> to_source_order(Graph& graph, ValueId value, const SourcePerm& perm) {
  if (perm.empty()) return value;
  // Source axis perm[i] is graft's axis i, so output axis a comes from the i with perm[i] = a.
  Ints axes(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) axes[perm[i]] = static_cast<std::int64_t>(i);
  GRAFT_TRY_ASSIGN(const NodeId node, graph.add_node(Op::transpose, {value}, {{"perm", axes}}, "to_source"));
  return graph.node(node).outputs[0];
}

std::vector<std::byte> words_in_source_order(std::span<const std::byte> words, const std::vector<std::int64_t>& dims,
                                             const SourcePerm& perm) {
  std::vector<std::byte> out(words.begin(), words.end());
  if (perm.empty()) return out;
  const std::size_t rank = dims.size();
  // Strides of the source's tensor, looked up per graft axis.
  std::vector<std::int64_t> source_dims(rank);
  for (std::size_t i = 0; i < rank; ++i) source_dims[perm[i]] = dims[i];
  std::vector<std::int64_t> source_strides(rank, 1);
  for (std::size_t i = rank; i-- > 1;) source_strides[i - 1] = source_strides[i] * source_dims[i];
  std::vector<std::int64_t> index(rank, 0);
  const std::size_t count = words.size() / 4;
  for (std::size_t at = 0; at < count; ++at) {
    std::int64_t source = 0;
    for (std::size_t i = 0; i < rank; ++i) source += index[i] * source_strides[perm[i]];
    std::memcpy(out.data() + 4 * static_cast<std::size_t>(source), words.data() + 4 * at, 4);
    for (std::size_t i = rank; i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
  return out;
}

}  // namespace graft
