#include "tools/convert/common/export_tensor.h"

#include <cstring>

#include "platform/base/half.h"
#include "runtime/core/narrow.h"
#include "runtime/core/quantized.h"
#include "runtime/core/source_order.h"
#include "tools/convert/common/host_tensor.h"

namespace graft::convert {
namespace {

bool is_number(DType dtype) { return is_float(dtype) || is_quantized(dtype); }

std::span<float> floats(HostBuffer& buffer) {
  return {reinterpret_cast<float*>(buffer.data()), buffer.size() / sizeof(float)};
}

/// Rows in another order, whatever their numbers are encoded as: blocks never cross rows.
Result<HostBuffer> with_rows(const ExportTensor& tensor) {
  const auto rows = static_cast<std::size_t>(tensor.source.dims.front());
  const bool pairs = tensor.pairs == PairOrder::neighbours || tensor.pairs == PairOrder::halves;
  if (tensor.heads < 1 || tensor.source.dims.front() % ((pairs ? 2 : 3) * tensor.heads) != 0) {
    return corrupt("The tensor \"", tensor.name, "\" has ", rows, " rows, which are no ", tensor.heads, " heads of ",
                   pairs ? "pairs." : "queries, keys and values.");
  }
  const std::size_t row_bytes = tensor.source.bytes.size() / rows;
  GRAFT_TRY_ASSIGN(HostBuffer out, HostBuffer::create(tensor.source.bytes.size(), tensor.name));
  const std::vector<std::size_t> order = pair_rows(rows, tensor.heads, tensor.pairs);
  for (std::size_t i = 0; i < rows; ++i) {
    std::memcpy(out.data() + i * row_bytes, tensor.source.bytes.data() + order[i] * row_bytes, row_bytes);
  }
  return out;
}

Result<HostBuffer> narrowed(std::span<const float> numbers, DType dtype, const std::string& name) {
  GRAFT_TRY(check_narrowing(name, numbers, dtype));
  GRAFT_TRY_ASSIGN(HostBuffer out, HostBuffer::create(storage_bytes(dtype, numbers.size()), name));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint16_t bits = dtype == DType::f16 ? float_to_half(numbers[i]) : float_to_bfloat(numbers[i]);
    std::memcpy(out.data() + 2 * i, &bits, sizeof bits);
  }
  return out;
}

/// f32 as another type.
Result<HostBuffer> encoded(HostBuffer numbers, const ExportTensor& tensor, DType dtype,
                           std::optional<BlockError>& error) {
  if (dtype == DType::f32) return numbers;
  if (dtype == DType::f16 || dtype == DType::bf16) return narrowed(floats(numbers), dtype, tensor.name);
  return to_blocks(dtype, floats(numbers), tensor.name, tensor.scales, error.emplace());
}

/// With the axes in the source's order, as f32 words or integers of 32 bits.
Status reorder(const ExportTensor& tensor, HostBuffer& numbers) {
  if (tensor.perm.empty()) return {};
  const auto ordered = words_in_source_order(numbers.bytes(), tensor.source.dims, tensor.perm);
  std::memcpy(numbers.data(), ordered.data(), ordered.size());
  return {};
}

}  // namespace

std::vector<std::int64_t> ExportTensor::dims() const {
  std::vector<std::int64_t> out = source.dims;
  for (std::size_t i = 0; i < perm.size(); ++i) out[perm[i]] = source.dims[i];
  return out;
}

std::uint64_t ExportTensor::bytes() const { return storage_bytes(dtype, source.elements()); }

std::vector<std::size_t> pair_rows(std::size_t rows, std::int64_t heads, PairOrder order) {
  std::vector<std::size_t> out(rows);
  const std::size_t head = heads > 0 ? rows / static_cast<std::size_t>(heads) : rows;
  const std::size_t half = head / 2;
  const std::size_t part = head / 3, third = rows / 3;  // of queries, keys and values
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row / head * head;
    const std::size_t at = row - first;
    if (order == PairOrder::neighbours) {
      out[row] = first + at % 2 * half + at / 2;
    } else if (order == PairOrder::halves) {
      out[row] = first + at % half * 2 + at / half;
    } else if (order == PairOrder::blocks) {
      out[row] = row % third / part * head + row / third * part + row % part;
    } else if (order == PairOrder::groups) {
      out[row] = at / part * third + row / head * part + at % part;
    } else {
      out[row] = row;
    }
  }
  return out;
}

Result<ExportBytes> export_bytes(const ExportTensor& tensor) {
  ExportTensor given = tensor;
  HostBuffer rows;
  if (tensor.pairs != PairOrder::keep && tensor.source.elements() != 0) {
    GRAFT_TRY_ASSIGN(rows, with_rows(tensor));
    given.source.bytes = rows.bytes();
  }
  if (tensor.dtype == tensor.source.dtype && tensor.perm.empty() && tensor.added == 0) {
    return ExportBytes{given.source.bytes, std::move(rows)};
  }
  if (!is_number(tensor.source.dtype) || !is_number(tensor.dtype)) {
    const bool words =
        storage_bytes(tensor.source.dtype, 1) == 4 && tensor.added == 0 && tensor.dtype == tensor.source.dtype;
    if (!words) {
      return unsupported("The tensor \"", tensor.name, "\" is of type ", dtype_name(tensor.source.dtype),
                         " and cannot be written as ", dtype_name(tensor.dtype), ".");
    }
    given.source.dtype = DType::f32;  // words are words
  }
  GRAFT_TRY_ASSIGN(HostBuffer numbers, to_f32(given.source, tensor.name));
  GRAFT_TRY(reorder(given, numbers));
  if (tensor.added != 0) {
    for (float& x : floats(numbers)) x += tensor.added;
  }
  ExportBytes out;
  GRAFT_TRY_ASSIGN(out.owned,
                   encoded(std::move(numbers), tensor, is_number(tensor.dtype) ? tensor.dtype : DType::f32, out.error));
  out.bytes = out.owned.bytes();
  return out;
}

ExportTensor export_tensor(const Value& value, std::span<const std::byte> bytes) {
  ExportTensor out;
  out.name = value.name;
  out.source.dtype = out.dtype = value.dtype;
  for (std::size_t i = 0; i < value.shape.rank(); ++i) out.source.dims.push_back(value.shape[i].value());
  out.source.bytes = bytes;
  out.perm = value.source_perm;
  return out;
}

}  // namespace graft::convert
