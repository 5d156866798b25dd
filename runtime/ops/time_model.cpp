#include "runtime/ops/time_model.h"

#include <algorithm>

#include "platform/base/checked.h"
#include "runtime/ops/matrix_tiles.h"

namespace graft {
namespace {

// A number that an invocation brings from memory to shared memory for all of its workgroup is a load and a store.
constexpr double kStaged = 2;
// Of CPU devices, measured on llvmpipe: what a load costs where a multiply-add of a subgroup costs 1. By the tiles' own
// kernel: shuffles, lanes that share nothing, and tiles in shared memory, which are
// copied twice there and loaded lane by lane.
constexpr double kShuffleLoad = 8.0 / 3;
constexpr double kApartLoad = 15;
constexpr double kSharedLoad = 33;
// Measured on llvmpipe with graft bench ops, too: what unpacking a number of a quantized weight costs, the share of
// multiply-adds in kernels whose lanes own pixels, channels or keys, and of the memory's rate what kernels reach that
// read rows several times or number by number.
constexpr double kUnpacked = 12;
constexpr double kOwnedIssue = 0.5;
constexpr double kThirdOfMemory = 0.33;
constexpr double kHalfOfMemory = 0.5;

struct TileUse {
  double multiply_adds = 1;  ///< of one invocation in one step along k
  double others = 0;         ///< issue slots beside them
  std::uint64_t m = 1;       ///< outputs of a workgroup
  std::uint64_t n = 1;
  std::uint64_t invocations = 1;
};

TileUse tile_of(const gpu::Target& target, const Variant& variant, const gpu::Speed& speed) {
  const auto [threads, threads_n, rows, columns] = variant.tile;
  TileUse use{.multiply_adds = double(rows) * columns};
  switch (variant.kernel) {
    case kTilesShuffle: {
      const ShuffleLanes lanes = shuffle_lanes(target.caps);
      use.m = std::uint64_t{lanes.clusters} * rows;
      use.n = std::uint64_t{lanes.all / lanes.clusters} * columns;
      use.invocations = lanes.all;
      use.others = kShuffleLoad * (double(use.m) + double(lanes.all) * columns);
      return use;
    }
    case kTilesApart:
      use.m = std::uint64_t{threads / threads_n} * rows;
      use.n = std::uint64_t{threads_n} * columns;
      use.invocations = threads;
      use.others = kApartLoad * (rows + columns);
      return use;
    case kTilesMatrix:
    case kTilesFlexible: {
      // Each subgroup owns rows x columns; its lanes share the multiply-adds.
      const MatrixTile tile(variant.tile);
      const double lanes = std::max(target.caps.matrix_subgroup, 1u);
      use.m = tile.m();
      use.n = tile.n();
      use.invocations = std::uint64_t{threads} * threads_n * std::max(target.caps.matrix_subgroup, 1u);
      use.multiply_adds /= lanes;
      use.others = speed.load_slots * (rows + columns) / lanes;
      return use;
    }
    default:
      use.m = std::uint64_t{threads / threads_n} * rows;
      use.n = std::uint64_t{threads_n} * columns;
      use.invocations = threads;
      use.others = (device_class(target.caps) == DeviceClass::cpu ? kSharedLoad : speed.load_slots) *
                   (rows + columns + kStaged * double(use.m + use.n) / threads);
      return use;
  }
}

KernelUse plain_use(const gpu::Target& target, const Variant& variant, const ChoiceShape& shape) {
  const bool cpu = device_class(target.caps) == DeviceClass::cpu;
  const double rows = static_cast<double>(std::max<std::uint64_t>(shape.m, 1));
  KernelUse use{.issue = kPlainIssue};
  switch (variant.family) {
    case Family::product:  // each number of the other matrix is loaded once and used for every row
      if (variant.kernel == 0) use.issue = rows / (rows + 1);
      break;
    case Family::weight_rows: use.issue = rows / (rows + kUnpacked); break;
    case Family::attention:
    case Family::few_channels:
    case Family::held_weights:
      if (cpu && variant.kernel != 0) use.issue = kOwnedIssue;
      break;
    case Family::pool:
    case Family::rows:
      if (cpu) use.memory = kThirdOfMemory;
      break;
    case Family::depthwise:
    case Family::transpose:
      if (cpu) use.memory = kHalfOfMemory;
      break;
    default: break;
  }
  return use;
}

}  // namespace

KernelUse use_of(const gpu::Target& target, const Variant& variant, const ChoiceShape& shape, const gpu::Speed& speed) {
  if (variant.family != Family::gemm) return plain_use(target, variant, shape);
  const TileUse tile = tile_of(target, variant, speed);
  const auto tiles = [](std::uint64_t size, std::uint64_t side) {
    return ceil_div(std::max<std::uint64_t>(size, 1), side);
  };
  const double wanted = static_cast<double>(std::max<std::uint64_t>(shape.m, 1)) *
                        static_cast<double>(std::max<std::uint64_t>(shape.n, 1));
  const double made = static_cast<double>(tiles(shape.m, tile.m)) * static_cast<double>(tile.m) *
                      static_cast<double>(tiles(shape.n, tile.n)) * static_cast<double>(tile.n);
  KernelUse use;
  use.issue = tile.multiply_adds / (tile.multiply_adds + tile.others);
  use.useful = wanted / made;
  use.workgroups = tiles(shape.m, tile.m) * tiles(shape.n, tile.n) * std::max<std::uint64_t>(shape.batches, 1);
  use.invocations = tile.invocations;
  use.halves = variant.kernel == kTilesMatrix || variant.kernel == kTilesFlexible;
  return use;
}

double fill_of(const KernelUse& use, const gpu::Speed& speed) {
  if (speed.units == 0 || use.workgroups == 0) return 1;
  const std::uint64_t rounds = ceil_div<std::uint64_t>(use.workgroups, speed.units);
  const double busy = static_cast<double>(use.workgroups) / (static_cast<double>(rounds) * speed.units);
  const double deep = static_cast<double>(rounds) * static_cast<double>(std::max<std::uint64_t>(use.invocations, 1)) /
                      (static_cast<double>(speed.lanes) * kDepth);
  return busy * std::min(deep, 1.0);
}

double arithmetic_rate(const KernelUse& use, const gpu::Speed& speed) {
  const double peak = use.halves ? std::max(speed.f16_flops, speed.f32_flops) : speed.f32_flops;
  return peak * use.issue * use.useful * fill_of(use, speed);
}

double variant_seconds(const gpu::Target& target, const Variant& variant, const ChoiceShape& shape,
                       const gpu::Speed& speed) {
  double flops = 2;
  for (const std::uint64_t factor : {shape.m, shape.n, shape.k, shape.batches}) flops *= static_cast<double>(factor);
  return flops / arithmetic_rate(use_of(target, variant, shape, speed), speed);
}

}  // namespace graft
