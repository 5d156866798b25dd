#include "runtime/ops/movement.h"

#include "platform/base/checked.h"
#include "shaders/common/fill_words_push.h"
#include "shaders/common/strided_copy_push.h"

namespace graft {
namespace {

constexpr std::uint32_t kWorkgroup = 128;  // local_size_x of the kernels here

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

Status emit_strided_copy(Emitter& e, const Binding& from, const Binding& to, StridedCopy copy) {
  std::uint64_t count = 1;
  for (const std::int64_t size : copy.sizes) count *= static_cast<std::uint64_t>(size);
  if (count == 0) return ok_status();
  collapse(copy);

  push::StridedCopyPush push{};
  GRAFT_TRY_ASSIGN(push.count, count32(count, "copied box"));
  push.axes = static_cast<std::uint32_t>(copy.sizes.size());
  // Addresses are taken modulo 2^32 in the kernel, so that negative strides work as unsigned words.
  push.from_offset = static_cast<std::uint32_t>(copy.from_offset);
  push.to_offset = static_cast<std::uint32_t>(copy.to_offset);
  for (std::size_t axis = 0; axis < copy.sizes.size(); ++axis) {
    push.size[axis] = static_cast<std::uint32_t>(copy.sizes[axis]);
    push.from_stride[axis] = static_cast<std::uint32_t>(copy.from_strides[axis]);
    push.to_stride[axis] = static_cast<std::uint32_t>(copy.to_strides[axis]);
  }
  e.dispatch(shaders::KernelId::strided_copy__w32, {}, {from, to}, push,
             e.spread(ceil_div<std::uint64_t>(count, kWorkgroup)));
  return ok_status();
}

Status emit_fill(Emitter& e, const Binding& to, std::uint64_t words, std::uint32_t word) {
  if (words == 0) return ok_status();
  push::FillWordsPush push{.word = word};
  GRAFT_TRY_ASSIGN(push.count, count32(words, "filled tensor"));
  e.dispatch(shaders::KernelId::fill_words__w32, {}, {to}, push, e.spread(ceil_div<std::uint64_t>(words, kWorkgroup)));
  return ok_status();
}

Status emit_copy(Emitter& e, const Binding& from, const Binding& to, std::uint64_t words) {
  return emit_strided_copy(e, from, to, {{static_cast<std::int64_t>(words)}, {1}, {1}});
}

Status expect_words(DType dtype) {
  if (dtype_size(dtype) == 4) return ok_status();
  return unsupported("Tensors of type ", dtype_name(dtype), " cannot be moved yet; f32, i32 and boolean can.");
}

}  // namespace graft
