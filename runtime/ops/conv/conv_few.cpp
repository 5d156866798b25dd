#include "runtime/ops/conv/conv_few.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "platform/base/checked.h"
#include "runtime/ops/gemm.h"
#include "shaders/built_kernels.gen.h"
#include "shaders/conv/conv_few_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::conv {
namespace {

using shaders::KernelId;

constexpr std::uint64_t kMostChannels = 4;
constexpr std::uint64_t kMostColumns = 4;

// llvmpipe's compile time grows with the square of what a lane holds, and with the number of products of a run. With
// these limits it is at most about twice that of a GEMM tile.
constexpr std::uint64_t kMostHeld = 170;
constexpr std::uint64_t kMostProducts = 1200;
constexpr std::uint64_t kMostGradProducts = 700;

// What a load or store by all lanes costs a CPU, in products by all lanes; and one of an operand that no cache holds.
constexpr std::uint64_t kLoad = 20;
constexpr std::uint64_t kFarLoad = 80;

// Workgroups of a weight gradient, each of which writes a part: a few for every core.
constexpr std::uint64_t kParts = 16;

// What the kernels have as constants.
struct Tile {
  std::uint64_t lanes, run, columns, lines;  // lines of the kernel whose weights, or gradients, are held at once
  bool fours;
};

std::uint64_t stride_of(const ConvSizes& sizes) { return static_cast<std::uint64_t>(sizes.window.strides[1]); }
std::uint64_t pad_of(const ConvSizes& sizes) { return static_cast<std::uint64_t>(sizes.window.pads[1]); }
std::uint64_t held(const ConvSizes& sizes, const Tile& tile) { return tile.lines * sizes.kw * sizes.c * tile.columns; }

// Fours of x under a run in the lines that tile.lines of the kernel meet.
std::uint64_t fours_under(const ConvSizes& sizes, const Tile& tile) {
  const std::uint64_t numbers = ((tile.run - 1) * stride_of(sizes) + sizes.kw) * sizes.c;
  return tile.lines * ceil_div<std::uint64_t>(
                          align_up(pad_of(sizes) * sizes.c, std::uint64_t{4}) - pad_of(sizes) * sizes.c + numbers, 4);
}

// The time of all runs; `access`: of a load or store of some of y, `kept`: of what is held between runs.
std::uint64_t cost(const ConvSizes& sizes, const Tile& tile, std::uint64_t access, std::uint64_t kept) {
  const std::uint64_t under = fours_under(sizes, tile);
  const std::uint64_t run = tile.run * held(sizes, tile) + kLoad * ceil_div(under, tile.lanes) + 2 * under + kept +
                            access * tile.run * (tile.fours ? tile.columns / 4 : tile.columns);
  return ceil_div(sizes.ow, tile.run) * ceil_div(sizes.o, tile.lanes * tile.columns) * ceil_div(sizes.kh, tile.lines) *
         run;
}

// The cheapest tile with one of these numbers of lines; none where every tile would hold too many weights.
template <typename Cost>
std::optional<Tile> choose_tile(const ConvSizes& sizes, std::uint64_t lanes, std::uint64_t least_lines,
                                std::uint64_t most_products, Cost cost_of) {
  std::optional<Tile> best;
  for (std::uint64_t lines = least_lines; lines <= sizes.kh; ++lines) {
    for (std::uint64_t columns = 1; columns <= kMostColumns; ++columns) {
      for (const std::uint64_t run : {16, 8, 4}) {
        const Tile tile = {lanes, run, columns, lines, columns % 4 == 0 && sizes.o % 4 == 0};
        const std::uint64_t weights = held(sizes, tile);
        if (weights > kMostHeld || weights * run > most_products) continue;
        if (!best || cost_of(tile) < cost_of(*best)) best = tile;
      }
    }
  }
  return best;
}

// Cost of the gradient by x, whose lanes load dy alone: all lines of all strips, and folding each lane's sums.
std::uint64_t strip_cost(const ConvSizes& sizes, const Tile& tile) {
  const std::uint64_t numbers = tile.run * sizes.c;
  const std::uint64_t loads = (tile.run + sizes.kw - 1) * (tile.fours ? tile.columns / 4 : tile.columns);
  const std::uint64_t line = tile.run * held(sizes, tile) + kLoad * loads + 2 * sizes.kh * numbers + 4 * numbers +
                             kLoad * ceil_div(numbers, tile.lanes);
  return ceil_div(sizes.w, tile.run) * ceil_div(sizes.o, tile.lanes * tile.columns) * line;
}

bool has_shape(const ConvSizes& sizes) {
  const ConvWindow& window = sizes.window;
  return window.groups == 1 && window.dilations == std::array<std::int64_t, 2>{1, 1} && sizes.c <= kMostChannels &&
         sizes.w * sizes.c % 4 == 0 && sizes.kh <= kMostHeld && sizes.kw <= kMostHeld &&
         sizes.images * sizes.h * sizes.w * sizes.c * sizes.oh * sizes.ow * sizes.o != 0;
}

bool is_chosen(Emitter& e, const ChoiceShape& shape, const std::array<KernelId, 2>& kernels) {
  return e.note(choose(Family::held_weights, e.target(), shape, kernels)).kernel != 0;
}

void dispatch(Emitter& e, KernelId kernel, const ConvSizes& sizes, const Tile& tile, std::vector<Binding> bindings,
              const push::ConvFewPush& push, std::uint64_t tiles) {
  const auto u32 = [](auto value) { return static_cast<std::uint32_t>(value); };
  e.dispatch(kernel,
             {u32(tile.lanes), u32(tile.run), u32(sizes.c), u32(tile.lines), u32(sizes.kw), u32(stride_of(sizes)),
              u32(pad_of(sizes)), u32(tile.columns), tile.fours ? 1u : 0u},
             std::move(bindings), push, e.spread(push.groups * tiles));
}

// All but what is one kernel's own.
Result<push::ConvFewPush> make_push(const ConvSizes& sizes, const Tile& tile) {
  push::ConvFewPush push{};
  GRAFT_TRY(fill_conv_lines(sizes, push));
  GRAFT_TRY_ASSIGN(push.runs, count32(sizes.images * sizes.oh * ceil_div(sizes.ow, tile.run), "runs of pixels"));
  return push;
}

}  // namespace

