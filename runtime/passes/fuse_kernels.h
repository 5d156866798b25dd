// What of fusion depends on the device: which kernels there are, and whether it has storage buffers enough. Internal to
// fusion.
#pragma once

#include "platform/gpu/gpu.h"
#include "runtime/passes/fuse_program.h"

namespace graft::passes {

class FuseKernels {
 public:
  FuseKernels(const Graph& graph, const gpu::Target& target);

  /// Whether there is a kernel for the program of a fused_elementwise node.
  bool runs(const ValueProgram& program) const;
  /// Whether the node's kernel can do any epilogue; and this one.
  bool takes_epilogue(const Node& main) const;
  bool runs_epilogue(const Node& main, const ValueProgram& program) const;
  /// Whether the node, which has no bias, would add one by the same kernel, and last: to the same bits as another node.
  bool adds_bias(const Node& main) const;
  /// Whether a norm can add up what it normalises.
  bool adds_up(const Node& norm, ValueId first, ValueId second) const;

 private:
  /// What a dispatch binds, each place in memory once.
  struct Bound;
  bool has_buffers(const Bound& bound) const;

  const Graph& graph_;
  const gpu::Target& target_;
  bool in_kernels_;  ///< epilogues pay on this device
  bool near_;        ///< whatever lies in the arena lies near the rest of it, and so do residents
};

}  // namespace graft::passes
