// Tiles of the kernels that use a device's cooperative matrices (shaders/common/gemm_coopmat.glsl).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "platform/gpu/gpu.h"

namespace graft {

class Emitter;
struct Binding;

/// The type in which matrix units may multiply a product's operands, whether or not the device has such units.
enum class MatrixOperands : std::uint8_t {
  none,
  f16,           ///< kept so, or f32 and blocks rounded where the user allows it; never bf16, whose range f16 lacks
  bf16,          ///< all kept so
  bf16_rounded,  ///< one is kept so, and the user allows to round the others
};
/// Operands that are kept in that type are exact; Policy::matmul_precision says what else may be rounded to it.
MatrixOperands matrix_operands(const Emitter& e, std::span<const Binding> operands);

/// The type of matrices for them; requires that there is one.
gpu::MatrixShape::Operand operand_type(MatrixOperands operands);

/// A workgroup of so many subgroups, each with a part of the output. Choices name them in this order.
struct MatrixTile {
  std::uint32_t subgroups_m = 0;
  std::uint32_t subgroups_n = 0;
  std::uint32_t rows = 0;  ///< of a subgroup
  std::uint32_t columns = 0;

  explicit MatrixTile(const std::array<std::uint32_t, 4>& t)
      : subgroups_m(t[0]), subgroups_n(t[1]), rows(t[2]), columns(t[3]) {}
  std::uint32_t m() const { return subgroups_m * rows; }
  std::uint32_t n() const { return subgroups_n * columns; }
  std::uint32_t block() const { return rows >= 32 ? 32 : 16; }  ///< of k, in shared memory at a time
};

/// The first size of matrices of this operand that graft's kernels can use; null: none.
const gpu::MatrixShape* matrix_shape(const gpu::Caps& caps, gpu::MatrixShape::Operand operand);

/// Whether the device has matrices of this operand that divide the tile, and room for it.
bool matrix_tile_fits(const gpu::Caps& caps, const MatrixTile& tile, gpu::MatrixShape::Operand operand);

/// The same for matrices of any multiple of a device's smallest: one of rows x columns for each subgroup.
bool flexible_tile_fits(const gpu::Caps& caps, const MatrixTile& tile, gpu::MatrixShape::Operand operand);

/// Only the device's matrices, for kernels whose tiles are their own: constants 16 to 18, and nothing before.
std::vector<std::uint32_t> matrix_sizes(const gpu::Caps& caps, gpu::MatrixShape::Operand operand);

/// How the kernel loads: 0 one element, 1 four along k, 2 four across (runtime/ops/gemm.h, Fours).
struct MatrixLoads {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  bool one_step = false;  ///< k has no outer steps
};
/// Specialization constants, from 0 on. Requires matrix_tile_fits(), or flexible_tile_fits() of a `flexible` tile.
std::vector<std::uint32_t> matrix_constants(const gpu::Caps& caps, const MatrixTile& tile, const MatrixLoads& loads,
                                            MatrixOperands operands, bool flexible);

}  // namespace graft
