// Which kernels do an epilogue: the elementwise functions behind what they compute, before they store it.
#pragma once

#include <optional>

#include "runtime/ops/emitter.h"

namespace graft {

/// A dispatch that writes all of a result, and the variant of its kernel that ends with an epilogue.
struct EpiloguePlace {
  std::size_t dispatch = 0;
  std::size_t out = 0;  ///< binding of the result
  shaders::KernelId with{};
};

/// The dispatch among those of a node that can take an epilogue for its output 0 on this device; nullopt where none
/// can.
std::optional<EpiloguePlace> find_epilogue_place(Emitter& main);

/// Bindings that an epilogue adds to a kernel's own.
extern const std::size_t kEpilogueBindings;

/// Elements in a row of the node's output 0: an operand of its epilogue that is repeated along the rows has so many.
std::uint64_t epilogue_columns(const Graph& graph, const Node& main);

}  // namespace graft
