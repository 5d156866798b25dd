// Moving and filling 32-bit words: what transpose, expand, slice, concat and their gradients are made of.
// Every element type of four bytes is moved as words, so that one kernel serves f32, i32 and boolean.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/ops/emitter.h"

namespace graft {

/// A box of words copied from one strided place to another. Strides and offsets count words; they may be negative,
/// and a source stride of 0 repeats. Every address that the box touches must lie within its binding: the caller's
/// shapes guarantee it, the kernel does not check.
struct StridedCopy {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> from_strides;
  std::vector<std::int64_t> to_strides;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
};

/// Strides of a dense row-major tensor, in elements.
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& sizes);

/// Drops axes of size 1 and merges neighbours that both sides step through as one. At least one axis remains.
void collapse(StridedCopy& copy);

/// Words that one binding may hold on this device: a multiple of 1024, so that tiles begin at aligned offsets.
std::uint64_t binding_words(const gpu::Caps& caps);

/// Words [first, first + words) of a binding; `first` must be aligned as the device wants it.
Binding part_of(Binding whole, std::uint64_t first, std::uint64_t words);

/// Calls `Status run(first, count)` for runs of `words` words that one binding can hold each. An error where a tensor
/// has 2^32 words or more, which also bounds the number of dispatches.
template <typename Run>
Status for_each_tile(const Emitter& e, std::uint64_t words, Run run) {
  GRAFT_TRY(count32(words, "tensor"));
  const std::uint64_t step = binding_words(e.caps());
  for (std::uint64_t first = 0; first < words; first += step) GRAFT_TRY(run(first, std::min(step, words - first)));
  return ok_status();
}

/// Dispatches the copy, in parts where a tensor is larger than a binding may be; nothing where the box is empty.
/// Requires rank <= 8.
Status emit_strided_copy(Emitter& e, const Binding& from, const Binding& to, StridedCopy copy);

/// Sets `words` words from the start of `to`.
Status emit_fill(Emitter& e, const Binding& to, std::uint64_t words, std::uint32_t word);

/// Copies `words` words from the start of `from` to the start of `to`.
Status emit_copy(Emitter& e, const Binding& from, const Binding& to, std::uint64_t words);

/// The error of an emit function that was given 16-bit elements, which these kernels cannot move yet.
Status expect_words(DType dtype);

}  // namespace graft
