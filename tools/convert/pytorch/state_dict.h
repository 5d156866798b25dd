// Tensors of PyTorch's checkpoints (.pth, .pt, .th, .bin): a zip archive or the older plain file, both with a pickle.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/base/status.h"
#include "tools/convert/common/host_tensor.h"

namespace graft::convert {

/// A view of a storage; its bytes are the file's.
struct StateTensor {
  std::string name;
  ElemType type = ElemType::f32;
  std::vector<std::int64_t> dims, strides;  ///< in elements
  std::span<const std::byte> bytes;         ///< of the storage, from the tensor's first element on
};

struct StateDict {
  std::vector<StateTensor> tensors;  ///< in the file's order
  std::vector<std::string> notes;    ///< where the tensors were found, what was left out
};

/// The state dict of a checkpoint, which may be one of several things in it ("state_dict", "model", ...). A prefix that
/// all names share with data-parallel wrappers ("module.") is taken off. No code of the file is run. `bytes` must
/// outlive the result.
Result<StateDict> read_state_dict(std::span<const std::byte> bytes);

/// The numbers, row by row.
Result<HostTensor> contents(const StateTensor& tensor);

/// Whether its numbers lie as rows have them, without gaps.
bool lies_row_by_row(const StateTensor& tensor);

}  // namespace graft::convert
