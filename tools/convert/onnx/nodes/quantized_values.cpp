// Weights that files hold quantized: packed as they are in the file, or trained as f32 numbers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/quantized_values.h"

namespace graft::convert {

std::vector<std::uint32_t> packed_words(const HostTensor& tensor) {
  const std::uint64_t bits = elem_bits(tensor.type), per_word = 32 / bits;
  std::vector<std::uint32_t> words((tensor.ints.size() + per_word - 1) / per_word, 0);
  for (std::size_t i = 0; i < tensor.ints.size(); ++i) {
    const auto code = static_cast<std::uint32_t>(tensor.ints[i]) & ((1u << bits) - 1);
    words[i / per_word] |= code << (i % per_word * bits);
  }
  return words;
}

namespace {

/// Which scale is that of element i.
class ScaleAt {
 public:
  ScaleAt(const std::vector<std::int64_t>& dims, const HostTensor& scale, std::size_t axis, std::int64_t block_size)
      : dims_(dims), strides_(row_major_strides(dims)), steps_(dims.size(), 0), axis_(axis), block_size_(block_size) {
    if (scale.count() > 1 && block_size == 0) steps_[axis] = 1;
    if (scale.count() > 1 && block_size > 0) steps_ = row_major_strides(scale.dims);
  }
  std::size_t operator()(std::size_t i) const {
    std::int64_t at = 0;
    for (std::size_t a = 0; a < dims_.size(); ++a) {
      const std::int64_t index = static_cast<std::int64_t>(i) / strides_[a] % dims_[a];
      at += steps_[a] * (a == axis_ && block_size_ > 0 ? index / block_size_ : index);
    }
    return static_cast<std::size_t>(at);
  }

 private:
  const std::vector<std::int64_t>& dims_;
  std::vector<std::int64_t> strides_, steps_;
  std::size_t axis_;
  std::int64_t block_size_;
};

}  // namespace

Result<std::size_t> axis_of_scales(const std::vector<std::int64_t>& dims, const QuantizedForm& form) {
  const HostTensor& scale = *form.scale;
  std::size_t axis = 0;
  if (scale.count() != 1) {
    GRAFT_TRY_ASSIGN(axis, normalize_axis(form.axis, dims.size()));
    bool fits = form.block_size == 0 && scale.dims == std::vector{dims[axis]};
    if (form.block_size > 0 && scale.dims.size() == dims.size()) {
      std::vector<std::int64_t> wanted = dims;
      wanted[axis] = (wanted[axis] + form.block_size - 1) / form.block_size;
      fits = scale.dims == wanted;
    }
    if (!fits) return corrupt("its scales have the shape ", scale.shape().text(), ", which does not fit");
  }
  if (!is_float(scale.type) || (form.zero_point != nullptr && form.zero_point->count() != scale.count())) {
    return corrupt("its scales and zero points do not fit");
  }
  return axis;
}

Result<HostTensor> quantized(const HostTensor& numbers, const QuantizedForm& form, ElemType type) {
  const HostTensor& scale = *form.scale;
  GRAFT_TRY_ASSIGN(const std::size_t axis, axis_of_scales(numbers.dims, form));
  const auto range = integer_range(type);
  if (!range) return corrupt("It is no list of integers.");
  HostTensor out;
  out.type = type;
  out.dims = numbers.dims;
  const ScaleAt scale_at(numbers.dims, scale, axis, form.block_size);
  for (std::size_t i = 0; i < numbers.count(); ++i) {
    const std::size_t at = scale_at(i);
    const double zero = form.zero_point != nullptr ? form.zero_point->number(at) : 0;
    const double q = std::nearbyint(static_cast<double>(numbers.floats[i] / scale.floats[at])) + zero;
    const double limited = std::clamp(q, static_cast<double>(range->low), static_cast<double>(range->high));
    out.ints.push_back(std::isnan(q) ? static_cast<std::int64_t>(zero) : static_cast<std::int64_t>(limited));
  }
  return out;
}

std::string raw_integers(const HostTensor& tensor) {
  const std::uint64_t bits = elem_bits(tensor.type);
  std::string raw((tensor.ints.size() * bits + 7) / 8, '\0');
  for (std::size_t i = 0; i < tensor.ints.size(); ++i) {
    const auto code = static_cast<std::uint64_t>(tensor.ints[i]);
    if (bits < 8) {
      const std::uint64_t per_byte = 8 / bits, shift = i % per_byte * bits;
      const auto low = static_cast<unsigned>(code & ((1u << bits) - 1)) << shift;
      raw[i / per_byte] = static_cast<char>(static_cast<unsigned char>(raw[i / per_byte]) | low);
      continue;
    }
    for (std::uint64_t b = 0; b < bits / 8; ++b) raw[i * (bits / 8) + b] = static_cast<char>(code >> (8 * b) & 0xff);
  }
  return raw;
}

HostTensor dequantized(const HostTensor& q, const HostTensor& scale, const HostTensor* zero_point, std::size_t axis,
                       std::int64_t block_size) {
  HostTensor out = HostTensor::of_floats(q.dims, {});
  const ScaleAt scale_at(q.dims, scale, axis, block_size);
  const std::size_t count = q.count();
  out.floats.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = scale_at(i);
    const double zero = zero_point != nullptr ? zero_point->number(at) : 0;
    out.floats.push_back(static_cast<float>(q.number(i) - zero) * scale.floats[at]);
  }
  return out;
}

