// transpose: output axis i is input axis perm[i].
#include "platform/base/checked.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"
#include "shaders/kernels.gen.h"
#include "shaders/transpose/transpose_tiled_push.h"

namespace graft::ops::transpose {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integers("perm").needed()};
constexpr std::int64_t kTile = 16;   // as in transpose_tiled.comp
constexpr std::int64_t kBlock = 32;  // a workgroup's share in transpose_blocks.comp

Status infer(InferContext& c) {
  const Ints perm = c.attrs().integers("perm");
  const Shape& x = c.shape(0);
  if (perm.size() != x.rank()) {
    return invalid("The attribute \"perm\" has ", perm.size(), " entries; its input ", x.text(), " has rank ", x.rank(),
                   ".");
  }
  std::vector<bool> seen(perm.size(), false);
  std::vector<Dim> dims;
  for (const std::int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(x.rank())) {
      return invalid("The attribute \"perm\" holds ", axis, ", which is no axis of a tensor of rank ", x.rank(), ".");
    }
    const auto index = static_cast<std::size_t>(axis);
    if (seen[index]) return invalid("The attribute \"perm\" holds the axis ", axis, " twice.");
    seen[index] = true;
    dims.push_back(x[index]);
  }
  c.output(c.dtype(0), Shape(std::move(dims)));
  return ok_status();
}

// A batch of plain matrix transposes, read and written in contiguous runs: through a tile in shared memory or, where
// that is no faster than a cache, through blocks of 4 x 4 in registers.
Status emit_matrices(Emitter& e, std::int64_t batch, std::int64_t rows, std::int64_t cols) {
  constexpr std::array kKernels = {shaders::KernelId::transpose_tiled__w32, shaders::KernelId::transpose_blocks__w32};
  const std::size_t offered = rows % 4 == 0 && cols % 4 == 0 ? 2 : 1;
  const ChoiceShape shape{static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols)};
  const bool blocks = offered == 2 && e.note(choose(Family::transpose, e.target(), shape, kKernels)).kernel == 1;
  const std::int64_t tile = blocks ? kBlock : kTile;
  push::TransposeTiledPush push{};
  push.rows = static_cast<std::uint32_t>(rows);
  push.cols = static_cast<std::uint32_t>(cols);
  push.batch = static_cast<std::uint32_t>(batch);
  push.row_tiles = static_cast<std::uint32_t>(ceil_div(rows, tile));
  push.col_tiles = static_cast<std::uint32_t>(ceil_div(cols, tile));
  const auto tiles = static_cast<std::uint64_t>(batch) * push.row_tiles * push.col_tiles;
  e.dispatch(blocks ? shaders::KernelId::transpose_blocks__w32 : shaders::KernelId::transpose_tiled__w32, {},
             {e.in(0), e.out()}, push, e.spread(tiles));
  return ok_status();
}

Status emit(Emitter& e) {
  GRAFT_TRY(expect_words(e.in_dtype(0)));
  const auto out_dims = e.out_shape().values();
  const std::uint64_t count = e.out_shape().elements();
  if (count == 0) return ok_status();
  const auto in_strides = row_major_strides(e.in_shape(0).values());
  StridedCopy copy{out_dims, {}, row_major_strides(out_dims)};
  for (const std::int64_t axis : e.attrs().integers("perm")) {
    copy.from_strides.push_back(in_strides[static_cast<std::size_t>(axis)]);
  }
  collapse(copy);
  const std::size_t rank = copy.sizes.size();
  const bool matrices = rank == 2 || (rank == 3 && copy.from_strides[0] == copy.sizes[1] * copy.sizes[2]);
  if (matrices && count <= binding_words(e.caps()) && copy.from_strides[rank - 2] == 1 && copy.sizes[rank - 1] >= 4 &&
      copy.sizes[rank - 2] >= 4) {
    return emit_matrices(e, rank == 3 ? copy.sizes[0] : 1, copy.sizes[rank - 1], copy.sizes[rank - 2]);
  }
  return emit_strided_copy(e, e.in(0), e.out(), std::move(copy));
}

Status vjp(VjpContext& c) {
  const Ints perm = c.attrs().integers("perm");
  Ints inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  }
  c.grad(0, c.b.transpose(c.dy(), std::move(inverse)));
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }

}  // namespace

extern const OpDef op_transpose;
const OpDef op_transpose = {
    .name = "transpose", .attrs = kAttrs, .infer = infer, .emit = emit, .gradient = vjp, .flops = no_flops};

}  // namespace graft::ops::transpose
