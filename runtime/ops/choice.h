// Which variant of a kernel suits a device and a shape: one table for all ops.
//
// The table is data: variants (what there is) and rules (what to take when nothing was measured). choose() takes the
// variant that was measured to be fastest on this device for such a shape (Target::advice), or else that of the
// first rule that holds, which may leave it to the model of time (time_model.h) to say which tile is fastest. It only
// takes variants that the device can run and that passed their self-test. The same target and shape always give the
// same choice.
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

/// The kinds of devices that rules distinguish.
enum class DeviceClass : std::uint8_t {
  cpu,          ///< software: shared memory is cache, and each core runs one subgroup at a time
  small_gpu,    ///< phones and integrated GPUs: few registers and cores
  desktop_gpu,  ///< discrete GPUs, and virtual GPUs with similar limits
};
DeviceClass device_class(const gpu::Caps& caps);

enum class Family : std::uint8_t {
  product,        ///< of few rows (m): a kernel of its own, or the blocked GEMM
  gemm,           ///< tile of the blocked GEMM, of matrix products and convolutions; tile: see GemmTile, MatrixTile
  gemm_parts,     ///< how many workgroups split a GEMM along k, tile[0], unless it has tile[1] without
  skinny_rows,    ///< tile: invocations (0: a subgroup's), rows of b
  skinny_cols,    ///< tile: invocations (0: a subgroup's), vectors of columns (0: as many as n fills, up to 8)
  depthwise,      ///< sliding windows in registers, or a few pixels per invocation
  depthwise_dw,   ///< their weight gradients; tile[0]: invocations wanted
  transpose,      ///< blocks of 4 x 4 in registers, or tiles in shared memory
  rows,           ///< how many invocations may share a row; tile[0] (0: a subgroup's)
  attention,      ///< tile products by invocations, matrix units or shuffles; tile[0]: rows passed between lanes
  weight_rows,    ///< products with a quantized weight's rows: a kernel of their own, with floats or integers, or the
                  ///< blocked GEMM; tile: invocations (0: a subgroup's), those along k, rows of the weight of each
  attention_few,  ///< attention of few rows: keys to every lane, or the kernel for any number of rows
  pool,           ///< windows over images; tile: invocations (0: a subgroup's), pixels or blocks of each
  few_channels,  ///< data gradients of convolutions over images of few channels: pixels of a line to every lane, or the
                 ///< blocked GEMM
  held_weights,  ///< convolutions over images of few channels and their gradients by the weight: all weights of some
                 ///< output channels, or their gradients, in each lane, or the blocked GEMM
  epilogue,      ///< elementwise ops after a product, convolution or norm: in its kernel, or in one of their own
};
std::string_view family_name(Family family);

/// What a choice depends on. A family leaves dimensions that it does not use at 1.
struct ChoiceShape {
  std::uint64_t m = 1;
  std::uint64_t n = 1;
  std::uint64_t k = 1;
  std::uint64_t batches = 1;
  bool rounded = false;  ///< operands have, or may be rounded to, fewer bits than f32, and a kernel takes them so
  gpu::MatrixShape::Operand operand = gpu::MatrixShape::Operand::f16;  ///< for matrix units, if rounded
  bool a_across = false;  ///< of a product, in f32: A is contiguous along m
  friend bool operator==(const ChoiceShape&, const ChoiceShape&) = default;
};

/// The kernels of Family::gemm, as Variant::kernel counts them.
enum : std::uint8_t { kTilesShared, kTilesShuffle, kTilesMatrix, kTilesApart, kTilesFlexible };

struct Variant {
  Family family{};
  std::string_view name;    ///< cache files hold it, so its meaning never changes
  std::uint8_t kernel = 0;  ///< index into the kernels that an op offers for the family
  std::array<std::uint32_t, 4> tile = {};
  bool (*possible)(const gpu::Target&, const ChoiceShape&) = nullptr;  ///< null: on any device
  bool ahead = false;  ///< Family::gemm in shared memory: loads a block while the one before is multiplied
};

struct Rule {
  Family family{};
  std::string_view variant;  ///< empty: that of which the model expects the least time
  bool (*when)(const gpu::Target&, const ChoiceShape&) = nullptr;  ///< null: always
  std::string_view why;
};

std::span<const Variant> variants();
/// The variant of this name of the family that a key (Choice::key) begins with; null where there is none.
const Variant* variant_named(std::string_view key, std::string_view name);
std::span<const Rule> rules();
/// Whether the model of time ranks this tile for such a product: on a CPU device the tiles for products of any size
/// that repay their compilation, on a GPU whose figures are known the usual two.
bool is_ranked(const gpu::Target& target, const ChoiceShape& shape, const Variant& variant);

struct Choice {
  const Variant* variant = nullptr;  ///< never null
  std::string_view why;
  bool none_left = false;  ///< all variants failed their self-test: any of them would compute wrong results
  ChoiceShape shape = {};  ///< as it was asked for
  std::string key;         ///< into Advice::tuned: the family, the op's kernel, the shape rounded to powers of two
};

/// `kernels` are the kernels that the op offers, indexed by Variant::kernel. `detail` distinguishes problems of the
/// same shape that differ in speed.
Choice choose(Family family, const gpu::Target& target, const ChoiceShape& shape,
              std::span<const shaders::KernelId> kernels = {}, std::string_view detail = {});

/// Whether products round f32 operands to f16: the user allows it, and the device has matrix units that a kernel uses.
bool rounds_to_f16(const gpu::Target& target);
/// Whether products of bf16 operands use matrix units for bf16.
bool multiplies_bf16(const gpu::Target& target);
/// Whether Policy::matmul_precision changes anything on this device.
bool rounds_products(const gpu::Target& target);

/// Whether the kernel failed its self-test on this device, or this build leaves it out.
bool is_avoided(const gpu::Target& target, shaders::KernelId kernel);
/// The error when nothing can replace that kernel, for either reason.
Status no_other_kernel(const gpu::Caps& caps, shaders::KernelId kernel);
Status no_other_kernel(const gpu::Caps& caps, std::string_view kernel);

/// How many lanes of a subgroup CPU kernels use: a power of two from 4 to 16.
std::uint32_t cpu_lanes(const gpu::Caps& caps);

/// The workgroup of a kernel that shuffles: its invocations, and the clusters of cpu_lanes() lanes that exchange
/// numbers. There are as many clusters as the device runs side by side (gpu::lanes_side_by_side()).
struct ShuffleLanes {
  std::uint32_t all = 8;
  std::uint32_t clusters = 1;
};
ShuffleLanes shuffle_lanes(const gpu::Caps& caps);

}  // namespace graft
