// Moves tensors of a source into a model, under the names that the model shall have.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "runtime/model/model.h"
#include "tools/convert/decoder_spec.h"
#include "tools/convert/source_tensors.h"

namespace graft::convert {

/// A tensor's name is looked up in one table and given by another: models from GGUF files get the names that they have
/// as Hugging Face folders, so that adapters and patterns fit both.
class DecoderWeights {
 public:
  DecoderWeights(const SourceTensors& tensors, const TensorNames& source, const TensorNames& own, Model& model)
      : tensors_(tensors), source_(source), own_(own), model_(model) {}

  using Member = std::string_view TensorNames::*;
  static constexpr std::int64_t kNoLayer = -1;

  /// The name under which the model shows a module.
  std::string name(Member member, std::int64_t layer = kNoLayer) const { return full_name(own_, member, layer); }
  bool has(Member member, std::int64_t layer, std::string_view suffix) const {
    return tensors_.find(full_name(source_, member, layer) + std::string(suffix)) != nullptr;
  }
  /// Adds the tensor with its contents: F32 as it is, borrowed from the file; others as f32.
  /// not_found; corrupt where its shape is another.
  Result<ValueId> add(Member member, std::int64_t layer, std::string_view suffix, const Shape& shape);
  /// A constant made by the converter.
  Result<ValueId> add_constant(std::string_view name, std::span<const float> values);

  /// Names in the source that nothing asked for.
  std::vector<std::string> unused() const;

 private:
  static std::string full_name(const TensorNames& names, Member member, std::int64_t layer);

  const SourceTensors& tensors_;
  const TensorNames& source_;
  const TensorNames& own_;
  Model& model_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace graft::convert
