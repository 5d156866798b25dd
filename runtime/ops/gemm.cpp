#include "runtime/ops/gemm.h"

#include <algorithm>

#include "platform/base/checked.h"
#include "platform/gpu/quirks.h"
#include "runtime/ops/movement.h"
#include "shaders/kernels.gen.h"
#include "shaders/matmul/matmul_split_sum_push.h"

namespace graft {
namespace {

constexpr std::uint64_t kMinSplitLength = 256;  // below this the second pass costs more than it gains
constexpr std::uint64_t kMaxSplits = 256;
constexpr std::uint64_t kShortSums = 256;
constexpr std::uint64_t kMaxSplitBytes = 16u << 20;  // of scratch for the parts

std::uint64_t tile_count(const GemmProblem& problem, const GemmTile& tile) {
  return ceil_div<std::uint64_t>(problem.m, tile.m) * ceil_div<std::uint64_t>(problem.n, tile.n) * problem.batches;
}

constexpr std::uint8_t kShared = 0;
constexpr std::uint8_t kShuffle = 1;
constexpr std::uint8_t kCoopmat = 2;
constexpr std::uint8_t kApartKernel = 3;
constexpr std::uint8_t kFlexibleKernel = 4;

// How the loads of a problem differ from those of another with its shape.
std::string_view loads_name(const GemmProblem& problem) {
  static constexpr std::string_view kNames[3][3] = {{"..", ".k", ".x"}, {"k.", "kk", "kx"}, {"x.", "xk", "xx"}};
  return kNames[static_cast<std::size_t>(problem.a_fours)][static_cast<std::size_t>(problem.b_fours)];
}

ChoiceShape shape_of(const GemmProblem& problem, std::span<const shaders::KernelId> kernels) {
  ChoiceShape shape{problem.m, problem.n, problem.outer * problem.inner, problem.batches};
  shape.a_across = problem.a_fours == Fours::across;
  if (problem.operands == MatrixOperands::none) return shape;
  shape.rounded = kernels.size() > kCoopmat && shaders::kernel_info(kernels[kCoopmat]).built();
  shape.operand = operand_type(problem.operands);
  return shape;
}

}  // namespace

GemmTile choose_gemm_tile(const gpu::Target& target, const GemmProblem& problem,
                          std::span<const shaders::KernelId> kernels) {
  Choice choice = choose(Family::gemm, target, shape_of(problem, kernels), kernels, loads_name(problem));
  const auto [threads, threads_n, rows, columns] = choice.variant->tile;
  const bool flexible = choice.variant->kernel == kFlexibleKernel;
  if (choice.variant->kernel == kCoopmat || flexible) {
    const MatrixTile tile(choice.variant->tile);
    const MatrixLoads loads = {static_cast<std::uint32_t>(problem.a_fours), static_cast<std::uint32_t>(problem.b_fours),
                               problem.outer == 1};
    return {choice.variant->kernel, tile.m(), tile.n(),
            matrix_constants(target.caps, tile, loads, problem.operands, flexible), std::move(choice)};
  }
  if (choice.variant->kernel == kShared) {
    const std::uint32_t tile_m = threads / threads_n * rows, tile_n = threads_n * columns;
    // An invocation that stages fewer than four elements of an operand loads them one by one.
    const auto loads = [all = threads](Fours fours, std::uint32_t tile) {
      constexpr std::uint32_t kBlock = 16;  // of gemm_shared.glsl
      return kBlock * tile / all % 4 == 0 ? static_cast<std::uint32_t>(fours) : 0u;
    };
    const bool stores_fours = columns % 4 == 0 && problem.out_fours && problem.n % 4 == 0;
    const std::uint32_t loads_a = loads(problem.a_fours, tile_m), loads_b = loads(problem.b_fours, tile_n);
    const bool ahead = choice.variant->ahead && loads_a != 0 && loads_b != 0;
    return {kShared,
            tile_m,
            tile_n,
            {threads, threads_n, rows, columns, 0, loads_a, loads_b, stores_fours ? 1u : 0u,
             problem.outer == 1 ? 1u : 0u, ahead ? 1u : 0u},
            std::move(choice)};
  }
  const bool apart = choice.variant->kernel == kApartKernel;
  const ShuffleLanes shuffling = shuffle_lanes(target.caps);
  const std::uint32_t lanes = apart ? threads : shuffling.all;
  const std::uint32_t lanes_n = apart ? threads_n : lanes / shuffling.clusters;
  // Four elements at once cost a CPU device little more than one. Few rows or columns leave nothing to load across.
  const auto mode = [](Fours fours, bool across) {
    return fours == Fours::across && !across ? 0u : static_cast<std::uint32_t>(fours);
  };
  const bool a_across = apart ? rows % 4 == 0 && problem.m % 4 == 0 : rows >= 16;
  GemmTile tile = {choice.variant->kernel,
                   lanes / lanes_n * rows,
                   lanes_n * columns,
                   {lanes, rows, columns, mode(problem.a_fours, a_across), 0,
                    mode(problem.b_fours, columns % 4 == 0 && problem.n % 4 == 0)},
                   std::move(choice)};
  const bool stores_fours = tile.specialization[5] != 0 && columns % 4 == 0 && problem.out_fours && problem.n % 4 == 0;
  // Rows stored at a time: where sums are short, picking them out of all rows one by one is a good part of the time.
  // SwiftShader's compiler takes a quarter of an hour for such comparisons of eight rows, a fraction of a second for
  // two.
  const bool stores_often =
      rows % 4 == 0 && (problem.outer * problem.inner <= kShortSums || gpu::is_swiftshader(target.caps));
  // Whole quads of rows, or of quads of rows, for four lanes to swap.
  const std::uint32_t swapped = tile.specialization[3] == static_cast<std::uint32_t>(Fours::across) ? 16 : 4;
  const bool swaps = !apart && gpu::is_swiftshader(target.caps) && lanes == 4 && lanes_n == 4 && rows % swapped == 0;
  for (const std::uint32_t constant :
       {lanes / lanes_n, stores_fours ? 1u : 0u, stores_often ? 4u : 1u, swaps ? 1u : 0u})
    tile.specialization.push_back(constant);
  return tile;
}

bool tile_owns_columns(const gpu::Target& target, const GemmProblem& problem, const GemmKernels& kernels) {
  const std::uint8_t kernel = choose_gemm_tile(target, problem, kernels.offered(problem.operands)).kernel;
  return kernel == kShuffle || kernel == kApartKernel;
}

std::uint32_t choose_gemm_splits(const GemmProblem& problem, const GemmTile& tile, const Variant& parts) {
  if (problem.whole) return 1;
  const std::uint32_t wanted = parts.tile[0], enough = parts.tile[1] == 0 ? wanted : parts.tile[1];
  const std::uint64_t tiles = tile_count(problem, tile);
  const std::uint64_t k = problem.outer * problem.inner;
  if (tiles == 0 || tiles >= enough) return 1;
  const std::uint64_t by_memory = kMaxSplitBytes / (std::max<std::uint64_t>(problem.outputs, 1) * sizeof(float));
  const std::uint64_t splits =
      std::min({ceil_div<std::uint64_t>(wanted, tiles), k / kMinSplitLength, by_memory, kMaxSplits});
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(splits, 1));
}

