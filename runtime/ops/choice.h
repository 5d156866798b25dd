// Which variant of a kernel suits a device and a shape: one table for all ops.
//
// The table is data: variants (what there is) and rules (what is taken where nothing was measured). A choice is the
// variant that was measured on this device for such a shape (Target::advice), else that of the first rule that holds,
// always among those that the device can run and that did not fail their self-test. The same capabilities and shape
// give the same choice.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "platform/base/status.h"
#include "platform/gpu/gpu.h"
#include "shaders/kernel_info.gen.h"

namespace graft {

/// Devices as the rules tell them apart.
enum class DeviceClass : std::uint8_t {
  cpu,          ///< software: caches for shared memory, one subgroup at a time on each core
  small_gpu,    ///< phones and integrated GPUs: few registers and cores
  desktop_gpu,  ///< discrete cards, and virtual ones with the limits of such
};
DeviceClass device_class(const gpu::Caps& caps);

enum class Family : std::uint8_t {
  product,       ///< m is few rows: a kernel of its own, or the blocked GEMM
  gemm,          ///< tile of the blocked GEMM, of matrix products and convolutions; tile: see GemmTile, MatrixTile
  gemm_parts,    ///< how many workgroups a GEMM is cut into along k; tile[0]
  skinny_rows,   ///< tile: invocations (0: a subgroup's), rows of b
  skinny_cols,   ///< tile: invocations (0: a subgroup's), vectors of columns (0: as many as n fills, up to 8)
  depthwise,     ///< sliding windows in registers, or a few pixels per invocation
  depthwise_dw,  ///< their weight gradients; tile[0]: invocations wanted
  transpose,     ///< blocks of 4 x 4 in registers, or tiles in shared memory
  rows,          ///< most invocations that share a row; tile[0] (0: a subgroup's)
  attention,     ///< products of tiles by every invocation, by matrix units, or by shuffles; tile[0]: rows handed round
  weight_rows,   ///< products with a quantized weight's rows: a kernel of their own, with floats or integers, or the
                 ///< blocked GEMM; tile: invocations (0: a subgroup's), those along k, rows of the weight of each
  attention_few,  ///< attention of few rows: keys to every lane, or the kernel for any number of rows
  pool,           ///< windows over images; tile: invocations (0: a subgroup's), pixels or blocks of each
  few_channels,  ///< data gradients of convolutions over images of few channels: pixels of a line to every lane, or the
                 ///< blocked GEMM
  held_weights,  ///< convolutions over images of few channels and their gradients by the weight: all weights of some
                 ///< output channels, or their gradients, in each lane, or the blocked GEMM
  epilogue,      ///< elementwise ops behind a product, convolution or norm: in its kernel, or apart
};
std::string_view family_name(Family family);

/// What of a problem decides; what a family has no use for stays 1.
struct ChoiceShape {
  std::uint64_t m = 1;
  std::uint64_t n = 1;
  std::uint64_t k = 1;
  std::uint64_t batches = 1;
  bool rounded = false;  ///< operands are, or may be rounded to, less than f32, and there is a kernel for it
  gpu::MatrixShape::Operand operand = gpu::MatrixShape::Operand::f16;  ///< where they are, of matrix units
};

struct Variant {
  Family family{};
  std::string_view name;    ///< stands in cache files: a name keeps its meaning
  std::uint8_t kernel = 0;  ///< index among the kernels that an op offers for the family
  std::array<std::uint32_t, 4> tile = {};
  bool (*possible)(const gpu::Target&, const ChoiceShape&) = nullptr;  ///< null: on any device
};

struct Rule {
  Family family{};
  std::string_view variant;
  bool (*when)(const gpu::Target&, const ChoiceShape&) = nullptr;  ///< null: always
  std::string_view why;
};

std::span<const Variant> variants();
std::span<const Rule> rules();

struct Choice {
  const Variant* variant = nullptr;  ///< never null
  std::string_view why;
  bool none_left = false;  ///< all have failed their self-test: whatever is dispatched will be wrong
  std::string key;         ///< of Advice::tuned; names the family, the op's kernel, and the shape to a power of two
};

/// `kernels` are those that the op offers, by Variant::kernel; variants without one there need none. `detail` tells
/// problems of one shape apart that differ in speed.
Choice choose(Family family, const gpu::Target& target, const ChoiceShape& shape,
              std::span<const shaders::KernelId> kernels = {}, std::string_view detail = {});

/// Whether f32 operands of products are rounded to f16 on this device: the user allows it, and there are matrix units
/// and kernels for them.
bool rounds_to_f16(const gpu::Target& target);
/// Whether operands that are kept as bf16 are multiplied as such: there are matrix units and kernels for them.
bool multiplies_bf16(const gpu::Target& target);
/// Whether Policy::matmul_precision changes anything here.
bool rounds_products(const gpu::Target& target);

/// Whether the kernel failed its self-test on this device.
bool is_avoided(const gpu::Target& target, shaders::KernelId kernel);
/// What to say where there is no way around it.
Status no_other_kernel(const gpu::Caps& caps, std::string_view kernel);

/// Lanes of a subgroup as CPU kernels use them: a power of two from 4 to 16.
std::uint32_t cpu_lanes(const gpu::Caps& caps);

/// A workgroup of kernels by shuffles: invocations, and in how many clusters of cpu_lanes() numbers are handed round:
/// as many as the device runs side by side (gpu::lanes_side_by_side()).
struct ShuffleLanes {
  std::uint32_t all = 8;
  std::uint32_t clusters = 1;
};
ShuffleLanes shuffle_lanes(const gpu::Caps& caps);

}  // namespace graft
