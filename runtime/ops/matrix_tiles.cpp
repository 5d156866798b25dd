#include "runtime/ops/matrix_tiles.h"

#include <algorithm>
#include <bit>

#include "runtime/ops/emitter.h"

namespace graft {
namespace {

constexpr std::size_t kFirstConstant = 16;  // of those that only these kernels have
constexpr std::uint32_t kPad = 2;           // fours, as in the kernel

std::uint32_t threads_of(const gpu::Caps& caps, const MatrixTile& tile) {
  return tile.subgroups_m * tile.subgroups_n * caps.matrix_subgroup;
}

// With either layout of either operand, and numbers on their way out.
std::uint32_t shared_bytes(const MatrixTile& tile, std::uint32_t sums) {
  const auto fours = [&](std::uint32_t side) {
    return std::max(tile.block() * (side / 4 + kPad), side * (tile.block() / 4 + kPad));
  };
  return 8 * (fours(tile.m()) + fours(tile.n())) + 4 * sums;
}

bool fits(const gpu::Caps& caps, const MatrixTile& tile, const gpu::MatrixShape* shape, bool flexible) {
  if (!caps.cooperative_matrix || shape == nullptr) return false;
  if (!(shape->operand == gpu::MatrixShape::Operand::f16 ? caps.shader_float16 : caps.shader_bfloat16)) return false;
  const std::uint32_t threads = threads_of(caps, tile);
  const bool whole = tile.rows % shape->m == 0 && tile.columns % shape->n == 0 && tile.block() % shape->k == 0;
  // Every invocation stages the same number of fours.
  const bool even = tile.m() * tile.block() / 4 % threads == 0 && tile.n() * tile.block() / 4 % threads == 0;
  const std::uint32_t sums = flexible ? 0 : tile.subgroups_m * tile.subgroups_n * shape->m * shape->n;
  return whole && even && threads <= caps.max_workgroup_invocations && threads <= caps.max_workgroup_size[0] &&
         shared_bytes(tile, sums) <= caps.max_shared_memory;
}

}  // namespace

MatrixOperands matrix_operands(const Emitter& e, std::span<const Binding> operands) {
  const auto kept_as = [&](DType dtype) {
    return std::ranges::count_if(operands, [&](const Binding& operand) { return e.stored(operand) == dtype; });
  };
  const auto all = static_cast<std::ptrdiff_t>(operands.size());
  const gpu::MatmulPrecision precision = e.target().policy.matmul_precision;
  if (const auto wide = kept_as(DType::bf16); wide != 0) {
    if (wide == all) return MatrixOperands::bf16;
    // 8 bits are less than `high` promises.
    return precision == gpu::MatmulPrecision::medium ? MatrixOperands::bf16_rounded : MatrixOperands::none;
  }
  const bool may_be_f16 = precision != gpu::MatmulPrecision::highest || kept_as(DType::f16) == all;
  return may_be_f16 ? MatrixOperands::f16 : MatrixOperands::none;
}

gpu::MatrixShape::Operand operand_type(MatrixOperands operands) {
  return operands == MatrixOperands::f16 ? gpu::MatrixShape::Operand::f16 : gpu::MatrixShape::Operand::bf16;
}

const gpu::MatrixShape* matrix_shape(const gpu::Caps& caps, gpu::MatrixShape::Operand operand) {
  // Blocks are loaded four elements at a time.
  const auto side = [](std::uint32_t x) { return x >= 4 && x <= 32 && std::has_single_bit(x); };
  const auto found = std::ranges::find_if(caps.matrix_shapes, [&](const gpu::MatrixShape& s) {
    return s.operand == operand && side(s.m) && side(s.n) && side(s.k);
  });
  return found == caps.matrix_shapes.end() ? nullptr : &*found;
}

bool matrix_tile_fits(const gpu::Caps& caps, const MatrixTile& tile, gpu::MatrixShape::Operand operand) {
  return fits(caps, tile, matrix_shape(caps, operand), false);
}

bool flexible_tile_fits(const gpu::Caps& caps, const MatrixTile& tile, gpu::MatrixShape::Operand operand) {
  if (std::max({tile.rows, tile.columns, tile.block()}) > caps.max_flexible_side) return false;
  return std::ranges::any_of(caps.flexible_shapes, [&](const gpu::MatrixShape& smallest) {
    return smallest.operand == operand && fits(caps, tile, &smallest, true);
  });
}

std::vector<std::uint32_t> matrix_constants(const gpu::Caps& caps, const MatrixTile& tile, const MatrixLoads& loads,
                                            MatrixOperands operands, bool flexible) {
  const gpu::MatrixShape whole = {.m = tile.rows, .n = tile.columns, .k = tile.block()};
  const gpu::MatrixShape& shape = flexible ? whole : *matrix_shape(caps, operand_type(operands));
  std::vector<std::uint32_t> constants = {threads_of(caps, tile)};
  constants.resize(kFirstConstant);
  for (const std::uint32_t constant :
       {shape.m, shape.n, shape.k, tile.subgroups_m, tile.subgroups_n, tile.rows / shape.m, tile.columns / shape.n,
        tile.block(), loads.a, loads.b, std::uint32_t{loads.one_step}}) {
    constants.push_back(constant);
  }
  if (operands != MatrixOperands::f16) constants.push_back(operands == MatrixOperands::bf16_rounded ? 1 : 0);
  return constants;
}

std::vector<std::uint32_t> matrix_sizes(const gpu::Caps& caps, gpu::MatrixShape::Operand operand) {
  const gpu::MatrixShape& shape = *matrix_shape(caps, operand);
  std::vector<std::uint32_t> constants(kFirstConstant);
  constants.insert(constants.end(), {shape.m, shape.n, shape.k});
  return constants;
}

}  // namespace graft
