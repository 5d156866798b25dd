// The table: which variants of kernels there are, on which devices each can run, and which to take where nothing was
// measured.
#include "runtime/ops/choice.h"

#include <algorithm>
#include <bit>

#include "platform/base/status.h"
#include "platform/gpu/figures.h"
#include "platform/gpu/quirks.h"
#include "runtime/ops/matrix_tiles.h"
#include "runtime/ops/time_model.h"
#include "shaders/kernels.gen.h"

namespace graft {
namespace {

using gpu::Target;

bool is_cpu(const Target& target, const ChoiceShape& = {}) { return device_class(target.caps) == DeviceClass::cpu; }
bool is_small_gpu(const Target& target, const ChoiceShape& = {}) {
  return device_class(target.caps) == DeviceClass::small_gpu;
}

// Each lane holds columns of its own, so the first lanes of a wide subgroup suffice.
bool can_shuffle(const Target& target, const ChoiceShape& = {}) {
  return target.caps.type == gpu::DeviceType::cpu && target.caps.subgroup_shuffle && target.caps.subgroup_size >= 4;
}

bool can_256(const Target& target, const ChoiceShape& = {}) {
  return target.caps.max_workgroup_invocations >= 256 && target.caps.max_workgroup_size[0] >= 256 &&
         target.caps.max_shared_memory >= 16384;
}

// Two blocks in shared memory, of 16 steps of k, whose rows end with an unused four.
template <std::uint32_t threads, std::uint32_t threads_n, std::uint32_t rows, std::uint32_t columns>
bool can_ahead(const Target& target, const ChoiceShape&) {
  constexpr std::uint32_t kBytes = 2 * 16 * 4 * (threads / threads_n * rows + 4 + threads_n * columns + 4);
  return device_class(target.caps) == DeviceClass::desktop_gpu && target.caps.max_shared_memory >= kBytes &&
         target.caps.max_workgroup_invocations >= threads && target.caps.max_workgroup_size[0] >= threads;
}

template <std::uint32_t... tile>
bool has_matrices(const Target& target, const ChoiceShape& s) {
  return s.rounded && matrix_tile_fits(target.caps, MatrixTile({tile...}), s.operand);
}

template <std::uint32_t... tile>
bool has_flexible(const Target& target, const ChoiceShape& s) {
  return s.rounded && flexible_tile_fits(target.caps, MatrixTile({tile...}), s.operand);
}

// Software has no matrix units: its own kernels are faster, and their sums more exact.
bool trusts_matrices(const Target& target, const ChoiceShape& = {}) {
  return target.hooks.software_matrices || !is_cpu(target);
}
bool gains_by_matrices(const Target& target, const ChoiceShape& s) {
  return trusts_matrices(target) && (is_cpu(target) || std::min({s.m, s.n, s.k}) >= 16);
}

// Matrix sizes must divide the 32 x 32 tiles, and whole subgroups make up the 128 invocations.
bool has_attention_matrices(const Target& target, const ChoiceShape& s) {
  return s.rounded && matrix_tile_fits(target.caps, MatrixTile({1, 1, 32, 32}), s.operand) &&
         128 % target.caps.matrix_subgroup == 0;
}

// Each lane holds four rows of keys, `rows` others are passed between lanes, and sums of whole heads must fit a cache.
// SwiftShader takes seconds to compile long kernels.
template <std::uint32_t rows>
bool can_shuffle_heads(const Target& target, const ChoiceShape& s) {
  const std::uint64_t lanes_hold = std::uint64_t{4} * cpu_lanes(target.caps);
  const std::uint64_t most = gpu::is_swiftshader(target.caps) ? 64 : 128;
  return can_shuffle(target) && s.k % 4 == 0 && (rows == 4 || rows * ((s.k + lanes_hold - 1) / lanes_hold) <= most);
}

// Each lane sums whole rows, which must fit its stack's cache and be compiled.
template <std::uint32_t rows>
bool can_hold_heads(const Target& target, const ChoiceShape& s) {
  return is_cpu(target) && s.k % 4 == 0 && (rows == 4 || rows * s.k <= 1024);
}

bool whole_pairs(const Target&, const ChoiceShape& s) { return s.n % 8 == 0; }  // of vectors of four channels

bool has_dots(const Target& target, const ChoiceShape& s) { return s.rounded && target.caps.integer_dot; }
bool few_rows_cpu(const Target& target, const ChoiceShape& s) { return s.m <= 4 && is_cpu(target); }

bool few_rows_shuffle(const Target& target, const ChoiceShape& s) { return s.m <= 4 && can_shuffle(target); }
bool few_rows(const Target&, const ChoiceShape& s) { return s.m <= 4; }

// Tiles of so many outputs each.
std::uint64_t tiles_of(const ChoiceShape& s, std::uint64_t tile_m, std::uint64_t tile_n) {
  const auto tiles = [](std::uint64_t n, std::uint64_t tile) { return n / tile + (n % tile != 0 ? 1 : 0); };
  return tiles(s.m, tile_m) * tiles(s.n, tile_n) * s.batches;
}

// Whether they are enough to fill a middling GPU.
bool enough_tiles(const ChoiceShape& s, std::uint64_t tile_m, std::uint64_t tile_n) {
  return tiles_of(s, tile_m, tile_n) >= 128;
}

// The same where long sums are cut into parts, as emit_gemm() does it.
bool enough_parts(const ChoiceShape& s, std::uint64_t tile_m, std::uint64_t tile_n, std::uint64_t wanted) {
  return tiles_of(s, tile_m, tile_n) * std::clamp<std::uint64_t>(s.k / 256, 1, 64) >= wanted;
}

template <std::uint64_t tile_n>
bool gains_by_many(const Target& target, const ChoiceShape& s) {
  return gains_by_matrices(target, s) && enough_tiles(s, 128, tile_n);
}
bool gains_by_some(const Target& target, const ChoiceShape& s) {
  return gains_by_matrices(target, s) && (!is_cpu(target) || s.m * s.n >= 4096);
}

std::uint64_t operations(const ChoiceShape& s) {
  std::uint64_t all = 2;
  for (const std::uint64_t factor : {s.m, s.n, s.k, s.batches}) {
    if (factor != 0 && all > UINT64_MAX / factor) return UINT64_MAX;
    all *= factor;
  }
  return all;
}
// From where on what a tile saves in one run is a part of what its compilation takes longer (60 and 250 ms by
// llvmpipe).
constexpr std::uint64_t kSomeOperations = 4u << 20;
constexpr std::uint64_t kManyOperations = 64u << 20;
constexpr std::uint64_t kMostOperations = 512u << 20;

// Such a tile takes SwiftShader a second to compile, and gained nothing where columns leave much of it empty.
bool large_by_swiftshader(const Target& target, const ChoiceShape& s) {
  return gpu::is_swiftshader(target.caps) && s.m >= 32 && s.n >= 64 && operations(s) >= kManyOperations;
}

constexpr std::string_view kAcrossBySwiftShader = "shuffle 16x8";

// Names of gemm variants: invocations x invocations along n x rows x columns of each (shared memory, or apart), or rows
// x columns of each lane (shuffles), or subgroups along m x along n x rows x columns of each (matrices). Every tile in
// shared memory keeps to 16 KiB, but for those that load ahead; its sides divide the invocations.
constexpr Variant kVariants[] = {
    {Family::product, "skinny", 0, {}, few_rows},
    {Family::product, "blocked", 1, {}, nullptr},

    {Family::gemm, "shared 64x8x4x4", 0, {64, 8, 4, 4}, nullptr},
    {Family::gemm, "shared 128x32x4x2", 0, {128, 32, 4, 2}, nullptr},
    {Family::gemm, "shared 128x8x4x8", 0, {128, 8, 4, 8}, nullptr},
    {Family::gemm, "shared 64x8x8x8", 0, {64, 8, 8, 8}, nullptr},
    {Family::gemm, "shared 32x4x4x8", 0, {32, 4, 4, 8}, nullptr},
    {Family::gemm, "shared 16x4x4x4", 0, {16, 4, 4, 4}, nullptr},
    {Family::gemm, "shared 8x2x2x4", 0, {8, 2, 2, 4}, nullptr},
    {Family::gemm, "shared 256x16x8x8", 0, {256, 16, 8, 8}, can_256},
    {Family::gemm, "ahead 64x8x4x4", 0, {64, 8, 4, 4}, can_ahead<64, 8, 4, 4>, true},
    {Family::gemm, "ahead 128x8x4x8", 0, {128, 8, 4, 8}, can_ahead<128, 8, 4, 8>, true},
    {Family::gemm, "ahead 128x16x8x8", 0, {128, 16, 8, 8}, can_ahead<128, 16, 8, 8>, true},
    {Family::gemm, "ahead 256x16x4x8", 0, {256, 16, 4, 8}, can_ahead<256, 16, 4, 8>, true},
    {Family::gemm, "shuffle 64x8", 1, {0, 0, 64, 8}, can_shuffle},
    {Family::gemm, "shuffle 32x8", 1, {0, 0, 32, 8}, can_shuffle},
    {Family::gemm, "shuffle 32x4", 1, {0, 0, 32, 4}, can_shuffle},
    {Family::gemm, "shuffle 28x8", 1, {0, 0, 28, 8}, can_shuffle},
    {Family::gemm, "shuffle 28x4", 1, {0, 0, 28, 4}, can_shuffle},
    {Family::gemm, kAcrossBySwiftShader, 1, {0, 0, 16, 8}, can_shuffle},
    {Family::gemm, "shuffle 16x4", 1, {0, 0, 16, 4}, can_shuffle},
    {Family::gemm, "shuffle 16x1", 1, {0, 0, 16, 1}, can_shuffle},
    {Family::gemm, "shuffle 8x4", 1, {0, 0, 8, 4}, can_shuffle},
    {Family::gemm, "shuffle 4x4", 1, {0, 0, 4, 4}, can_shuffle},
    {Family::gemm, "shuffle 4x1", 1, {0, 0, 4, 1}, can_shuffle},
    {Family::gemm, "shuffle 1x4", 1, {0, 0, 1, 4}, can_shuffle},
    {Family::gemm, "shuffle 1x1", 1, {0, 0, 1, 1}, can_shuffle},
    {Family::gemm, "apart 8x4x32x16", 3, {8, 4, 32, 16}, is_cpu},
    {Family::gemm, "apart 8x4x16x16", 3, {8, 4, 16, 16}, is_cpu},
    {Family::gemm, "apart 8x2x16x16", 3, {8, 2, 16, 16}, is_cpu},
    {Family::gemm, "apart 8x1x16x8", 3, {8, 1, 16, 8}, is_cpu},
    {Family::gemm, "apart 8x4x8x8", 3, {8, 4, 8, 8}, is_cpu},
    {Family::gemm, "apart 8x8x4x8", 3, {8, 8, 4, 8}, is_cpu},
    {Family::gemm, "apart 8x1x8x4", 3, {8, 1, 8, 4}, is_cpu},
    {Family::gemm, "matrices 2x4x64x32", 2, {2, 4, 64, 32}, has_matrices<2, 4, 64, 32>},
    {Family::gemm, "matrices 2x2x32x32", 2, {2, 2, 32, 32}, has_matrices<2, 2, 32, 32>},
    {Family::gemm, "matrices 2x2x16x16", 2, {2, 2, 16, 16}, has_matrices<2, 2, 16, 16>},
    {Family::gemm, "flexible 2x4x64x64", 4, {2, 4, 64, 64}, has_flexible<2, 4, 64, 64>},
    {Family::gemm, "flexible 2x2x64x64", 4, {2, 2, 64, 64}, has_flexible<2, 2, 64, 64>},
    {Family::gemm, "flexible 2x2x32x32", 4, {2, 2, 32, 32}, has_flexible<2, 2, 32, 32>},
    {Family::gemm, "flexible 2x2x16x16", 4, {2, 2, 16, 16}, has_flexible<2, 2, 16, 16>},

    {Family::gemm_parts, "16 workgroups", 0, {16}, nullptr},
    {Family::gemm_parts, "64 workgroups", 0, {64}, nullptr},
    {Family::gemm_parts, "256 workgroups", 0, {256}, nullptr},
    {Family::gemm_parts, "512 workgroups", 0, {512, 256}, nullptr},
    {Family::gemm_parts, "1024 workgroups", 0, {1024, 512}, nullptr},
    {Family::gemm_parts, "2048 workgroups", 0, {2048, 1024}, nullptr},
    {Family::gemm_parts, "4 workgroups", 0, {4}, nullptr},
    {Family::gemm_parts, "one pass", 0, {1}, nullptr},

    {Family::skinny_rows, "64 lanes, 4 rows", 0, {64, 4}, nullptr},
    {Family::skinny_rows, "subgroup, 4 rows", 0, {0, 4}, is_cpu},
    {Family::skinny_cols, "64 lanes, 1 vector", 0, {64, 1}, nullptr},
    {Family::skinny_cols, "subgroup, wide", 0, {0, 0}, is_cpu},
    {Family::skinny_cols, "subgroup, 1 vector", 0, {0, 1}, is_cpu},

    {Family::depthwise, "pixels", 0, {}, nullptr},
    {Family::depthwise, "window", 1, {}, nullptr},
    {Family::depthwise, "window of pairs", 2, {}, whole_pairs},
    {Family::depthwise_dw, "1024 invocations", 0, {1024}, nullptr},
    {Family::depthwise_dw, "32768 invocations", 0, {32768}, nullptr},

    {Family::transpose, "tiles", 0, {}, nullptr},
    {Family::transpose, "blocks", 1, {}, nullptr},

    {Family::rows, "workgroup", 0, {128}, nullptr},
    {Family::rows, "subgroup", 0, {0}, is_cpu},
    {Family::rows, "32 lanes", 0, {32}, nullptr},

    {Family::attention, "scalar", 0, {}, nullptr},
    {Family::attention, "matrices", 1, {}, has_attention_matrices},
    {Family::attention, "shuffle 32", 2, {32}, can_shuffle_heads<32>},
    {Family::attention, "shuffle 16", 2, {16}, can_shuffle_heads<16>},
    {Family::attention, "shuffle 8", 2, {8}, can_shuffle_heads<8>},
    {Family::attention, "shuffle 4", 2, {4}, can_shuffle_heads<4>},
    {Family::attention, "apart 16", 3, {16}, can_hold_heads<16>},
    {Family::attention, "apart 8", 3, {8}, can_hold_heads<8>},
    {Family::attention, "apart 4", 3, {4}, can_hold_heads<4>},

    {Family::attention_few, "keys across lanes", 0, {}, can_shuffle},
    {Family::attention_few, "tiles", 1, {}, nullptr},

    {Family::weight_rows, "subgroup across", 0, {0, 1, 1}, few_rows_cpu},
    {Family::weight_rows, "subgroup across, 2 rows", 0, {0, 1, 2}, few_rows_cpu},
    {Family::weight_rows, "64 lanes along, 2 rows", 0, {64, 64, 2}, few_rows},
    {Family::weight_rows, "shuffle, 2 rows", 1, {0, 1, 2}, few_rows_shuffle},
    {Family::weight_rows, "shuffle, 1 row", 1, {0, 1, 1}, few_rows_shuffle},
    {Family::weight_rows, "shuffle, 4 rows", 1, {0, 1, 4}, few_rows_shuffle},
    {Family::weight_rows, "subgroup across, integers", 2, {0, 1, 1}, has_dots},
    {Family::weight_rows, "16 of 64 lanes along, integers, 2 rows", 2, {64, 16, 2}, has_dots},
    {Family::weight_rows, "blocked", 3, {}, nullptr},

    {Family::pool, "64 lanes, 1 pixel", 0, {64, 1}, nullptr},
    {Family::pool, "subgroup, 8 pixels", 0, {0, 8}, is_cpu},
    {Family::pool, "subgroup, 32 pixels", 0, {0, 32}, is_cpu},

    {Family::few_channels, "blocked", 0, {}, nullptr},
    {Family::few_channels, "pixels across lanes", 1, {}, can_shuffle},

    {Family::held_weights, "blocked", 0, {}, nullptr},
    {Family::held_weights, "channels across lanes", 1, {}, can_shuffle},

    {Family::epilogue, "in the kernel", 0, {}, nullptr},
    {Family::epilogue, "apart", 1, {}, nullptr},
};

constexpr std::string_view kFlexible = "matrix units without a way through shared memory for results";
constexpr std::string_view kFlexibleMany =
    "matrix units without a way through shared memory for results, and enough large tiles to fill a GPU";
constexpr std::string_view kAhead = "loads are hidden behind products, as measured on an H200";
constexpr std::string_view kApart = "no shuffles: each lane loads what it needs, in the largest tile that fits";

// The first that holds is taken. One without a variant is for the model of time: the variant of which it expects the
// least time.
constexpr Rule kRules[] = {
    {Family::product, "skinny", nullptr, "up to four rows read the other matrix once, without tiles"},

    {Family::gemm, "flexible 2x4x64x64", gains_by_many<256>, kFlexibleMany},
    {Family::gemm, "flexible 2x2x64x64", gains_by_many<128>, kFlexibleMany},
    {Family::gemm, "flexible 2x2x32x32", gains_by_some, kFlexible},
    {Family::gemm, "flexible 2x2x16x16", gains_by_matrices, kFlexible},
    {Family::gemm, "matrices 2x4x64x32", gains_by_many<128>, "matrix units, and enough large tiles to fill a GPU"},
    {Family::gemm, "matrices 2x2x32x32", gains_by_some, "matrix units"},
    {Family::gemm, "matrices 2x2x16x16", gains_by_matrices, "matrix units, in little shared memory"},

    {Family::gemm, kAcrossBySwiftShader,
     [](const Target& t, const ChoiceShape& s) { return large_by_swiftshader(t, s) && s.a_across; },
     "each load is a branch for each of four lanes, and more columns to a lane load fewer rows of A"},
    {Family::gemm, "shuffle 32x4", large_by_swiftshader,
     "each load is a branch for each of four lanes; larger tiles compile for many seconds"},
    {Family::gemm, "shuffle 8x4",
     [](const Target& t, const ChoiceShape& s) {
       return gpu::is_swiftshader(t.caps) && s.m > 4 && s.n > cpu_lanes(t.caps);
     },
     "each load is a branch for each of four lanes, and there is too little to do for a tile that compiles longer"},
    {Family::gemm, "shuffle 1x1",
     [](const Target& t, const ChoiceShape& s) { return s.m == 1 && s.n <= cpu_lanes(t.caps); },
     "a single row and fewer columns than lanes"},
    {Family::gemm, "shuffle 1x4", [](const Target&, const ChoiceShape& s) { return s.m == 1; }, "a single row"},
    {Family::gemm, "shuffle 4x1",
     [](const Target& t, const ChoiceShape& s) { return s.m <= 4 && s.n <= cpu_lanes(t.caps); },
     "up to four rows and fewer columns than lanes"},
    {Family::gemm, "shuffle 4x4", few_rows, "up to four rows"},
    {Family::gemm, "shuffle 16x1", [](const Target& t, const ChoiceShape& s) { return s.n <= cpu_lanes(t.caps); },
     "fewer columns than lanes"},
    {Family::gemm, "shared 128x32x4x2", [](const Target& t, const ChoiceShape& s) { return !is_cpu(t) && s.m <= 16; },
     "up to 16 rows"},
    {Family::gemm, "ahead 128x16x8x8",
     [](const Target& t, const ChoiceShape& s) {
       return gpu::is_nvidia(t.caps) && s.n >= 128 && s.k >= 512 && enough_parts(s, 64, 128, 256);
     },
     "enough large tiles to fill the GPU, which load the least"},
    {Family::gemm, "ahead 64x8x4x4",
     [](const Target& t, const ChoiceShape& s) {
       return gpu::is_nvidia(t.caps) && (s.n <= 32 || !enough_parts(s, 64, 64, 128));
     },
     kAhead},
    {Family::gemm, "ahead 128x8x4x8", [](const Target& t, const ChoiceShape&) { return gpu::is_nvidia(t.caps); },
     kAhead},
    {Family::gemm, "", nullptr, "the least time by the model, among tiles that repay their compilation"},
    {Family::gemm, "shared 64x8x4x4",
     [](const Target& t, const ChoiceShape& s) { return is_small_gpu(t) || s.n <= 32 || !enough_tiles(s, 64, 64); },
     "few registers, or too few large tiles to fill a GPU"},
    {Family::gemm, "shared 128x8x4x8", nullptr, "enough large tiles to fill a GPU"},

    {Family::gemm_parts, "16 workgroups", is_cpu, "some for every core"},
    {Family::gemm_parts, "64 workgroups", is_small_gpu, "a GPU of few cores"},
    {Family::gemm_parts, "512 workgroups",
     [](const Target& t, const ChoiceShape& s) { return gpu::is_nvidia(t.caps) && !s.rounded; },
     "a GPU of many cores, whose matrix units would gain less by parts than these cost"},
    {Family::gemm_parts, "256 workgroups", nullptr, "a GPU of many cores"},

    {Family::skinny_rows, "subgroup, 4 rows", is_cpu, "one subgroup, long runs of each row"},
    {Family::skinny_rows, "64 lanes, 4 rows", nullptr, "a GPU"},
    {Family::skinny_cols, "subgroup, wide", is_cpu, "one subgroup, long runs of each row"},
    {Family::skinny_cols, "64 lanes, 1 vector", nullptr, "a GPU"},

    {Family::depthwise, "window of pairs",
     [](const Target& t, const ChoiceShape& s) {
       return is_cpu(t) && t.caps.shader_int64 && s.k <= 9 && operations(s) >= kSomeOperations;
     },
     "fewer loads and longer runs still, where four 64-bit numbers are one load; a small kernel compiles fast enough"},
    {Family::depthwise, "window", is_cpu, "the fewest loads, where registers spill to a cache"},
    {Family::depthwise, "pixels", nullptr, "a GPU has too few registers for windows"},
    {Family::depthwise_dw, "1024 invocations", is_cpu, "some for every core"},
    {Family::depthwise_dw, "32768 invocations", nullptr, "a GPU"},

    {Family::transpose, "blocks", is_cpu, "shared memory is no faster than a cache"},
    {Family::transpose, "tiles", nullptr, "shared memory turns columns into runs"},

    {Family::rows, "subgroup", is_cpu, "its lanes are all that runs side by side, more cost switches at barriers"},
    {Family::rows, "workgroup", nullptr, "a GPU"},

    {Family::attention, "matrices", trusts_matrices, "matrix units"},
    {Family::attention, "shuffle 32",
     [](const Target&, const ChoiceShape& s) { return operations(s) >= kManyOperations; },
     "narrow subgroups over caches, and enough to do for tiles of many rows, which take the longest to compile"},
    {Family::attention, "shuffle 16",
     [](const Target&, const ChoiceShape& s) { return operations(s) >= kSomeOperations; },
     "narrow subgroups over caches: a shuffle is a vector permute, shared memory one more copy"},
    {Family::attention, "shuffle 8", [](const Target&, const ChoiceShape& s) { return s.m > 4; }, "little to do"},
    {Family::attention, "shuffle 4", nullptr, "few rows"},
    {Family::attention, "apart 16",
     [](const Target&, const ChoiceShape& s) { return operations(s) >= kManyOperations; }, kApart},
    {Family::attention, "apart 8",
     [](const Target&, const ChoiceShape& s) { return s.m > 4 && operations(s) >= kSomeOperations; }, kApart},
    {Family::attention, "apart 4", nullptr, kApart},
    {Family::attention, "scalar", nullptr, "f32, or no matrix units"},

    {Family::attention_few, "keys across lanes", nullptr,
     "few rows: a lane has keys of its own, and tiles would be empty"},
    {Family::attention_few, "tiles", nullptr, "no shuffles, or a GPU"},

    // Products of integers by software are not one instruction; matrix units take larger products than these.
    {Family::weight_rows, "16 of 64 lanes along, integers, 2 rows",
     [](const Target& t, const ChoiceShape& s) { return !is_cpu(t) && (s.m <= 8 || !t.caps.cooperative_matrix); },
     "dot products of 8-bit integers"},
    {Family::weight_rows, "shuffle, 2 rows", nullptr,
     "each lane unpacks rows of its own; a row of A is loaded once for all"},
    {Family::weight_rows, "subgroup across", few_rows_cpu,
     "each lane unpacks rows of its own, the others' A is its own"},
    {Family::weight_rows, "64 lanes along, 2 rows", few_rows, "up to four rows read the weight once, without tiles"},
    {Family::weight_rows, "blocked", nullptr, "more than a few rows"},

    {Family::pool, "subgroup, 8 pixels", is_cpu,
     "divisions by sizes, which CPUs do lane by lane, serve several pixels"},
    {Family::pool, "64 lanes, 1 pixel", nullptr, "a GPU"},

    {Family::few_channels, "pixels across lanes",
     [](const Target& t, const ChoiceShape& s) {
       return !gpu::is_swiftshader(t.caps) && operations(s) >= kSomeOperations;
     },
     "lanes that own columns of a product would idle, and enough to do for a kernel of its own"},
    {Family::few_channels, "blocked", nullptr, "the convolution's own product"},

    {Family::held_weights, "channels across lanes",
     [](const Target& t, const ChoiceShape& s) {
       return !gpu::is_swiftshader(t.caps) && operations(s) >= kSomeOperations;
     },
     "a product would load single numbers for short sums, and there is enough to do for a kernel of its own"},
    {Family::held_weights, "blocked", nullptr, "the convolution's own product"},

    {Family::epilogue, "apart", is_cpu,
     "a dispatch costs little, results stay in a cache, and each epilogue would compile its kernel anew"},
    {Family::epilogue, "in the kernel", nullptr, "saves a dispatch, a barrier and a way through memory"},
};

}  // namespace

DeviceClass device_class(const gpu::Caps& caps) {
  switch (caps.type) {
    case gpu::DeviceType::cpu: return DeviceClass::cpu;
    case gpu::DeviceType::discrete: return DeviceClass::desktop_gpu;
    case gpu::DeviceType::virtual_gpu:
      return caps.max_shared_memory >= 49152 ? DeviceClass::desktop_gpu : DeviceClass::small_gpu;
    default: return DeviceClass::small_gpu;
  }
}

std::span<const Variant> variants() { return kVariants; }

bool is_ranked(const gpu::Target& target, const ChoiceShape& shape, const Variant& variant) {
  if (variant.family != Family::gemm) return false;
  const std::uint32_t outputs = variant.tile[2] * variant.tile[3];
  const auto repays = [&](std::uint32_t many, std::uint32_t most) {
    return operations(shape) >= (outputs > most   ? kMostOperations
                                 : outputs > many ? kManyOperations
                                 : outputs > 64   ? kSomeOperations
                                                  : 0);
  };
  switch (variant.kernel) {
    case kTilesShared:  // each further one were a pipeline more
      return !is_cpu(target) && gpu::figures_of(target.caps) != nullptr &&
             (variant.name == "shared 64x8x4x4" || variant.name == "shared 128x8x4x8");
    case kTilesShuffle: return outputs >= 64 && repays(128, 256) && variant.name != kAcrossBySwiftShader;
    case kTilesApart: return !can_shuffle(target) && repays(256, 512);
    default: return false;
  }
}

std::span<const Rule> rules() { return kRules; }

bool rounds_to_f16(const gpu::Target& target) {
  return target.policy.matmul_precision != gpu::MatmulPrecision::highest && trusts_matrices(target) &&
         matrix_tile_fits(target.caps, MatrixTile({2, 2, 16, 16}), gpu::MatrixShape::Operand::f16) &&
         shaders::kernel_info(shaders::KernelId::matmul__f32_coopmat).built();
}

bool multiplies_bf16(const gpu::Target& target) {
  return trusts_matrices(target) &&
         matrix_tile_fits(target.caps, MatrixTile({2, 2, 16, 16}), gpu::MatrixShape::Operand::bf16) &&
         shaders::kernel_info(shaders::KernelId::matmul__f32_coopmat_bf16).built();
}

bool rounds_products(const gpu::Target& target) {
  const bool medium = target.policy.matmul_precision == gpu::MatmulPrecision::medium;
  return (medium && target.caps.integer_dot && !is_cpu(target)) || (medium && multiplies_bf16(target)) ||
         rounds_to_f16(target);
}

std::uint32_t cpu_lanes(const gpu::Caps& caps) {
  // No CPU runs wider ones, and without subgroups nothing tells: 256 bits are the most common.
  return caps.subgroup_size < 4 || caps.subgroup_size > 16 ? 8 : std::bit_floor(caps.subgroup_size);
}

ShuffleLanes shuffle_lanes(const gpu::Caps& caps) {
  const std::uint32_t lanes = cpu_lanes(caps);
  const std::uint32_t clusters = std::max(gpu::lanes_side_by_side(caps), lanes) / lanes;
  return {lanes * clusters, clusters};
}

}  // namespace graft
