// Low-rank adapters of models: attached, saved as small files, loaded, merged into the weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/lora/add_lora.h"
#include "runtime/lora/new_tokens.h"
#include "runtime/model/model.h"

namespace graft {

// Keys in the metadata of an adapter file, whose values are the A and B matrices and which has no nodes; and of a model
// with adapters on.
inline constexpr std::string_view kMetaAdapter = "adapter.kind";  ///< "lora"
inline constexpr std::string_view kMetaAdapterRank = "adapter.rank";
inline constexpr std::string_view kMetaAdapterAlpha = "adapter.alpha";
/// Lines of a layer's name, a space and its alpha, for layers with one of their own. Ranks are those of the matrices.
inline constexpr std::string_view kMetaAdapterAlphas = "adapter.alphas";
/// weights_hash() of the model that the adapters were made for, and its file's name where it had one: they are put on
/// no other. Adapters of other programs' files do not say it.
inline constexpr std::string_view kMetaAdapterBase = "adapter.base";

/// There where an adapted weight is an embedding and the head: programs that find an adapter by the weight's name would
/// put it on both.
inline constexpr std::string_view kMetaAdapterShared = "adapter.shared";

// Keys of language models that their adapters carry too: who writes one for another program has to know how the base's
// matrices stand.
inline constexpr std::string_view kMetaFamily = "text.family";  ///< "llama", "qwen2", ...
inline constexpr std::string_view kMetaHeads = "text.heads";    ///< of queries and of keys, as in "8,4"
inline constexpr std::string_view kMetaPairs =
    "text.rope_pairs";  ///< rows of a head that turn together: "halves" apart, or "neighbours"
/// What linear layers are called that come after the pooling of texts: they are no part of the language model, and no
/// adapter is on them.
inline constexpr std::string_view kSentenceDense = "sentence_dense.";
// How vectors of texts are meant, of a model or an adapter:
inline constexpr std::string_view kMetaPooling = "text.pooling";      ///< "mean", "last" or "cls"
inline constexpr std::string_view kMetaNormalize = "text.normalize";  ///< "yes": to length 1

struct AdapterLayer {
  std::string layer;
  std::int64_t rank = 0;
  double alpha = 0;
  bool dora = false;  ///< it has a magnitude
  bool embedding = false;
  double scale() const { return alpha / static_cast<double>(rank); }  ///< of B A
};
/// What an adapter file adapts; nothing where it only adds tokens. invalid_argument: no adapter, or metadata that is
/// none.
Result<std::vector<AdapterLayer>> adapter_layers(const Model& adapter);

/// What `model` says of its base (kMetaAdapterBase); empty: nothing.
std::string base_text(const Model& model);
/// As kMetaAdapterBase has it of `base` itself; empty where it has no weights.
std::string name_of_base(const Model& base);
/// `theirs` is of an adapter, `ours` of the model that it is put on. Empty ones are not compared.
Status check_base(std::string_view theirs, std::string_view ours);

/// As metadata holds it: reads back as the same number.
std::string exact_text(double number);

/// The model with fresh adapters (add_lora). Weights are those of `base`, borrowed: it must outlive the result.
Result<Model> with_lora(const Model& base, const LoraOptions& options, std::uint32_t seed);

/// The model with these tokens behind its own, in its tokenizer, its embedding and its head. Their rows, which begin as
/// the mean of the rows of the base's tokens, are trained and nothing else is, but for fresh adapters, where `lora` is
/// given. Weights are borrowed as above. `before`: the base with adapters on, where the first of these tokens are on
/// it; their rows keep its numbers.
Result<Model> with_new_tokens(const Model& base, std::span<const NewToken> tokens, const LoraOptions* lora = nullptr,
                              std::uint32_t seed = 0, const Model* before = nullptr);

/// `adapted`, which is `base` with adapters or new tokens on, with these tokens behind the others: what it has keeps
/// its bits. Borrows from `base` alone.
Result<Model> with_more_tokens(const Model& base, const Model& adapted, std::span<const NewToken> tokens);

/// The adapters alone of a model that with_lora() or with_adapter() made, as a model of its own. Borrows as above.
/// Those of PiSSA have what they began with beside them, subtracted, at twice the rank: any program can put them on.
Result<Model> adapter_of(const Model& adapted);

/// The model with the adapters of an adapter file. Borrows the weights of both. Errors name the adapter's weight that
/// the model lacks, or whose shape differs.
Result<Model> with_adapter(const Model& base, const Model& adapter);

/// The model with the adapters added to its weights. Borrows the others from `base`. Merged weights become f32
/// parameters, or frozen blocks of the type `blocks`, whatever they were; tables that get new rows keep their type, and
/// all other rows their bits. unsupported: an adapted weight that something
/// else than its products reads, as an embedding that is also the head.
Result<Model> merge_adapter(const Model& base, const Model& adapter, std::optional<DType> blocks = {});

/// The numbers that a weight's blocks, or its numbers of 16 bits, stand for.
Result<std::vector<float>> weight_as_floats(const Model& base, const std::string& name);
/// Elements [first, first + count) of it; of blocks, whole rows.
Result<std::vector<float>> weight_part_as_floats(const Model& base, const std::string& name, std::uint64_t first,
                                                 std::uint64_t count);

/// Gives `model` all of `base` but its graph and signatures; weights go, borrowed, to values of the same name.
Status borrow_rest(const Model& base, Model& model);

/// A second model of the same graph, weights and all else; the weights are borrowed.
Result<Model> borrow_model(const Model& base);

}  // namespace graft
