#include "tools/convert/common/source_tensors.h"

#include <cstring>
#include <utility>

#include "platform/base/checked.h"
#include "runtime/core/quantized.h"
#include "tools/convert/common/host_tensor.h"

namespace graft::convert {
namespace {

constexpr std::pair<std::uint32_t, DType> kGgmlTypes[] = {
    {0, DType::f32},  {1, DType::f16},   {2, DType::q4_0},  {3, DType::q4_1},  {6, DType::q5_0}, {7, DType::q5_1},
    {8, DType::q8_0}, {12, DType::q4_k}, {13, DType::q5_k}, {14, DType::q6_k}, {30, DType::bf16}};

/// By ggml's number; empty where it has none, or none any more.
constexpr std::string_view kGgmlNames[] = {
    "F32",        "F16",        "Q4_0",       "Q4_1",  "",         "",         "Q5_0",     "Q5_1",    "Q8_0",
    "Q8_1",       "Q2_K",       "Q3_K",       "Q4_K",  "Q5_K",     "Q6_K",     "Q8_K",     "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS",    "IQ1_S",      "IQ4_NL",     "IQ3_S", "IQ2_S",    "IQ4_XS",   "I8",       "I16",     "I32",
    "I64",        "F64",        "IQ1_M",      "BF16",  "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0",
    "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4", "NVFP4"};

/// `convert(bits)` for each number of 16 bits.
template <typename Convert>
void widen(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof bits);
    out[i] = convert(bits);
  }
}

}  // namespace

std::optional<DType> dtype_of_ggml(std::uint32_t type) {
  for (const auto& [number, dtype] : kGgmlTypes) {
    if (number == type) return dtype;
  }
  return std::nullopt;
}

std::string ggml_type_name(std::uint32_t type) {
  const bool known = type < std::size(kGgmlNames) && !kGgmlNames[type].empty();
  return known ? std::string(kGgmlNames[type]) : cat("number ", type);
}

std::string ggml_types_read() {
  std::string out;
  for (const auto& [number, dtype] : kGgmlTypes) out += cat(out.empty() ? "" : ", ", kGgmlNames[number]);
  for (const ExpandedType& type : expanded_types()) out += cat(", ", kGgmlNames[type.number]);
  return out;
}

std::uint32_t ggml_of_dtype(DType dtype) {
  for (const auto& [number, known] : kGgmlTypes) {
    if (known == dtype) return number;
  }
  return 0;
}

std::uint64_t SourceTensor::elements() const {
  std::uint64_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::uint64_t>(dim);
  return count;
}

Result<std::uint64_t> bytes_needed(const std::vector<std::int64_t>& dims, DType dtype) {
  std::optional<std::int64_t> count = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return corrupt("It has the negative dimension ", dim, ".");
    if (count) count = checked_mul(*count, dim);
  }
  // The largest block has 210 bytes, so that its product with this fits.
  constexpr std::int64_t kMost = std::int64_t{1} << 54;
  if (!count || *count > kMost) return corrupt("It has more than ", kMost, " elements.");
  const std::int64_t columns = dims.empty() ? 1 : dims.back();
  const std::uint32_t block = dtype_block(dtype).elements;
  if (columns % block != 0) {
    return corrupt("Its rows have ", columns, " elements, no multiple of the ", block, " of a ", dtype_name(dtype),
                   " block.");
  }
  return storage_bytes(dtype, static_cast<std::uint64_t>(*count));
}

Result<HostBuffer> to_f32(const SourceTensor& tensor, std::string_view name) {
  GRAFT_TRY_ASSIGN(HostBuffer buffer, HostBuffer::create(tensor.elements() * sizeof(float), name));
  const std::span<float> out(reinterpret_cast<float*>(buffer.data()), tensor.elements());
  if (tensor.expanded != nullptr) {
    expand(*tensor.expanded, tensor.bytes, out);
    return buffer;
  }
  switch (tensor.dtype) {
    case DType::f32:
      if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), out.size_bytes());
      break;
    case DType::f16: widen(tensor.bytes, out, half_to_float); break;
    case DType::bf16: widen(tensor.bytes, out, bfloat_to_float); break;
    default: dequantize(tensor.dtype, tensor.bytes, out);
  }
  return buffer;
}

const SourceTensor* SourceTensors::find(std::string_view name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &found->second;
}

}  // namespace graft::convert
