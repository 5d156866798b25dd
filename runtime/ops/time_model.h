// How well a variant of a kernel uses a device, by how it tiles its problem: a model, for estimates of time and for
// ranking variants where nothing was measured.
//
// Of a tile of r x c outputs per invocation, each step along k is r * c multiply-adds, and r + c numbers that are
// loaded for them: what is loaded costs issue slots as well, so that larger tiles come nearer to the device's peak.
// What a tile computes beyond the problem's edges is lost, and so are units of a GPU that get no workgroup, or too few
// invocations to hide how long a multiply-add takes. Not modelled: caches, registers that larger tiles take from other
// waves, latency of memory, clocks that fall with heat.
//
// Source of the larger of arithmetic and memory: Williams, Waterman, Patterson, "Roofline: an insightful visual
// performance model for multicore architectures", Communications of the ACM 52 (4), 2009.
#pragma once

#include <cstdint>

#include "platform/gpu/figures.h"
#include "runtime/ops/choice.h"

namespace graft {

/// How one dispatch uses the device.
struct KernelUse {
  double issue = 1;               ///< the share of issue slots that are multiply-adds
  double useful = 1;              ///< the share of these whose results are wanted
  double memory = 1;              ///< the share of the memory's rate that its loads and stores reach
  std::uint64_t workgroups = 0;   ///< 0: not known, as many as fill the device
  std::uint64_t invocations = 0;  ///< of a workgroup
  bool halves = false;            ///< multiply-adds of f16
};

/// What is assumed of kernels whose tiles are not modelled.
inline constexpr double kPlainIssue = 0.25;
/// A multiply-add takes so many clocks until the next of the same invocation can use it: four on GCN, five on RDNA
/// (https://gpuopen.com/download/publications/RDNA_Architecture.pdf). So many invocations of each lane hide that.
inline constexpr std::uint64_t kDepth = 4;

/// Of a product's tile (Family::gemm) or of a product of few rows (Family::product, Family::weight_rows) by its shape,
/// of some other kernels for CPU devices what was measured on llvmpipe; of any other variant what is assumed of all.
KernelUse use_of(const gpu::Target& target, const Variant& variant, const ChoiceShape& shape, const gpu::Speed& speed);

/// The share of a GPU's units and lanes that so many workgroups keep busy. 1 where the units are not known.
double fill_of(const KernelUse& use, const gpu::Speed& speed);

/// FLOP/s that kernels of this use reach where memory does not hold them up.
double arithmetic_rate(const KernelUse& use, const gpu::Speed& speed);

/// Seconds of the arithmetic of a choice's problem by this variant: for comparing variants.
double variant_seconds(const gpu::Target& target, const Variant& variant, const ChoiceShape& shape,
                       const gpu::Speed& speed);

}  // namespace graft
