#include "tools/convert/tflite/tflite_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "platform/base/half.h"
#include "platform/base/text.h"
#include "tools/convert/tflite/tflite_sparse.h"

namespace graft::convert {
namespace {

constexpr std::size_t kMaxTables = 1 << 22;
constexpr int kMaxDepth = 32;
/// A number in the file becomes four bytes or eight; more than that comes of buffers that many tensors share.
constexpr std::uint64_t kMaxGrowth = 32;
constexpr std::size_t kMaxNameBytes = 1024;

/// Bits of one element as it lies in the file; 0: not read.
unsigned element_bits(tfl::TensorType type) {
  switch (type) {
    case tfl::TensorType::INT4: return 4;
    case tfl::TensorType::INT8:
    case tfl::TensorType::UINT8:
    case tfl::TensorType::BOOL: return 8;
    case tfl::TensorType::INT16:
    case tfl::TensorType::UINT16:
    case tfl::TensorType::FLOAT16: return 16;
    case tfl::TensorType::INT32:
    case tfl::TensorType::UINT32:
    case tfl::TensorType::FLOAT32: return 32;
    case tfl::TensorType::INT64:
    case tfl::TensorType::UINT64:
    case tfl::TensorType::FLOAT64: return 64;
    default: return 0;
  }
}

ElemType plain_type(tfl::TensorType type) {
  switch (type) {
    case tfl::TensorType::FLOAT32: return ElemType::f32;
    case tfl::TensorType::FLOAT16: return ElemType::f16;
    case tfl::TensorType::FLOAT64: return ElemType::f64;
    case tfl::TensorType::INT4:
    case tfl::TensorType::INT8: return ElemType::i8;
    case tfl::TensorType::UINT8: return ElemType::u8;
    case tfl::TensorType::INT16: return ElemType::i16;
    case tfl::TensorType::UINT16: return ElemType::u16;
    case tfl::TensorType::INT32: return ElemType::i32;
    case tfl::TensorType::UINT32: return ElemType::u32;
    case tfl::TensorType::INT64: return ElemType::i64;
    case tfl::TensorType::UINT64: return ElemType::u64;
    case tfl::TensorType::BOOL: return ElemType::boolean;
    case tfl::TensorType::STRING: return ElemType::text;
    default: return ElemType::undefined;
  }
}

template <class T>
T element(std::span<const std::uint8_t> data, std::size_t i) {
  T value;
  std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
  return value;
}

std::int64_t integer_at(tfl::TensorType type, std::span<const std::uint8_t> data, std::size_t i) {
  switch (type) {
    case tfl::TensorType::INT4: {  // two to a byte, the first in the low half
      const int half = (data[i / 2] >> (i % 2 == 0 ? 0 : 4)) & 15;
      return half >= 8 ? half - 16 : half;
    }
    case tfl::TensorType::INT8: return element<std::int8_t>(data, i);
    case tfl::TensorType::UINT8: return data[i];
    case tfl::TensorType::BOOL: return data[i] != 0;
    case tfl::TensorType::INT16: return element<std::int16_t>(data, i);
    case tfl::TensorType::UINT16: return element<std::uint16_t>(data, i);
    case tfl::TensorType::INT32: return element<std::int32_t>(data, i);
    case tfl::TensorType::UINT32: return element<std::uint32_t>(data, i);
    default: return element<std::int64_t>(data, i);
  }
}

double float_at(tfl::TensorType type, std::span<const std::uint8_t> data, std::size_t i) {
  if (type == tfl::TensorType::FLOAT16) return half_to_float(element<std::uint16_t>(data, i));
  if (type == tfl::TensorType::FLOAT64) return element<double>(data, i);
  return element<float>(data, i);
}

Status read_quantization(const tfl::QuantizationParameters* from, const std::vector<std::int64_t>& dims,
                         TfliteQuantization& to) {
  if (from == nullptr || from->scale() == nullptr || from->scale()->size() == 0) return {};
  const std::size_t count = from->scale()->size();
  const std::int64_t axis = from->quantized_dimension();
  if (count > 1) {
    if (axis < 0 || static_cast<std::size_t>(axis) >= dims.size() ||
        dims[static_cast<std::size_t>(axis)] != static_cast<std::int64_t>(count)) {
      return corrupt("has ", count, " scales, which are not one for each slice along its axis ", axis);
    }
    to.axis = static_cast<std::size_t>(axis);
  }
  std::span<const std::uint8_t> points;  // as bytes: the verifier asks for an alignment of 4
  if (const auto* given = from->zero_point(); given != nullptr)
    points = {given->Data(), 8 * std::size_t{given->size()}};
  const std::size_t zeros = points.size() / 8;
  if (zeros != 0 && zeros != 1 && zeros != count) return corrupt("has ", zeros, " zero points for ", count, " scales");
  TfliteQuantization made{.axis = to.axis};
  for (std::size_t k = 0; k < count; ++k) {
    const float scale = from->scale()->Get(static_cast<flatbuffers::uoffset_t>(k));
    if (!std::isfinite(scale) || scale < 0) return corrupt("has the scale ", scale);
    const std::int64_t zero = zeros == 0 ? 0 : element<std::int64_t>(points, zeros == 1 ? 0 : k);
    if (zero < -32768 || zero > 65535) return corrupt("has the zero point ", zero);
    made.scale.push_back(scale);
    made.zero.push_back(zero);
  }
  to = std::move(made);  // all of it or nothing
  return {};
}

}  // namespace

std::optional<TfliteRange> quantized_range(tfl::TensorType type) {
  switch (type) {
    case tfl::TensorType::INT4: return TfliteRange{-8, 7};
    case tfl::TensorType::INT8: return TfliteRange{-128, 127};
    case tfl::TensorType::UINT8: return TfliteRange{0, 255};
    case tfl::TensorType::INT16: return TfliteRange{-32768, 32767};
    default: return std::nullopt;
  }
}

TfliteSlices slices_of(const TfliteTensor& tensor) {
  TfliteSlices s;
  const TfliteQuantization& q = tensor.quantization;
  if (q.scale.size() <= 1) return s;
  for (std::size_t axis = q.axis + 1; axis < tensor.dims.size(); ++axis) {
    s.inner *= static_cast<std::size_t>(tensor.dims[axis]);
  }
  s.count = q.scale.size();
  return s;
}

std::string_view tensor_type_name(tfl::TensorType type) {
  const char* name = tfl::EnumNameTensorType(type);
  return name == nullptr || *name == '\0' ? "of an unknown type" : name;
}

Result<TfliteFile> TfliteFile::open(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (bytes.size() < 8 || !tfl::ModelBufferHasIdentifier(data)) {
    return corrupt("It is no TensorFlow Lite file: the identifier TFL3 is missing.");
  }
  if (bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) return unsupported("It is larger than 2 GiB.");
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, kMaxTables);
  if (!tfl::VerifyModelBuffer(verifier)) {
    return corrupt("It is no complete TensorFlow Lite file: an offset leads outside of it, or a table is damaged.");
  }
  TfliteFile file;
  file.bytes_ = bytes;
  file.model_ = tfl::GetModel(data);
  if (file.model_->version() != 3) {
    return unsupported("It has the version ", file.model_->version(), " of the format; 3 is supported.");
  }
  const auto* graphs = file.model_->subgraphs();
  if (graphs == nullptr || graphs->size() == 0) return corrupt("It has no graph.");
  file.graph_ = graphs->Get(0);
  GRAFT_TRY(file.read_tensors());
  return file;
}

