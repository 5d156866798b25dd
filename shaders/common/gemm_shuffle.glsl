// The GEMM tile for devices whose lanes are narrow vectors and whose shared memory is no faster than their caches (CPUs):
// each lane owns kColumns columns of all rows of its cluster, A is loaded once per cluster (a lane per row) and handed
// round by shuffles. With kSwaps four lanes swap numbers instead of asking one for its own: every lane gets the same
// rows, each in an order of its own.

layout(constant_id = 0) const uint kInvocations = 8;
layout(constant_id = 1) const uint kLaneRows = 16;
layout(constant_id = 2) const uint kColumns = 4;
layout(constant_id = 6) const uint kClusters = 1;  // along m, of rows of their own
#include "shaders/common/clusters.glsl"
#include "shaders/common/gemm_lane_vectors.glsl"
const uint kTileM = kClusters * kLaneRows;
const uint kTileN = kLanes * kColumns;
const uint kRows = (kLaneRows + kLanes - 1) / kLanes;
layout(constant_id = 9) const bool kSwaps = false;  // where kLanes is four, and so divides the rows (quads of them)
const bool kOneQuad = kLanes % kQuadRows == 0;  // each lane loads one quad of rows, in several steps

// The row of A that a lane loads.
uint row_of(uint lane, uint i) {
  if (kAcrossA) return (kOneQuad ? lane : i * kLanes + lane) % kQuadRows * 4;
  return i * kLanes + lane;
}
// Lanes own neighbouring columns, so that loads are contiguous; or runs of four that are loaded or
// stored at once.
uint column_of(uint lane, uint j) {
  return kRunsOfFour ? (j / 4 * kLanes + lane) * 4 + j % 4 : j * kLanes + lane;
}

// The row that a lane's sums i are of.
#define GEMM_OWN_ROW(i) (kSwaps ? (i) ^ (kAcrossA ? lane * 4 : lane) : (i))
// Declares what the lane `from` holds of own; with kSwaps what the lane does whose number differs in the bits of `from`.
// Each swap by a constant, which is one instruction where a driver has operations of quads.
#define HAND_ROUND(value, own, from)                                                                          \
  float value = own;                                                                                          \
  if (!kSwaps) {                                                                                              \
    value = HANDED(own, from);                                                                                \
  } else if ((from) == 1) {                                                                                   \
    value = subgroupShuffleXor(own, 1);                                                                       \
  } else if ((from) == 2) {                                                                                   \
    value = subgroupShuffleXor(own, 2);                                                                       \
  } else if ((from) == 3) {                                                                                   \
    value = subgroupShuffleXor(own, 3);                                                                       \
  }

#ifdef GEMM_TOUCHES
// An operand that lies across k is a short run of each step's row, at most pages apart, which no CPU reads ahead. Four
// steps' loads would wait for few lines at a time; so each lane first asks for a line of the four steps to come.
const uint kLine = 16;  // elements
const uint kTouchesA = ((kLaneRows + kLine - 1) / kLine * 4 + kLanes - 1) / kLanes;
const uint kTouchesB = ((kTileN + kLine - 1) / kLine * 4 + kLanes - 1) / kLanes;
uint touched_of(uint lane, uint i, uint tile) { return (i * kLanes + lane) / 4 * kLine % tile; }
#endif

