// Host computation of nodes whose inputs are all known: shapes, indices, constants.
#pragma once

#include "tools/convert/onnx/import/import.h"

namespace graft::convert {

/// Tries to compute the node on the host. Returns false where it does not know how (not an error).
bool fold_node(const OnnxNode& node, std::int64_t opset, const std::vector<const HostTensor*>& inputs,
               const std::vector<const Shape*>& shapes, std::vector<HostTensor>& outputs);

/// What a fold function sees. Each returns false where it cannot say (unknown input, odd attribute): the importer then
/// converts the node, and that reports what is wrong.
struct FoldContext {
  const OnnxNode& node;
  std::int64_t opset;
  const std::vector<const HostTensor*>& inputs;
  const std::vector<const Shape*>& shapes;
  std::vector<HostTensor>& outputs;

  bool has(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const HostTensor& in(std::size_t i) const { return *inputs[i]; }
  std::int64_t attr(std::string_view name, std::int64_t fallback) const;
  std::optional<std::vector<std::int64_t>> ints(std::size_t i) const;  ///< nullopt where symbolic or not integers
  /// From the attribute, or else input i.
  std::optional<std::vector<std::int64_t>> ints_of(std::string_view name, std::size_t i) const;
  bool out(HostTensor tensor) const;  ///< true
};

using FoldFn = bool (*)(const FoldContext&);
struct FoldEntry {
  const char* op;
  std::size_t inputs;  ///< as many first ones must be given and known
  FoldFn fold;
};
extern const FoldEntry kFoldMoves[], kFoldMaths[], kFoldContents[];
/// A unary op by what the table of rules makes of it.
bool fold_unary(const FoldContext& c, Op op);

constexpr std::uint64_t kMaxFolded = std::uint64_t{1} << 20;  ///< elements of a folded result
/// A rule is about to write out a table of a size that the file gives.
inline Status check_table(std::uint64_t count, std::string_view of) {
  if (count <= kMaxFolded) return {};
  return unsupported("it needs a table of ", count, " ", of, "; ", kMaxFolded, " are supported");
}

}  // namespace graft::convert
