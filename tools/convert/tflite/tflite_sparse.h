// Sparse tensors of TensorFlow Lite files, as the format's schema describes them (tensorflow/lite/schema/schema.fbs,
// table SparsityParameters): levels in an order of traversal, each dense or with the indices that are there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "platform/base/status.h"
#include "schema/tflite_generated.h"

namespace graft::convert {

/// The bytes of the dense tensor, zero where nothing is given. `data`: the elements that are there, of `element` bytes
/// each, in the order of traversal. corrupt where these and the levels contradict each other or the shape, unsupported
/// where the result would have more than `limit` bytes.
Result<std::vector<std::uint8_t>> dense_bytes(const tfl::SparsityParameters& sparsity,
                                              std::span<const std::int64_t> dims, std::size_t element,
                                              std::span<const std::uint8_t> data, std::uint64_t limit);

}  // namespace graft::convert