void gemm_tile(Place place, uint k_begin, uint k_end) {
  const uint lane = own_lane();
  const uint first_row = place.m0 + own_cluster() * kLaneRows;
  float acc[kLaneRows * kColumns];
  [[unroll]] for (uint i = 0; i < kLaneRows * kColumns; ++i) acc[i] = 0.0;
  Row rows[kRows];
  Col cols[kColumns];
  [[unroll]] for (uint i = 0; i < kRows; ++i) rows[i] = a_row(first_row + row_of(lane, i));
  [[unroll]] for (uint j = 0; j < kColumns; ++j) cols[j] = b_col(place.n0 + column_of(lane, j));

#ifdef GEMM_TOUCHES
  float touched = 0.0;
#endif
  // Loops test at their end: llvmpipe runs the whole body once more of a loop that tests at its start.
  uint k = k_begin;
  if (k_begin < k_end) while (true) {
    const uint t = k / p.inner;
    const uint c_begin = k - t * p.inner;
    const uint c_count = min(p.inner - c_begin, k_end - k);
    k += c_count;
    Ptr pa[kRows];
    Ptr pb[kColumns];
    [[unroll]] for (uint i = 0; i < kRows; ++i) pa[i] = a_at(rows[i], t);
    [[unroll]] for (uint j = 0; j < kColumns; ++j) pb[j] = b_at(cols[j], t);
    uint c = c_begin;
    uint c_end = c_begin + c_count;
#ifdef GEMM_SKIPS_OUTSIDE
    // Most rows of a tile are neighbours: often a whole outer step reaches none of them, and one pass adds its zeros.
    uint inside = 0;
    [[unroll]] for (uint i = 0; i < kRows; ++i) inside |= pa[i].inside ? 1u : 0u;
    uint any = 0;
    [[unroll]] for (uint lane_i = 0; lane_i < kLanes; ++lane_i) any |= HANDED(inside, lane_i);
    if (any == 0) c_end = c_begin + 1;
#endif
#ifdef GEMM_VECTORS
    if (kVectorA != 0 || kVectorB != 0) {
#ifdef GEMM_TOUCHES
      Ptr ta[kTouchesA];
      Ptr tb[kTouchesB];
      [[unroll]] for (uint i = 0; i < kTouchesA; ++i) ta[i] = a_at(a_row(first_row + touched_of(lane, i, kLaneRows)), t);
      [[unroll]] for (uint i = 0; i < kTouchesB; ++i) tb[i] = b_at(b_col(place.n0 + touched_of(lane, i, kTileN)), t);
#endif
      // Steps c to c + 3 of k, those beyond c_end as zeros. No function: drivers stumble over arrays of specialized size.
      // No loops inside branches: spirv-opt, which SwiftShader runs, then leaves the loops around those as they are, and
      // arrays in memory.
      while (true) {
        vec4 a[kRows];
        vec4 b[4 * kQuadColumns];  // four steps of each column, or of each quad of columns
#ifdef GEMM_TOUCHES
        [[unroll]] for (uint i = 0; i < kTouchesA; ++i) {
          if (kAcrossA) touched += a_load(ta[i], min(c + 4 + lane % 4, c_end - 1));
        }
        [[unroll]] for (uint i = 0; i < kTouchesB; ++i) {
          if (kAcrossB) touched += b_load(tb[i], min(c + 4 + lane % 4, c_end - 1));
        }
#endif
        [[unroll]] for (uint i = 0; i < kRows; ++i) {
          if (kVectorA == kAlongK) {
            a[i] = a_load4(pa[i], c);
          } else if (kAcrossA) {
            const uint step = c + (i * kLanes + lane) / kQuadRows;
            const vec4 loaded = a_load4(pa[kOneQuad ? 0 : i], min(step, c_end - 1));
            a[i] = step < c_end ? loaded : vec4(0.0);
          } else {
            const vec4 loaded = vec4(a_load(pa[i], c), a_load(pa[i], min(c + 1, c_end - 1)),
                                     a_load(pa[i], min(c + 2, c_end - 1)), a_load(pa[i], min(c + 3, c_end - 1)));
            a[i] = mix(vec4(0.0), loaded, lessThan(c + uvec4(0, 1, 2, 3), uvec4(c_end)));
          }
        }
        [[unroll]] for (uint j = 0; j < 4 * kQuadColumns; ++j) {
          if (kAcrossB) {
            b[j] = b_load4(pb[j / 4 * 4], min(c + j % 4, c_end - 1));  // step c + j % 4 of four columns
          } else if (j < kColumns && kVectorB == kAlongK) {
            b[j] = b_load4(pb[min(j, kColumns - 1)], c);
          } else if (j < kColumns) {
            const Ptr ptr = pb[min(j, kColumns - 1)];
            b[j] = vec4(b_load(ptr, c), b_load(ptr, min(c + 1, c_end - 1)), b_load(ptr, min(c + 2, c_end - 1)),
                        b_load(ptr, min(c + 3, c_end - 1)));
          }
        }
        // Row by row, so that the few sums of a row stay in registers for four steps.
        [[unroll]] for (uint i = 0; i < kLaneRows; ++i) {
          [[unroll]] for (uint q = 0; q < 4; ++q) {
            const uint at = q * kQuadRows + i / 4;
            const float own = kAcrossA ? a[at / kLanes][i % 4] : a[i / kLanes][q];
            const uint from = (kAcrossA ? at : i) % kLanes;
            HAND_ROUND(value, own, from);
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
      float a[kRows];
      float b[kColumns];
      [[unroll]] for (uint i = 0; i < kRows; ++i) a[i] = a_load(pa[i], c);
      [[unroll]] for (uint j = 0; j < kColumns; ++j) b[j] = b_load(pb[j], c);
      [[unroll]] for (uint i = 0; i < kLaneRows; ++i) {
        HAND_ROUND(value, a[i / kLanes], i % kLanes);
        [[unroll]] for (uint j = 0; j < kColumns; ++j) acc[i * kColumns + j] += value * b[j];
      }
      if (++c == c_end) break;
    }
    if (k >= k_end) break;
  }

#ifdef GEMM_TOUCHES
  if (p.has_bias > 1) acc[0] += touched;  // never
#endif
#include "shaders/common/gemm_lane_store.glsl"
}
