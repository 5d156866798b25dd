// How the invocations of a workgroup go through their words of a tensor, vectors of four at a time. Lanes that read side
// by side, 128 bytes, have a run of vectors to themselves: CPU devices run so many lanes at a time from a kernel's begin
// to its end, and so pass through memory once. Neither barriers nor turns of a loop come cheap there: every invocation
// has a result of its own, and takes several vectors a turn.
#ifndef GRAFT_TOTALS_GLSL
#define GRAFT_TOTALS_GLSL
#include "shaders/optimizer/totals_push.h"
#include "shaders/common/table.glsl"

const uint kInvocations = 128u;  // kTotalsInvocations
const uint kRow = 8u;            // lanes side by side, and so the stride of each

struct Walk {
  uint first, end;      // vectors
  uint rest, rest_end;  // words behind the last whole vector: this lane's, if there are so many
};

Walk walk_of(uint group, uint lane) {
  const uint begin = group * p.per_group, end = min(begin + p.per_group, p.count);
  const uint vectors = (end - begin) / 4u, rows = kInvocations / kRow, each = (vectors + rows - 1u) / rows;
  const uint row = min(lane / kRow * each, vectors);
  return Walk(begin / 4u + row + lane % kRow, begin / 4u + min(row + each, vectors), begin + 4u * vectors + lane, end);
}
#endif
