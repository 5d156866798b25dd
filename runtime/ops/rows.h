// How many invocations share a row in kernels that include shaders/common/rows.glsl.
#pragma once

#include <algorithm>

#include "runtime/ops/emitter.h"

namespace graft {

struct RowSchedule {
  std::uint32_t slices = 1;      ///< invocations of a row; constant_id 0
  bool rows_first = false;       ///< neighbouring invocations handle neighbouring rows; constant_id 1
  bool vector = false;           ///< rows are read four columns at a time; constant_id 2
  std::uint64_t workgroups = 0;  ///< for Emitter::spread()
};

/// The most invocations that contiguous elements are shared by: a whole workgroup on a GPU; on a CPU device one
/// subgroup, whose lanes are all that runs side by side, while each further one costs a switch at every barrier.
inline std::uint64_t most_slices(const gpu::Caps& caps, std::uint64_t workgroup) {
  if (caps.type != gpu::DeviceType::cpu) return workgroup;
  return std::clamp<std::uint64_t>(std::bit_floor(caps.subgroup_size), 4, 16);
}

/// For `rows` rows of `columns` elements that stand `inner` apart.
inline RowSchedule row_schedule(const gpu::Caps& caps, std::uint64_t rows, std::uint64_t columns, std::uint64_t inner) {
  constexpr std::uint64_t kInvocations = 128;
  RowSchedule s;
  s.rows_first = inner > 1;
  s.vector = inner == 1 && columns % 4 == 0;
  // Contiguous rows want many invocations side by side; interleaved ones few, and more only where rows are few.
  const std::uint64_t most = inner > 1 ? 16 : most_slices(caps, kInvocations);
  const std::uint64_t run = inner > 1 ? 16 : 4;
  while (s.slices < most && columns >= 2 * run * s.slices && (inner == 1 || rows * s.slices < 16384)) s.slices *= 2;
  const std::uint64_t rows_per_group = kInvocations / s.slices;
  s.workgroups = (rows + rows_per_group - 1) / rows_per_group;
  return s;
}

}  // namespace graft
