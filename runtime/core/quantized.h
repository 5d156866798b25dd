// Quantized weights on the host. The blocks are described in schema/MODEL_FORMAT.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/core/dtype.h"

namespace graft {

/// What element `i` of a block stands for, exactly. Requires a quantized dtype, dtype_block(dtype).bytes bytes and i
/// below dtype_block(dtype).elements.
double dequantize_element(DType dtype, const std::byte* block, std::uint32_t i);

/// Every element of `blocks`, rounded to f32. Requires blocks.size() == storage_bytes(dtype, out.size()).
void dequantize(DType dtype, std::span<const std::byte> blocks, std::span<float> out);

/// Quantizes whole blocks: those of 256 by scales that leave the least sum of error^2 among twenty that are tried, those
/// of 32 by their extremes, both with no more error than ggml's. A block whose scale f16 cannot hold has an infinite
/// one: check_blocks() tells (narrow.h). Requires out.size() == storage_bytes(dtype, in.size()) and finite numbers.
void quantize(DType dtype, std::span<const float> in, std::span<std::byte> out);
/// The same with scales that leave the least sum of weights[column] * error^2, which is never more than without.
/// `weights` has a number for each column of a row, none negative; rows are whole blocks.
void quantize(DType dtype, std::span<const float> in, std::span<const float> weights, std::span<std::byte> out);

/// What rows of so many elements become where `wanted` was asked for: that, where they are whole blocks; of blocks of
/// 256, the next better ones of 32, as llama.cpp takes (Q4_K: Q5_0, Q5_K: Q5_1, Q6_K: Q8_0). nullopt: neither fits.
std::optional<DType> fitting_blocks(DType wanted, std::uint64_t row);

/// The formats of blocks that matrices can be quantized to, by name.
std::vector<std::string> block_format_names();
/// The format of that name; nullopt where it is empty. invalid_argument names those that there are.
Result<std::optional<DType>> parse_block_format(std::string_view name);

}  // namespace graft
