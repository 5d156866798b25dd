// Reading a tensor as if it were broadcast to a larger shape.
#pragma once

#include <cstdint>
#include <vector>

namespace graft {

/// Maps flat indices of `out` to flat indices of `operand`, which broadcasts to it (NumPy's rule).
class BroadcastIndex {
 public:
  BroadcastIndex(const std::vector<std::int64_t>& out, const std::vector<std::int64_t>& operand)
      : dims_(out), strides_(out.size(), 0) {
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < operand.size(); ++i) {
      const std::int64_t dim = operand[operand.size() - 1 - i];
      if (dim != 1) strides_[out.size() - 1 - i] = stride;
      stride *= dim;
    }
  }

  std::size_t operator()(std::size_t flat) const {
    auto rest = static_cast<std::int64_t>(flat);
    std::int64_t at = 0;
    for (std::size_t axis = dims_.size(); axis-- > 0;) {
      at += rest % dims_[axis] * strides_[axis];
      rest /= dims_[axis];
    }
    return static_cast<std::size_t>(at);
  }

 private:
  std::vector<std::int64_t> dims_;
  std::vector<std::int64_t> strides_;
};

}  // namespace graft
