// Tokenizers from the files that models come with. Each reader gives one clear sentence for a file that it cannot take.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "platform/base/status.h"
#include "platform/os/file.h"
#include "runtime/text/tokenizer/vocabulary.h"
#include "tools/convert/common/json_access.h"
#include "tools/convert/gguf/gguf.h"

namespace graft::convert {

/// From the "tokenizer.ggml.*" metadata: models gpt2, llama, t5 and bert.
Result<text::Vocabulary> load_gguf_vocabulary(const GgufFile& file);

/// A name of "tokenizer.ggml.pre" for how a byte_bpe vocabulary cuts text; empty where there is none.
std::string_view gguf_pre_name(const text::Vocabulary& vocabulary, bool* exact = nullptr);

enum class JsonForm {
  exact,  ///< the ids of Hugging Face's library: by steps, unless flags say just the same
  flags   ///< by flags, as GGUF and SentencePiece files say it, although some texts may be cut otherwise
};

/// From the contents of a tokenizer.json: models BPE, Unigram, WordPiece and WordLevel.
/// unsupported: a normalizer, pre-tokenizer or decoder that graft does not have, by name.
Result<text::Vocabulary> load_tokenizer_json(std::string_view json, JsonForm form = JsonForm::exact);
/// The same of a document that was read.
Result<text::Vocabulary> load_tokenizer_document(const Json& document, JsonForm form = JsonForm::exact);

/// From the contents of a vocab.json and a merges.txt of byte-level BPE. Such a pair does not say how text is split,
/// nor which tokens are special: `splits` says the one, and added_tokens.json (may be empty) the other.
Result<text::Vocabulary> load_vocab_and_merges(std::string_view vocab_json, std::string_view merges_txt,
                                               std::string_view added_tokens_json, std::vector<text::Split> splits);

/// From the contents of BERT's vocab.txt, a token on each line; `config`: tokenizer_config.json, or null.
Result<text::Vocabulary> load_vocab_txt(std::string_view lines, const Json& config);
/// From the contents of RoBERTa's vocab.json and merges.txt, which do not say what is put around a text.
Result<text::Vocabulary> load_roberta(std::string_view vocab_json, std::string_view merges_txt);

/// From the contents of a SentencePiece tokenizer.model: BPE and unigram.
Result<text::Vocabulary> load_sentencepiece(std::span<const std::byte> model);

/// Whichever of the above the path names: *.gguf, *.json, *.model; in a folder, tokenizer.json or tokenizer.model.
/// A folder's tokenizer_config.json is applied.
Result<text::Vocabulary> load_vocabulary(os::FileSystem& files, const std::string& path);
/// A folder's tokenizer with this tokenizer_config.json (or null), whose fields were checked. `by_config`: an error is
/// of what the configuration asks.
Result<text::Vocabulary> load_folder_vocabulary(os::FileSystem& files, const std::string& folder, const Json& config,
                                                bool& by_config);

}  // namespace graft::convert
