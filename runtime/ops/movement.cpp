#include "runtime/ops/movement.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "platform/base/checked.h"
#include "shaders/common/fill_words_push.h"
#include "shaders/common/strided_copy_push.h"
#include "shaders/kernels.gen.h"

namespace graft {
namespace {

constexpr std::uint32_t kWorkgroup = 128;  // local_size_x of the kernels here

struct Range {
  std::int64_t low;
  std::int64_t high;  // both included
};

Range touched(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides, std::int64_t offset) {
  Range range{offset, offset};
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const std::int64_t span = strides[axis] * (sizes[axis] - 1);
    (span < 0 ? range.low : range.high) += span;
  }
  return range;
}

/// What to bind so that a box lies within it; nullopt where that is more than a binding can hold. `offset` is made
/// relative to the result.
std::optional<Binding> bound_part(const Emitter& e, const Binding& whole, const std::vector<std::int64_t>& sizes,
                                  const std::vector<std::int64_t>& strides, std::int64_t& offset) {
  const auto limit = static_cast<std::int64_t>(binding_words(e.caps()));
  if (whole.slot.size <= 4 * static_cast<std::uint64_t>(limit)) return whole;
  const auto alignment = std::max<std::int64_t>(e.caps().storage_buffer_alignment / 4, 1);
  const Range range = touched(sizes, strides, offset);
  const std::int64_t first = range.low / alignment * alignment;
  const std::int64_t words = range.high - first + 1;
  if (words > limit) return std::nullopt;
  offset -= first;
  return part_of(whole, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(words));
}

/// Two halves of a box, cut across the axis that spans most of the side that is too large.
std::pair<StridedCopy, StridedCopy> split(StridedCopy copy, bool by_from) {
  const auto& strides = by_from ? copy.from_strides : copy.to_strides;
  const auto span = [&](std::size_t axis) { return std::abs(strides[axis]) * (copy.sizes[axis] - 1); };
  std::size_t widest = 0;
  for (std::size_t axis = 1; axis < copy.sizes.size(); ++axis) {
    if (span(axis) > span(widest)) widest = axis;
  }
  StridedCopy high = copy;
  copy.sizes[widest] /= 2;
  high.sizes[widest] -= copy.sizes[widest];
  high.from_offset += copy.sizes[widest] * copy.from_strides[widest];
  high.to_offset += copy.sizes[widest] * copy.to_strides[widest];
  return {std::move(copy), std::move(high)};
}

}  // namespace

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t axis = sizes.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * sizes[axis];
  return strides;
}

void collapse(StridedCopy& copy) {
  StridedCopy out{{}, {}, {}, copy.from_offset, copy.to_offset};
  for (std::size_t axis = 0; axis < copy.sizes.size(); ++axis) {
    const std::int64_t size = copy.sizes[axis];
    if (size == 1) continue;
    const bool merges = !out.sizes.empty() && out.from_strides.back() == copy.from_strides[axis] * size &&
                        out.to_strides.back() == copy.to_strides[axis] * size;
    if (merges) {
      out.sizes.back() *= size;
      out.from_strides.back() = copy.from_strides[axis];
      out.to_strides.back() = copy.to_strides[axis];
    } else {
      out.sizes.push_back(size);
      out.from_strides.push_back(copy.from_strides[axis]);
      out.to_strides.push_back(copy.to_strides[axis]);
    }
  }
  if (out.sizes.empty()) {
    out.sizes = out.from_strides = out.to_strides = {1};
  }
  copy = std::move(out);
}

std::uint64_t binding_words(const gpu::Caps& caps) {
  constexpr std::uint64_t kMostBytes = 1u << 30;  // kernels count bytes and 16-bit numbers by 32 bits, some with a sign
  const std::uint64_t words = std::min<std::uint64_t>(caps.max_storage_buffer_range, kMostBytes) / 4;
  return std::max<std::uint64_t>(words / 1024 * 1024, 1024);
}

Binding part_of(Binding whole, std::uint64_t first, std::uint64_t words) {
  whole.slot.offset += 4 * first;
  whole.slot.size = 4 * words;
  return whole;
}

Status emit_strided_copy(Emitter& e, const Binding& from, const Binding& to, StridedCopy copy) {
  std::uint64_t words = 1;
  for (const std::int64_t size : copy.sizes) words *= static_cast<std::uint64_t>(size);
  if (words == 0) return ok_status();
  push::StridedCopyPush push{};
  GRAFT_TRY_ASSIGN(push.count, count32(words, "copied box"));
  collapse(copy);
  std::int64_t from_offset = copy.from_offset;
  std::int64_t to_offset = copy.to_offset;
  const auto from_part = bound_part(e, from, copy.sizes, copy.from_strides, from_offset);
  const auto to_part = bound_part(e, to, copy.sizes, copy.to_strides, to_offset);
  if (!from_part || !to_part) {
    const auto [low, high] = split(std::move(copy), !from_part);
    GRAFT_TRY(emit_strided_copy(e, from, to, low));
    return emit_strided_copy(e, from, to, high);
  }

  push.axes = static_cast<std::uint32_t>(copy.sizes.size());
  // Addresses are taken modulo 2^32 in the kernel, so that negative strides work as unsigned words.
  push.from_offset = static_cast<std::uint32_t>(from_offset);
  push.to_offset = static_cast<std::uint32_t>(to_offset);
  for (std::size_t axis = 0; axis < copy.sizes.size(); ++axis) {
    push.size[axis] = static_cast<std::uint32_t>(copy.sizes[axis]);
    push.from_stride[axis] = static_cast<std::uint32_t>(copy.from_strides[axis]);
    push.to_stride[axis] = static_cast<std::uint32_t>(copy.to_strides[axis]);
  }
  e.dispatch(shaders::KernelId::strided_copy__w32, {}, {*from_part, *to_part}, push,
             e.spread(ceil_div<std::uint64_t>(words, kWorkgroup)));
  return ok_status();
}

Status emit_fill(Emitter& e, const Binding& to, std::uint64_t words, std::uint32_t word) {
  return for_each_tile(e, words, [&](std::uint64_t first, std::uint64_t count) {
    push::FillWordsPush push{.word = word};
    GRAFT_TRY_ASSIGN(push.count, count32(count, "filled tensor"));
    const bool whole = first == 0 && count == words;
    e.dispatch(shaders::KernelId::fill_words__w32, {}, {whole ? to : part_of(to, first, count)}, push,
               e.spread(ceil_div<std::uint64_t>(count, kWorkgroup)));
    return ok_status();
  });
}

Status emit_copy(Emitter& e, const Binding& from, const Binding& to, std::uint64_t words) {
  return emit_strided_copy(e, from, to, {{static_cast<std::int64_t>(words)}, {1}, {1}});
}

Status expect_words(DType dtype) {
  if (dtype_size(dtype) == 4) return ok_status();
  return unsupported("Tensors of type ", dtype_name(dtype), " cannot be moved yet; f32, i32 and boolean can.");
}

}  // namespace graft