Result<bool> emit_conv_few(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& weight,
                           const Binding* bias, const Binding& y) {
  if constexpr (!shaders::is_built(KernelId::conv_few__f32)) return false;
  if (!has_shape(sizes)) return false;
  const auto tile = choose_tile(sizes, cpu_lanes(e.caps()), sizes.kh, kMostProducts,
                                [&](const Tile& t) { return cost(sizes, t, kLoad, 0); });
  if (!tile) return false;
  const ChoiceShape shape = {sizes.images * sizes.oh * sizes.ow, sizes.o, sizes.kh * sizes.kw * sizes.c};
  if (!is_chosen(e, shape, {KernelId::conv__f32, KernelId::conv_few__f32})) return false;
  GRAFT_TRY_ASSIGN(push::ConvFewPush push, make_push(sizes, *tile));
  // A few workgroups for every core, each with enough runs that loading the weights costs little.
  push.each = std::clamp(push.runs / 32, 16u, 64u);
  push.groups = ceil_div(push.runs, push.each);
  push.has_bias = bias != nullptr ? 1 : 0;
  dispatch(e, KernelId::conv_few__f32, sizes, *tile, {x, weight, bias != nullptr ? *bias : x, y}, push,
           ceil_div(sizes.o, tile->lanes * tile->columns));
  return true;
}

