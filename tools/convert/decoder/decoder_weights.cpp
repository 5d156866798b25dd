#include "tools/convert/decoder/decoder_weights.h"

#include "runtime/core/quantized.h"

namespace graft::convert {

std::string DecoderWeights::full_name(const TensorNames& names, Member member, std::int64_t layer) {
  if (layer == kNoLayer) return std::string(names.*member);
  return cat(names.layer, layer, ".", names.*member);
}

Result<ValueId> DecoderWeights::add(Member member, std::int64_t layer, std::string_view suffix, const Shape& shape) {
  const auto add_value = [&](DType dtype) {
    return model_.graph.add_value(cat(name(member, layer), suffix), dtype, shape,
                                  is_quantized(dtype) ? ValueKind::constant : ValueKind::parameter);
  };
  if (options_.shapes_only) return add_value(dtype_for(DType::f32, shape));
  const std::string source_name = cat(full_name(source_, member, layer), suffix);
  const SourceTensor* tensor = tensors_.find(source_name);
  if (tensor == nullptr) return error(Code::not_found, "The tensor \"", source_name, "\" is missing.");
  const Shape given = Shape::of(tensor->dims);
  if (given != shape) {
    return corrupt("The tensor \"", source_name, "\" has the shape ", given.text(), "; the model's configuration asks ",
                   "for ", shape.text(), ".");
  }
  used_.insert(source_name);
  const DType dtype = dtype_for(tensor->dtype, shape);
  GRAFT_TRY_ASSIGN(const ValueId value, add_value(dtype));
  GRAFT_TRY(fill(value, *tensor, dtype, cat(full_name(kGgufNames, member, layer), suffix)));
  return value;
}

DType DecoderWeights::dtype_for(DType given, const Shape& shape) {
  const bool matrix = shape.rank() == 2;
  DType wanted = DType::f32;
  if (matrix && is_quantized(given)) {
    if (!options_.expand) wanted = given;
  } else if (matrix && options_.quantize) {
    const auto blocks = fitting_blocks(*options_.quantize, static_cast<std::uint64_t>(shape[1].value()));
    wanted = blocks.value_or(DType::f32);
    unfit_ += !blocks;
  }
  if (is_quantized(wanted)) ++quantized_[wanted];
  expanded_ += wanted == DType::f32 && given != DType::f32;
  return wanted;
}

Status DecoderWeights::fill(ValueId value, const SourceTensor& tensor, DType wanted, const std::string& gguf_name) {
  if (tensor.dtype == wanted && tensor.expanded == nullptr) return model_.view_weight(value, tensor.bytes);
  const std::string& name = model_.graph.value(value).name;
  GRAFT_TRY_ASSIGN(HostBuffer numbers, to_f32(tensor, name));
  if (wanted == DType::f32) return model_.set_weight(value, std::move(numbers));
  const std::span<const float> plain(reinterpret_cast<const float*>(numbers.data()), tensor.elements());
  BlockScales scales;
  if (options_.importance != nullptr) {
    const auto columns = static_cast<std::size_t>(tensor.dims.back());
    scales.searched = true;
    GRAFT_TRY_ASSIGN(scales.importance, importance_of(*options_.importance, gguf_name, columns));
    weighed_ += !scales.importance.empty();
  }
  GRAFT_TRY_ASSIGN(HostBuffer blocks, to_blocks(wanted, plain, name, scales, blocks_.emplace_back()));
  return model_.set_weight(value, std::move(blocks));
}

std::vector<std::string> DecoderWeights::notes() const {
  std::vector<std::string> out;
  for (const auto& [dtype, count] : quantized_) {
    const bool next = options_.quantize && dtype_block(dtype).elements < dtype_block(*options_.quantize).elements;
    const std::string why =
        next ? cat(", since their rows are no whole number of ", dtype_name(*options_.quantize), "'s") : std::string();
    out.push_back(cat(count, count == 1 ? " matrix is of " : " matrices are of ", dtype_name(dtype), " blocks", why,
                      ", frozen; adapters can be trained on them."));
  }
  if (expanded_ != 0) out.push_back(cat(expanded_, " tensors of other types became f32."));
  if (options_.importance != nullptr) out.push_back(importance_note(weighed_));
  if (!blocks_.empty()) out.push_back(errors_note(blocks_));
  if (unfit_ != 0) out.push_back(cat(unfit_, " matrices stay f32: their rows are no whole number of blocks."));
  return out;
}

Result<ValueId> DecoderWeights::add_constant(std::string_view name, std::span<const float> values) {
  const Shape shape = {static_cast<std::int64_t>(values.size())};
  GRAFT_TRY_ASSIGN(const ValueId value,
                   model_.graph.add_value(std::string(name), DType::f32, shape, ValueKind::constant));
  GRAFT_TRY(model_.copy_weight(value, std::as_bytes(values)));
  return value;
}

std::vector<std::string> DecoderWeights::unused() const {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : tensors_.by_name) {
    if (!used_.contains(name)) out.push_back(name);
  }
  return out;
}

}  // namespace graft::convert
