// The end of gemm_tile() where a lane holds acc[kLaneRows * kColumns] of the rows from first_row on: stores them. Text for
// the middle of a function, because drivers stumble over arrays of specialized size as arguments. GEMM_OWN_ROW(i) is the row
// of acc[i * kColumns], where that differs by lane.
#ifndef GEMM_OWN_ROW
#define GEMM_OWN_ROW(i) (i)
#endif
  // A loop over a few rows at a time that picks their registers by comparison, because each place in the code that stores
  // costs a CPU driver's compiler milliseconds, and each comparison a run of the code.
  const uint copy = place.copy * p.split_stride;
#ifdef GEMM_DEAR_ROWS
  // Of as many rows as there are lanes, a lane each. Not in clusters: llvmpipe permutes eight lanes at once by an index
  // that is no constant, but four one by one.
  uint addresses[kRows];
  const bool each = kClusters == 1 && !kSwaps;
  if (each) {
    [[unroll]] for (uint i = 0; i < kRows; ++i) addresses[i] = out_row(first_row + i * kLanes + lane);
  }
#endif
  uint first = 0;
  [[dont_unroll]] while (true) {
    [[unroll]] for (uint s = 0; s < kStoreRows; ++s) {
      float value[kColumns];
      [[unroll]] for (uint j = 0; j < kColumns; ++j) {
        value[j] = acc[s * kColumns + j];
        [[unroll]] for (uint r = kStoreRows; r < kLaneRows; r += kStoreRows) {
          value[j] = first == r ? acc[(r + s) * kColumns + j] : value[j];
        }
      }
      const uint m = first_row + GEMM_OWN_ROW(first + s);
#ifdef GEMM_DEAR_ROWS
      uint row = 0;
      if (each) {
        row = addresses[0];
        [[unroll]] for (uint i = 1; i < kRows; ++i) row = (first + s) / kLanes == i ? addresses[i] : row;
        row = HANDED(row, (first + s) % kLanes);
      } else {
        row = out_row(m);
      }
#else
      const uint row = out_row(m);
#endif
      // No loop inside a branch on it: see gemm_shuffle.glsl.
      const bool exists = m < p.m && row != kNowhere;
#ifdef GEMM_STORES_FOURS
      if (kStoreFours) {
        [[unroll]] for (uint j = 0; j < kColumns; j += 4) {
          const uint n = place.n0 + column_of(lane, j);
          // A single column has no runs, but is compiled too.
          const vec4 four = vec4(value[j], value[min(j + 1, kColumns - 1)], value[min(j + 2, kColumns - 1)],
                                 value[min(j + 3, kColumns - 1)]);
          if (exists && n < p.n) out_store4(copy + row + n, n, four);
        }
      } else
#endif
      [[unroll]] for (uint j = 0; j < kColumns; ++j) {
        const uint n = place.n0 + column_of(lane, j);
        if (exists && n < p.n) out_store(copy + row + n, n, value[j]);
      }
    }
    first += kStoreRows;
    if (first >= kLaneRows) break;
  }