Result<bool> emit_grad_weight_few(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& dy,
                                  const Binding& dw) {
  if constexpr (!shaders::is_built(KernelId::conv_few_grad_weight__f32)) return false;
  if (!has_shape(sizes)) return false;
  const auto tile = choose_tile(sizes, cpu_lanes(e.caps()), 1, kMostGradProducts,
                                [&](const Tile& t) { return cost(sizes, t, kFarLoad, held(sizes, t)); });
  if (!tile) return false;
  const std::uint64_t outputs = sizes.o * sizes.kh * sizes.kw * sizes.c;
  const ChoiceShape shape = {sizes.o, sizes.kh * sizes.kw * sizes.c, sizes.images * sizes.oh * sizes.ow};
  if (!is_chosen(e, shape, {KernelId::conv_grad_weight__f32, KernelId::conv_few_grad_weight__f32})) return false;
  GRAFT_TRY_ASSIGN(push::ConvFewPush push, make_push(sizes, *tile));
  const std::uint64_t tiles = ceil_div(sizes.o, tile->lanes * tile->columns) * ceil_div(sizes.kh, tile->lines);
  push.each = ceil_div<std::uint32_t>(push.runs, static_cast<std::uint32_t>(ceil_div(kParts, tiles)));
  const SplitSum sum = {ceil_div(push.runs, push.each), outputs};
  GRAFT_TRY(count32(sum.splits * outputs, "parts of a gradient"));
  push.part_stride = static_cast<std::uint32_t>(outputs);
  GRAFT_TRY(emit_split(e, sum, {.a = x, .b = dy, .out = dw},
                       [&](std::uint64_t first, std::uint64_t count, const Binding& to) {
                         push.first_part = static_cast<std::uint32_t>(first);
                         push.groups = static_cast<std::uint32_t>(count);
                         dispatch(e, KernelId::conv_few_grad_weight__f32, sizes, *tile, {x, dy, to}, push, tiles);
                         return ok_status();
                       }));
  return true;
}

Result<bool> emit_grad_data_few(Emitter& e, const ConvSizes& sizes, const Binding& dy, const Binding& weight,
                                const Binding& dx) {
  if constexpr (!shaders::is_built(KernelId::conv_few_grad_data__f32)) return false;
  const std::uint64_t lanes = cpu_lanes(e.caps());
  if (!has_shape(sizes) || sizes.window.strides != std::array<std::int64_t, 2>{1, 1}) return false;
  const auto tile = choose_tile(sizes, lanes, sizes.kh, kMostProducts, [&](const Tile& t) {
    const bool whole = t.run * sizes.c % lanes == 0;  // numbers of a line, which the lanes share
    return whole ? strip_cost(sizes, t) : UINT64_MAX;
  });
  // Where channels leave too many lanes empty, the kernel with pixels across lanes is faster.
  const std::uint64_t useful = sizes.w * sizes.kh * sizes.kw * sizes.c * sizes.o / lanes;
  if (!tile || strip_cost(sizes, *tile) > 3 * useful || tile->run * sizes.c % lanes != 0) return false;
  const ChoiceShape shape = {sizes.images * sizes.oh * sizes.ow, sizes.c, sizes.kh * sizes.kw * sizes.o};
  if (!is_chosen(e, shape, {KernelId::conv_grad_data__f32, KernelId::conv_few_grad_data__f32})) return false;
  GRAFT_TRY_ASSIGN(push::ConvFewPush push, make_push(sizes, *tile));
  const std::uint64_t outputs = sizes.images * sizes.h * sizes.w * sizes.c;
  const SplitSum sum = {ceil_div(sizes.o, tile->lanes * tile->columns), outputs};
  GRAFT_TRY(count32(sum.splits * outputs, "parts of a gradient"));
  push.part_stride = static_cast<std::uint32_t>(outputs);
  // Strips are cut where there are few; the first lines of each piece are then computed in vain.
  const std::uint64_t strips = sizes.images * ceil_div(sizes.w, tile->run);
  const std::uint64_t pieces = ceil_div(kParts, strips * sum.splits);
  push.each = static_cast<std::uint32_t>(std::min(std::max(ceil_div(sizes.h, pieces), 4 * sizes.kh), sizes.h));
  GRAFT_TRY_ASSIGN(push.groups, count32(strips * ceil_div<std::uint64_t>(sizes.h, push.each), "strips of images"));
  const auto run = [&](std::uint64_t first, std::uint64_t count, const Binding& to) {
    push.first_part = static_cast<std::uint32_t>(first);
    dispatch(e, KernelId::conv_few_grad_data__f32, sizes, *tile, {dy, weight, to}, push, count);
    return ok_status();
  };
  GRAFT_TRY(sum.splits == 1 ? run(0, 1, dx) : emit_split(e, sum, {.a = dy, .b = weight, .out = dx}, run));
  return true;
}

}  // namespace graft::ops::conv
