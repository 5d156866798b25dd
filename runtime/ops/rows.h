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

/// The most invocations that contiguous elements are shared by (Family::rows), at most a workgroup.
inline std::uint64_t most_slices(Emitter& e, std::uint64_t rows, std::uint64_t columns, std::uint64_t workgroup) {
  const Variant& variant = e.note(choose(Family::rows, e.target(), {.m = rows, .n = columns}));
  return variant.tile[0] == 0 ? cpu_lanes(e.caps()) : std::min<std::uint64_t>(variant.tile[0], workgroup);
}

/// For `rows` rows of `columns` elements that stand `inner` apart.
inline RowSchedule row_schedule(Emitter& e, std::uint64_t rows, std::uint64_t columns, std::uint64_t inner) {
  constexpr std::uint64_t kInvocations = 128;
  RowSchedule s;
  s.rows_first = inner > 1;
  s.vector = inner == 1 && columns % 4 == 0;
  // Contiguous rows want many invocations side by side; interleaved ones few, and more only where rows are few.
  const std::uint64_t most = inner > 1 ? 16 : most_slices(e, rows, columns, kInvocations);
  const std::uint64_t run = inner > 1 ? 16 : 4;
  while (s.slices < most && columns >= 2 * run * s.slices && (inner == 1 || rows * s.slices < 16384)) s.slices *= 2;
  const std::uint64_t rows_per_group = kInvocations / s.slices;
  s.workgroups = (rows + rows_per_group - 1) / rows_per_group;
  return s;
}

}  // namespace graft
