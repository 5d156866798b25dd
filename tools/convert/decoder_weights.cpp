#include "tools/convert/decoder_weights.h"

namespace graft::convert {

std::string DecoderWeights::full_name(const TensorNames& names, Member member, std::int64_t layer) {
  if (layer == kNoLayer) return std::string(names.*member);
  return cat(names.layer, layer, ".", names.*member);
}

Result<ValueId> DecoderWeights::add(Member member, std::int64_t layer, std::string_view suffix, const Shape& shape) {
  const std::string source_name = cat(full_name(source_, member, layer), suffix);
  const SourceTensor* tensor = tensors_.find(source_name);
  if (tensor == nullptr) return error(Code::not_found, "The tensor \"", source_name, "\" is missing.");
  const Shape given = Shape::of(tensor->dims);
  if (given != shape) {
    return corrupt("The tensor \"", source_name, "\" has the shape ", given.text(), "; the model's configuration asks ",
                   "for ", shape.text(), ".");
  }
  used_.insert(source_name);
  GRAFT_TRY_ASSIGN(const ValueId value,
                   model_.graph.add_value(cat(name(member, layer), suffix), DType::f32, shape, ValueKind::parameter));
  if (tensor->encoding == Encoding::f32) {
    GRAFT_TRY(model_.view_weight(value, tensor->bytes));
  } else {
    GRAFT_TRY_ASSIGN(HostBuffer contents, to_f32(*tensor, source_name));
    GRAFT_TRY(model_.set_weight(value, std::move(contents)));
  }
  return value;
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