Result<GemmFields> make_gemm_fields(const gpu::Target& target, const GemmProblem& problem,
                                    std::span<const shaders::KernelId> kernels) {
  GemmFields fields;
  fields.tile = choose_gemm_tile(target, problem, kernels);
  fields.parts = choose(Family::gemm_parts, target, shape_of(problem, kernels), kernels);
  GRAFT_TRY_ASSIGN(fields.m, count32(problem.m, "rows of the product"));
  GRAFT_TRY_ASSIGN(fields.n, count32(problem.n, "columns of the product"));
  GRAFT_TRY_ASSIGN(fields.inner, count32(problem.inner, "inner length of the product"));
  const std::uint64_t k = problem.outer * problem.inner;
  GRAFT_TRY_ASSIGN(fields.k, count32(k, "length of the sums"));
  GRAFT_TRY_ASSIGN(fields.batches, count32(problem.batches, "batches of the product"));
  fields.tiles_m = ceil_div(fields.m, fields.tile.m);
  fields.tiles_n = ceil_div(fields.n, fields.tile.n);
  const std::uint32_t splits = choose_gemm_splits(problem, fields.tile, *fields.parts.variant);
  std::uint64_t length = ceil_div<std::uint64_t>(k, splits);
  // Whole outer steps, where they are short, so that no part begins amid one.
  if (splits > 1 && problem.inner < length) length = ceil_div(length, problem.inner) * problem.inner;
  const bool along_k = problem.a_fours == Fours::along_k || problem.b_fours == Fours::along_k;
  if (splits > 1 && along_k) length = ceil_div<std::uint64_t>(length, 4) * 4;  // parts begin at whole fours
  fields.k_per_split = static_cast<std::uint32_t>(length);
  fields.splits = splits > 1 ? static_cast<std::uint32_t>(ceil_div(k, length)) : 1;
  GRAFT_TRY(count32(problem.outputs * fields.splits, "parts of the product"));
  fields.split_stride = static_cast<std::uint32_t>(problem.outputs);
  return fields;
}

