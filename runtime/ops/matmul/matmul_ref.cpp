#include <algorithm>

#include "runtime/reference/ref_context.h"

namespace graft::ops::matmul {
namespace {

// An operand as [batch.., rows, cols] with the offset of each batch of the output.
struct Operand {
  std::vector<std::int64_t> dims;
  std::int64_t row_stride;
  std::int64_t col_stride;
  std::int64_t rows;
  std::int64_t cols;

  Operand(std::vector<std::int64_t> d, bool first, bool transposed) : dims(std::move(d)) {
    if (dims.size() == 1) {
      dims.insert(first ? dims.begin() : dims.end(), 1);
      transposed = false;
    }
    const std::size_t rank = dims.size();
    rows = dims[rank - 2];
    cols = dims[rank - 1];
    row_stride = cols;
    col_stride = 1;
    if (transposed) {
      std::swap(rows, cols);
      std::swap(row_stride, col_stride);
    }
  }

  std::int64_t offset(std::int64_t flat, const std::vector<std::int64_t>& batch) const {
    std::int64_t at = 0;
    std::int64_t stride = rows * cols;
    const std::size_t own = dims.size() - 2;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::int64_t size = batch[batch.size() - 1 - i];
      if (i < own) {
        const std::int64_t mine = dims[own - 1 - i];
        if (mine != 1) at += flat % size * stride;
        stride *= mine;
      }
      flat /= size;
    }
    return at;
  }
};

}  // namespace

void ref_matmul(RefContext& c) {
  const Operand a(c.in_dims(0), true, c.attrs().flag("trans_a"));
  const Operand b(c.in_dims(1), false, c.attrs().flag("trans_b"));
  std::vector<std::int64_t> batch = c.out_dims();
  if (c.in_dims(0).size() > 1) batch.pop_back();
  if (c.in_dims(1).size() > 1) batch.pop_back();
  std::int64_t batches = 1;
  for (const std::int64_t size : batch) batches *= size;
  for (std::int64_t i = 0; i < batches; ++i) {
    const std::int64_t a0 = a.offset(i, batch);
    const std::int64_t b0 = b.offset(i, batch);
    for (std::int64_t m = 0; m < a.rows; ++m) {
      for (std::int64_t n = 0; n < b.cols; ++n) {
        double sum = c.has(2) ? c.in(2)[n] : 0;
        for (std::int64_t k = 0; k < a.cols; ++k) {
          sum += c.in(0)[a0 + m * a.row_stride + k * a.col_stride] * c.in(1)[b0 + k * b.row_stride + n * b.col_stride];
        }
        c.out()[(i * a.rows + m) * b.cols + n] = sum;
      }
    }
  }
}

}  // namespace graft::ops::matmul