Status Importer::materialise_quantized(Record& record, const Perm& perm) {
  const QuantizedWeight& weight = *record.quantized;
  const HostTensor& q = *weight.weight->host;
  const std::size_t rank = q.dims.size();
  const Perm order = perm.empty() ? identity_perm(rank) : perm;
  std::int64_t axis = 0;
  while (axis < static_cast<std::int64_t>(rank) && order[static_cast<std::size_t>(axis)] != weight.axis) ++axis;
  const Shape shape = permuted(record.shape, perm);
  Attrs attrs = {{"type", elem_name(q.type)}, {"axis", rank == 0 ? 0 : axis}, {"block_size", weight.block_size}};
  const Perm by_block = weight.block_size > 0 ? perm : Perm();
  std::vector<ValueId> inputs(2);
  const std::string& name = weight.weight->name;
  if (weight.trained) {
    const HostTensor* zero = weight.zero_point != nullptr ? weight.zero_point->host.get() : nullptr;
    const HostTensor numbers =
        dequantized(q, *weight.scale->host, zero, static_cast<std::size_t>(weight.axis), weight.block_size);
    const HostTensor placed = transposed(numbers, perm);
    std::vector<std::uint32_t> words(placed.floats.size());
    if (!words.empty()) std::memcpy(words.data(), placed.floats.data(), words.size() * sizeof(std::uint32_t));
    GRAFT_TRY_ASSIGN(inputs[0],
                     add_weight(name, DType::f32, shape, ValueKind::parameter, perm, std::as_bytes(std::span(words))));
    if (q.type == ElemType::i32) {  // a bias: its steps are finer than what it is added to can tell
      record.value = inputs[0];
      record.perm = perm;
      return {};
    }
  } else {
    const std::vector<std::uint32_t> words = packed_words(transposed(q, perm));
    const Shape packed{static_cast<std::int64_t>(words.size())};
    GRAFT_TRY_ASSIGN(inputs[0],
                     add_weight(name, DType::i32, packed, ValueKind::constant, {}, std::as_bytes(std::span(words))));
    attrs.set("shape", shape);
  }
  GRAFT_TRY_ASSIGN(inputs[1], value_in(*weight.scale, by_block));
  if (weight.zero_point != nullptr) {
    GRAFT_TRY_ASSIGN(const ValueId zero, value_in(*weight.zero_point, by_block));
    inputs.push_back(zero);
  }
  GRAFT_TRY_ASSIGN(const NodeId node, model_.graph.add_node(weight.trained ? Op::fake_quantize : Op::dequantize,
                                                            std::move(inputs), std::move(attrs), record.name));
  record.value = model_.graph.node(node).outputs[0];
  record.perm = perm;
  model_.graph.mutable_value(record.value).source_perm = perm;
  return {};
}

void NodeContext::out_quantized(std::size_t k, std::size_t scale, std::size_t zero_point, std::int64_t axis,
                                std::int64_t block_size, ElemType type) {
  if (!status_.ok() || k >= node.outputs.size() || node.outputs[k].empty()) return;
  Record& out = importer_.create(node.outputs[k]);
  out.type = type;
  out.shape = shape(0);
  out.quantized = std::make_shared<QuantizedWeight>(QuantizedWeight{
      records_[0], records_[scale], has(zero_point) ? records_[zero_point] : nullptr, axis, block_size, expands()});
}

ValueId NodeContext::packed(std::size_t i, std::size_t zero_point, std::int64_t axis, const Perm& perm) {
  if (!status_.ok()) return kNoValue;
  importer_.records_.push_back({});
  Record& one = importer_.records_.back();
  one.name = cat(base_, "/scale");
  const std::int64_t zeros = has(zero_point) && records_[zero_point]->host
                                 ? static_cast<std::int64_t>(records_[zero_point]->host->count())
                                 : 1;
  std::vector<std::int64_t> dims = {zeros};
  if (zeros == 1) dims = {};
  one.host = std::make_shared<HostTensor>(
      HostTensor::of_floats(dims, std::vector<float>(static_cast<std::size_t>(zeros), 1.0f)));
  one.shape = one.host->shape();
  importer_.records_.push_back({});
  Record& numbers = importer_.records_.back();
  numbers.name = cat(base_, "/", records_[i]->name);
  numbers.shape = shape(i);
  numbers.quantized = std::make_shared<QuantizedWeight>(
      QuantizedWeight{records_[i], &one, has(zero_point) ? records_[zero_point] : nullptr, axis, 0, false});
  auto value = importer_.value_in(numbers, perm);
  if (value.ok()) return *value;
  fail(value.status());
  return kNoValue;
}

}  // namespace graft::convert