SplitRounds::SplitRounds(Emitter& e, const SplitSum& sum) : e_(e), sum_(sum), at_once_(sum.splits) {
  const std::uint64_t part = sum.part_stride() * sizeof(float);
  const std::uint64_t left = e.workspace_left();
  if (sum.splits < 3 || sum.splits * part <= left) {  // two parts take as much as one and the sum so far
    slot_ = e.scratch(sum.splits * part);
    return;
  }
  const std::uint64_t most = std::clamp<std::uint64_t>(left / part, 2, sum.splits - 1) - 1;
  at_once_ = ceil_div(sum.splits, ceil_div(sum.splits, most));  // no more than as many rounds need
  slot_ = e.scratch((at_once_ + 1) * part);
  e.withhold((sum.splits - at_once_ - 1) * part);
}

Binding SplitRounds::parts(std::uint64_t first) const {
  Slot slot = slot_;
  slot.size = count(first) * sum_.part_stride() * sizeof(float);
  return {slot, Access::write};
}

Status SplitRounds::add_up(std::uint64_t first, const GemmOperands& operands) {
  constexpr std::uint64_t kWorkgroup = 64;  // of matmul_split_sum.comp
  const bool last = first + at_once_ >= sum_.splits;
  push::MatmulSplitSumPush push{};
  GRAFT_TRY_ASSIGN(push.count, count32(sum_.outputs, "output"));
  GRAFT_TRY_ASSIGN(push.splits, count32(count(first), "parts of a sum"));
  GRAFT_TRY_ASSIGN(push.stride, count32(sum_.part_stride(), "part of a sum"));
  GRAFT_TRY_ASSIGN(const std::uint32_t so_far, count32(at_once_ * sum_.part_stride(), "parts of a sum"));
  const Shape& result = e_.out_shape();
  GRAFT_TRY_ASSIGN(push.columns, count32(result.rank() == 0 ? 1 : result.elements(result.rank() - 1, result.rank()),
                                         "row of the result"));
  if (first != 0) push.before = so_far;
  if (!last) push.to = so_far;
  const bool has_bias = last && operands.has_bias;
  if (has_bias) push.bias_count = static_cast<std::uint32_t>(operands.bias_count);
  const Binding from = {first == 0 ? parts(first).slot : slot_, Access::read};
  e_.dispatch(shaders::KernelId::matmul_split_sum__f32, {},
              {from, has_bias ? operands.bias : from, last ? operands.out : Binding{slot_, Access::write}}, push,
              e_.spread(ceil_div<std::uint64_t>(sum_.outputs, kWorkgroup)));
  return ok_status();
}

}  // namespace graft
