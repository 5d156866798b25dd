// The end of gemm_tile() where a lane holds acc[kLaneRows * kColumns] of the rows from first_row on: stores them. Text for
// the middle of a function, because drivers stumble over arrays of specialized size as arguments.
  // A loop over rows that picks its registers by comparison, because each place in the code that stores costs a CPU
  // driver's compiler milliseconds: this one is compiled in a fifth of the time of the unrolled one, and runs as fast.
  const uint copy = place.split * p.split_stride;
  [[dont_unroll]] for (uint i = 0; i < kLaneRows; ++i) {
    float value[kColumns];
    [[unroll]] for (uint j = 0; j < kColumns; ++j) {
      value[j] = acc[j];
      [[unroll]] for (uint r = 1; r < kLaneRows; ++r) value[j] = i == r ? acc[r * kColumns + j] : value[j];
    }
    const uint row = out_row(first_row + i);
    if (first_row + i < p.m && row != kNowhere) {
#ifdef GEMM_STORES_FOURS
      if (kRunsOfFour && p.n % 4 == 0) {
        [[unroll]] for (uint j = 0; j < kColumns; j += 4) {
          const uint n = place.n0 + column_of(lane, j);
          // A single column has no runs, but is compiled too.
          const vec4 four = vec4(value[j], value[min(j + 1, kColumns - 1)], value[min(j + 2, kColumns - 1)],
                                 value[min(j + 3, kColumns - 1)]);
          if (n < p.n) out_store4(copy + row + n, n, four);
        }
      } else
#endif
      [[unroll]] for (uint j = 0; j < kColumns; ++j) {
        const uint n = place.n0 + column_of(lane, j);
        if (n < p.n) out_store(copy + row + n, n, value[j]);
      }
    }
  }
