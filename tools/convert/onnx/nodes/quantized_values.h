// Quantized tensors on the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/convert/onnx/import/import.h"

namespace graft::convert {

/// Weights that a file holds quantized, and what makes numbers of them: (weight - zero_point) * scale.
struct QuantizedWeight {
  const Record* weight = nullptr;  ///< `host` holds the integers
  Record* scale = nullptr;
  Record* zero_point = nullptr;  ///< may be null
  std::int64_t axis = 0;         ///< of the weight's; one scale for each of it, or for each `block_size` of it
  std::int64_t block_size = 0;
  bool trained = false;  ///< becomes a parameter of f32 numbers that is quantized and back wherever it is read
};

/// A float of 8 or 4 bits: held, as every float, as f32.
inline bool is_small_float(ElemType type) { return is_float(type) && elem_bits(type) <= 8; }
/// An integer of 16 bits or fewer, or a small float: types of quantized numbers.
inline bool is_narrow(ElemType type) { return is_small_float(type) || (is_integer(type) && elem_bits(type) <= 16); }

/// Integers of 16 bits or fewer, several in a word, the first in its lowest bits.
std::vector<std::uint32_t> packed_words(const HostTensor& tensor);

/// (q - zero_point) * scale, one scale or one for each index of `axis`, or of a block of it.
HostTensor dequantized(const HostTensor& q, const HostTensor& scale, const HostTensor* zero_point, std::size_t axis,
                       std::int64_t block_size);

/// What makes integers of numbers: constants of the file. One scale, or one for each index of `axis` or of a block of
/// it.
struct QuantizedForm {
  const HostTensor* scale = nullptr;
  const HostTensor* zero_point = nullptr;  ///< may be null
  std::int64_t axis = 1;
  std::int64_t block_size = 0;
};
/// The axis of its scales, which fit a tensor of these sizes; corrupt where they do not.
Result<std::size_t> axis_of_scales(const std::vector<std::int64_t>& dims, const QuantizedForm& form);
/// round(x / scale) + zero_point, ties to even, within the type. corrupt: scales that do not fit.
Result<HostTensor> quantized(const HostTensor& numbers, const QuantizedForm& form, ElemType type);
/// As raw data of a file.
std::string raw_integers(const HostTensor& tensor);

}  // namespace graft::convert
