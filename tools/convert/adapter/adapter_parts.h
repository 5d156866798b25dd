// What the readers and writers of adapters share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/lora/adapter.h"
#include "tools/convert/common/export_tensor.h"
#include "tools/convert/language_model/decoder_source.h"

namespace graft::convert {

/// Collects an adapter's matrices by layer and makes the model of them.
class AdapterBuilder {
 public:
  explicit AdapterBuilder(const Model& base) : base_(base) {}

  /// A is [rank, in], B is [out, rank]. `pairs` is what rows of B have to be put into, for queries and keys.
  Status add_a(const std::string& layer, const SourceTensor& tensor);
  Status add_b(const std::string& layer, const SourceTensor& tensor);
  /// Of an embedding A is [rows of the table, rank], or the other way round with `turned`.
  Status add_embedding_a(const std::string& layer, const SourceTensor& tensor, bool turned);
  Status add_magnitude(const std::string& layer, const SourceTensor& tensor);  ///< [out], of DoRA
  bool empty() const { return layers_.empty(); }

  /// `alpha_of(layer, rank)`. `neighbours`: how the file orders rows of queries and keys, where the base's metadata
  /// says which those are. corrupt: a layer with one matrix only, ranks that contradict each other.
  template <typename AlphaOf>
  Result<Model> build(bool neighbours, AlphaOf alpha_of) const {
    std::map<std::string, double> alphas;
    for (const auto& [layer, pair] : layers_) {
      GRAFT_TRY(check(layer, pair));
      alphas[layer] = alpha_of(layer, pair.rank());
    }
    return finish(neighbours, alphas);
  }

 private:
  struct Pair {
    const SourceTensor* a = nullptr;
    const SourceTensor* b = nullptr;
    const SourceTensor* magnitude = nullptr;
    bool embedding = false;
    bool turned = false;  ///< A of an embedding is [rank, rows]
    bool rank_is_last() const { return embedding && !turned; }
    std::int64_t rank() const { return a->dims[rank_is_last() ? 1 : 0]; }
  };
  static Status check(const std::string& layer, const Pair& pair);
  Result<Model> finish(bool neighbours, const std::map<std::string, double>& alphas) const;

  const Model& base_;
  std::map<std::string, Pair> layers_;
};

/// The adapter's matrices on their way out, A and B of each layer, named `<layer>.lora_A.weight` and so on, and DoRA's
/// magnitudes; A of an embedding is [rows, rank]. Rows of outputs are put into the order that the file wants, where the
/// adapter remembers its base's.
Result<std::vector<ExportTensor>> adapter_tensors(const Model& adapter, bool neighbours, std::optional<DType> dtype);

}  // namespace graft::convert
