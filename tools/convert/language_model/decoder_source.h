// What a language model remembers of the file that it came from, so that it can become such a file again.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "runtime/lora/base_names.h"
#include "runtime/model/model.h"
#include "runtime/text/tokenizer/vocabulary.h"
#include "tools/convert/common/json_access.h"
#include "tools/convert/decoder/decoder_spec.h"
#include "tools/convert/gguf/gguf.h"
#include "tools/convert/gguf/gguf_decoder.h"

namespace graft::convert {

inline constexpr std::string_view kMetaSourceConfig = "source.config";  ///< the config.json of a Hugging Face folder
/// In base64, a GGUF file without weights: all metadata, where what the tokenizer's tables hold is left out, and the
/// factors of the rotary embedding.
inline constexpr std::string_view kMetaSourceGguf = "source.gguf";
// kMetaSourceNames says how names of a folder's tensors differed from the model's, in any order:
/// A folder of the base class: without the module ("model.", "transformer.") that a decoder is in others.
inline constexpr std::string_view kNamesBare = "bare ";
inline constexpr std::string_view kNamesHead = "head ";    ///< the one matrix of embedding and head has the head's name
inline constexpr std::string_view kNamesAlone = "alone ";  ///< of an encoder without a head: Family::alone
inline constexpr std::string_view kNamesGamma = "gamma ";  ///< norms' ".gamma" and ".beta", which old files have

/// What such files call the ends of norms' names, and others.
inline constexpr std::array<std::array<std::string_view, 2>, 2> kNamesOfNorms = {
    {{".LayerNorm.gamma", ".LayerNorm.weight"}, {".LayerNorm.beta", ".LayerNorm.bias"}}};

/// Remembers a folder's configuration; `config` is its text.
void remember_config(std::string_view config, Model& model);
/// Remembers a GGUF file. The model has its tokenizer already.
void remember_gguf(const GgufFile& file, Model& model);
/// How the model's matrices are laid out, which its adapters depend on (DecoderLayout).
void remember_layout(const DecoderSpec& spec, Model& model);

/// How matrices of a model stand; its adapters remember that too.
struct DecoderLayout {
  std::string family;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  bool neighbours = false;  ///< rows of queries and keys (or of both and values) are in the order of GGUF files
  bool alone = false;       ///< an encoder without a head
  bool bare = false;        ///< a decoder from a folder of the base class: kNamesBare

  bool encodes() const;
  const TensorNames& names() const;  ///< of Hugging Face
  std::string_view module() const;   ///< in front of a decoder's names: "model.", "transformer."
  /// The name in the source's folder of a tensor of the model, or of an adapter.
  std::string folder_name(const std::string& name) const;
  /// What GGUF files call a tensor of the model, or of an adapter, which may not know whether its base has a head;
  /// empty where that is none of the source's, or one that they do not have.
  std::string gguf_name(std::string_view name) const;
  /// Heads of this weight if GGUF files order its rows in another way than folders; 0: they do not.
  std::int64_t paired_heads(std::string_view name) const;
  PairOrder row_order(bool to_gguf) const;  ///< of such a weight
};
/// nullopt where the metadata does not say.
std::optional<DecoderLayout> layout_of(const Metadata& metadata);

struct DecoderSource {  // NOLINT(bugprone-exception-escape): the JSON library does not say what it never throws
  DecoderSpec spec;
  DecoderLayout layout;
  OrderedJson config;                     ///< of a folder; null otherwise
  std::vector<RopeFactors> rope_factors;  ///< what a GGUF file holds besides weights
  std::string gguf_bytes;                 ///< empty where it was no GGUF file
  std::optional<GgufFile> gguf;           ///< of these bytes
};
/// not_found: the model was not converted from a language model's files, or by a graft that did not remember.
Result<std::unique_ptr<DecoderSource>> source_of(const Model& model);

/// The vocabulary that the model carries; nullopt where it has none that can be read.
std::optional<text::Vocabulary> vocabulary_of(const Model& model);

/// Whether the model's value is a tensor of the source: trained or frozen, but not made by the converter.
bool is_source_weight(const Value& value, const DecoderLayout& layout);

}  // namespace graft::convert
