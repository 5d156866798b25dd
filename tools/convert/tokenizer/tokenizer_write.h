// Tokenizers back into the files that other programs read.
#pragma once

#include <string>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/tokenizer/vocabulary.h"
#include "tools/convert/gguf/gguf_write.h"

namespace graft::convert {

/// A tokenizer.json (byte_bpe, char_bpe, unigram) or, of scored_bpe, the bytes of a SentencePiece tokenizer.model.
struct TokenizerFile {
  std::string name;
  std::string contents;
};
/// What is written reads back as the same vocabulary. unsupported: what the format cannot say, by name.
Result<TokenizerFile> tokenizer_file(const text::Vocabulary& vocabulary);

/// The keys "tokenizer.ggml.*". Where the model's embedding has more rows than there are tokens (`rows`), the others
/// are called "[PAD151665]" and so on, as llama.cpp's converter calls them: its readers want a token for each row. What
/// the format cannot say is told in `notes`; unsupported (and nothing added) where the tokens themselves would be
/// others.
Status add_gguf_tokenizer(const text::Vocabulary& vocabulary, std::size_t rows, GgufWriter& out,
                          std::vector<std::string>& notes);

/// Merges as lines of two tokens, as GGUF and older tokenizer.json files have them.
std::vector<std::string> merge_lines(const text::Vocabulary& vocabulary);

/// Names of what differs: "tokens", "merges", "the unknown token", ... Tokens that are never made count as normal ones,
/// which they cannot be told from.
std::vector<std::string> vocabulary_differences(const text::Vocabulary& a, const text::Vocabulary& b);

}  // namespace graft::convert
