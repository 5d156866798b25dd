// A TensorFlow Lite file, checked: its tensors, their names and what is known of their contents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/core/attrs.h"
#include "schema/tflite_generated.h"
#include "tools/convert/common/host_tensor.h"

namespace graft::convert {

/// real = scale[k] * (quantized - zero[k]), where k runs along `axis` if there are several.
struct TfliteQuantization {
  std::vector<float> scale;  ///< empty: the numbers are what they are
  std::vector<std::int64_t> zero;
  std::size_t axis = 0;
  bool given() const { return !scale.empty(); }
};

struct TfliteTensor {
  std::string name;  ///< the file's; made unique, and made up where there is none
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> open_dims;  ///< the same with -1 for a size that the file leaves open
  tfl::TensorType type = tfl::TensorType::FLOAT32;
  ElemType elem = ElemType::undefined;  ///< of what the numbers stand for: f32 where they are quantized
  TfliteQuantization quantization;
  std::span<const std::uint8_t> data;                      ///< empty: computed, or a variable
  std::shared_ptr<const std::vector<std::uint8_t>> dense;  ///< holds the data where the file's are sparse
  std::uint32_t buffer = 0;
  bool constant = false;
  bool variable = false;  ///< kept from call to call by TFLite; starts as zeros
  std::string error;      ///< why its contents cannot be read
};

inline constexpr std::uint64_t kMaxTfliteBytes = (std::uint64_t{2} << 30) - 1;

/// Numbers that one byte, or half of one, may hold.
struct TfliteRange {
  std::int64_t low = 0, high = 0;
};
std::optional<TfliteRange> quantized_range(tfl::TensorType type);
/// Which of several scales an element has: that of the slice in which it lies.
struct TfliteSlices {
  std::size_t inner = 1, count = 1;
  std::size_t of(std::size_t i) const { return i / inner % count; }
};
TfliteSlices slices_of(const TfliteTensor& tensor);
std::string_view tensor_type_name(tfl::TensorType type);

/// Borrows the bytes that it was opened over.
class TfliteFile {
 public:
  /// corrupt: what is no such file, or contradicts itself; unsupported: a file whose main graph graft cannot see.
  static Result<TfliteFile> open(std::span<const std::byte> bytes);

  /// The same file, of which another graph is looked at.
  Result<TfliteFile> subgraph(std::int32_t index) const;

  std::span<const std::byte> bytes() const { return bytes_; }
  const tfl::SubGraph& graph() const { return *graph_; }
  const tfl::Model& model() const { return *model_; }
  const std::vector<TfliteTensor>& tensors() const { return tensors_; }
  /// The operator's builtin code, in files of every age; an error where its index is out of range.
  Result<tfl::BuiltinOperator> code(const tfl::Operator& op) const;
  std::string custom_name(const tfl::Operator& op) const;

  /// The contents of a constant, dequantized.
  static Result<HostTensor> contents(const TfliteTensor& tensor);

 private:
  Status read_tensors();
  Status check_parts() const;
  Status read_tensor(const tfl::Tensor& from, TfliteTensor& to) const;

  std::span<const std::byte> bytes_;
  const tfl::Model* model_ = nullptr;
  const tfl::SubGraph* graph_ = nullptr;
  std::vector<TfliteTensor> tensors_;
};

}  // namespace graft::convert