Result<TfliteFile> TfliteFile::subgraph(std::int32_t index) const {
  const auto* graphs = model_->subgraphs();
  if (index < 0 || static_cast<std::uint32_t>(index) >= graphs->size()) {
    return corrupt("it calls the graph ", index, " of ", graphs->size());
  }
  TfliteFile file;
  file.bytes_ = bytes_;
  file.model_ = model_;
  file.graph_ = graphs->Get(static_cast<flatbuffers::uoffset_t>(index));
  GRAFT_TRY(file.read_tensors());
  return file;
}

Status TfliteFile::read_tensor(const tfl::Tensor& from, TfliteTensor& to) const {
  to.type = from.type();
  if (from.shape() != nullptr) to.dims.assign(from.shape()->begin(), from.shape()->end());
  if (to.dims.size() > Shape::kMaxRank) {
    return unsupported("has ", to.dims.size(), " axes; ", Shape::kMaxRank, " are supported");
  }
  to.open_dims = to.dims;
  if (from.shape_signature() != nullptr && from.shape_signature()->size() == to.dims.size()) {
    to.open_dims.assign(from.shape_signature()->begin(), from.shape_signature()->end());
  }
  GRAFT_TRY(read_quantization(from.quantization(), to.dims, to.quantization));
  to.elem = plain_type(to.type);
  const bool quantized = to.quantization.given() && (quantized_range(to.type) || to.type == tfl::TensorType::INT32 ||
                                                     to.type == tfl::TensorType::INT64);
  if (!quantized) to.quantization = {};
  if (quantized) to.elem = ElemType::f32;
  to.variable = from.is_variable();
  to.buffer = from.buffer();
  const auto* buffers = model_->buffers();
  if (to.buffer == 0 && (buffers == nullptr || buffers->size() == 0)) return {};
  if (buffers == nullptr || to.buffer >= buffers->size()) {
    return corrupt("names the buffer ", to.buffer, " of ", buffers == nullptr ? 0 : buffers->size());
  }
  const tfl::Buffer& buffer = *buffers->Get(to.buffer);
  if (buffer.offset() > 1 || buffer.size() > 1) return unsupported("has its contents behind the file's tables");
  if (buffer.data() == nullptr || buffer.data()->size() == 0) {
    to.constant = to.buffer != 0 && std::find(to.dims.begin(), to.dims.end(), 0) != to.dims.end();  // nothing in it
    return {};
  }
  to.constant = true;
  to.data = {buffer.data()->data(), buffer.data()->size()};
  const unsigned bits = element_bits(to.type);
  if (bits == 0) return unsupported("holds ", tensor_type_name(to.type));
  if (from.sparsity() != nullptr) {
    if (bits < 8) return unsupported("is sparse and ", tensor_type_name(to.type));
    GRAFT_TRY_ASSIGN(auto dense, dense_bytes(*from.sparsity(), to.dims, bits / 8, to.data, kMaxGrowth * bytes_.size()));
    to.dense = std::make_shared<const std::vector<std::uint8_t>>(std::move(dense));
    to.data = *to.dense;
  }
  const auto count = element_count(to.dims);
  if (!count || *count > (std::uint64_t{1} << 40)) return corrupt("has the shape ", Shape::of(to.dims).text());
  if ((*count * bits + 7) / 8 != to.data.size()) {
    return corrupt("has the shape ", Shape::of(to.dims).text(), " of ", tensor_type_name(to.type), " and ",
                   to.data.size(), " bytes");
  }
  return {};
}

