#include "tools/convert/tflite/tflite_options.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace graft::convert {
namespace {

using B = tfl::BuiltinOperator;

/// Numbers of union BuiltinOptions of the format's schema, and how many fields of each table, from the first, are read
/// or without effect.
struct Known {
  B op;
  int type;
  const char* name;
  std::size_t fields;
};

// Without effect in floats, since tensors, shapes and numbers of outputs say the same or quantized kernels alone read
// them: pot_scale_int16, quantized_bias_type, asymmetric_quantize_inputs, depth_multiplier, the types of CAST, SHAPE
// and ARG_MAX, the new sizes of RESIZE_BILINEAR, RESHAPE's shape beside an input of it, and numbers of splits and
// values.
constexpr Known kKnown[] = {
    {B::CONV_2D, 1, "Conv2DOptions", 7},
    {B::DEPTHWISE_CONV_2D, 2, "DepthwiseConv2DOptions", 7},
    {B::AVERAGE_POOL_2D, 5, "Pool2DOptions", 6},
    {B::MAX_POOL_2D, 5, "Pool2DOptions", 6},
    {B::L2_POOL_2D, 5, "Pool2DOptions", 6},
    {B::FULLY_CONNECTED, 8, "FullyConnectedOptions", 5},
    {B::SOFTMAX, 9, "SoftmaxOptions", 1},
    {B::CONCATENATION, 10, "ConcatenationOptions", 2},
    {B::ADD, 11, "AddOptions", 2},
    {B::L2_NORMALIZATION, 12, "L2NormOptions", 1},
    {B::LOCAL_RESPONSE_NORMALIZATION, 13, "LocalResponseNormalizationOptions", 4},
    {B::RESIZE_BILINEAR, 15, "ResizeBilinearOptions", 4},
    {B::RESHAPE, 17, "ReshapeOptions", 1},
    {B::SPACE_TO_DEPTH, 19, "SpaceToDepthOptions", 1},
    {B::MUL, 21, "MulOptions", 1},
    {B::GATHER, 23, "GatherOptions", 2},
    {B::MEAN, 27, "ReducerOptions", 1},
    {B::SUM, 27, "ReducerOptions", 1},
    {B::REDUCE_MAX, 27, "ReducerOptions", 1},
    {B::REDUCE_MIN, 27, "ReducerOptions", 1},
    {B::REDUCE_PROD, 27, "ReducerOptions", 1},
    {B::SUB, 28, "SubOptions", 2},
    {B::DIV, 29, "DivOptions", 1},
    {B::SQUEEZE, 30, "SqueezeOptions", 1},
    {B::STRIDED_SLICE, 32, "StridedSliceOptions", 6},
    {B::SPLIT, 35, "SplitOptions", 1},
    {B::CAST, 37, "CastOptions", 2},
    {B::ARG_MAX, 40, "ArgMaxOptions", 1},
    {B::TRANSPOSE_CONV, 49, "TransposeConvOptions", 5},
    {B::SHAPE, 55, "ShapeOptions", 1},
    {B::ARG_MIN, 57, "ArgMinOptions", 1},
    {B::PACK, 59, "PackOptions", 2},
    {B::ONE_HOT, 61, "OneHotOptions", 1},
    {B::UNPACK, 64, "UnpackOptions", 2},
    {B::UNIDIRECTIONAL_SEQUENCE_LSTM, 71, "UnidirectionalSequenceLSTMOptions", 6},
    {B::RESIZE_NEAREST_NEIGHBOR, 74, "ResizeNearestNeighborOptions", 2},
    {B::LEAKY_RELU, 75, "LeakyReluOptions", 1},
    {B::MIRROR_PAD, 77, "MirrorPadOptions", 1},
    {B::SPLIT_V, 79, "SplitVOptions", 1},
    {B::DEPTH_TO_SPACE, 94, "DepthToSpaceOptions", 1},
    {B::BATCH_MATMUL, 101, "BatchMatMulOptions", 3},
    {B::CUMSUM, 102, "CumsumOptions", 2},
    {B::CALL_ONCE, 103, "CallOnceOptions", 1},
    {B::VAR_HANDLE, 111, "VarHandleOptions", 2},
    {B::GELU, 116, "GeluOptions", 1},
};

/// A table of the file as FlatBuffers lays it out, whatever its schema. The verifier has not seen what is not in
/// graft's.
class Fields {
 public:
  Fields(const std::uint8_t* table, std::span<const std::byte> file)
      : file_(file), table_(table - reinterpret_cast<const std::uint8_t*>(file.data())) {
    const std::int64_t vtable = table_ - read<std::int32_t>(table_);
    slots_ = std::max<std::int64_t>(read<std::uint16_t>(vtable), 4) / 2 - 2;
    vtable_ = vtable;
  }
  std::size_t count() const { return static_cast<std::size_t>(slots_); }
  /// Whether the field is there with a byte that is not 0, of those that a number may have.
  bool says_something(std::size_t field) const {
    const std::uint16_t at = read<std::uint16_t>(vtable_ + 4 + 2 * static_cast<std::int64_t>(field));
    return at != 0 && read<std::uint32_t>(table_ + at) != 0;
  }

 private:
  template <class T>
  T read(std::int64_t at) const {
    T value = 0;
    const auto size = static_cast<std::int64_t>(file_.size());
    if (at >= 0 && at < size) {
      std::memcpy(&value, file_.data() + at, std::min<std::size_t>(sizeof value, static_cast<std::size_t>(size - at)));
    }
    return value;
  }

  std::span<const std::byte> file_;
  std::int64_t table_, vtable_ = 0, slots_ = 0;
};

}  // namespace

Status check_options(const tfl::Operator& op, tfl::BuiltinOperator code, std::span<const std::byte> file) {
  const auto* const table = static_cast<const std::uint8_t*>(op.builtin_options());
  const auto type = static_cast<int>(op.builtin_options_type());
  if (table == nullptr || type == 0) return {};
  const auto* const known = std::ranges::find(kKnown, code, &Known::op);
  const bool listed = known != std::end(kKnown), own = listed && type == known->type;
  const Fields fields(table, file);
  for (std::size_t field = own ? known->fields : 0; field < fields.count(); ++field) {
    if (!fields.says_something(field)) continue;
    if (own) return unsupported("its ", known->name, " have field ", field, ", which is not supported");
    return unsupported("its options are number ", type, " of BuiltinOptions, ",
                       listed ? cat("not ", known->name) : "but it has none");
  }
  return {};
}

}  // namespace graft::convert
