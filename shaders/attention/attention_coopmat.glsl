// Tiles of f16 (MATRIX_BF16: bf16) and products of them by a device's matrix units, sums in f32: what attention.glsl's
// products become.
// Each subgroup takes its share of the 32 x 32 results, which go through shared memory to the invocations that hold
// them.
layout(constant_id = 16) const uint kMatM = 16;  // the device's matrices; divisors of 32
layout(constant_id = 17) const uint kMatN = 16;
layout(constant_id = 18) const uint kMatK = 16;
const uint kRow = kVectors + 2u;  // 16 bytes keep aligned, neighbouring rows lie in different banks
const uint kMatrices = (kTile / kMatM) * (kTile / kMatN);
#define TILE_VECTOR HALF4
shared HALF4 left_tile[kTile * kRow];
shared HALF4 right_tile[kTile * kRow];
shared HALF half_weights[4u * kTile * kRow];  // [row][key]
shared float products[kTile * kTile];

// The product of two tiles in `products`. The tiles, and the weights, have been written before the last barrier; what
// was in `products` may still be read by others until the next.
#define MATRIX_PRODUCT(name, a_tile, a_at, a_stride, a_layout, b_tile, b_at, b_layout)                               \
  void name() {                                                                                                      \
    [[unroll]] for (uint i = 0u; i < kMatrices; ++i) {                                                               \
      const uint m = i / (kTile / kMatN) * kMatM;                                                                    \
      const uint n = i % (kTile / kMatN) * kMatN;                                                                    \
      if (i % gl_NumSubgroups == gl_SubgroupID) {                                                                    \
        coopmat<float, gl_ScopeSubgroup, kMatM, kMatN, gl_MatrixUseAccumulator> sum =                                \
            coopmat<float, gl_ScopeSubgroup, kMatM, kMatN, gl_MatrixUseAccumulator>(0.0);                            \
        [[unroll]] for (uint k = 0u; k < kTile; k += kMatK) {                                                        \
          coopmat<HALF, gl_ScopeSubgroup, kMatM, kMatK, gl_MatrixUseA> a;                                            \
          coopmat<HALF, gl_ScopeSubgroup, kMatK, kMatN, gl_MatrixUseB> b;                                            \
          coopMatLoad(a, a_tile, a_at, a_stride, gl_CooperativeMatrixLayout##a_layout);                              \
          coopMatLoad(b, b_tile, b_at, kRow, gl_CooperativeMatrixLayout##b_layout);                                  \
          sum = coopMatMulAdd(a, b, sum);                                                                            \
        }                                                                                                            \
        coopMatStore(sum, products, m * kTile + n, kTile, gl_CooperativeMatrixLayoutRowMajor);                       \
      }                                                                                                              \
    }                                                                                                                \
    barrier();                                                                                                       \
  }
MATRIX_PRODUCT(rows_by_rows, left_tile, m * kRow + k / 4u, kRow, RowMajor, right_tile, n * kRow + k / 4u, ColumnMajor)
MATRIX_PRODUCT(weights_by_right, half_weights, m * 4u * kRow + k, 4u * kRow, RowMajor, right_tile, k * kRow + n / 4u,
               RowMajor)
MATRIX_PRODUCT(weights_by_left, half_weights, k * 4u * kRow + m, 4u * kRow, ColumnMajor, left_tile, k * kRow + n / 4u,
               RowMajor)
