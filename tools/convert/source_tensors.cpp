#include "tools/convert/source_tensors.h"

#include "platform/base/checked.h"
#include "tools/convert/dequantize.h"

namespace graft::convert {
namespace {

struct Row {
  Encoding encoding;
  std::string_view name;
  std::uint32_t ggml;
  BlockSize block;
};

constexpr Row kRows[] = {
    {Encoding::f32, "F32", 0, {1, 4}},        {Encoding::f16, "F16", 1, {1, 2}},
    {Encoding::bf16, "BF16", 30, {1, 2}},     {Encoding::q4_0, "Q4_0", 2, {32, 18}},
    {Encoding::q4_1, "Q4_1", 3, {32, 20}},    {Encoding::q5_0, "Q5_0", 6, {32, 22}},
    {Encoding::q5_1, "Q5_1", 7, {32, 24}},    {Encoding::q8_0, "Q8_0", 8, {32, 34}},
    {Encoding::q4_k, "Q4_K", 12, {256, 144}}, {Encoding::q5_k, "Q5_K", 13, {256, 176}},
    {Encoding::q6_k, "Q6_K", 14, {256, 210}},
};

const Row& row_of(Encoding encoding) {
  for (const Row& row : kRows) {
    if (row.encoding == encoding) return row;
  }
  return kRows[0];
}

}  // namespace

BlockSize block_size(Encoding encoding) { return row_of(encoding).block; }
std::string_view encoding_name(Encoding encoding) { return row_of(encoding).name; }

std::optional<Encoding> encoding_of_ggml(std::uint32_t type) {
  for (const Row& row : kRows) {
    if (row.ggml == type) return row.encoding;
  }
  return std::nullopt;
}

std::uint64_t SourceTensor::elements() const {
  std::uint64_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::uint64_t>(dim);
  return count;
}

Result<std::uint64_t> bytes_needed(const std::vector<std::int64_t>& dims, Encoding encoding) {
  std::optional<std::int64_t> count = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return corrupt("It has the negative dimension ", dim, ".");
    if (count) count = checked_mul(*count, dim);
  }
  const BlockSize block = block_size(encoding);
  // The largest block has 210 bytes, so that this leaves room for the product below.
  constexpr std::int64_t kMost = std::int64_t{1} << 54;
  if (!count || *count > kMost) return corrupt("It has more than ", kMost, " elements.");
  const std::int64_t columns = dims.empty() ? 1 : dims.back();
  if (static_cast<std::uint64_t>(columns) % block.elements != 0) {
    return corrupt("Its rows have ", columns, " elements, no multiple of the ", block.elements, " of a ",
                   encoding_name(encoding), " block.");
  }
  return static_cast<std::uint64_t>(*count) / block.elements * block.bytes;
}

Result<HostBuffer> to_f32(const SourceTensor& tensor, std::string_view name) {
  const std::uint64_t count = tensor.elements();
  GRAFT_TRY_ASSIGN(HostBuffer out, HostBuffer::create(count * sizeof(float), name));
  dequantize(tensor.encoding, tensor.bytes, {reinterpret_cast<float*>(out.data()), count});
  return out;
}

const SourceTensor* SourceTensors::find(std::string_view name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &found->second;
}

}  // namespace graft::convert
