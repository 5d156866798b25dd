// The GEMM tile for CPUs without (narrow) subgroups: no lane knows of another. Each owns kLaneRows x kColumns outputs and
// loads its rows and columns itself, so that the loads per product are fewest where the tile of a lane is nearly square
// and large: its sums lie on the stack, which costs less than a load. Needs Vulkan 1.1 core only.

layout(constant_id = 0) const uint kLanes = 8;
layout(constant_id = 1) const uint kLaneRows = 16;
layout(constant_id = 2) const uint kColumns = 16;
layout(constant_id = 6) const uint kLanesM = 2;  // lanes that stand along m
#include "shaders/common/gemm_lane_vectors.glsl"
const uint kLanesN = kLanes / kLanesM;
const uint kTileM = kLanesM * kLaneRows;
const uint kTileN = kLanesN * kColumns;

// Neighbouring lanes own neighbouring columns, or runs of four of them.
uint column_of(uint lane, uint j) {
  const uint lane_n = lane % kLanesN;
  return kRunsOfFour ? (j / 4 * kLanesN + lane_n) * 4 + j % 4 : j * kLanesN + lane_n;
}

void gemm_tile(Place place, uint k_begin, uint k_end) {
  const uint lane = gl_LocalInvocationIndex;
  const uint first_row = place.m0 + lane / kLanesN * kLaneRows;
  float acc[kLaneRows * kColumns];
  [[unroll]] for (uint i = 0; i < kLaneRows * kColumns; ++i) acc[i] = 0.0;
  Row rows[kLaneRows];
  Col cols[kColumns];
  [[unroll]] for (uint i = 0; i < kLaneRows; ++i) rows[i] = a_row(first_row + i);
  [[unroll]] for (uint j = 0; j < kColumns; ++j) cols[j] = b_col(place.n0 + column_of(lane, j));

  // Loops test at their end: see gemm_shuffle.glsl.
  uint k = k_begin;
  if (k_begin < k_end) while (true) {
    const uint t = k / p.inner;
    const uint c_begin = k - t * p.inner;
    const uint c_count = min(p.inner - c_begin, k_end - k);
    k += c_count;
    Ptr pa[kLaneRows];
    Ptr pb[kColumns];
    [[unroll]] for (uint i = 0; i < kLaneRows; ++i) pa[i] = a_at(rows[i], t);
    [[unroll]] for (uint j = 0; j < kColumns; ++j) pb[j] = b_at(cols[j], t);
    uint c = c_begin;
    uint c_end = c_begin + c_count;
#ifdef GEMM_SKIPS_OUTSIDE
    bool inside = false;
    [[unroll]] for (uint i = 0; i < kLaneRows; ++i) inside = inside || pa[i].inside;
    if (!inside) c_end = c_begin + 1;
#endif
#ifdef GEMM_VECTORS
    if (kVectorA != 0 || kVectorB != 0) {
      // Steps c to c + 3 of k, those beyond c_end as zeros.
      while (true) {
        vec4 a[4 * kQuadRows];     // four steps of each row, or of each quad of rows
        vec4 b[4 * kQuadColumns];  // the same of columns
        [[unroll]] for (uint i = 0; i < 4 * kQuadRows; ++i) {
          if (kAcrossA) {
            const vec4 loaded = a_load4(pa[i / 4 * 4], min(c + i % 4, c_end - 1));
            a[i] = c + i % 4 < c_end ? loaded : vec4(0.0);
          } else if (i < kLaneRows && kVectorA == kAlongK) {
            a[i] = a_load4(pa[min(i, kLaneRows - 1)], c);
          } else if (i < kLaneRows) {
            [[unroll]] for (uint q = 0; q < 4; ++q) {
              const float loaded = a_load(pa[min(i, kLaneRows - 1)], min(c + q, c_end - 1));
              a[i][q] = c + q < c_end ? loaded : 0.0;
            }
          }
        }
        [[unroll]] for (uint j = 0; j < 4 * kQuadColumns; ++j) {
          if (kAcrossB) {
            b[j] = b_load4(pb[j / 4 * 4], min(c + j % 4, c_end - 1));
          } else if (j < kColumns && kVectorB == kAlongK) {
            b[j] = b_load4(pb[min(j, kColumns - 1)], c);
          } else if (j < kColumns) {
            [[unroll]] for (uint q = 0; q < 4; ++q) b[j][q] = b_load(pb[min(j, kColumns - 1)], min(c + q, c_end - 1));
          }
        }
        [[unroll]] for (uint i = 0; i < kLaneRows; ++i) {
          [[unroll]] for (uint q = 0; q < 4; ++q) {
            const float value = kAcrossA ? a[i / 4 * 4 + q][i % 4] : a[i][q];
            [[unroll]] for (uint j = 0; j < kColumns; ++j) {
              acc[i * kColumns + j] += value * (kAcrossB ? b[j / 4 * 4 + q][j % 4] : b[j][q]);
            }
          }
        }
        c += 4;
        if (c >= c_end) break;
      }
    } else
#endif
    while (true) {
      float b[kColumns];
      [[unroll]] for (uint j = 0; j < kColumns; ++j) b[j] = b_load(pb[j], c);
      [[unroll]] for (uint i = 0; i < kLaneRows; ++i) {
        const float value = a_load(pa[i], c);
        [[unroll]] for (uint j = 0; j < kColumns; ++j) acc[i * kColumns + j] += value * b[j];
      }
      if (++c == c_end) break;
    }
    if (k >= k_end) break;
  }
#include "shaders/common/gemm_lane_store.glsl"
}
