#include "runtime/ops/matrix_tiles.h"

#include <algorithm>
#include <bit>

namespace graft {
namespace {

constexpr std::size_t kFirstConstant = 16;  // of those that only these kernels have
constexpr std::uint32_t kPad = 2;           // fours, as in the kernel

std::uint32_t threads_of(const gpu::Caps& caps, const MatrixTile& tile) {
  return tile.subgroups_m * tile.subgroups_n * caps.matrix_subgroup;
}

// With either layout of either operand.
std::uint32_t shared_bytes(const MatrixTile& tile, const gpu::MatrixShape& shape) {
  const auto fours = [&](std::uint32_t side) {
    return std::max(tile.block() * (side / 4 + kPad), side * (tile.block() / 4 + kPad));
  };
  const std::uint32_t sums = tile.subgroups_m * tile.subgroups_n * shape.m * shape.n;
  return 8 * (fours(tile.m()) + fours(tile.n())) + 4 * sums;
}

}  // namespace

const gpu::MatrixShape* matrix_shape(const gpu::Caps& caps, gpu::MatrixShape::Operand operand) {
  // Blocks are loaded four elements at a time.
  const auto side = [](std::uint32_t x) { return x >= 4 && x <= 32 && std::has_single_bit(x); };
  const auto found = std::ranges::find_if(caps.matrix_shapes, [&](const gpu::MatrixShape& s) {
    return s.operand == operand && side(s.m) && side(s.n) && side(s.k);
  });
  return found == caps.matrix_shapes.end() ? nullptr : &*found;
}

bool matrix_tile_fits(const gpu::Caps& caps, const MatrixTile& tile) {
  if (!caps.cooperative_matrix || !caps.shader_float16) return false;
  const gpu::MatrixShape* const shape = matrix_shape(caps, gpu::MatrixShape::Operand::f16);
  if (shape == nullptr) return false;
  const std::uint32_t threads = threads_of(caps, tile);
  const bool whole = tile.rows % shape->m == 0 && tile.columns % shape->n == 0 && tile.block() % shape->k == 0;
  // Every invocation stages the same number of fours.
  const bool even = tile.m() * tile.block() / 4 % threads == 0 && tile.n() * tile.block() / 4 % threads == 0;
  return whole && even && threads <= caps.max_workgroup_invocations && threads <= caps.max_workgroup_size[0] &&
         shared_bytes(tile, *shape) <= caps.max_shared_memory;
}

std::vector<std::uint32_t> matrix_constants(const gpu::Caps& caps, const MatrixTile& tile, const MatrixLoads& loads) {
  const gpu::MatrixShape& shape = *matrix_shape(caps, gpu::MatrixShape::Operand::f16);
  std::vector<std::uint32_t> constants = {threads_of(caps, tile)};
  constants.resize(kFirstConstant);
  for (const std::uint32_t constant :
       {shape.m, shape.n, shape.k, tile.subgroups_m, tile.subgroups_n, tile.rows / shape.m, tile.columns / shape.n,
        tile.block(), loads.a, loads.b, std::uint32_t{loads.one_step}}) {
    constants.push_back(constant);
  }
  return constants;
}

std::vector<std::uint32_t> matrix_sizes(const gpu::Caps& caps) {
  const gpu::MatrixShape& shape = *matrix_shape(caps, gpu::MatrixShape::Operand::f16);
  std::vector<std::uint32_t> constants(kFirstConstant);
  constants.insert(constants.end(), {shape.m, shape.n, shape.k});
  return constants;
}

}  // namespace graft