/// Offsets may lead to the same table, list or name again and again. What a graph holds is no more than the file, nor
/// are its operators' names more than a multiple of it.
Status TfliteFile::check_parts() const {
  constexpr std::uint64_t kTensor = 16, kOperator = 12, kMaxNames = 8;  // bytes of the smallest there are
  const auto length = [](const auto* list) { return list == nullptr ? std::uint64_t{0} : list->size(); };
  std::uint64_t parts = 0, names = 0;
  for (const tfl::Tensor* tensor : *graph_->tensors()) {
    parts += kTensor + length(tensor->name()) + 4 * (length(tensor->shape()) + length(tensor->shape_signature()));
  }
  const auto named = [&](const flatbuffers::Vector<std::int32_t>* list) {
    for (std::uint32_t i = 0; i < length(list) && names <= kMaxNames * bytes_.size(); ++i) {
      const auto index = static_cast<std::uint32_t>(list->Get(i));
      if (index < graph_->tensors()->size()) names += length(graph_->tensors()->Get(index)->name());
    }
  };
  if (graph_->operators() != nullptr) {
    for (const tfl::Operator* op : *graph_->operators()) {
      parts += kOperator + 4 * (length(op->inputs()) + length(op->outputs()));
      if (parts > bytes_.size()) break;
      named(op->inputs());
      named(op->outputs());
    }
  }
  if (parts <= bytes_.size() && names <= kMaxNames * bytes_.size()) return {};
  return corrupt("Its tensors and operators hold more than the file, again and again.");
}

