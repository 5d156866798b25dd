// Moves tensors of a source into a model, under the names that the model shall have.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/model.h"
#include "tools/convert/common/blocks.h"
#include "tools/convert/common/source_tensors.h"
#include "tools/convert/decoder/decoder_spec.h"

namespace graft::convert {

/// What becomes of matrices; all else is f32.
struct WeightOptions {
  bool expand = false;                 ///< quantized ones become f32, which can be trained
  std::optional<DType> quantize = {};  ///< others become this, where their rows are whole blocks
  /// What errors weigh in matrices that `quantize` is for, where somebody knows; null: blocks go by their extremes.
  const Importance* importance = nullptr;
  bool shapes_only = false;  ///< all that is asked for is there, f32 before `quantize`, without contents
};

/// A tensor's name is looked up in one table and given from another: models from GGUF files get the names of Hugging
/// Face folders, so that adapters and patterns fit both.
class DecoderWeights {
 public:
  DecoderWeights(const SourceTensors& tensors, const TensorNames& source, const TensorNames& own, Model& model,
                 const WeightOptions& options = {})
      : tensors_(tensors), source_(source), own_(own), model_(model), options_(options) {}

  using Member = std::string_view TensorNames::*;
  static constexpr std::int64_t kNoLayer = -1;

  /// The name under which the model shows a module.
  std::string name(Member member, std::int64_t layer = kNoLayer) const { return full_name(own_, member, layer); }
  bool has(Member member, std::int64_t layer, std::string_view suffix) const {
    return tensors_.find(full_name(source_, member, layer) + std::string(suffix)) != nullptr;
  }
  /// Adds the tensor with its contents: f32 and quantized matrices as they are, borrowed from the file, others as f32.
  /// Quantized ones are constants, others parameters. not_found; corrupt where its shape is another.
  Result<ValueId> add(Member member, std::int64_t layer, std::string_view suffix, const Shape& shape);
  /// A constant made by the converter.
  Result<ValueId> add_constant(std::string_view name, std::span<const float> values);

  /// What a user should know of it, one sentence each.
  std::vector<std::string> notes() const;
  const std::vector<BlockError>& blocks() const { return blocks_; }  ///< that were made here, with the model's names
  /// Names in the source that nothing asked for.
  std::vector<std::string> unused() const;

 private:
  Status fill(ValueId value, const SourceTensor& tensor, DType wanted, const std::string& gguf_name);
  DType dtype_for(DType given, const Shape& shape);
  static std::string full_name(const TensorNames& names, Member member, std::int64_t layer);

  const SourceTensors& tensors_;
  const TensorNames& source_;
  const TensorNames& own_;
  Model& model_;
  WeightOptions options_;
  std::map<DType, std::size_t> quantized_;  ///< matrices of each format
  std::vector<BlockError> blocks_;
  std::size_t weighed_ = 0;  ///< of these
  std::size_t expanded_ = 0;
  std::size_t unfit_ = 0;  ///< matrices that could not be quantized
  std::set<std::string, std::less<>> used_;
};

}  // namespace graft::convert