Status TfliteFile::read_tensors() {
  if (graph_->tensors() == nullptr) return corrupt("Its graph has no tensors.");
  GRAFT_TRY(check_parts());
  std::set<std::string> taken;
  std::uint64_t total = 0;
  for (const tfl::Tensor* from : *graph_->tensors()) {
    const std::size_t index = tensors_.size();
    TfliteTensor& tensor = tensors_.emplace_back();
    tensor.name = from->name() == nullptr ? std::string() : from->name()->str().substr(0, kMaxNameBytes);
    if (tensor.name.empty()) tensor.name = cat("tensor_", index);
    while (!taken.insert(tensor.name).second) tensor.name += cat("_", index);
    if (Status status = read_tensor(*from, tensor); !status.ok()) {
      tensor.error = status.message();
      tensor.data = {};
    }
    total += tensor.data.size();
    if (total > kMaxGrowth * bytes_.size()) return corrupt("Its tensors hold more than the file, again and again.");
  }
  return {};
}

Result<tfl::BuiltinOperator> TfliteFile::code(const tfl::Operator& op) const {
  const auto* codes = model_->operator_codes();
  if (codes == nullptr || op.opcode_index() >= codes->size()) {
    return corrupt("An operator has the code ", op.opcode_index(), " of ", codes == nullptr ? 0 : codes->size(), ".");
  }
  const tfl::OperatorCode& code = *codes->Get(op.opcode_index());
  // Old files have but one byte for it; new ones have 127 there where it does not fit.
  return std::max(static_cast<tfl::BuiltinOperator>(code.deprecated_builtin_code()), code.builtin_code());
}

std::string TfliteFile::custom_name(const tfl::Operator& op) const {
  const tfl::OperatorCode& code = *model_->operator_codes()->Get(op.opcode_index());
  return code.custom_code() == nullptr ? std::string() : shown(code.custom_code()->str());
}

Result<HostTensor> TfliteFile::contents(const TfliteTensor& tensor) {
  HostTensor out;
  out.type = tensor.elem;
  out.dims = tensor.dims;
  const std::size_t count = out.count();
  const TfliteQuantization& q = tensor.quantization;
  if (!is_float(out.type)) {
    out.ints.reserve(count);
    for (std::size_t i = 0; i < count; ++i) out.ints.push_back(integer_at(tensor.type, tensor.data, i));
    return out;
  }
  out.floats.reserve(count);
  const TfliteSlices slices = slices_of(tensor);
  for (std::size_t i = 0; i < count; ++i) {
    double value = 0;
    if (q.given()) {
      const std::size_t k = slices.of(i);
      value = static_cast<double>(q.scale[k]) *
              static_cast<double>(integer_at(tensor.type, tensor.data, i) - q.zero[k]);
    } else {
      value = float_at(tensor.type, tensor.data, i);
    }
    const auto number = narrowed(value);
    if (!number) return beyond_float32(value);
    out.floats.push_back(*number);
  }
  return out;
}

}  // namespace graft::convert
